//! The quirks of servers, one row each.

use serde_json::json;

use super::*;
use crate::llm::{Assembler, ChatRequest, ChatResponse, ContentBlock};

fn decoder() -> Decoder {
    Decoder::new(
        CallIds::of(&ChatRequest::default()),
        Redaction::default(),
        1 << 20,
    )
}

/// Runs the data of events through the decoder. `[DONE]` is an event like others; the end of the list is the end of
/// the body.
fn read(events: &[&str]) -> Result<ChatResponse, LlmError> {
    let mut decoder = decoder();
    let mut answer = Assembler::new();
    let mut done = false;
    for data in events {
        done = decoder.feed(None, data)? == Progress::Done;
        while let Some(event) = decoder.next() {
            answer.apply(&event)?;
        }
    }
    if !done {
        decoder.end_of_body()?;
    }
    for event in decoder.drain() {
        answer.apply(&event)?;
    }
    answer.finish()
}

fn delta(delta: &Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta}]}).to_string()
}

fn finish(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

/// Text, then calls as `name:arguments`, then why it stopped.
fn shown(response: &ChatResponse) -> String {
    let blocks = response.message.content.iter().map(|block| match block {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::Reasoning { text } => format!("({text})"),
        ContentBlock::ToolUse { name, input, .. } => format!("{name}:{input}"),
        other => format!("{other:?}"),
    });
    let blocks: Vec<_> = blocks.collect();
    format!(
        "{} {:?}",
        blocks.join(" "),
        response.stop_reason.as_ref().unwrap()
    )
}

fn check(what: &str, events: &[String], expected: &str) {
    let events: Vec<_> = events.iter().map(String::as_str).collect();
    let response = read(&events).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(shown(&response), expected, "{what}");
}

fn call(index: Option<u32>, id: Option<&str>, name: &str, arguments: &str) -> Value {
    let mut call = json!({"type": "function", "function": {"name": name, "arguments": arguments}});
    if let Some(index) = index {
        call["index"] = index.into();
    }
    if let Some(id) = id {
        call["id"] = id.into();
    }
    call
}

/// Faults LM12 and LM15: three parallel calls in all the ways seen in the wild.
#[test]
fn lm12_lm15_three_parallel_calls() {
    let calls =
        |index: fn(u32) -> Option<u32>, id: fn(u32) -> Option<&'static str>| -> Vec<Value> {
            (0..3)
                .map(|n| call(index(n), id(n), "bash", &format!("{{\"n\":{n}}}")))
                .collect()
        };
    let ids: fn(u32) -> Option<&'static str> = |n| Some(["a", "b", "c"][n as usize]);
    let rows: Vec<(&str, Vec<Value>)> = vec![
        ("by the book", calls(Some, ids)),
        ("no index", calls(|_| None, ids)),
        ("all index 0", calls(|_| Some(0), ids)),
        ("no id", calls(Some, |_| None)),
        ("empty ids", calls(Some, |_| Some(""))),
        ("one id", calls(Some, |_| Some("same"))),
        ("no id, no index", calls(|_| None, |_| None)),
    ];
    let expected = r#"I look. bash:{"n":0} bash:{"n":1} bash:{"n":2} ToolUse"#;
    let done = "[DONE]".to_owned();
    for (what, calls) in rows {
        let text = delta(&json!({"role": "assistant", "content": "I look."}));
        let single: Vec<_> = calls
            .iter()
            .map(|call| delta(&json!({"tool_calls": [call]})))
            .collect();
        let together = delta(&json!({"tool_calls": calls}));
        let mut with_finish: Value = serde_json::from_str(&together).unwrap();
        with_finish["choices"][0]["finish_reason"] = json!("tool_calls");
        let one_each = [
            vec![text.clone()],
            single.clone(),
            vec![finish("tool_calls"), done.clone()],
        ]
        .concat();
        check(what, &one_each, expected);
        check(
            what,
            &[text.clone(), together.clone(), finish("stop"), done.clone()],
            expected,
        );
        check(
            what,
            &[text.clone(), together, finish("tool_calls")],
            expected,
        );
        check(what, &[text.clone(), with_finish.to_string()], expected);
        let behind = [vec![text, finish("tool_calls")], single, vec![done.clone()]].concat();
        check(what, &behind, expected);
    }
}

