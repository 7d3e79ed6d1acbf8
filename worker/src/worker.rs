//! The worker: a model, its tools, the conversation between them, and everybody who listens in.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use protocol::{
    AlertLevel, Event, EventBody, Item, Segment, StopReason, TokenUsage, log::LogRecord,
    parse_prompt,
};
use tokio_util::sync::CancellationToken;
use toolserver::ScopedFs;

use crate::{
    clock::now_ms,
    history::History,
    interceptor::{Hook, Interceptor},
    llm::{LlmCycle, LlmError},
    session::{Recovered, SessionError, SessionLog},
    timeline::{
        ErrorKind, IntoHandler, ReasoningBlockKind, StatusKind, TextBlockKind, TextCompleteKind,
        Timeline, ToolCallCompleteKind, ToolUseBlockKind, UsageKind, WorkerSubscriber,
    },
    tools::ToolSet,
    turn::{Points, Submission, Turn},
};

/// The limits of a worker. Every one of them ends a turn with a reason of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// How many requests a turn may send.
    pub max_requests: u32,
    /// How many failed requests a turn may send again, over all its requests.
    pub max_retries: u32,
    /// How many calls run at the same time; the others wait in order.
    pub max_parallel_calls: usize,
    /// How many calls of one answer run at all; the others get a result that says so.
    pub max_calls: usize,
    /// How long a call may take.
    pub call_deadline: Duration,
    /// How long calls may take to stop when the turn is stopped.
    pub stop_grace: Duration,
    /// How often the end of a turn may be put off by an interceptor.
    pub max_continuations: u32,
    /// How often the same calls may come with the same results.
    pub max_repeats: u32,
    /// How long an interceptor or hook may take to answer.
    pub hook_deadline: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            max_requests: 50,
            max_retries: 10,
            max_parallel_calls: 64,
            max_calls: 1000,
            call_deadline: Duration::from_secs(1200),
            stop_grace: Duration::from_millis(1500),
            max_continuations: 8,
            max_repeats: 8,
            hook_deadline: Duration::from_secs(60),
        }
    }
}

/// How a turn ended.
#[derive(Debug)]
pub struct TurnReport {
    /// The turn, from 1.
    pub turn: u64,
    /// Why it ended.
    pub stop: StopReason,
    /// The answer; empty when there is none.
    pub answer: String,
    /// Tokens of all its requests.
    pub usage: TokenUsage,
    /// How many requests it sent.
    pub requests: u32,
    /// The error behind [`StopReason::Failed`], when it came from the model's side.
    pub error: Option<LlmError>,
}

/// Why a turn did not begin.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// There is nothing to ask.
    #[error("the prompt is empty")]
    Empty,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt(Vec<Segment>);

