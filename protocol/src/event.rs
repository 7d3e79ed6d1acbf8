//! What happens during a turn, as a stream of events for programs that watch: `--output jsonl`, the control API, log
//! viewers.
//!
//! One schema for all of them. Every event has a sequence number without gaps, so that a reader can tell when it
//! missed some. Events are told, never asked: nothing in here can change a turn.

use serde::{Deserialize, Serialize};

use crate::{BatchId, BlobRef, CallId, ToolOutcome};

/// The version of the event schema. It grows when an event changes its meaning, not when one is added.
pub const EVENT_SCHEMA: u32 = 1;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// [`EVENT_SCHEMA`] of the writer.
    pub schema: u32,
    /// Counts the events of one worker from 0, without gaps.
    pub seq: u64,
    /// When it happened, in milliseconds since 1970.
    pub time_ms: u64,
    /// The turn it belongs to, from 1.
    pub turn: u64,
    /// The request of that turn, from 1; 0 before the first.
    pub request: u32,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// What a streamed block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// Text for the reader.
    Text,
    /// The model's reasoning.
    Reasoning,
    /// A tool call with its arguments.
    ToolUse,
}

/// How loud an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertLevel {
    /// Worth knowing.
    Info,
    /// Something asked for was not done.
    Warn,
}

/// Tokens as the provider counted them. Sums stop at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens read by the model, cached ones included.
    pub input_tokens: u64,
    /// Tokens written by the model, reasoning included.
    pub output_tokens: u64,
    /// The part of the input that came from the provider's cache.
    pub cached_tokens: u64,
    /// The part of the output that was reasoning.
    pub reasoning_tokens: u64,
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model gave its answer.
    Finished,
    /// The answer was cut because it reached the token limit.
    Length,
    /// The provider withheld the answer.
    ContentFilter,
    /// The model said nothing, twice.
    EmptyAnswer,
    /// The turn used all the requests it was allowed.
    RequestLimit {
        /// How many that were.
        limit: u32,
    },
    /// The model made the same calls with the same results again and again.
    RepeatedCalls {
        /// How often.
        times: u32,
    },
    /// The end of the turn was put off too often by an interceptor.
    ContinuationLimit {
        /// How often it was.
        limit: u32,
    },
    /// A hook or interceptor cancelled the prompt or aborted the turn.
    Aborted {
        /// The reason it gave.
        message: String,
    },
    /// The person or program driving the worker stopped it.
    Interrupted,
    /// The model could not be asked.
    Failed {
        /// The error, with its causes.
        message: String,
    },
}

/// The kinds of event. Readers skip the ones they do not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventBody {
    /// A turn began.
    TurnStart {
        /// The prompt as the model will read it.
        prompt: String,
        /// The session, when a log is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// A request goes to the model.
    RequestStart {
        /// The model's name.
        model: String,
    },
    /// The request failed and will be sent again.
    Retry {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// How long the worker waits.
        delay_ms: u64,
        /// Why it failed.
        error: String,
    },
    /// What was streamed of the current answer is void: it broke off, and the request is sent again.
    AnswerVoided,
    /// A block began.
    BlockStart {
        /// Tells the blocks of one answer apart.
        block: u32,
        /// What it holds.
        kind: BlockKind,
        /// The tool's name, when it is a tool call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A block grew.
    BlockDelta {
        /// The block.
        block: u32,
        /// What was added.
        delta: String,
    },
    /// A block is complete.
    BlockStop {
        /// The block.
        block: u32,
    },
    /// A text block is complete; this is all of it.
    TextComplete {
        /// The text.
        text: String,
    },
    /// A tool call is complete; it has not run yet.
    ToolCallComplete {
        /// The call.
        call_id: CallId,
        /// The tool.
        name: String,
        /// The arguments as the model wrote them.
        arguments: String,
    },
    /// Tokens of one request.
    Usage {
        /// The count.
        #[serde(flatten)]
        usage: TokenUsage,
    },
    /// A tool starts.
    ToolStart {
        /// The batch.
        batch_id: BatchId,
        /// The call.
        call_id: CallId,
        /// Its place in the batch.
        call_index: u32,
        /// The tool.
        name: String,
    },
    /// A tool says how far it is.
    ToolProgress {
        /// The call.
        call_id: CallId,
        /// What it says.
        message: String,
    },
    /// A call has its result, also when it never ran.
    ToolEnd {
        /// The batch.
        batch_id: BatchId,
        /// The call.
        call_id: CallId,
        /// Its place in the batch.
        call_index: u32,
        /// The tool.
        name: String,
        /// How it ended.
        outcome: ToolOutcome,
        /// How long it ran.
        duration_ms: u64,
        /// How many bytes the model was given.
        shown_bytes: u64,
        /// The beginning of what went wrong, when the call did not complete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
        /// The stored result behind them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<BlobRef>,
    },
    /// Something the person should know.
    Alert {
        /// How loud.
        level: AlertLevel,
        /// One sentence.
        message: String,
    },
    /// The turn ended; the last event of every turn.
    TurnEnd {
        /// Why.
        #[serde(flatten)]
        stop: StopReason,
        /// The answer, empty when there is none.
        answer: String,
        /// Tokens of the whole turn.
        usage: TokenUsage,
    },
}

impl TokenUsage {
    /// Adds another count, saturating.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}

impl StopReason {
    /// Returns whether the turn ended with an answer of the model.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Finished)
    }
}