#[test]
fn lm12_ids_are_unique_and_blocks_have_their_own_numbers() {
    let mut decoder = decoder();
    let calls: Vec<_> = (0..3)
        .map(|_| call(None, Some("same"), "t", "{}"))
        .collect();
    decoder
        .feed(None, &delta(&json!({"content": "x", "tool_calls": calls})))
        .unwrap();
    decoder.feed(None, "[DONE]").unwrap();
    let starts = decoder.drain().filter_map(|event| match event {
        StreamEvent::BlockStart { block, id, .. } => Some((block, id)),
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    let blocks: Vec<_> = starts.iter().map(|(block, _)| *block).collect();
    assert_eq!(blocks, [0, 1, 2, 3]);
    assert_eq!(starts[1].1.as_deref(), Some("same"));
    assert!(starts[2].1 != starts[1].1 && starts[2].1 != starts[3].1);
}

#[test]
fn lm15_the_end_of_an_answer() {
    let hi = delta(&json!({"content": "hi"}));
    let done = "[DONE]".to_owned();
    let rows: [(&str, Vec<String>, &str); 12] = [
        (
            "plain",
            vec![hi.clone(), finish("stop"), done.clone()],
            "hi Stop",
        ),
        ("no done", vec![hi.clone(), finish("stop")], "hi Stop"),
        ("no reason", vec![hi.clone(), done.clone()], "hi Stop"),
        (
            "tool_calls without calls",
            vec![hi.clone(), finish("tool_calls"), done.clone()],
            "hi Stop",
        ),
        ("length", vec![hi.clone(), finish("length")], "hi Length"),
        (
            "model_length",
            vec![hi.clone(), finish("model_length")],
            "hi MaxTokens",
        ),
        (
            "filter",
            vec![hi.clone(), finish("content_filter")],
            "hi ContentFilter",
        ),
        ("end_turn", vec![hi.clone(), finish("end_turn")], "hi Stop"),
        (
            "unknown",
            vec![hi.clone(), finish("load")],
            "hi Other(\"load\")",
        ),
        ("empty answer", vec![finish("stop"), done.clone()], " Stop"),
        (
            "cut call",
            vec![
                delta(&json!({"tool_calls": [call(Some(0), Some("a"), "t", "{\"n\":")]})),
                finish("length"),
            ],
            "t:\"{\\\"n\\\":\" Length",
        ),
        (
            "call without arguments",
            vec![
                delta(&json!({"tool_calls": [call(Some(0), Some("a"), "t", "")]})),
                finish("stop"),
            ],
            "t:{} ToolUse",
        ),
    ];
    for (what, events, expected) in rows {
        check(what, &events, expected);
    }
    for events in [
        &[hi.as_str()] as &[&str],
        &[],
        &["[DONE]"],
        &["", "{\"choices\":[]}"],
    ] {
        assert!(
            matches!(read(events), Err(LlmError::Truncated)),
            "{events:?}"
        );
    }
}

#[test]
fn lm16_text_and_reasoning_in_all_their_fields() {
    let rows: [(&str, Vec<Value>, &str); 9] = [
        (
            "nulls",
            vec![
                json!({"role": null, "content": null, "tool_calls": null, "reasoning": null}),
                json!({"content": "a"}),
            ],
            "a Stop",
        ),
        (
            "reasoning_content",
            vec![
                json!({"reasoning_content": "h"}),
                json!({"reasoning_content": "m"}),
                json!({"content": "a"}),
            ],
            "(hm) a Stop",
        ),
        (
            "reasoning",
            vec![
                json!({"reasoning": "hm", "content": ""}),
                json!({"content": "a"}),
            ],
            "(hm) a Stop",
        ),
        (
            "both say the same",
            vec![json!({"reasoning": "hm", "reasoning_content": "hm", "content": "a"})],
            "(hm) a Stop",
        ),
        (
            "details",
            vec![
                json!({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
                json!({"content": "a"}),
            ],
            "(hm) a Stop",
        ),
        (
            "typed parts",
            vec![
                json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]}),
            ],
            "(hm) a Stop",
        ),
        ("refusal", vec![json!({"refusal": "no"})], "no Stop"),
        (
            "text after a call",
            vec![
                json!({"tool_calls": [call(Some(0), Some("x"), "t", "{}")]}),
                json!({"content": "a"}),
            ],
            "t:{} a ToolUse",
        ),
        (
            "older form of a call",
            vec![
                json!({"function_call": {"name": "t", "arguments": "{\"a\""}}),
                json!({"function_call": {"arguments": ":1}"}}),
            ],
            "t:{\"a\":1} ToolUse",
        ),
    ];
    for (what, deltas, expected) in rows {
        let events: Vec<_> = deltas.iter().map(delta).chain([finish("stop")]).collect();
        check(what, &events, expected);
    }
    check(
        "message in place of delta",
        &[
            json!({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]})
                .to_string(),
        ],
        "a Stop",
    );
    check(
        "another choice",
        &[
            json!({"choices": [{"index": 1, "delta": {"content": "no"}}]}).to_string(),
            delta(&json!({"content": "a"})),
            finish("stop"),
        ],
        "a Stop",
    );
}

