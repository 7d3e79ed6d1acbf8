//! What a place where tools run must do.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use protocol::{BlobRef, ExecutionContext};
use tokio_util::sync::CancellationToken;

use crate::llm::ToolDefinition;

/// Listens to how far a call is. It must not block.
pub type ProgressListener = Arc<dyn Fn(String) + Send + Sync>;

/// One call as a host is given it.
#[derive(Clone)]
pub struct HostCall {
    /// The tool.
    pub name: String,
    /// The arguments: the text of a JSON object.
    pub input: String,
    /// Which call of which batch it is.
    pub context: ExecutionContext,
    /// Cancelled when the call must stop.
    pub cancellation: CancellationToken,
    /// Who wants to know how far it is.
    pub progress: Option<ProgressListener>,
}

impl fmt::Debug for HostCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCall")
            .field("name", &self.name)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

/// The answer to a call that reached a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostReply {
    /// What the model reads.
    pub text: String,
    /// Whether the text says that the tool failed.
    pub is_error: bool,
    /// The stored result behind a summary.
    pub blob: Option<BlobRef>,
}

/// Why a call has no answer of a tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The host does not have the tool, or does not take the call. The text is for the model.
    #[error("{0}")]
    Refused(String),
    /// The call was cancelled; its effect is unknown.
    #[error("cancelled while it ran")]
    Cancelled,
    /// The host went away while the call ran; its effect is unknown.
    #[error("the tool process ended while the call ran")]
    Lost,
    /// The host cannot be reached; the call did not run.
    #[error("the tools cannot be reached: {reason}")]
    Unreachable {
        /// Why not.
        reason: String,
    },
}

/// A place where tools run.
///
/// Calls come all at once and in any number; the host runs them at the same time. `call` is asked at most once per
/// call id. When the call's token is cancelled it stops the tool and returns soon after.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// Lists the tools.
    ///
    /// # Errors
    /// [`HostError::Unreachable`].
    async fn tools(&self) -> Result<Vec<ToolDefinition>, HostError>;

    /// Calls a tool.
    ///
    /// # Errors
    /// [`HostError`] when no tool answered. A tool that failed is a reply with `is_error`.
    async fn call(&self, call: HostCall) -> Result<HostReply, HostError>;

    /// Ends the host in an orderly way. Calls that run are cancelled.
    async fn shut_down(&self) {}
}
