//! The exact bytes of what other programs read: log lines, events, `_meta`, items. A changed file is a changed
//! interface, to be looked at before it is accepted with `UPDATE_EXPECT=1`.

use expect_test::{ExpectFile, expect_file};
use protocol::{
    AlertLevel, BatchId, BlobKind, BlobRef, BlockKind, CallId, EVENT_SCHEMA, Event, EventBody,
    ExecutionContext, Item, ReasoningItem, Segment, StopReason, TokenUsage, ToolCallItem,
    ToolOutcome, ToolResultItem,
    log::{LOG_SCHEMA, LogLine, LogRecord},
    parse_prompt,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, json};

/// Writes values as JSON lines, compares them with the file, and reads them back.
fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    values: &[T],
    file: &ExpectFile,
) {
    let lines: Vec<String> = values
        .iter()
        .map(|value| serde_json::to_string(value).unwrap())
        .collect();
    for (line, value) in lines.iter().zip(values) {
        assert_eq!(&serde_json::from_str::<T>(line).unwrap(), value);
    }
    file.assert_eq(&(lines.join("\n") + "\n"));
}

fn context() -> ExecutionContext {
    ExecutionContext {
        call_id: call_id(),
        batch_id: BatchId::new("batch-1").unwrap(),
        call_index: 2,
    }
}

fn call_id() -> CallId {
    CallId::new("call_7").unwrap()
}

fn blob() -> BlobRef {
    BlobRef {
        id: "019aa5d2-7c00-7abc-8def-0123456789ab".parse().unwrap(),
        name: "k7qm".parse().unwrap(),
        kind: BlobKind::Text,
        bytes: 72_025,
        lines: Some(2930),
        entries: None,
        shown: 345,
    }
}

fn usage() -> TokenUsage {
    TokenUsage {
        input_tokens: 100,
        output_tokens: 20,
        cached_tokens: 50,
        reasoning_tokens: 5,
    }
}

fn result() -> ToolResultItem {
    ToolResultItem {
        call_id: call_id(),
        output: "[blob:k7qm] text | 2930 lines".into(),
        outcome: ToolOutcome::Completed,
        blob: Some(blob()),
    }
}

fn items() -> Vec<Item> {
    vec![
        Item::user_message("look at @a.txt"),
        Item::system_message("[File: a.txt]\nhello\n"),
        Item::Reasoning(ReasoningItem {
            text: "hm".into(),
            opaque: Some(json!({"signature": "x"})),
        }),
        Item::assistant_message("I look."),
        Item::ToolCall(ToolCallItem {
            call_id: call_id(),
            name: "grep".into(),
            arguments: "{\"pattern\":\"x\"}".into(),
            rejected_arguments: None,
        }),
        Item::ToolCall(ToolCallItem {
            call_id: CallId::new("call_8").unwrap(),
            name: "grep".into(),
            arguments: "{}".into(),
            rejected_arguments: Some("{\"pattern\":".into()),
        }),
        Item::ToolResult(result()),
    ]
}

#[test]
fn items_have_their_form() {
    check(&items(), &expect_file!["../golden/items.jsonl"]);
}

#[test]
fn outcomes_have_their_words() {
    use ToolOutcome::{Completed, Denied, Failed, Interrupted, NotStarted, Skipped};
    check(
        &[Completed, Failed, Denied, Skipped, NotStarted, Interrupted],
        &expect_file!["../golden/outcomes.jsonl"],
    );
}

fn stop_reasons() -> Vec<StopReason> {
    vec![
        StopReason::Finished,
        StopReason::Length,
        StopReason::ContentFilter,
        StopReason::EmptyAnswer,
        StopReason::RequestLimit { limit: 8 },
        StopReason::RepeatedCalls { times: 5 },
        StopReason::ContinuationLimit { limit: 3 },
        StopReason::Aborted {
            message: "no".into(),
        },
        StopReason::Interrupted,
        StopReason::Failed {
            message: "no network".into(),
        },
    ]
}

#[test]
fn stop_reasons_have_their_words() {
    check(
        &stop_reasons(),
        &expect_file!["../golden/stop_reasons.jsonl"],
    );
}

