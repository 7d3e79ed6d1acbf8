//! The LLM layer against a scripted model over real HTTP, fault by fault.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tests::model_server::{ModelServer, Reply, answer, fault};
use worker::llm::{
    AttemptBudget, ChatRequest, ChatResponse, ContentBlock, CycleConfig, CycleObserver, LlmCycle,
    LlmError, LlmProvider, Message, OpenAiConfig, OpenAiProvider, RecordingProvider,
    ReplayProvider, RetryConfig, Role, Silent, StopReason, StreamEvent, ToolDefinition,
};

const KEY: &str = "sk-test-0123456789";

fn config(server: &ModelServer) -> OpenAiConfig {
    OpenAiConfig::new(server.base_url()).with_api_key(KEY)
}

fn provider(server: &ModelServer) -> OpenAiProvider {
    OpenAiProvider::new(config(server)).expect("the settings are right")
}

/// Retries at once: what is tested here is whether, not when.
fn cycle(provider: impl LlmProvider + 'static) -> LlmCycle {
    let retry = RetryConfig {
        base_delay: Duration::ZERO,
        ..RetryConfig::default()
    };
    LlmCycle::new(
        Arc::new(provider),
        CycleConfig {
            retry,
            ..CycleConfig::default()
        },
    )
}

fn request(prompt: &str) -> ChatRequest {
    ChatRequest {
        model: "scripted".into(),
        messages: vec![Message::text(Role::User, prompt)],
        tools: vec![ToolDefinition {
            name: "read_file".into(),
            description: "Reads a file.".into(),
            input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }],
        ..ChatRequest::default()
    }
}

async fn ask(server: &ModelServer) -> Result<ChatResponse, LlmError> {
    provider(server).chat(&request("hi")).await
}

/// Plays one reply and returns what the provider makes of it.
async fn outcome(reply: Reply) -> Result<ChatResponse, LlmError> {
    let server = ModelServer::script([reply]).await;
    let outcome = ask(&server).await;
    server.assert_finished();
    outcome
}

fn calls(response: &ChatResponse) -> Vec<(&str, &str, &Value)> {
    let blocks = response
        .message
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolUse { id, name, input } => Some((id.as_str(), name.as_str(), input)),
            _ => None,
        });
    blocks.collect()
}

#[tokio::test]
async fn a_conversation_with_tools_passes_the_strict_model() {
    let server = ModelServer::script([
        answer()
            .reasoning("two files")
            .text("I look first. 🙂")
            .call("read_file", json!({"path": "a.txt"}))
            .call("read_file", json!({"path": "ü/日本.txt"})),
        answer().raw_call("odd", "read_file", "{\"path\": NaN}"),
        answer().text("Done."),
    ])
    .await;
    let provider = provider(&server);
    let mut request = request("two files");
    request.system_prompt = Some("Be brief.".into());
    request
        .messages
        .push(Message::text(Role::System, "[File: x]\ny"));
    let mut texts = Vec::new();
    loop {
        let response = provider.chat(&request).await.unwrap();
        texts.push(response.text());
        request.messages.push(response.message.clone());
        let results = calls(&response)
            .into_iter()
            .map(|(id, _, input)| Message::tool_result(id, input.to_string()));
        request.messages.extend(results);
        request.messages.push(Message::text(Role::System, "go on"));
        if !response.has_tool_calls() {
            assert_eq!(response.stop_reason, Some(StopReason::Stop));
            assert_eq!(response.usage.input_tokens, 10);
            break;
        }
        assert_eq!(response.stop_reason, Some(StopReason::ToolUse));
    }
    assert_eq!(texts, ["I look first. 🙂", "", "Done."]);
    let last = server.body(2);
    let messages = last["messages"].as_array().unwrap();
    assert_eq!(messages[4]["content"], "{\"path\":\"a.txt\"}");
    assert_eq!(messages[7]["tool_calls"][0]["function"]["arguments"], "{}");
    assert_eq!(messages[8]["content"], "\"{\\\"path\\\": NaN}\"");
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    server.assert_finished();
}

