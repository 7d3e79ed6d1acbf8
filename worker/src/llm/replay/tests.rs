//! Reading, answering and recording, and that the two agree.

use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::json;

use super::*;
use crate::llm::{Assembler, Message, Usage};

const FILE: &str = r#"
# Written by hand: one call, then the answer.
{"replay":1,"note":"x"}

{"message":{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"tool_use","id":"c1","name":"inspect","input":{"blob_id":"${blob:1}"}}]},"usage":{"input_tokens":1,"output_tokens":2,"cached_tokens":0,"reasoning_tokens":0}}
# done
{"message":{"role":"assistant","content":[{"type":"text","text":"The long 日本 text of ${blob:1} comes in several pieces."}]},"stop_reason":"length"}
"#;

fn request() -> ChatRequest {
    let messages = vec![Message::tool_result("c0", "[blob:k7qm] text | 3 lines")];
    ChatRequest {
        messages,
        ..ChatRequest::default()
    }
}

#[tokio::test]
async fn answers_come_in_order_as_events() {
    let provider: ReplayProvider = FILE.parse().unwrap();
    let first = provider.chat(&request()).await.unwrap();
    assert_eq!(first.stop_reason, Some(StopReason::ToolUse));
    assert_eq!(first.usage.output_tokens, 2);
    assert!(
        matches!(&first.message.content[1], ContentBlock::ToolUse { input, .. } if *input == json!({"blob_id": "k7qm"}))
    );
    assert_eq!(provider.remaining(), 1);

    let events: Vec<_> = provider.stream(&request()).await.unwrap().collect().await;
    let deltas = events
        .iter()
        .filter(|event| matches!(event, Ok(StreamEvent::BlockDelta { .. })));
    assert!(deltas.count() > 3);
    let mut answer = Assembler::new();
    events
        .into_iter()
        .for_each(|event| answer.apply(&event.unwrap()).unwrap());
    let second = answer.finish().unwrap();
    assert_eq!(
        second.text(),
        "The long 日本 text of k7qm comes in several pieces."
    );
    assert_eq!(second.stop_reason, Some(StopReason::Length));

    let error = provider.chat(&request()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "replay file (text) ended: it has 2 answers and one more was asked for"
    );
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn unknown_placeholders_name_file_and_line() {
    let provider: ReplayProvider = FILE.parse().unwrap();
    let error = provider.chat(&ChatRequest::default()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("replay file (text), line 5: placeholder ${blob:1} stands for nothing"),
        "{text}"
    );
}

#[test]
fn wrong_files_are_named_by_line() {
    let cases = [
        ("", "line 1: it is empty"),
        ("# x\n{\"message\":{}}", "line 2: the first line must be"),
        ("nonsense", "line 1: the first line must be"),
        ("{\"replay\":2}", "line 1: version 2"),
        ("{\"replay\":1}\n\n{\"message\":", "line 3: EOF"),
        (
            "{\"replay\":1}\n{\"message\":{\"role\":\"user\",\"content\":[]}}",
            "line 2: the role",
        ),
        (
            "{\"replay\":1}\n{\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"image_url\",\"url\":\"x\"}]}}",
            "line 2: an answer holds only",
        ),
    ];
    for (text, expected) in cases {
        let error = text.parse::<ReplayProvider>().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = ReplayProvider::open("/nonexistent/replay").unwrap_err();
    assert!(
        matches!(&error, LlmError::ReplayFile { .. })
            && error.to_string().contains("/nonexistent/replay")
    );
}

#[tokio::test]
async fn what_is_recorded_replays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let recorder =
        RecordingProvider::create(FILE.parse::<ReplayProvider>().unwrap(), &path).unwrap();
    let first = recorder.chat(&request()).await.unwrap();
    let second = recorder.chat(&request()).await.unwrap();
    // An answer nobody heard to its end, and one that failed, leave no line.
    assert!(recorder.chat(&request()).await.is_err());
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(
        text.contains("${blob:1}") && !text.contains("k7qm"),
        "{text}"
    );

    let replay = ReplayProvider::open(&path).unwrap();
    assert_eq!(replay.chat(&request()).await.unwrap(), first);
    assert_eq!(replay.chat(&request()).await.unwrap(), second);
}

#[tokio::test]
async fn half_heard_answers_are_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let recorder =
        RecordingProvider::create(FILE.parse::<ReplayProvider>().unwrap(), &path).unwrap();
    let mut events = recorder.stream(&request()).await.unwrap();
    assert!(events.next().await.is_some());
    drop(events);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let replay = || FILE.parse::<ReplayProvider>().unwrap();
    let error = RecordingProvider::create(replay(), "/nonexistent/file").unwrap_err();
    assert!(matches!(error, LlmError::Recording { .. }));
    let full = RecordingProvider::create(replay(), "/dev/full");
    assert!(matches!(full, Err(LlmError::Recording { .. })));
}

#[tokio::test]
async fn ids_taken_by_the_conversation_are_replaced() {
    let provider: ReplayProvider = FILE.parse().unwrap();
    let mut request = request();
    request.messages.push(Message {
        role: Role::Assistant,
        content: vec![ContentBlock::ToolUse {
            id: "c1".into(),
            name: "t".into(),
            input: json!({}),
        }],
    });
    let answer = provider.chat(&request).await.unwrap();
    assert!(matches!(&answer.message.content[1], ContentBlock::ToolUse { id, .. } if id != "c1"));
}

#[test]
fn arguments_that_are_no_object_survive() {
    let answer = ChatResponse {
        message: Message {
            role: Role::Assistant,
            content: vec![ContentBlock::ToolUse {
                id: "a".into(),
                name: "t".into(),
                input: json!("{\"n\":"),
            }],
        },
        usage: Usage::default(),
        stop_reason: Some(StopReason::Length),
    };
    let mut assembler = Assembler::new();
    let ids = CallIds::of(&ChatRequest::default());
    events(answer.clone(), ids)
        .iter()
        .for_each(|event| assembler.apply(event).unwrap());
    assert_eq!(assembler.finish().unwrap(), answer);
    let _: Arc<dyn LlmProvider> = Arc::new(FILE.parse::<ReplayProvider>().unwrap());
}
