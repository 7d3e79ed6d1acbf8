//! The records of a session log: one JSON object per line, appended and never changed.
//!
//! A record is written when its fact is true: the intent of a call before the tool runs, its result after. The user
//! item and its file items are one record, so a crash keeps both or none. What a reader rebuilds from the records is
//! the worker's business; their form is here because other programs read logs too.

use serde::{Deserialize, Serialize};

use crate::{AlertLevel, ExecutionContext, Item, StopReason, TokenUsage, ToolResultItem};

/// The version of the log schema, written in the first record.
pub const LOG_SCHEMA: u32 = 1;

/// One line of a session log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Counts the lines of the log from 0.
    pub seq: u64,
    /// When it was written, in milliseconds since 1970.
    pub time_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub record: LogRecord,
}

/// What a line of a session log says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogRecord {
    /// The first line.
    Session {
        /// [`LOG_SCHEMA`] of the writer.
        schema: u32,
        /// The session's id, also its file's name.
        id: String,
        /// The model it began with.
        model: String,
    },
    /// A prompt was accepted: the user item, then its file items.
    Submitted {
        /// The turn, from 1.
        turn: u64,
        /// The items in history order.
        items: Vec<Item>,
    },
    /// The model answered: text, reasoning and tool calls in the order they came.
    Answered {
        /// The turn.
        turn: u64,
        /// The request of the turn, from 1.
        request: u32,
        /// The items in history order.
        items: Vec<Item>,
        /// Tokens of this request.
        usage: TokenUsage,
    },
    /// A tool is about to run.
    CallStarted {
        /// The call.
        context: ExecutionContext,
        /// The tool.
        name: String,
        /// The arguments it runs with.
        arguments: String,
    },
    /// A call has its result, whether it ran or not.
    CallEnded {
        /// The call.
        context: ExecutionContext,
        /// The result.
        result: ToolResultItem,
        /// How long it ran.
        duration_ms: u64,
    },
    /// An interceptor added items at the end of the turn.
    Continued {
        /// The turn.
        turn: u64,
        /// The items in history order.
        items: Vec<Item>,
    },
    /// The person was told something.
    Alert {
        /// How loud.
        level: AlertLevel,
        /// One sentence.
        message: String,
    },
    /// A turn ended.
    TurnEnded {
        /// The turn.
        turn: u64,
        /// Why.
        stop: StopReason,
        /// Tokens of the whole turn.
        usage: TokenUsage,
    },
}