#[test]
fn log_lines_have_their_form() {
    let records = vec![
        LogRecord::Session {
            schema: LOG_SCHEMA,
            id: "019aa5d2-7c00-7abc-8def-0123456789ab".into(),
            model: "m".into(),
        },
        LogRecord::Submitted {
            turn: 1,
            items: items()[..2].to_vec(),
        },
        LogRecord::Answered {
            turn: 1,
            request: 1,
            items: items()[2..6].to_vec(),
            usage: usage(),
        },
        LogRecord::CallStarted {
            context: context(),
            name: "grep".into(),
            arguments: "{\"pattern\":\"x\"}".into(),
        },
        LogRecord::CallEnded {
            context: context(),
            result: result(),
            duration_ms: 12,
        },
        LogRecord::Continued {
            turn: 1,
            items: vec![Item::user_message("longer")],
        },
        LogRecord::Alert {
            level: AlertLevel::Warn,
            message: "@b is not attached".into(),
        },
        LogRecord::TurnEnded {
            turn: 1,
            stop: StopReason::Finished,
            usage: usage(),
        },
    ];
    let lines: Vec<LogLine> = records
        .into_iter()
        .zip(0..)
        .map(|(record, seq)| LogLine {
            seq,
            time_ms: 1_700_000_000_000 + seq,
            record,
        })
        .collect();
    check(&lines, &expect_file!["../golden/log.jsonl"]);
}

#[test]
fn events_have_their_form() {
    let name = || "grep".to_owned();
    let batch_id = || BatchId::new("batch-1").unwrap();
    let bodies = vec![
        EventBody::TurnStart {
            prompt: "go".into(),
            session: Some("019aa5d2-7c00-7abc-8def-0123456789ab".into()),
        },
        EventBody::RequestStart { model: "m".into() },
        EventBody::Retry {
            attempt: 1,
            delay_ms: 900,
            error: "the answer broke off".into(),
        },
        EventBody::AnswerVoided,
        EventBody::BlockStart {
            block: 0,
            kind: BlockKind::Text,
            name: None,
        },
        EventBody::BlockDelta {
            block: 0,
            delta: "I lo".into(),
        },
        EventBody::BlockStop { block: 0 },
        EventBody::BlockStart {
            block: 1,
            kind: BlockKind::ToolUse,
            name: Some(name()),
        },
        EventBody::BlockStart {
            block: 2,
            kind: BlockKind::Reasoning,
            name: None,
        },
        EventBody::TextComplete {
            text: "I look.".into(),
        },
        EventBody::ToolCallComplete {
            call_id: call_id(),
            name: name(),
            arguments: "{}".into(),
        },
        EventBody::Usage { usage: usage() },
        EventBody::ToolStart {
            batch_id: batch_id(),
            call_id: call_id(),
            call_index: 2,
            name: name(),
        },
        EventBody::ToolProgress {
            call_id: call_id(),
            message: "3 s".into(),
        },
        EventBody::ToolEnd {
            batch_id: batch_id(),
            call_id: call_id(),
            call_index: 2,
            name: name(),
            outcome: ToolOutcome::Completed,
            duration_ms: 12,
            shown_bytes: 345,
            problem: None,
            blob: Some(blob()),
        },
        EventBody::Alert {
            level: AlertLevel::Info,
            message: "x".into(),
        },
        EventBody::TurnEnd {
            stop: StopReason::RequestLimit { limit: 8 },
            answer: String::new(),
            usage: usage(),
        },
    ];
    let events: Vec<Event> = bodies
        .into_iter()
        .zip(0..)
        .map(|(body, seq)| Event {
            schema: EVENT_SCHEMA,
            seq,
            time_ms: 1_700_000_000_000,
            turn: 1,
            request: 1,
            body,
        })
        .collect();
    check(&events, &expect_file!["../golden/events.jsonl"]);
}

#[test]
fn meta_has_its_form() {
    let mut request = Map::new();
    context().write_meta(&mut request);
    let result = Map::from_iter([(
        protocol::BLOB_META_KEY.to_owned(),
        serde_json::to_value(blob()).unwrap(),
    )]);
    check(&[request, result], &expect_file!["../golden/meta.jsonl"]);
}

#[test]
fn segments_have_their_form() {
    let segments: Vec<Segment> = parse_prompt("compare @a.rs with @\"b c.md\".");
    check(&segments, &expect_file!["../golden/segments.jsonl"]);
}

#[test]
fn tools_are_listed_in_their_form() {
    let place = tests::binaries::Place::with(&[]);
    let listed = place.run("toolserver", &["tools", "--json"]);
    expect_file!["../golden/tools.json"].assert_eq(&listed.stdout);
}