/// Fault LM01.
#[tokio::test]
async fn lm01_the_wait_of_the_endpoint_is_kept() {
    let limited = || {
        fault()
            .status(429)
            .error("rate_limit_exceeded", "slow down")
    };
    let past = "Sun, 06 Nov 1994 08:49:37 GMT";
    let server = ModelServer::script([
        limited().header("retry-after", "0"),
        limited().header("retry-after", past),
        limited()
            .header("retry-after", "60")
            .header("retry-after-ms", "1"),
        answer().text("at last"),
    ])
    .await;
    let mut budget = AttemptBudget::new(3);
    let response = cycle(provider(&server))
        .request(&request("x"), &mut budget, &mut Silent)
        .await
        .unwrap();
    assert_eq!(
        (response.text().as_str(), budget.retries_left),
        ("at last", 0)
    );
    server.assert_finished();

    let rows = [
        ("retry-after", "1e9"),
        ("retry-after", "121"),
        ("x-should-retry", "false"),
    ];
    for (name, value) in rows {
        let server = ModelServer::script([limited().header(name, value)]).await;
        let error = cycle(provider(&server))
            .submit("x", vec![])
            .await
            .unwrap_err();
        let too_long = matches!(error, LlmError::WaitTooLong { .. });
        assert_eq!(too_long, name == "retry-after", "{error}");
        server.assert_finished();
    }
}

/// Fault LM02.
#[tokio::test]
async fn lm02_failures_of_the_endpoint_are_retried_within_the_budget() {
    let page = "<html><head><title>502 Bad Gateway</title></head></html>";
    for status in [500, 502, 503, 504, 529, 408, 409] {
        let server =
            ModelServer::script([fault().status(status).body(page), answer().text("ok")]).await;
        let response = cycle(provider(&server)).submit("x", vec![]).await.unwrap();
        assert_eq!(response.text(), "ok", "{status}");
        server.assert_finished();
    }
    let server = ModelServer::script((0..4).map(|_| fault().status(503))).await;
    let error = cycle(provider(&server))
        .submit("x", vec![])
        .await
        .unwrap_err();
    assert!(matches!(error, LlmError::Overloaded { .. }), "{error}");
    server.assert_finished();
}

/// Faults LM03 and LM04.
#[tokio::test]
async fn lm03_lm04_refusals_are_not_retried_and_tell_no_key() {
    for status in [400, 401, 403, 404, 413, 422, 451, 402] {
        let body = format!(
            "{{\"error\":{{\"message\":\"bad key {KEY} {}\"}}}}",
            "x".repeat(5000)
        );
        let server = ModelServer::script([fault().status(status).body(body)]).await;
        let error = cycle(provider(&server))
            .submit("x", vec![])
            .await
            .unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains(KEY) && shown.contains("bad key [key]"),
            "{status}: {error}"
        );
        assert!(error.to_string().len() < 1200, "{status}");
        server.assert_finished();
    }
    let error = outcome(fault().status(400).error(
        "context_length_exceeded",
        "maximum context length is 8192 tokens",
    ))
    .await;
    assert!(matches!(
        error,
        Err(LlmError::ContextLength {
            limit: Some(8192),
            actual: None,
            ..
        })
    ));
    let error = outcome(fault().status(429).error("insufficient_quota", "pay"))
        .await
        .unwrap_err();
    assert!(matches!(error, LlmError::QuotaExhausted { .. }));
}

/// Fault LM05.
#[tokio::test]
async fn lm05_a_refused_connection_is_retried() {
    // Bound and dropped: nobody listens there now.
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let provider = OpenAiProvider::new(OpenAiConfig::new(format!("http://{address}/v1"))).unwrap();
    let mut budget = AttemptBudget::new(2);
    let error = cycle(provider)
        .request(&request("x"), &mut budget, &mut Silent)
        .await
        .unwrap_err();
    assert!(matches!(error, LlmError::Connection { .. }), "{error}");
    assert_eq!(budget.retries_left, 0);
}

