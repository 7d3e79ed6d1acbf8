//! The points of a turn where code may step in: interceptors, which may also rewrite, and hooks, which may not.
//!
//! Two traits on purpose. A [`Hook`] is the public extension point: it sees everything read-only and may only let
//! pass, refuse or abort, so a set of hooks cannot disturb each other. An [`Interceptor`] belongs to the program
//! around the worker: it may rewrite messages, arguments and results, and add items.
//!
//! At each point the interceptors run first, in the order they were added, then the hooks, which so see what will
//! really happen. The first that does not let pass decides. One that fails, panics or takes longer than a minute
//! counts as refusing or aborting: a guard that is broken does not let pass. None of them is shown how a call is
//! scheduled, and none may hold a lock across points; a tool that needs order waits inside the tool.

use async_trait::async_trait;
use protocol::{BlobRef, ExecutionContext, Item, ToolOutcome};

use crate::llm::Message;

/// An error of an interceptor or hook. It aborts the turn, with its text as the reason.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;

/// A tool call before it runs. Its identity is fixed; its arguments may still change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCall {
    context: ExecutionContext,
    name: String,
    /// The arguments: the text of a JSON object.
    pub input: String,
}

impl PendingCall {
    pub(crate) fn new(context: ExecutionContext, name: String, input: String) -> Self {
        Self {
            context,
            name,
            input,
        }
    }

    /// Returns which call of which batch it is.
    #[must_use]
    pub fn context(&self) -> &ExecutionContext {
        &self.context
    }

    /// Returns the tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A tool call after it ran. Its identity and outcome are fixed; what the model reads may still change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedCall {
    context: ExecutionContext,
    name: String,
    outcome: ToolOutcome,
    blob: Option<BlobRef>,
    /// What the model will read.
    pub output: String,
}

impl FinishedCall {
    pub(crate) fn new(
        call: &PendingCall,
        outcome: ToolOutcome,
        output: String,
        blob: Option<BlobRef>,
    ) -> Self {
        Self {
            context: call.context.clone(),
            name: call.name.clone(),
            outcome,
            blob,
            output,
        }
    }

    /// Returns which call of which batch it was.
    #[must_use]
    pub fn context(&self) -> &ExecutionContext {
        &self.context
    }

    /// Returns the tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how the call ended.
    #[must_use]
    pub fn outcome(&self) -> ToolOutcome {
        self.outcome
    }

    /// Returns the stored result behind a summary.
    #[must_use]
    pub fn blob(&self) -> Option<&BlobRef> {
        self.blob.as_ref()
    }
}

/// What happens to a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptAction {
    /// The turn goes on.
    Continue,
    /// The turn ends before it began; nothing enters the history.
    Cancel(String),
    /// The turn goes on, with these items right after the user's.
    ContinueWith(Vec<Item>),
}

/// What happens to a request, a call or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlFlow {
    /// It goes on.
    Continue,
    /// A call does not run, or its result is withheld; the model is told so, and the turn goes on. For a request it
    /// means the same as `Continue`.
    Skip,
    /// The turn ends, with this reason.
    Abort(String),
}

/// What happens at the end of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnEndAction {
    /// The turn ends.
    Finish,
    /// The turn goes on with these items, so that the model can correct itself.
    ContinueWithMessages(Vec<Item>),
}

/// Steps in and may rewrite. Every method lets pass unless it is written.
#[async_trait]
pub trait Interceptor: Send + Sync {
    /// A prompt was submitted; `prompt` are its items, the user's first.
    ///
    /// # Errors
    /// An error cancels the prompt.
    async fn on_prompt_submit(&self, _prompt: &[Item]) -> Result<PromptAction, HookError> {
        Ok(PromptAction::Continue)
    }

    /// A request is about to be sent. The messages may be changed for this request; the history stays as it is.
    ///
    /// # Errors
    /// An error aborts the turn.
    async fn on_message_send(&self, _context: &mut Vec<Message>) -> Result<ControlFlow, HookError> {
        Ok(ControlFlow::Continue)
    }

    /// A call is about to run.
    ///
    /// # Errors
    /// An error aborts the turn.
    async fn before_tool_call(&self, _call: &mut PendingCall) -> Result<ControlFlow, HookError> {
        Ok(ControlFlow::Continue)
    }

    /// A call has run.
    ///
    /// # Errors
    /// An error aborts the turn.
    async fn after_tool_call(&self, _result: &mut FinishedCall) -> Result<ControlFlow, HookError> {
        Ok(ControlFlow::Continue)
    }

    /// The model has given its answer; `history` ends with it.
    ///
    /// # Errors
    /// An error aborts the turn.
    async fn on_turn_end(&self, _history: &[Item]) -> Result<TurnEndAction, HookError> {
        Ok(TurnEndAction::Finish)
    }
}

/// What a hook decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookDecision {
    /// It may happen.
    Pass,
    /// It may not happen: a prompt is cancelled, a call does not run and the model is told the reason. After the fact,
    /// at a result or the end of a turn, it means the same as `Pass`.
    Refuse(String),
    /// The turn ends, with this reason.
    Abort(String),
}

/// Watches and may refuse. Every method lets pass unless it is written.
#[async_trait]
pub trait Hook: Send + Sync {
    /// A prompt was submitted.
    async fn on_prompt_submit(&self, _prompt: &[Item]) -> HookDecision {
        HookDecision::Pass
    }

    /// A request is about to be sent.
    async fn on_message_send(&self, _context: &[Message]) -> HookDecision {
        HookDecision::Pass
    }

    /// A call is about to run.
    async fn before_tool_call(&self, _call: &PendingCall) -> HookDecision {
        HookDecision::Pass
    }

    /// A call has run.
    async fn after_tool_call(&self, _result: &FinishedCall) -> HookDecision {
        HookDecision::Pass
    }

    /// The model has given its answer.
    async fn on_turn_end(&self, _history: &[Item]) -> HookDecision {
        HookDecision::Pass
    }
}