impl From<&str> for Prompt {
    /// Reads `@path` references; see [`protocol::parse_prompt`].
    fn from(text: &str) -> Self {
        Self(parse_prompt(text))
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Vec<Segment>> for Prompt {
    fn from(segments: Vec<Segment>) -> Self {
        Self(segments)
    }
}

/// Stops the turn that runs, or the next one. Clones stop the same worker.
#[derive(Clone, Debug, Default)]
pub struct Interrupter(Arc<Mutex<CancellationToken>>);

impl Interrupter {
    /// Stops the turn. Its calls are stopped too, and what they did not finish is said in the history.
    pub fn interrupt(&self) {
        self.token().cancel();
    }

    fn token(&self) -> CancellationToken {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn renew(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = CancellationToken::new();
    }
}

/// Drives a model with tools, turn by turn, over one conversation.
pub struct Worker {
    pub(crate) cycle: LlmCycle,
    pub(crate) tools: ToolSet,
    pub(crate) history: History,
    pub(crate) timeline: Timeline,
    pub(crate) points: Points,
    pub(crate) options: WorkerOptions,
    pub(crate) turns: u64,
    scope: Option<Arc<ScopedFs>>,
    session: Option<SessionLog>,
    interrupter: Interrupter,
}

macro_rules! registrations {
    ($($(#[$doc:meta])* $method:ident, $kind:ty;)*) => {$(
        $(#[$doc])*
        pub fn $method<M>(&mut self, handler: impl IntoHandler<$kind, M>) {
            self.timeline.$method(handler);
        }
    )*};
}

impl Worker {
    /// Makes a worker without tools, log or files.
    #[must_use]
    pub fn new(cycle: LlmCycle) -> Self {
        let options = WorkerOptions::default();
        Self {
            cycle,
            tools: ToolSet::default(),
            history: History::default(),
            timeline: Timeline::new(now_ms),
            points: Points {
                interceptors: Vec::new(),
                hooks: Vec::new(),
                deadline: options.hook_deadline,
            },
            options,
            turns: 0,
            scope: None,
            session: None,
            interrupter: Interrupter::default(),
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_options(mut self, options: WorkerOptions) -> Self {
        self.points.deadline = options.hook_deadline;
        self.options = options;
        self
    }

    /// Gives the model tools.
    #[must_use]
    pub fn with_tools(mut self, tools: ToolSet) -> Self {
        self.tools = tools;
        self
    }

    /// Lets prompts refer to files of a scope with `@path`.
    #[must_use]
    pub fn with_files(mut self, scope: Arc<ScopedFs>) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Keeps a log.
    #[must_use]
    pub fn with_session(mut self, session: SessionLog) -> Self {
        self.session = Some(session);
        self
    }

    /// Goes on with a conversation.
    #[must_use]
    pub fn with_recovered(mut self, recovered: Recovered) -> Self {
        self.turns = recovered.turns;
        self.history = recovered.history;
        self
    }

    /// Adds an interceptor behind those that are there.
    pub fn intercept(&mut self, interceptor: impl Interceptor + 'static) {
        self.points.interceptors.push(Arc::new(interceptor));
    }

    /// Adds a hook behind those that are there.
    pub fn hook(&mut self, hook: impl Hook + 'static) {
        self.points.hooks.push(Arc::new(hook));
    }

    registrations! {
        /// Registers for text blocks: start, deltas, stop, with a scope per block.
        on_text_block, TextBlockKind;
        /// Registers for reasoning blocks: start, deltas, stop, with a scope per block.
        on_reasoning_block, ReasoningBlockKind;
        /// Registers for tool calls while they are streamed, with a scope per block.
        on_tool_use_block, ToolUseBlockKind;
        /// Registers for the token counts of each request.
        on_usage, UsageKind;
        /// Registers for everything that is neither a block nor a count.
        on_status, StatusKind;
        /// Registers for errors that end a turn.
        on_error, ErrorKind;
        /// Registers for whole texts.
        on_text_complete, TextCompleteKind;
        /// Registers for whole tool calls. They have not run yet.
        on_tool_call_complete, ToolCallCompleteKind;
    }

    /// Registers for every event, as programs read them.
    pub fn on_event(&mut self, listener: impl FnMut(&Event) + Send + 'static) {
        self.timeline.on_event(listener);
    }

    /// Registers a subscriber for everything.
    pub fn subscribe<S: WorkerSubscriber + 'static>(&mut self, subscriber: S) {
        self.timeline.subscribe(subscriber);
    }

    /// Returns a handle that stops turns.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Returns the conversation so far.
    #[must_use]
    pub fn history(&self) -> &[Item] {
        self.history.items()
    }

    /// Runs one turn: from a prompt to the answer, or to the reason why there is none.
    ///
    /// # Errors
    /// [`PromptError`] when there is nothing to ask. Everything that can happen later is a [`StopReason`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the turn without a result. The conversation stays valid: it ends with the last
    /// complete answer. To stop a turn and hear what became of its calls, use [`Worker::interrupter`].
    pub async fn run(&mut self, prompt: impl Into<Prompt>) -> Result<TurnReport, PromptError> {
        let Prompt(segments) = prompt.into();
        let submission = Submission::resolve(segments, self.scope.clone()).await;
        if submission.text.trim().is_empty() {
            return Err(PromptError::Empty);
        }
        let interrupter = self.interrupter.clone();
        let report = Turn::new(self, interrupter.token()).run(submission).await;
        interrupter.renew();
        Ok(report)
    }

    /// Ends the hosts of the tools in an orderly way.
    pub async fn shut_down(self) {
        self.tools.shut_down().await;
    }

    pub(crate) fn session_id(&self) -> Option<String> {
        self.session.as_ref().map(|session| session.id().to_owned())
    }

    /// Tells the person something, in log and timeline.
    pub(crate) fn alert(&mut self, level: AlertLevel, message: String) {
        // A failing log has been reported where it failed first.
        let _ = self.log(LogRecord::Alert {
            level,
            message: message.clone(),
        });
        self.timeline.tell(EventBody::Alert { level, message });
    }

    /// Writes a record to the log, when there is one. An error is the reason to stop the turn: what is not in the log
    /// must not happen.
    pub(crate) fn log(&mut self, record: LogRecord) -> Result<(), StopReason> {
        self.write_log(|session| session.append(record))
    }

    /// As [`Worker::log`], for records that must survive a power cut.
    pub(crate) fn log_synced(&mut self, record: LogRecord) -> Result<(), StopReason> {
        self.write_log(|session| session.append_synced(record))
    }

    fn write_log(
        &mut self,
        write: impl FnOnce(&mut SessionLog) -> Result<(), SessionError>,
    ) -> Result<(), StopReason> {
        let written = self.session.as_mut().map_or(Ok(()), write);
        written.map_err(|error| StopReason::Failed {
            message: crate::error_chain(&error),
        })
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("tools", &self.tools)
            .field("options", &self.options)
            .field("turns", &self.turns)
            .finish_non_exhaustive()
    }
}