/// Fault LM06.
#[tokio::test]
async fn lm06_a_break_anywhere_never_leaves_half_an_answer() {
    let whole = || {
        answer().text("This text has several pieces.").raw_call(
            "c",
            "read_file",
            "{\"path\":\"a\"}",
        )
    };
    let length = whole().wire_length();
    let positions: Vec<_> = (0..length).step_by(37).collect();
    let replies = positions
        .iter()
        .flat_map(|at| [whole().cut_after(*at), whole().reset_after(*at)]);
    let server = ModelServer::script(replies).await;
    let provider = provider(&server);
    let mut complete = 0;
    for at in positions.iter().flat_map(|at| [at, at]) {
        match provider.chat(&request("x")).await {
            Ok(response) => {
                complete += 1;
                assert_eq!(
                    response.text(),
                    "This text has several pieces.",
                    "cut after {at}"
                );
                assert_eq!(
                    calls(&response),
                    [("c", "read_file", &json!({"path": "a"}))]
                );
            }
            Err(error) => assert!(error.is_retryable(), "cut after {at}: {error}"),
        }
    }
    // Only behind the reason for the end may a break do no harm.
    assert!(complete < positions.len() / 2, "{complete}");
    server.assert_finished();
}

/// Fault LM06.
#[tokio::test]
async fn lm06_a_clean_end_without_an_end_marker_is_retried_and_void() {
    #[derive(Default)]
    struct Notes(Vec<String>);
    impl CycleObserver for Notes {
        fn on_event(&mut self, event: &StreamEvent) {
            if let StreamEvent::BlockDelta { delta, .. } = event {
                self.0.push(delta.clone());
            }
        }
        fn on_retry(&mut self, attempt: u32, _: Duration, error: &LlmError) {
            self.0.push(format!("{attempt}: {error}"));
        }
        fn on_voided(&mut self) {
            self.0.push("void".into());
        }
    }
    let server = ModelServer::script([
        answer().text("half").without_end(),
        answer().text("whole").without_done(),
    ])
    .await;
    let mut notes = Notes::default();
    let mut budget = AttemptBudget::new(3);
    let response = cycle(provider(&server))
        .request(&request("x"), &mut budget, &mut notes)
        .await
        .unwrap();
    assert_eq!(response.text(), "whole");
    assert_eq!(
        notes.0,
        ["half", "void", "1: the answer broke off", "whole"]
    );
    server.assert_finished();
}

/// Fault LM07.
#[tokio::test]
async fn lm07_silence_anywhere_ends_in_a_timeout() {
    let reply = || answer().text("some text");
    let body_start = fault().wire_length();
    let positions = [0, 10, body_start, body_start + 150];
    let server = ModelServer::script(positions.map(|at| reply().stall_after(at))).await;
    let config = OpenAiConfig {
        idle_timeout: Duration::from_millis(50),
        ..config(&server)
    };
    let provider = OpenAiProvider::new(config).unwrap();
    for (place, at) in positions.iter().enumerate() {
        let error = provider.chat(&request("x")).await.unwrap_err();
        assert!(
            matches!(error, LlmError::Timeout { .. }) && error.is_retryable(),
            "{at}: {error}"
        );
        server.wait_for_hangups(place + 1).await;
    }
    server.assert_finished();
    // What is complete needs no further byte.
    assert_eq!(
        outcome(reply().stall_before_end()).await.unwrap().text(),
        "some text"
    );
}

/// Fault LM08.
#[tokio::test]
async fn lm08_the_form_of_the_stream_does_not_matter() {
    let reply = || {
        answer()
            .text("é🙂 日本")
            .call("read_file", json!({"path": "🙂"}))
    };
    let bom = "\u{FEFF}";
    let forms = [
        reply().pieces_of(1),
        reply().pieces_of(3).crlf(),
        reply().prefix(bom),
        reply().prefix(bom).pieces_of(1).crlf(),
        reply().prefix(": ping\n\nevent: nothing\n\nretry: 5\n\n"),
        reply().header("content-type", "text/plain"),
        reply().not_streamed(),
        reply().not_streamed().prefix(bom).pieces_of(1),
        reply()
            .not_streamed()
            .header("content-type", "text/event-stream"),
    ];
    for form in forms {
        let response = outcome(form.clone())
            .await
            .unwrap_or_else(|error| panic!("{error}: {form:?}"));
        assert_eq!(response.text(), "é🙂 日本");
        assert_eq!(*calls(&response)[0].2, json!({"path": "🙂"}));
        assert_eq!(response.usage.output_tokens, 5);
    }
}

