//! One call, from its name and arguments to the reply.

use std::{any::Any, sync::Arc};

use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{ToolReply, ToolServer, registry::Registered};
use crate::{
    blob::{BlobFacts, StoreOptions},
    error_chain,
    output::{
        Content, MARKER_MAX_BYTES, OutputLimits, TOOL_OUTPUT_MAX_BYTES, ToolOutput, fit_end,
        fit_start, summarize,
    },
    tool::{ToolError, ToolExecutionContext},
};

impl ToolServer {
    /// Calls a tool. In-process and remote callers alike come through here.
    ///
    /// The tool runs as a task of its own: it may panic, or block its thread, and the caller still gets an answer.
    /// What is too large to show is stored first.
    ///
    /// # Errors
    /// A [`ToolError`]; its [`for_caller`](ToolError::for_caller) is what a model should read.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the context's token and aborts the tool. A result that was not returned is lost.
    pub async fn call_tool(
        &self,
        name: &str,
        input_json: &str,
        context: ToolExecutionContext,
    ) -> Result<ToolReply, ToolError> {
        let registered = self.shared.registry.get(name)?;
        let input_json = registered.schema.check(input_json)?;
        let output = self.run(&registered, input_json, context).await?;
        let limits = registered.tool.output_limits(self.shared.options.limits);
        Ok(self.reply(name, output, &limits).await)
    }

    /// Runs a checked call to its end, its deadline or its cancellation.
    async fn run(
        &self,
        registered: &Registered,
        input_json: &str,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        let caller = context.cancellation().clone();
        let own = context.child();
        let cancellation = own.cancellation().clone();
        let _cancel_on_drop = cancellation.clone().drop_guard();
        let deadline = registered.tool.deadline(self.shared.options.deadline);
        let mut task = AbortOnDropHandle::new(self.shared.running.spawn({
            let tool = Arc::clone(&registered.tool);
            let input_json = input_json.to_owned();
            async move { tool.execute(&input_json, own).await }
        }));
        let ended = tokio::select! {
            // A result that is there counts, also when the caller has just given up on it.
            biased;
            joined = &mut task => return outcome(joined),
            () = caller.cancelled() => ToolError::Cancelled,
            () = self.shared.stop.cancelled() => ToolError::Cancelled,
            () = tokio::time::sleep(deadline) => ToolError::Timeout { after: deadline },
        };
        // The tool learns of it through its token and gets a moment to stop what it started. A result it still gives,
        // such as the output so far, counts.
        cancellation.cancel();
        match timeout(self.shared.options.cancel_grace, &mut task).await {
            Ok(Ok(Ok(output))) => Ok(output),
            _ => Err(ended),
        }
    }

    /// Makes the reply, storing what is too large to show.
    async fn reply(&self, tool: &str, output: ToolOutput, limits: &OutputLimits) -> ToolReply {
        let Some(store) = &self.shared.store else {
            return ToolReply {
                text: whole(output),
                blob: None,
            };
        };
        let (summary, content) = match output {
            ToolOutput::Auto(content) => match ToolOutput::decide(content, limits) {
                ToolOutput::Stored { summary, content } => (summary, content),
                other => {
                    return ToolReply {
                        text: whole(other),
                        blob: None,
                    };
                }
            },
            // A tool that calls its result small may be wrong; the context is protected all the same.
            ToolOutput::Inline(text)
                if text.len() > TOOL_OUTPUT_MAX_BYTES.max(limits.inline_max_bytes) =>
            {
                let content = Content::Text(text);
                (summarize(&content, limits), content)
            }
            ToolOutput::Inline(text) => return ToolReply { text, blob: None },
            ToolOutput::Stored { summary, content } => (summary, content),
        };
        match store
            .store(
                &content,
                StoreOptions {
                    tool: Some(tool.to_owned()),
                },
            )
            .await
        {
            Ok(facts) => stored_reply(&facts, &summary),
            Err(error) => {
                tracing::error!(tool, %error, "the result could not be stored");
                ToolReply {
                    text: unstored(&content.into_text(), &error_chain(&error)),
                    blob: None,
                }
            }
        }
    }
}

fn outcome(
    joined: Result<Result<ToolOutput, ToolError>, tokio::task::JoinError>,
) -> Result<ToolOutput, ToolError> {
    joined.unwrap_or_else(|failure| match failure.try_into_panic() {
        Ok(panic) => {
            let message = panic_message(&*panic);
            tracing::error!(message, "a tool panicked");
            Err(ToolError::Panicked { message })
        }
        // Only the runtime's own shutdown aborts a task that is still being waited for.
        Err(_) => Err(ToolError::Cancelled),
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

fn whole(output: ToolOutput) -> String {
    match output {
        ToolOutput::Inline(text) => text,
        ToolOutput::Stored { content, .. } | ToolOutput::Auto(content) => content.into_text(),
    }
}

fn stored_reply(facts: &BlobFacts, summary: &str) -> ToolReply {
    // A tool may write a summary of its own; that is no way round the limit either.
    let summary = fit_start(summary, TOOL_OUTPUT_MAX_BYTES - MARKER_MAX_BYTES);
    let text = format!("[blob:{}] {summary}", facts.name);
    let blob = Some(facts.to_ref(text.len()));
    ToolReply { text, blob }
}

/// Shows as much as an exact part may show, and says what is lost: the tool's effect has happened, and the model must
/// not take a part for the whole.
fn unstored(text: &str, error: &str) -> String {
    let room = TOOL_OUTPUT_MAX_BYTES / 2 - 256;
    if text.len() <= 2 * room {
        return text.to_owned();
    }
    let (head, tail) = (fit_start(text, room), fit_end(text, room));
    let bytes = text.len();
    format!("{head}\n[{bytes} bytes in all; the middle is lost, because {error}]\n{tail}")
}
