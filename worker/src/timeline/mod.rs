//! What happens during a turn, told to whoever registered for it.
//!
//! The turn loop says each thing once, as an [`EventBody`]. The timeline numbers it, hands it whole to event listeners,
//! and in pieces to handlers: a block handler gets a scope of its own for every block, made when the block starts and
//! dropped when it ends, so interleaved blocks never mix. Handlers observe; nothing they do reaches the turn. One that
//! panics is removed.

mod handler;
mod kinds;
mod subscriber;

use std::{
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use protocol::{BlockKind, CallId, EVENT_SCHEMA, Event, EventBody};

use self::handler::{Erased, Slot};
pub use self::{
    handler::{Handler, IntoHandler},
    kinds::{
        BlockEvent, ErrorKind, Kind, ReasoningBlockEvent, ReasoningBlockKind, StatusKind,
        TextBlockEvent, TextBlockKind, TextCompleteKind, ToolCall, ToolCallCompleteKind,
        ToolUseBlockEvent, ToolUseBlockKind, ToolUseStart, UsageKind,
    },
    subscriber::WorkerSubscriber,
};

/// Reads the time for events, in milliseconds since 1970. Injected so that the timeline itself reads no clock.
type Clock = Box<dyn Fn() -> u64 + Send>;

type EventListener = Box<dyn FnMut(&Event) + Send>;
type TurnListener = Box<dyn FnMut(Boundary, u64) + Send>;

/// The two ends of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    Start,
    End,
}

/// Tells events to listeners and handlers.
pub struct Timeline {
    clock: Clock,
    seq: u64,
    turn: u64,
    request: u32,
    blocks: HashMap<u32, OpenBlock>,
    events: Vec<Option<EventListener>>,
    turns: Vec<Option<TurnListener>>,
    text_blocks: Vec<Slot<TextBlockKind>>,
    reasoning_blocks: Vec<Slot<ReasoningBlockKind>>,
    tool_use_blocks: Vec<Slot<ToolUseBlockKind>>,
    usages: Vec<Slot<UsageKind>>,
    statuses: Vec<Slot<StatusKind>>,
    errors: Vec<Slot<ErrorKind>>,
    texts_complete: Vec<Slot<TextCompleteKind>>,
    tool_calls_complete: Vec<Slot<ToolCallCompleteKind>>,
}

/// A block whose end has not come yet.
struct OpenBlock {
    kind: BlockKind,
    text: String,
}