/// Fault LM09.
#[tokio::test]
async fn lm09_answers_that_are_none_are_told_apart() {
    let error = |reply: Reply| async { outcome(reply).await.unwrap_err() };
    let overloaded = json!({"error": {"type": "overloaded_error", "message": "busy"}}).to_string();
    let found = error(answer().body(overloaded.clone())).await;
    assert!(matches!(found, LlmError::Overloaded { .. }), "{found}");
    let found = error(answer().body(format!("data: {overloaded}\n\n"))).await;
    assert!(matches!(found, LlmError::Overloaded { .. }), "{found}");
    let found =
        error(answer().body(format!("event: error\ndata: {{\"message\":\"{KEY}\"}}\n\n"))).await;
    assert!(
        matches!(&found, LlmError::Request { status: 500, body, .. } if body == "[key]"),
        "{found}"
    );
    let found = error(answer().body("<!doctype html><title>Welcome</title>")).await;
    assert!(matches!(found, LlmError::Stream { .. }), "{found}");
    let found = error(answer().text("x").header("content-encoding", "gzip")).await;
    assert!(matches!(found, LlmError::Stream { .. }), "{found}");
    for broken in [
        "",
        " \n",
        "{\"choices\":[{\"mess",
        "data: {\"choices\":[{\n\n",
    ] {
        let found = error(answer().body(broken)).await;
        assert!(matches!(found, LlmError::Truncated), "{broken:?}: {found}");
    }
}

/// Fault LM10.
#[tokio::test]
async fn lm10_only_objects_come_as_objects() {
    let large = json!({"path": "x".repeat(1 << 20)}).to_string();
    let rows = [
        "",
        "{}",
        "null",
        "[]",
        "{\"path\":",
        "\"{}\"",
        "{\"a\":1,\"a\":2}",
        &large,
    ];
    for raw in rows {
        let call =
            json!({"index": 0, "id": "c", "function": {"name": "read_file", "arguments": raw}});
        let response = outcome(answer().delta(json!({"tool_calls": [call]})))
            .await
            .unwrap();
        let input = calls(&response)[0].2.clone();
        let expected = match raw {
            "" | "{}" => json!({}),
            raw if raw.len() > 1000 => serde_json::from_str(raw).unwrap(),
            raw => json!(raw),
        };
        assert_eq!(input, expected);
    }
}

/// Faults LM12 and LM15.
#[tokio::test]
async fn lm12_lm15_calls_count_by_content_and_have_their_own_ids() {
    let same = |name: &str| json!({"tool_calls": [{"index": 0, "id": "same", "function": {"name": name, "arguments": "{}"}}]});
    let response = outcome(answer().delta(same("a")).delta(same("b")).finish("stop"))
        .await
        .unwrap();
    assert_eq!(response.stop_reason, Some(StopReason::ToolUse));
    let found = calls(&response);
    assert_eq!((found[0].1, found[1].1), ("a", "b"));
    assert_ne!(found[0].0, found[1].0);

    let cut = outcome(
        answer()
            .raw_call("c", "read_file", "{\"path\":\"a")
            .finish("length"),
    )
    .await
    .unwrap();
    assert_eq!(cut.stop_reason, Some(StopReason::Length));
    assert_eq!(calls(&cut)[0].2, &json!("{\"path\":\"a"));
}

/// Faults LM16 and LM17.
#[tokio::test]
async fn lm16_lm17_an_empty_answer_without_usage_is_an_answer() {
    let response = outcome(answer().usage(None)).await.unwrap();
    assert_eq!(
        (response.message.content.len(), response.usage.input_tokens),
        (0, 0)
    );
}

