//! Scopes, order and isolation of handlers.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use protocol::{StopReason, TokenUsage};

use super::*;

type Seen = Arc<Mutex<Vec<String>>>;

fn timeline() -> Timeline {
    let ticks = AtomicU64::new(0);
    Timeline::new(move || ticks.fetch_add(1, Ordering::Relaxed))
}

fn start(block: u32, kind: BlockKind) -> EventBody {
    let name = (kind == BlockKind::ToolUse).then(|| "grep".to_owned());
    EventBody::BlockStart { block, kind, name }
}

fn delta(block: u32, delta: &str) -> EventBody {
    EventBody::BlockDelta {
        block,
        delta: delta.into(),
    }
}

fn stop(block: u32) -> EventBody {
    EventBody::BlockStop { block }
}

/// Collects a block's text in its scope, and says when the scope is dropped.
struct Collect(Seen);

#[derive(Default)]
struct CollectScope {
    text: String,
    seen: Option<Seen>,
}

impl Drop for CollectScope {
    fn drop(&mut self) {
        if let Some(seen) = &self.seen {
            seen.lock().unwrap().push(format!("dropped {}", self.text));
        }
    }
}

impl Handler<TextBlockKind> for Collect {
    type Scope = CollectScope;

    fn on_event(&mut self, scope: &mut CollectScope, event: &TextBlockEvent) {
        scope.seen = Some(Arc::clone(&self.0));
        match event {
            TextBlockEvent::Start(()) => assert!(scope.text.is_empty()),
            TextBlockEvent::Delta(text) => scope.text.push_str(text),
            TextBlockEvent::Stop(()) => self.0.lock().unwrap().push(format!("stop {}", scope.text)),
        }
    }
}

#[test]
fn interleaved_blocks_keep_their_own_scopes() {
    let seen = Seen::default();
    let mut timeline = timeline();
    timeline.on_text_block(Collect(Arc::clone(&seen)));
    for event in [
        start(0, BlockKind::Text),
        start(1, BlockKind::Text),
        delta(0, "a"),
        delta(1, "x"),
        delta(0, "b"),
        stop(1),
        delta(0, "c"),
        stop(0),
        // A new block of the same number begins afresh.
        start(0, BlockKind::Text),
        delta(0, "z"),
        stop(0),
    ] {
        timeline.tell(event);
    }
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "stop x",
            "dropped x",
            "stop abc",
            "dropped abc",
            "stop z",
            "dropped z"
        ]
    );
}

#[test]
fn a_voided_answer_drops_its_scopes_and_completes_nothing() {
    let seen = Seen::default();
    let complete = Seen::default();
    let mut timeline = timeline();
    timeline.on_text_block(Collect(Arc::clone(&seen)));
    let own = Arc::clone(&complete);
    timeline.on_text_complete(move |text: &str| own.lock().unwrap().push(text.to_owned()));
    for event in [
        start(0, BlockKind::Text),
        delta(0, "half"),
        EventBody::AnswerVoided,
        delta(0, "late"),
        stop(0),
    ] {
        timeline.tell(event);
    }
    for event in [start(0, BlockKind::Text), delta(0, "whole"), stop(0)] {
        timeline.tell(event);
    }
    assert_eq!(
        *seen.lock().unwrap(),
        ["dropped half", "stop whole", "dropped whole"]
    );
    assert_eq!(*complete.lock().unwrap(), ["whole"]);
}

#[test]
fn wk14_a_panicking_handler_is_removed_and_others_go_on() {
    let seen = Seen::default();
    let mut timeline = timeline();
    timeline.on_usage(|_: &TokenUsage| panic!("bad handler"));
    let own = Arc::clone(&seen);
    timeline.on_usage(move |usage: &TokenUsage| {
        own.lock().unwrap().push(usage.input_tokens.to_string())
    });
    for input_tokens in [1, 2] {
        timeline.tell(EventBody::Usage {
            usage: TokenUsage {
                input_tokens,
                ..TokenUsage::default()
            },
        });
    }
    assert_eq!(*seen.lock().unwrap(), ["1", "2"]);
    assert!(timeline.usages[0].is_none());
}

#[derive(Default)]
struct Everything(Seen);

