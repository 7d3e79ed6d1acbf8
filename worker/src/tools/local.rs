//! Tools in this process.

use async_trait::async_trait;
use toolserver::{ProgressSink, ToolError, ToolExecutionContext, ToolServer};

use super::{HostCall, HostError, HostReply, ToolHost};
use crate::llm::ToolDefinition;

/// A tool server in this process as a host.
#[derive(Clone, Debug)]
pub struct LocalHost {
    server: ToolServer,
}

impl LocalHost {
    /// Makes a host of a server.
    #[must_use]
    pub fn new(server: ToolServer) -> Self {
        Self { server }
    }
}

#[async_trait]
impl ToolHost for LocalHost {
    async fn tools(&self) -> Result<Vec<ToolDefinition>, HostError> {
        let tools = self.server.tools().into_iter().map(|tool| ToolDefinition {
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
        });
        Ok(tools.collect())
    }

    async fn call(&self, call: HostCall) -> Result<HostReply, HostError> {
        let mut context = ToolExecutionContext::new(call.context, call.cancellation);
        if let Some(listener) = call.progress {
            context = context.with_progress(ProgressSink::new(move |progress| {
                listener(progress.message)
            }));
        }
        match self
            .server
            .call_tool(&call.name, &call.input, context)
            .await
        {
            Ok(reply) => Ok(HostReply {
                text: reply.text,
                is_error: false,
                blob: reply.blob,
            }),
            Err(ToolError::Cancelled) => Err(HostError::Cancelled),
            Err(error @ ToolError::UnknownTool { .. }) => {
                Err(HostError::Refused(error.for_caller()))
            }
            Err(error) => Ok(HostReply {
                text: error.for_caller(),
                is_error: true,
                blob: None,
            }),
        }
    }
}
