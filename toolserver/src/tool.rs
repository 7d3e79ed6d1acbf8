//! What a tool is: its description, its one method, the context of a call and the errors it may give.
//!
//! A tool knows nothing of transports, stores or limits on output; the server around it does all of that. It is told
//! which call of which batch it is executing, when to stop, and where to say how far it is.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use protocol::{BatchId, CallId, ExecutionContext};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::output::{OutputLimits, TOOL_OUTPUT_MAX_BYTES, ToolOutput, fit_start};

/// One thing a model may ask for.
///
/// `execute` happens at most once per call id. Its future may be dropped at any await: when the caller cancels, when
/// the deadline passes, when the server stops. What it leaves running then must be reachable through `context`, which
/// is cancelled before the future is dropped. It may run at the same time as any other call, also of the same tool;
/// a tool that needs order or exclusion waits inside `execute`.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name by which models call the tool: `[A-Za-z0-9_-]`, at most 64 characters.
    fn name(&self) -> &str;

    /// Returns what the tool does, for the model.
    fn description(&self) -> &str;

    /// Returns the JSON Schema (2020-12) of the arguments; its type is `object`.
    fn input_schema(&self) -> Value;

    /// Executes the tool.
    ///
    /// # Errors
    /// A [`ToolError`] the model can read and act on.
    async fn execute(
        &self,
        input_json: &str,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError>;

    /// Returns hints for clients about what the tool may change.
    fn annotations(&self) -> ToolAnnotations {
        ToolAnnotations::default()
    }

    /// Returns how much of the output stays inline, given the server's limits.
    fn output_limits(&self, server: OutputLimits) -> OutputLimits {
        server
    }

    /// Returns how long a call may take, given the server's deadline.
    fn deadline(&self, server: Duration) -> Duration {
        server
    }
}

/// Hints for clients about what a tool may change, as MCP defines them. The defaults are the careful ones.
///
/// See <https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// It changes nothing; clients may run it in parallel with others.
    pub read_only: bool,
    /// It may overwrite or delete.
    pub destructive: bool,
    /// Calling it twice with the same arguments changes nothing more than calling it once.
    pub idempotent: bool,
    /// It reaches beyond the files of the scope.
    pub open_world: bool,
}

impl Default for ToolAnnotations {
    fn default() -> Self {
        Self {
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: true,
        }
    }
}

impl ToolAnnotations {
    /// Makes the hints of a tool that only reads inside the scope.
    #[must_use]
    pub const fn reads() -> Self {
        Self {
            read_only: true,
            destructive: false,
            idempotent: true,
            open_world: false,
        }
    }
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// How much is done; grows with every report of a call.
    pub done: f64,
    /// How much there is to do, when that is known.
    pub total: Option<f64>,
    /// What is happening, for people.
    pub message: String,
}

/// Where a call says how far it is. Reports are dropped when nobody listens or the listener is slow.
#[derive(Clone, Default)]
pub struct ProgressSink(Option<Arc<dyn Fn(Progress) + Send + Sync>>);

impl ProgressSink {
    /// Makes a sink that passes every report to `listener`, which must not block.
    pub fn new(listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Reports how far the call is.
    pub fn report(&self, progress: Progress) {
        if let Some(listener) = &self.0 {
            listener(progress);
        }
    }

    /// Returns whether anybody listens.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgressSink")
            .field(&self.is_connected())
            .finish()
    }
}

/// Which call is executing, when it must stop, and where it says how far it is.
///
/// Identity is metadata for the tool: the caller starts all calls of a batch at once and schedules none of them.
#[derive(Clone, Debug)]
pub struct ToolExecutionContext {
    identity: ExecutionContext,
    cancellation: CancellationToken,
    progress: ProgressSink,
}

impl ToolExecutionContext {
    /// Makes the context of one call.
    #[must_use]
    pub fn new(identity: ExecutionContext, cancellation: CancellationToken) -> Self {
        Self {
            identity,
            cancellation,
            progress: ProgressSink::default(),
        }
    }

    /// Makes the context of a call that belongs to no batch: fresh ids, index 0, never cancelled.
    #[must_use]
    pub fn detached() -> Self {
        let fresh = uuid::Uuid::now_v7;
        let identity = ExecutionContext {
            call_id: fresh().into(),
            batch_id: fresh().into(),
            call_index: 0,
        };
        Self::new(identity, CancellationToken::new())
    }

    /// Adds a listener for progress.
    #[must_use]
    pub fn with_progress(mut self, progress: ProgressSink) -> Self {
        self.progress = progress;
        self
    }

    /// Returns the same call with a token of its own that is also cancelled with this one.
    pub(crate) fn child(&self) -> Self {
        Self {
            cancellation: self.cancellation.child_token(),
            ..self.clone()
        }
    }

    /// Returns the ids as they travel on the wire.
    #[must_use]
    pub fn identity(&self) -> &ExecutionContext {
        &self.identity
    }

    /// Returns the id of the call.
    #[must_use]
    pub fn call_id(&self) -> &CallId {
        &self.identity.call_id
    }

    /// Returns the id shared by all calls of one model response.
    #[must_use]
    pub fn batch_id(&self) -> &BatchId {
        &self.identity.batch_id
    }

    /// Returns the position of the call in the model's response, from 0.
    #[must_use]
    pub fn call_index(&self) -> u32 {
        self.identity.call_index
    }

    /// Returns the token that is cancelled when the call must stop.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Returns where to say how far the call is.
    #[must_use]
    pub fn progress(&self) -> &ProgressSink {
        &self.progress
    }
}

/// Why a tool call gave no result.
///
/// `Display` is for the log; [`ToolError::for_caller`] is for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// There is no tool of that name.
    #[error("unknown tool {name:?}")]
    UnknownTool {
        /// The name that was asked for.
        name: String,
        /// Names that look like it, best first.
        nearest: Vec<String>,
    },
    /// The arguments are no JSON, or not what the schema asks for. The text says what to change.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The tool ran and failed. The text says what to do next.
    #[error("{0}")]
    ExecutionFailed(String),
    /// The tool took longer than its deadline and was stopped.
    #[error("stopped after {} s", .after.as_secs())]
    Timeout {
        /// The deadline.
        after: Duration,
    },
    /// The caller took the call back.
    #[error("cancelled by the caller")]
    Cancelled,
    /// The tool panicked. The message is for the log only.
    #[error("the tool panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
}

impl ToolError {
    /// Returns what the model is told: what to change, without details of the host, in at most
    /// [`TOOL_OUTPUT_MAX_BYTES`].
    #[must_use]
    pub fn for_caller(&self) -> String {
        let told = self.advice();
        match fit_start(&told, TOOL_OUTPUT_MAX_BYTES) {
            Cow::Borrowed(_) => told,
            Cow::Owned(cut) => cut,
        }
    }

    fn advice(&self) -> String {
        match self {
            Self::UnknownTool { name, nearest } if nearest.is_empty() => {
                format!("there is no tool {name:?}; list the tools to see their names")
            }
            Self::UnknownTool { name, nearest } => {
                format!(
                    "there is no tool {name:?}; did you mean {}?",
                    nearest.join(", ")
                )
            }
            Self::InvalidArgument(_) | Self::ExecutionFailed(_) => self.to_string(),
            Self::Timeout { after } => {
                format!(
                    "stopped: it took longer than {} s; ask for less, or raise the timeout",
                    after.as_secs()
                )
            }
            Self::Cancelled => "cancelled before it finished; its effect is unknown".to_owned(),
            Self::Panicked { .. } => {
                "the tool failed by an internal error; other tools still work".to_owned()
            }
        }
    }
}