macro_rules! registrations {
    ($($(#[$doc:meta])* $method:ident, $field:ident, $kind:ty;)*) => {$(
        $(#[$doc])*
        pub fn $method<M>(&mut self, handler: impl IntoHandler<$kind, M>) {
            self.$field.push(Some(handler.into_erased()));
        }
    )*};
}

impl Timeline {
    /// Makes a timeline that reads the time from `clock`.
    pub fn new(clock: impl Fn() -> u64 + Send + 'static) -> Self {
        Self {
            clock: Box::new(clock),
            seq: 0,
            turn: 0,
            request: 0,
            blocks: HashMap::new(),
            events: Vec::new(),
            turns: Vec::new(),
            text_blocks: Vec::new(),
            reasoning_blocks: Vec::new(),
            tool_use_blocks: Vec::new(),
            usages: Vec::new(),
            statuses: Vec::new(),
            errors: Vec::new(),
            texts_complete: Vec::new(),
            tool_calls_complete: Vec::new(),
        }
    }

    registrations! {
        /// Registers for text blocks: start, deltas, stop, with a scope per block.
        on_text_block, text_blocks, TextBlockKind;
        /// Registers for reasoning blocks: start, deltas, stop, with a scope per block.
        on_reasoning_block, reasoning_blocks, ReasoningBlockKind;
        /// Registers for tool calls while they are streamed: start, argument deltas, stop, with a scope per block.
        on_tool_use_block, tool_use_blocks, ToolUseBlockKind;
        /// Registers for the token counts of each request.
        on_usage, usages, UsageKind;
        /// Registers for everything that is neither a block nor a count: requests, retries, tools, alerts.
        on_status, statuses, StatusKind;
        /// Registers for errors that end a turn.
        on_error, errors, ErrorKind;
        /// Registers for whole texts, when their block has ended.
        on_text_complete, texts_complete, TextCompleteKind;
        /// Registers for whole tool calls, when their block has ended. They have not run yet.
        on_tool_call_complete, tool_calls_complete, ToolCallCompleteKind;
    }

    /// Registers for every event as programs read them.
    pub fn on_event(&mut self, listener: impl FnMut(&Event) + Send + 'static) {
        self.events.push(Some(Box::new(listener)));
    }

    pub(crate) fn on_turn(&mut self, listener: impl FnMut(Boundary, u64) + Send + 'static) {
        self.turns.push(Some(Box::new(listener)));
    }

    /// Says which turn and request the following events belong to.
    pub(crate) fn place(&mut self, turn: u64, request: u32) {
        self.turn = turn;
        self.request = request;
    }

    /// Tells an event to everybody who registered for it.
    pub(crate) fn tell(&mut self, body: EventBody) {
        let event = Event {
            schema: EVENT_SCHEMA,
            seq: self.seq,
            time_ms: (self.clock)(),
            turn: self.turn,
            request: self.request,
            body,
        };
        self.seq += 1;
        each(&mut self.events, |listener| listener(&event));
        self.dispatch(&event.body);
    }

    fn dispatch(&mut self, body: &EventBody) {
        match body {
            EventBody::BlockStart { block, kind, name } => {
                self.start_block(*block, *kind, name.as_deref())
            }
            EventBody::BlockDelta { block, delta } => self.extend_block(*block, delta),
            EventBody::BlockStop { block } => self.stop_block(*block),
            EventBody::TextComplete { text } => {
                tell_each(&mut self.texts_complete, None, text.as_str())
            }
            EventBody::ToolCallComplete {
                call_id,
                name,
                arguments,
            } => {
                let call = ToolCall {
                    id: call_id.clone(),
                    name: name.clone(),
                    input: arguments.clone(),
                };
                tell_each(&mut self.tool_calls_complete, None, &call);
            }
            EventBody::Usage { usage } => tell_each(&mut self.usages, None, usage),
            EventBody::AnswerVoided => {
                self.abandon_blocks();
                tell_each(&mut self.statuses, None, body);
            }
            EventBody::TurnStart { .. } => {
                let turn = self.turn;
                each(&mut self.turns, |listener| listener(Boundary::Start, turn));
            }
            EventBody::TurnEnd { stop, .. } => {
                self.abandon_blocks();
                if let protocol::StopReason::Failed { message } = stop {
                    tell_each(&mut self.errors, None, message.as_str());
                }
                let turn = self.turn;
                each(&mut self.turns, |listener| listener(Boundary::End, turn));
            }
            status => tell_each(&mut self.statuses, None, status),
        }
    }

    fn start_block(&mut self, block: u32, kind: BlockKind, name: Option<&str>) {
        self.blocks.insert(
            block,
            OpenBlock {
                kind,
                text: String::new(),
            },
        );
        match kind {
            BlockKind::Text => {
                tell_each(&mut self.text_blocks, Some(block), &BlockEvent::Start(()))
            }
            BlockKind::Reasoning => tell_each(
                &mut self.reasoning_blocks,
                Some(block),
                &BlockEvent::Start(()),
            ),
            BlockKind::ToolUse => {
                let start = ToolUseStart {
                    name: name.unwrap_or_default().to_owned(),
                };
                tell_each(
                    &mut self.tool_use_blocks,
                    Some(block),
                    &ToolUseBlockEvent::Start(start),
                );
            }
        }
    }

    fn extend_block(&mut self, block: u32, delta: &str) {
        let Some(open) = self.blocks.get_mut(&block) else {
            return;
        };
        match open.kind {
            BlockKind::Text => {
                open.text.push_str(delta);
                tell_each(
                    &mut self.text_blocks,
                    Some(block),
                    &BlockEvent::Delta(delta.to_owned()),
                );
            }
            BlockKind::Reasoning => {
                tell_each(
                    &mut self.reasoning_blocks,
                    Some(block),
                    &BlockEvent::Delta(delta.to_owned()),
                );
            }
            BlockKind::ToolUse => {
                let event = ToolUseBlockEvent::InputJsonDelta(delta.to_owned());
                tell_each(&mut self.tool_use_blocks, Some(block), &event);
            }
        }
    }

    fn stop_block(&mut self, block: u32) {
        let Some(open) = self.blocks.remove(&block) else {
            return;
        };
        match open.kind {
            BlockKind::Text => {
                tell_each(&mut self.text_blocks, Some(block), &BlockEvent::Stop(()));
                drop_scopes(&mut self.text_blocks, Some(block));
                self.tell(EventBody::TextComplete { text: open.text });
            }
            BlockKind::Reasoning => {
                tell_each(
                    &mut self.reasoning_blocks,
                    Some(block),
                    &BlockEvent::Stop(()),
                );
                drop_scopes(&mut self.reasoning_blocks, Some(block));
            }
            BlockKind::ToolUse => {
                tell_each(
                    &mut self.tool_use_blocks,
                    Some(block),
                    &ToolUseBlockEvent::Stop(()),
                );
                drop_scopes(&mut self.tool_use_blocks, Some(block));
            }
        }
    }

    /// Drops the scopes of blocks that will never end, because their answer broke off.
    fn abandon_blocks(&mut self) {
        self.blocks.clear();
        drop_scopes(&mut self.text_blocks, None);
        drop_scopes(&mut self.reasoning_blocks, None);
        drop_scopes(&mut self.tool_use_blocks, None);
    }

    /// Says that a tool call is complete, with the id it has in history.
    pub(crate) fn tool_call_complete(&mut self, call_id: CallId, name: String, arguments: String) {
        self.tell(EventBody::ToolCallComplete {
            call_id,
            name,
            arguments,
        });
    }
}

fn tell_each<K: Kind>(slots: &mut [Slot<K>], block: Option<u32>, event: &K::Event) {
    each(slots, |handler: &mut Box<dyn Erased<K>>| {
        handler.handle(block, event)
    });
}

fn drop_scopes<K: Kind>(slots: &mut [Slot<K>], block: Option<u32>) {
    each(slots, |handler: &mut Box<dyn Erased<K>>| {
        handler.drop_scopes(block)
    });
}

/// Calls every listener that is left, and removes those that panic.
fn each<L>(listeners: &mut [Option<L>], mut tell: impl FnMut(&mut L)) {
    for slot in listeners {
        let Some(listener) = slot else { continue };
        if catch_unwind(AssertUnwindSafe(|| tell(listener))).is_err() {
            tracing::error!("an event handler panicked and was removed");
            *slot = None;
        }
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline")
            .field("seq", &self.seq)
            .field("turn", &self.turn)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