#[test]
fn half_characters_are_joined_over_deltas() {
    let text = |half: &str| format!(r#"{{"choices":[{{"delta":{{"content":"{half}"}}}}]}}"#);
    check(
        "joined",
        &[text(r"a \ud83d"), text(r"\ude42 b"), finish("stop")],
        "a 🙂 b Stop",
    );
    check(
        "alone at the end",
        &[text(r"a \ud83d"), finish("stop")],
        "a \u{FFFD} Stop",
    );
    let fragment = |half: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"t","arguments":"{half}"}}}}]}}}}]}}"#
        )
    };
    check(
        "in arguments",
        &[
            fragment(r#"{\"a\":\"\ud83d"#),
            fragment(r#"\ude42\"}"#),
            finish("stop"),
        ],
        "t:{\"a\":\"🙂\"} ToolUse",
    );
}

#[test]
fn lm17_usage_is_the_last_and_saturates() {
    let usage = |usage: Value| json!({"choices": [], "usage": usage}).to_string();
    let rows = [
        (
            vec![
                usage(json!({"prompt_tokens": 1, "completion_tokens": 2})),
                usage(json!({"prompt_tokens": 5, "completion_tokens": 6})),
            ],
            [5, 6, 0, 0],
        ),
        (
            vec![usage(
                json!({"prompt_tokens": -1, "completion_tokens": 1e40, "prompt_tokens_details": null}),
            )],
            [0, u64::MAX, 0, 0],
        ),
        (
            vec![usage(
                json!({"prompt_tokens": u64::MAX, "prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 4}}),
            )],
            [u64::MAX, 0, 3, 4],
        ),
        (
            vec![json!({"choices": [], "x_groq": {"usage": {"prompt_tokens": 9}}}).to_string()],
            [9, 0, 0, 0],
        ),
        (
            vec![json!({"choices": [], "usage": null}).to_string()],
            [0; 4],
        ),
    ];
    for (chunks, expected) in rows {
        let events: Vec<_> = [finish("stop")]
            .into_iter()
            .chain(chunks)
            .chain(["[DONE]".to_owned()])
            .collect();
        let events: Vec<_> = events.iter().map(String::as_str).collect();
        let usage = read(&events).unwrap().usage;
        assert_eq!(
            [
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_tokens,
                usage.reasoning_tokens
            ],
            expected
        );
    }
}

#[test]
fn lm09_errors_inside_an_answer() {
    let hi = delta(&json!({"content": "hi"}));
    let error = read(&[
        &hi,
        r#"{"error":{"type":"overloaded_error","message":"busy"}}"#,
    ])
    .unwrap_err();
    assert!(matches!(error, LlmError::Overloaded { .. }), "{error}");
    let mut named = decoder();
    let error = named.feed(Some("error"), "backend died").unwrap_err();
    assert!(
        matches!(&error, LlmError::Request { status: 500, body, .. } if body == "backend died"),
        "{error}"
    );
    assert!(matches!(
        read(&["{\"choices\":[{"]),
        Err(LlmError::Truncated)
    ));
    assert!(matches!(read(&["nonsense"]), Err(LlmError::Stream { .. })));
    assert!(read(&[&hi, r#"{"error":null,"choices":[]}"#, &finish("stop")]).is_ok());
}

#[test]
fn lm18_the_whole_answer_is_limited() {
    let mut decoder = Decoder::new(
        CallIds::of(&ChatRequest::default()),
        Redaction::default(),
        10,
    );
    decoder
        .feed(None, &delta(&json!({"content": "123456"})))
        .unwrap();
    let error = decoder
        .feed(
            None,
            &delta(&json!({"tool_calls": [call(None, None, "t", "12345")]})),
        )
        .unwrap_err();
    assert!(
        matches!(error, LlmError::TooLarge { limit: 10, .. }),
        "{error}"
    );
}

#[test]
fn answers_that_are_not_streamed_are_read() {
    let whole = json!({
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "x", "tool_calls": [call(None, Some("a"), "t", "{}")]}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    });
    let read = |text: &str| {
        let mut decoder = decoder();
        decoder.feed_whole(text)?;
        let mut answer = Assembler::new();
        for event in decoder.drain() {
            answer.apply(&event)?;
        }
        answer.finish()
    };
    let response = read(&whole.to_string()).unwrap();
    assert_eq!(shown(&response), "x t:{} ToolUse");
    assert_eq!(response.usage.input_tokens, 3);
    assert!(matches!(read("{\"choices\":[{"), Err(LlmError::Truncated)));
    assert!(matches!(
        read("{\"ok\":true}"),
        Err(LlmError::Stream { .. })
    ));
    assert!(matches!(
        read("{\"error\":\"no\"}"),
        Err(LlmError::Request { .. })
    ));
}