/// Fault LM18.
#[tokio::test]
async fn lm18_an_answer_without_end_is_cut_off() {
    let server = ModelServer::script([
        answer().text(&"long ".repeat(1000)),
        answer().body(format!("data: {}", "x".repeat(5000))),
    ])
    .await;
    let config = OpenAiConfig {
        max_answer_bytes: 1000,
        max_event_bytes: 2000,
        ..config(&server)
    };
    let provider = OpenAiProvider::new(config).unwrap();
    for limit in [1000, 2000] {
        let error = provider.chat(&request("x")).await.unwrap_err();
        assert!(
            matches!(error, LlmError::TooLarge { limit: found, .. } if found == limit),
            "{error}"
        );
    }
    server.assert_finished();
}

/// Fault LM19.
#[tokio::test]
async fn lm19_the_key_does_not_follow_a_redirect() {
    let other = ModelServer::script([]).await;
    for status in [301, 302, 307, 308] {
        let target = format!("{}/chat/completions?token=secret", other.base_url());
        let error = outcome(fault().status(status).header("location", &target))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, LlmError::Redirected { host, .. } if host == "127.0.0.1"),
            "{error}"
        );
        assert!(!format!("{error:?}").contains("secret"));
    }
    assert!(other.requests().is_empty());
}

/// Fault LM21.
#[tokio::test]
async fn lm21_dropping_an_answer_closes_its_connection() {
    let reply = answer().text("a long answer that never ends");
    let head_and_some = reply.wire_length() - 200;
    let server = ModelServer::script([reply.stall_after(head_and_some)]).await;
    let mut events = provider(&server).stream(&request("x")).await.unwrap();
    assert!(events.next().await.unwrap().is_ok());
    drop(events);
    server.wait_for_hangups(1).await;
    server.assert_finished();
}

/// Fault LM22.
#[tokio::test]
async fn lm22_local_servers_get_a_token_without_a_key() {
    let server = ModelServer::script([answer().text("x")]).await;
    let provider =
        OpenAiProvider::new(OpenAiConfig::new(format!("{}/", server.base_url()))).unwrap();
    provider.chat(&request("x")).await.unwrap();
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some("Bearer unused")
    );
    server.assert_finished();
}

#[tokio::test]
async fn a_recorded_conversation_replays_with_other_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let server = ModelServer::script([
        answer().raw_call(
            "c1",
            "inspect",
            "{\"blob_id\":\"k7qm\",\"selector\":\"lines:1-2\"}",
        ),
        answer().text("It is in k7qm."),
    ])
    .await;
    let shown = |name: &str| {
        let mut request = request("x");
        let call = ContentBlock::ToolUse {
            id: "c0".into(),
            name: "run".into(),
            input: json!({}),
        };
        request.messages.push(Message {
            role: Role::Assistant,
            content: vec![call],
        });
        request.messages.push(Message::tool_result(
            "c0",
            format!("[blob:{name}] text | 9 lines"),
        ));
        request
    };
    let recorder = RecordingProvider::create(provider(&server), &path).unwrap();
    recorder.chat(&shown("k7qm")).await.unwrap();
    recorder.chat(&shown("k7qm")).await.unwrap();
    server.assert_finished();

    let replay = ReplayProvider::open(&path).unwrap();
    let first = replay.chat(&shown("abc")).await.unwrap();
    assert_eq!(
        *calls(&first)[0].2,
        json!({"blob_id": "abc", "selector": "lines:1-2"})
    );
    assert_eq!(
        replay.chat(&shown("abc")).await.unwrap().text(),
        "It is in abc."
    );
    assert!(matches!(
        replay.chat(&shown("abc")).await,
        Err(LlmError::ReplayEnded { answers: 2, .. })
    ));
}

#[tokio::test]
async fn the_scripted_model_refuses_what_is_not_in_the_script() {
    let server = ModelServer::script([answer().text("x")]).await;
    let mut wrong = request("x");
    wrong.messages.push(Message::tool_result("nobody", "x"));
    assert!(matches!(
        provider(&server).chat(&wrong).await,
        Err(LlmError::InvalidRequest {
            status: Some(400),
            ..
        })
    ));
    assert_eq!(server.take_violations().len(), 1);
    ask(&server).await.unwrap();
    assert!(ask(&server).await.is_err());
    assert_eq!(
        server.take_violations(),
        ["one request more than the script has replies"]
    );
    server.assert_finished();
}
