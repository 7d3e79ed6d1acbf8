//! The kinds of event a handler can be for.

use protocol::{CallId, EventBody, TokenUsage};

/// A kind of event: the type that stands for it names what its handlers are given.
pub trait Kind: 'static {
    /// What a handler of this kind is given.
    type Event: ?Sized;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $event:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Kind for $name {
            type Event = $event;
        }
    )*};
}

kinds! {
    /// Text blocks while they are streamed.
    TextBlockKind => TextBlockEvent;
    /// Reasoning blocks while they are streamed.
    ReasoningBlockKind => ReasoningBlockEvent;
    /// Tool calls while they are streamed.
    ToolUseBlockKind => ToolUseBlockEvent;
    /// The token count of one request.
    UsageKind => TokenUsage;
    /// Requests, retries, tools, alerts.
    StatusKind => EventBody;
    /// An error that ended the turn, as text.
    ErrorKind => str;
    /// A whole text.
    TextCompleteKind => str;
    /// A whole tool call.
    ToolCallCompleteKind => ToolCall;
}

/// What happens to a block whose deltas are text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockEvent {
    /// It began.
    Start(()),
    /// It grew.
    Delta(String),
    /// It is complete.
    Stop(()),
}

/// What happens to a text block.
pub type TextBlockEvent = BlockEvent;

/// What happens to a reasoning block.
pub type ReasoningBlockEvent = BlockEvent;

/// What happens to a tool call while it is streamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolUseBlockEvent {
    /// It began.
    Start(ToolUseStart),
    /// Its arguments grew.
    InputJsonDelta(String),
    /// It is complete.
    Stop(()),
}

/// What is known of a tool call when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUseStart {
    /// The tool's name; empty when the model has not said it yet.
    pub name: String,
}

/// A whole tool call, as the model made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id in history.
    pub id: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them.
    pub input: String,
}