impl WorkerSubscriber for Everything {
    type TextBlockScope = usize;
    type ToolUseBlockScope = String;

    fn on_text_block(&mut self, scope: &mut usize, event: &TextBlockEvent) {
        *scope += 1;
        self.0
            .lock()
            .unwrap()
            .push(format!("text {scope} {event:?}"));
    }
    fn on_tool_use_block(&mut self, scope: &mut String, event: &ToolUseBlockEvent) {
        match event {
            ToolUseBlockEvent::Start(start) => scope.push_str(&start.name),
            ToolUseBlockEvent::InputJsonDelta(delta) => scope.push_str(delta),
            ToolUseBlockEvent::Stop(()) => self.0.lock().unwrap().push(format!("tool {scope}")),
        }
    }
    fn on_reasoning_block(&mut self, event: &ReasoningBlockEvent) {
        self.0.lock().unwrap().push(format!("reasoning {event:?}"));
    }
    fn on_usage(&mut self, event: &TokenUsage) {
        self.0
            .lock()
            .unwrap()
            .push(format!("usage {}", event.output_tokens));
    }
    fn on_status(&mut self, event: &EventBody) {
        self.0
            .lock()
            .unwrap()
            .push(serde_json::to_value(event).unwrap()["event"].to_string());
    }
    fn on_error(&mut self, event: &str) {
        self.0.lock().unwrap().push(format!("error {event}"));
    }
    fn on_text_complete(&mut self, text: &str) {
        self.0.lock().unwrap().push(format!("whole {text}"));
    }
    fn on_tool_call_complete(&mut self, call: &ToolCall) {
        self.0
            .lock()
            .unwrap()
            .push(format!("call {} {}", call.name, call.input));
    }
    fn on_turn_start(&mut self, turn: u64) {
        self.0.lock().unwrap().push(format!("turn {turn} starts"));
    }
    fn on_turn_end(&mut self, turn: u64) {
        self.0.lock().unwrap().push(format!("turn {turn} ends"));
    }
}

#[test]
fn a_subscriber_hears_everything_once_and_in_order() {
    let seen = Seen::default();
    let mut timeline = timeline();
    timeline.subscribe(Everything(Arc::clone(&seen)));
    timeline.place(3, 1);
    for event in [
        EventBody::TurnStart {
            prompt: "p".into(),
            session: None,
        },
        EventBody::RequestStart { model: "m".into() },
        start(0, BlockKind::Reasoning),
        delta(0, "hm"),
        stop(0),
        start(1, BlockKind::Text),
        delta(1, "hi"),
        stop(1),
        start(2, BlockKind::ToolUse),
        delta(2, "{}"),
        stop(2),
    ] {
        timeline.tell(event);
    }
    timeline.tool_call_complete(CallId::new("c").unwrap(), "grep".into(), "{}".into());
    timeline.tell(EventBody::Usage {
        usage: TokenUsage {
            output_tokens: 7,
            ..TokenUsage::default()
        },
    });
    let stop = StopReason::Failed {
        message: "no network".into(),
    };
    timeline.tell(EventBody::TurnEnd {
        stop,
        answer: String::new(),
        usage: TokenUsage::default(),
    });
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "turn 3 starts",
            "\"request_start\"",
            "reasoning Start(())",
            "reasoning Delta(\"hm\")",
            "reasoning Stop(())",
            "text 1 Start(())",
            "text 2 Delta(\"hi\")",
            "text 3 Stop(())",
            "whole hi",
            "tool grep{}",
            "call grep {}",
            "usage 7",
            "error no network",
            "turn 3 ends",
        ]
    );
}

#[test]
fn events_are_numbered_without_gaps() {
    let seen = Seen::default();
    let mut timeline = timeline();
    let own = Arc::clone(&seen);
    timeline.on_event(move |event| {
        own.lock()
            .unwrap()
            .push(format!("{}/{}.{}", event.seq, event.turn, event.request))
    });
    timeline.place(1, 0);
    timeline.tell(start(0, BlockKind::Text));
    timeline.place(1, 2);
    timeline.tell(delta(0, "x"));
    timeline.tell(stop(0));
    // The whole text is an event of its own.
    assert_eq!(*seen.lock().unwrap(), ["0/1.0", "1/1.2", "2/1.2", "3/1.2"]);
}
