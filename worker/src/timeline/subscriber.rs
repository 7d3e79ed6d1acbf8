//! One value that listens to everything, taken apart into handlers.

use std::sync::{Arc, Mutex, PoisonError};

use protocol::{EventBody, TokenUsage};

use super::{
    Boundary, Handler, ReasoningBlockEvent, TextBlockEvent, TextBlockKind, Timeline, ToolCall,
    ToolUseBlockEvent, ToolUseBlockKind,
};

/// Listens to everything that happens, with a scope of its own for every text and tool-use block.
///
/// Every method does nothing unless it is written. None of them can change the turn.
pub trait WorkerSubscriber: Send {
    /// What is kept for one text block.
    type TextBlockScope: Default + Send;
    /// What is kept for one tool call while it is streamed.
    type ToolUseBlockScope: Default + Send;

    /// A text block starts, grows or stops.
    fn on_text_block(&mut self, _scope: &mut Self::TextBlockScope, _event: &TextBlockEvent) {}
    /// A tool call starts, grows or stops.
    fn on_tool_use_block(
        &mut self,
        _scope: &mut Self::ToolUseBlockScope,
        _event: &ToolUseBlockEvent,
    ) {
    }
    /// A reasoning block starts, grows or stops.
    fn on_reasoning_block(&mut self, _event: &ReasoningBlockEvent) {}
    /// A request's tokens were counted.
    fn on_usage(&mut self, _event: &TokenUsage) {}
    /// Something else happened: a request, a retry, a tool, an alert.
    fn on_status(&mut self, _event: &EventBody) {}
    /// The turn ended with an error.
    fn on_error(&mut self, _event: &str) {}
    /// A text is complete.
    fn on_text_complete(&mut self, _text: &str) {}
    /// A tool call is complete; it has not run yet.
    fn on_tool_call_complete(&mut self, _call: &ToolCall) {}
    /// A turn starts.
    fn on_turn_start(&mut self, _turn: u64) {}
    /// A turn ended.
    fn on_turn_end(&mut self, _turn: u64) {}
}

/// A subscriber shared by the handlers it is taken apart into. They run one after the other.
struct Shared<S>(Arc<Mutex<S>>);

impl<S> Shared<S> {
    fn with<T>(&self, tell: impl FnOnce(&mut S) -> T) -> T {
        tell(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: WorkerSubscriber> Handler<TextBlockKind> for Shared<S> {
    type Scope = S::TextBlockScope;

    fn on_event(&mut self, scope: &mut Self::Scope, event: &TextBlockEvent) {
        self.with(|subscriber| subscriber.on_text_block(scope, event));
    }
}

impl<S: WorkerSubscriber> Handler<ToolUseBlockKind> for Shared<S> {
    type Scope = S::ToolUseBlockScope;

    fn on_event(&mut self, scope: &mut Self::Scope, event: &ToolUseBlockEvent) {
        self.with(|subscriber| subscriber.on_tool_use_block(scope, event));
    }
}

impl Timeline {
    /// Registers a subscriber for everything.
    pub fn subscribe<S: WorkerSubscriber + 'static>(&mut self, subscriber: S) {
        let shared = Shared(Arc::new(Mutex::new(subscriber)));
        self.on_text_block::<super::handler::IsHandler>(shared.clone());
        self.on_tool_use_block::<super::handler::IsHandler>(shared.clone());
        let own = shared.clone();
        self.on_reasoning_block(move |event: &ReasoningBlockEvent| {
            own.with(|s| s.on_reasoning_block(event))
        });
        let own = shared.clone();
        self.on_usage(move |usage: &TokenUsage| own.with(|s| s.on_usage(usage)));
        let own = shared.clone();
        self.on_status(move |status: &EventBody| own.with(|s| s.on_status(status)));
        let own = shared.clone();
        self.on_error(move |error: &str| own.with(|s| s.on_error(error)));
        let own = shared.clone();
        self.on_text_complete(move |text: &str| own.with(|s| s.on_text_complete(text)));
        let own = shared.clone();
        self.on_tool_call_complete(move |call: &ToolCall| {
            own.with(|s| s.on_tool_call_complete(call))
        });
        self.on_turn(move |boundary, turn| {
            shared.with(|s| match boundary {
                Boundary::Start => s.on_turn_start(turn),
                Boundary::End => s.on_turn_end(turn),
            });
        });
    }
}
