//! The call path: what a caller gets for every way a call can go.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use protocol::ExecutionContext;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{Barrier, Notify};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    FsBlobStore, TOOL_OUTPUT_MAX_BYTES, ToolError, ToolExecutionContext, ToolOutput,
    blob::BlobError, blob::BlobFacts, blob::StoreOptions, output::Content, tool,
};

/// Tools that behave badly, or tell what they were given.
#[derive(Clone)]
struct Probe {
    seen: Arc<Mutex<Vec<ExecutionContext>>>,
    together: Arc<Barrier>,
    started: Arc<Notify>,
    stopped: Arc<Notify>,
}

impl Probe {
    fn new(parallel: usize) -> Self {
        Self {
            seen: Arc::default(),
            together: Arc::new(Barrier::new(parallel)),
            started: Arc::default(),
            stopped: Arc::default(),
        }
    }
}

#[derive(Serialize)]
struct User {
    id: u32,
    name: String,
}

impl Probe {
    /// Repeats a text.
    #[tool(read_only)]
    async fn repeat(
        &self,
        #[description = "What"] text: String,
        times: usize,
    ) -> Result<String, String> {
        Ok(text.repeat(times))
    }

    /// Finds a user.
    ///
    /// Second line.
    #[tool(name = "get-user", idempotent)]
    async fn get_user(
        &self,
        #[description = "Who"] user_id: u32,
    ) -> Result<User, std::num::ParseIntError> {
        let _: u32 = if user_id == 0 { "none".parse()? } else { 1 };
        Ok(User {
            id: user_id,
            name: "é".repeat(user_id as usize),
        })
    }

    /// Waits until all calls of the batch are here.
    #[tool]
    async fn meet(&self, context: ToolExecutionContext) -> Result<String, String> {
        self.seen.lock().unwrap().push(context.identity().clone());
        self.together.wait().await;
        Ok(context.call_index().to_string())
    }

    /// Greets.
    #[tool]
    async fn greet(&self, name: Option<String>) -> Result<String, String> {
        Ok(name.unwrap_or_else(|| "nobody".into()))
    }

    /// Panics.
    #[tool]
    async fn explode(&self) -> Result<String, String> {
        panic!("secret host detail");
    }

    /// Runs until it is told to stop.
    #[tool]
    async fn linger(&self, context: ToolExecutionContext) -> Result<String, String> {
        self.started.notify_one();
        context.cancellation().cancelled().await;
        self.stopped.notify_one();
        Ok("cleaned up".into())
    }

    /// Never ends and never listens.
    #[tool]
    async fn hang(&self) -> Result<String, String> {
        self.started.notify_one();
        std::future::pending().await
    }

    /// Fails at length.
    #[tool]
    async fn rant(&self) -> Result<String, String> {
        Err("no ".repeat(50_000))
    }

    /// Stores a result behind a summary that is none.
    #[tool]
    async fn ramble(&self) -> Result<ToolOutput, ToolError> {
        let content = Content::Text("x".repeat(50_000));
        Ok(ToolOutput::Stored {
            summary: "x".repeat(50_000),
            content,
        })
    }

    /// Calls a large result small.
    #[tool]
    async fn boast(&self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::Inline("x".repeat(20_000)))
    }
}

fn register_all(server: &ToolServer, probe: &Probe) {
    server.register(probe.repeat_tool()).unwrap();
    server.register(probe.get_user_tool()).unwrap();
    server.register(probe.greet_tool()).unwrap();
    server.register(probe.meet_tool()).unwrap();
    server.register(probe.explode_tool()).unwrap();
    server.register(probe.linger_tool()).unwrap();
    server.register(probe.hang_tool()).unwrap();
    server.register(probe.boast_tool()).unwrap();
    server.register(probe.rant_tool()).unwrap();
    server.register(probe.ramble_tool()).unwrap();
}

fn server(probe: &Probe) -> ToolServer {
    let server = ToolServer::new();
    register_all(&server, probe);
    server
}

fn storing() -> (tempfile::TempDir, ToolServer) {
    let directory = tempfile::tempdir().unwrap();
    let store = FsBlobStore::open(directory.path().join("blobs")).unwrap();
    let server = ToolServer::with_store(Arc::new(store), ServerOptions::default());
    register_all(&server, &Probe::new(1));
    (directory, server)
}

async fn call(server: &ToolServer, name: &str, input: &str) -> Result<ToolReply, ToolError> {
    server
        .call_tool(name, input, ToolExecutionContext::detached())
        .await
}

#[test]
fn the_macro_describes_the_tool() {
    let tools = server(&Probe::new(1)).tools();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "boast", "explode", "get-user", "greet", "hang", "linger", "meet", "ramble", "rant",
            "repeat"
        ]
    );
    let user = &tools[2];
    assert_eq!(user.description, "Finds a user.\n\nSecond line.");
    assert_eq!(
        user.input_schema,
        json!({
            "type": "object",
            "properties": {
                "user_id": {"description": "Who", "type": "integer", "format": "uint32", "minimum": 0}
            },
            "additionalProperties": false,
            "required": ["user_id"]
        })
    );
    assert!(
        user.annotations.idempotent && user.annotations.destructive && !user.annotations.read_only
    );
    let repeat = &tools[9].annotations;
    assert!(repeat.read_only && repeat.idempotent && !repeat.destructive);
    assert_eq!(tools[6].input_schema["properties"], json!({}));
    assert_eq!(
        tools[3].input_schema["properties"]["name"],
        json!({"type": "string"})
    );
}

#[tokio::test]
async fn values_become_text_and_errors_are_told() {
    let server = server(&Probe::new(1));
    assert_eq!(
        call(&server, "repeat", r#"{"text": "ab", "times": 2}"#)
            .await
            .unwrap()
            .text,
        "abab"
    );
    let user = call(&server, "get-user", r#"{"user_id": 1}"#)
        .await
        .unwrap();
    assert_eq!(user.text, r#"{"id":1,"name":"é"}"#);
    let error = call(&server, "get-user", r#"{"user_id": 0}"#)
        .await
        .unwrap_err();
    assert_eq!(error.for_caller(), "invalid digit found in string");
}

#[tokio::test]
async fn wrong_arguments_are_answered_with_what_is_accepted() {
    let server = server(&Probe::new(1));
    let cases = [
        ("{", "the arguments are no JSON"),
        ("[]", "accepted arguments: text, times"),
        ("null", "is not of type \"object\""),
        ("", "\"text\" is a required property"),
        (
            r#"{"text": 5, "times": 1}"#,
            "/text: 5 is not of type \"string\"",
        ),
        (
            r#"{"text": "a", "times": -1}"#,
            "/times: -1 is less than the minimum of 0",
        ),
        (
            r#"{"text": "a", "times": 1, "tmes": 1}"#,
            "'tmes' was unexpected",
        ),
        (r#""{\"text\": \"a\"}""#, "is not of type \"object\""),
    ];
    for (input, expected) in cases {
        let error = call(&server, "repeat", input).await.unwrap_err();
        assert!(matches!(error, ToolError::InvalidArgument(_)), "{input}");
        assert!(
            error.for_caller().contains(expected),
            "{input}: {}",
            error.for_caller()
        );
    }
    let long = format!(r#"{{"text": [{}1], "times": 1}}"#, "1,".repeat(50_000));
    assert!(
        call(&server, "repeat", &long)
            .await
            .unwrap_err()
            .for_caller()
            .len()
            < 1000
    );
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(
        call(&server, "repeat", &deep)
            .await
            .unwrap_err()
            .for_caller()
            .contains("no JSON")
    );
    let error = call(&server, "explode", r#"{"a": 1}"#).await.unwrap_err();
    assert!(
        error.for_caller().contains("takes no arguments"),
        "{}",
        error.for_caller()
    );
}

#[tokio::test]
async fn an_optional_argument_may_be_null() {
    let server = server(&Probe::new(1));
    for input in ["{}", r#"{"name": null}"#] {
        assert_eq!(call(&server, "greet", input).await.unwrap().text, "nobody");
    }
    let error = call(&server, "repeat", r#"{"text": null, "times": 1}"#)
        .await
        .unwrap_err();
    assert!(
        error.for_caller().contains("/text: null is not of type"),
        "{}",
        error.for_caller()
    );
    let error = call(&server, "greet", r#"{"nam": null}"#)
        .await
        .unwrap_err();
    assert!(
        error.for_caller().contains("'nam' was unexpected"),
        "{}",
        error.for_caller()
    );
}

#[tokio::test]
async fn lm11_unknown_tools_are_answered_with_near_names() {
    let server = server(&Probe::new(1));
    let told = |error: ToolError| error.for_caller();
    assert_eq!(
        told(call(&server, "Repeat", "{}").await.unwrap_err()),
        "there is no tool \"Repeat\"; did you mean repeat?"
    );
    assert!(
        told(call(&server, "get_user", "{}").await.unwrap_err()).contains("did you mean get-user")
    );
    assert!(told(call(&server, "", "{}").await.unwrap_err()).contains("list the tools"));
    assert!(told(call(&server, &"🙂".repeat(500), "{}").await.unwrap_err()).len() < 500);
}

#[tokio::test]
async fn calls_of_a_batch_run_at_the_same_time_with_their_context() {
    let probe = Probe::new(16);
    let server = server(&probe);
    let batch: protocol::BatchId = uuid::Uuid::now_v7().into();
    // The barrier opens only when all sixteen calls are inside the tool at once.
    let calls = (0..16).map(|index| {
        let identity = ExecutionContext {
            call_id: protocol::CallId::new(format!("call_{index}")).unwrap(),
            batch_id: batch.clone(),
            call_index: index,
        };
        let context = ToolExecutionContext::new(identity, CancellationToken::new());
        let server = server.clone();
        tokio::spawn(async move { server.call_tool("meet", "{}", context).await.unwrap().text })
    });
    let calls: Vec<_> = calls.collect();
    for (index, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), index.to_string());
    }
    let seen = probe.seen.lock().unwrap();
    assert!(seen.iter().all(|context| context.batch_id == batch));
    let indexes: HashSet<u32> = seen.iter().map(|context| context.call_index).collect();
    assert_eq!(indexes.len(), 16);
}

#[tokio::test]
async fn wk10_a_panic_costs_only_its_call() {
    let server = server(&Probe::new(1));
    let error = call(&server, "explode", "{}").await.unwrap_err();
    assert!(matches!(&error, ToolError::Panicked { message } if message == "secret host detail"));
    assert!(!error.for_caller().contains("secret"));
    assert_eq!(
        call(&server, "repeat", r#"{"text": "a", "times": 1}"#)
            .await
            .unwrap()
            .text,
        "a"
    );
}

#[tokio::test(start_paused = true)]
async fn the_deadline_stops_a_tool_that_never_ends() {
    let server = server(&Probe::new(1));
    let error = call(&server, "hang", "{}").await.unwrap_err();
    assert!(matches!(error, ToolError::Timeout { after } if after == Duration::from_secs(300)));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_may_clean_up() {
    let probe = Probe::new(1);
    let server = server(&probe);
    for (name, result) in [("linger", Some("cleaned up")), ("hang", None)] {
        let context = ToolExecutionContext::detached();
        let token = context.cancellation().clone();
        let running = tokio::spawn({
            let server = server.clone();
            async move { server.call_tool(name, "{}", context).await }
        });
        probe.started.notified().await;
        token.cancel();
        match (running.await.unwrap(), result) {
            (Ok(reply), Some(text)) => assert_eq!(reply.text, text),
            (Err(ToolError::Cancelled), None) => {}
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
    probe.stopped.notified().await;
}

#[tokio::test]
async fn a_dropped_call_is_cancelled() {
    let probe = Probe::new(1);
    let server = server(&probe);
    let running = tokio::spawn(async move { call(&server, "linger", "{}").await });
    probe.started.notified().await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_what_runs_and_takes_no_more() {
    let probe = Probe::new(1);
    let server = server(&probe);
    let running = tokio::spawn({
        let server = server.clone();
        async move { call(&server, "linger", "{}").await }
    });
    probe.started.notified().await;
    server.shut_down().await;
    assert_eq!(running.await.unwrap().unwrap().text, "cleaned up");
    assert!(matches!(
        call(&server, "hang", "{}").await,
        Err(ToolError::Cancelled)
    ));
}

#[tokio::test]
async fn large_results_are_stored_and_inspected() {
    let (_directory, server) = storing();
    let reply = call(&server, "repeat", r#"{"text": "a line\n", "times": 1000}"#)
        .await
        .unwrap();
    let blob = reply.blob.unwrap();
    assert!(
        reply.text.starts_with(&format!(
            "[blob:{}] text | 1000 lines\n── head ──\na line\n",
            blob.name
        )),
        "{}",
        reply.text
    );
    assert!(reply.text.len() <= 400);
    assert_eq!(
        (blob.bytes, blob.lines, blob.shown),
        (7000, Some(1000), reply.text.len() as u64)
    );
    for id in [blob.name.to_string(), blob.id.to_string()] {
        let input = json!({"blob_id": id, "selector": "lines:999-1000"}).to_string();
        assert_eq!(
            call(&server, "inspect", &input).await.unwrap().text,
            "a line\na line\n[lines 999-1000 of 1000]"
        );
    }
    let user = call(&server, "get-user", r#"{"user_id": 900}"#)
        .await
        .unwrap();
    assert!(
        user.text
            .contains("] json_object | 2 keys\n── keys ──\nid: number\nname: string, 1800 bytes"),
        "{}",
        user.text
    );
}

#[tokio::test]
async fn inspect_replies_are_never_stored() {
    let (_directory, server) = storing();
    let reply = call(
        &server,
        "repeat",
        r#"{"text": "0123456789\n", "times": 10000}"#,
    )
    .await
    .unwrap();
    let name = reply.blob.unwrap().name;
    let reply = call(
        &server,
        "inspect",
        &json!({"blob_id": name, "selector": "lines:1-"}).to_string(),
    )
    .await
    .unwrap();
    assert!(reply.blob.is_none() && reply.text.len() > 15_000 && reply.text.len() <= 16 * 1024);
    assert_eq!(server.store().unwrap().list().await.unwrap().len(), 1);
    for (id, message) in [
        ("zzzz", "there is no blob zzzz in this store"),
        ("../x", "is no blob id"),
    ] {
        let error = call(&server, "inspect", &json!({"blob_id": id}).to_string())
            .await
            .unwrap_err();
        assert!(
            error.for_caller().contains(message),
            "{}",
            error.for_caller()
        );
    }
}

#[tokio::test]
async fn a_tool_cannot_flood_the_context() {
    let (_directory, server) = storing();
    let reply = call(&server, "boast", "{}").await.unwrap();
    assert!(reply.text.len() <= 400 && reply.blob.unwrap().bytes == 20_000);
    let reply = call(&server, "ramble", "{}").await.unwrap();
    assert!(reply.text.len() <= TOOL_OUTPUT_MAX_BYTES && reply.blob.unwrap().bytes == 50_000);
    assert!(
        call(&server, "rant", "{}")
            .await
            .unwrap_err()
            .for_caller()
            .len()
            <= TOOL_OUTPUT_MAX_BYTES
    );
}

#[tokio::test]
async fn without_a_store_everything_is_shown_and_nothing_is_inspected() {
    let server = server(&Probe::new(1));
    let reply = call(&server, "repeat", r#"{"text": "x", "times": 50000}"#)
        .await
        .unwrap();
    assert_eq!((reply.text.len(), reply.blob), (50_000, None));
    assert!(matches!(
        call(&server, "inspect", "{}").await,
        Err(ToolError::UnknownTool { .. })
    ));
}

/// A store whose disk is full.
#[derive(Debug)]
struct FullStore;

#[async_trait::async_trait]
impl BlobStore for FullStore {
    async fn store(&self, _: &Content, _: StoreOptions) -> Result<BlobFacts, BlobError> {
        Err(BlobError::Write {
            source: std::io::Error::from(std::io::ErrorKind::StorageFull),
        })
    }
    async fn load(&self, _: protocol::BlobId) -> Result<Content, BlobError> {
        unreachable!("nothing was stored")
    }
    async fn load_range(
        &self,
        _: protocol::BlobId,
        _: std::ops::Range<u64>,
    ) -> Result<Vec<u8>, BlobError> {
        unreachable!("nothing was stored")
    }
    async fn facts(&self, _: protocol::BlobId) -> Result<BlobFacts, BlobError> {
        unreachable!("nothing was stored")
    }
    async fn find(&self, _: &protocol::BlobName) -> Result<protocol::BlobId, BlobError> {
        unreachable!("nothing was stored")
    }
    async fn list(&self) -> Result<Vec<BlobFacts>, BlobError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn bl09_a_full_disk_loses_no_more_than_it_says() {
    let server = ToolServer::with_store(Arc::new(FullStore), ServerOptions::default());
    register_all(&server, &Probe::new(1));
    let reply = call(&server, "repeat", r#"{"text": "x", "times": 5000}"#)
        .await
        .unwrap();
    assert_eq!((reply.text.len(), reply.blob), (5000, None));
    let reply = call(&server, "repeat", r#"{"text": "x", "times": 50000}"#)
        .await
        .unwrap();
    assert!(reply.text.len() <= 16 * 1024);
    assert!(
        reply.text.contains(
            "50000 bytes in all; the middle is lost, because writing to the blob store failed"
        ),
        "{}",
        &reply.text[7900..8200]
    );
}

#[test]
fn tools_that_cannot_be_called_are_refused() {
    struct Named(&'static str, Value);
    #[async_trait::async_trait]
    impl Tool for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> Value {
            self.1.clone()
        }
        async fn execute(&self, _: &str, _: ToolExecutionContext) -> Result<ToolOutput, ToolError> {
            Ok("".into())
        }
    }
    let server = ToolServer::new();
    let object = json!({"type": "object"});
    server.register(Named("fine", object.clone())).unwrap();
    assert!(matches!(
        server.register(Named("fine", object.clone())),
        Err(RegisterError::Duplicate { .. })
    ));
    for name in ["", "a b", "a/b", "é", &*"x".repeat(65).leak()] {
        assert!(matches!(
            server.register(Named(name, object.clone())),
            Err(RegisterError::InvalidName { .. })
        ));
    }
    for schema in [
        json!({}),
        json!({"type": "array"}),
        json!({"type": "object", "properties": 5}),
        json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}}),
    ] {
        let refused = server.register(Named("other", schema.clone()));
        assert!(
            matches!(refused, Err(RegisterError::InvalidSchema { .. })),
            "{schema}"
        );
    }
}
