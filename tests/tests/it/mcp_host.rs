//! The worker's end and the tool server's end of MCP, joined by a pipe in memory: what a call carries across.

use std::sync::{Arc, Mutex};

use protocol::{BatchId, CallId, ExecutionContext};
use serde_json::json;
use tokio::sync::{Barrier, Notify};
use tokio_util::sync::CancellationToken;
use toolserver::{
    FsBlobStore, Progress, ServerOptions, ToolExecutionContext, ToolServer,
    mcp::{McpService, serve},
    tool,
};
use worker::tools::{HostCall, HostError, HostReply, McpHost, ToolHost};

#[derive(Clone)]
struct Probe {
    seen: Arc<Mutex<Vec<ExecutionContext>>>,
    together: Arc<Barrier>,
    started: Arc<Notify>,
    stopped: Arc<Notify>,
}

impl Probe {
    /// Waits until three calls are here.
    #[tool]
    async fn meet(&self, context: ToolExecutionContext) -> Result<String, String> {
        self.seen.lock().unwrap().push(context.identity().clone());
        self.together.wait().await;
        Ok(context.call_index().to_string())
    }

    /// Tells how far it is until it is cancelled.
    #[tool]
    async fn linger(&self, context: ToolExecutionContext) -> Result<String, String> {
        context.progress().report(Progress {
            done: 1.0,
            total: None,
            message: "on the way".into(),
        });
        self.started.notify_one();
        context.cancellation().cancelled().await;
        self.stopped.notify_one();
        std::future::pending().await
    }

    /// Returns a large text.
    #[tool]
    async fn large(&self) -> Result<String, String> {
        Ok("line\n".repeat(1000))
    }

    /// Fails.
    #[tool]
    async fn fails(&self) -> Result<String, String> {
        Err("try another one".into())
    }

    /// Panics.
    #[tool]
    async fn explodes(&self) -> Result<String, String> {
        panic!("a broken tool")
    }
}

struct Joined {
    host: Arc<McpHost>,
    probe: Probe,
    /// Carries the bytes between the two; without it both ends see the other one gone.
    cable: tokio::task::JoinHandle<()>,
    _directory: tempfile::TempDir,
}

async fn joined() -> Joined {
    let directory = tempfile::tempdir().unwrap();
    let store = FsBlobStore::open(directory.path()).unwrap();
    let server = ToolServer::with_store(Arc::new(store), ServerOptions::default());
    let probe = Probe {
        seen: Arc::default(),
        together: Arc::new(Barrier::new(3)),
        started: Arc::default(),
        stopped: Arc::default(),
    };
    server.register(probe.meet_tool()).unwrap();
    server.register(probe.linger_tool()).unwrap();
    server.register(probe.large_tool()).unwrap();
    server.register(probe.fails_tool()).unwrap();
    server.register(probe.explodes_tool()).unwrap();
    let (ours, mut near) = tokio::io::duplex(64 * 1024);
    let (mut far, theirs) = tokio::io::duplex(64 * 1024);
    let cable = tokio::spawn(async move {
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    });
    let service = McpService::new(server, "");
    tokio::spawn(serve(
        service,
        tokio::io::split(theirs),
        CancellationToken::new(),
    ));
    let host = Arc::new(McpHost::connect(ours).await.unwrap());
    Joined {
        host,
        probe,
        cable,
        _directory: directory,
    }
}

fn call(name: &str, index: u32) -> HostCall {
    let context = ExecutionContext {
        call_id: CallId::new(format!("call_{index}")).unwrap(),
        batch_id: BatchId::new("batch").unwrap(),
        call_index: index,
    };
    HostCall {
        name: name.into(),
        input: "{}".into(),
        context,
        cancellation: CancellationToken::new(),
        progress: None,
    }
}

#[tokio::test]
async fn the_calls_of_a_batch_run_at_once_and_know_their_place() {
    let joined = joined().await;
    let calls = [2, 5, 9].map(|index| {
        let host = Arc::clone(&joined.host);
        tokio::spawn(async move { host.call(call("meet", index)).await.unwrap().text })
    });
    for (running, index) in calls.into_iter().zip(["2", "5", "9"]) {
        assert_eq!(running.await.unwrap(), index);
    }
    let mut seen = joined.probe.seen.lock().unwrap().clone();
    seen.sort_by_key(|context| context.call_index);
    let expected: Vec<ExecutionContext> = [2, 5, 9].map(|index| call("meet", index).context).into();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_stored_result_is_known_by_its_facts_not_its_text() {
    let joined = joined().await;
    let reply = joined.host.call(call("large", 0)).await.unwrap();
    let blob = reply.blob.unwrap();
    assert_eq!(
        (blob.lines, blob.bytes, blob.shown),
        (Some(1000), 5000, reply.text.len() as u64)
    );
    assert!(
        reply
            .text
            .starts_with(&format!("[blob:{}] text | 1000 lines", blob.name)),
        "{}",
        reply.text
    );
    let mut part = call("inspect", 1);
    part.input = json!({"blob_id": blob.name, "selector": "lines:1000-1000"}).to_string();
    assert_eq!(
        joined.host.call(part).await.unwrap().text,
        "line\n[lines 1000-1000 of 1000]"
    );
}

#[tokio::test]
async fn failures_are_told_apart() {
    let joined = joined().await;
    let failed = joined.host.call(call("fails", 0)).await.unwrap();
    assert_eq!(
        failed,
        HostReply {
            text: "try another one".into(),
            is_error: true,
            blob: None
        }
    );
    let panicked = joined.host.call(call("explodes", 1)).await.unwrap();
    assert!(
        panicked.is_error && !panicked.text.contains("broken tool"),
        "{panicked:?}"
    );
    let unknown = joined.host.call(call("larg", 2)).await.unwrap_err();
    assert!(
        matches!(&unknown, HostError::Refused(message) if message.contains("did you mean large")),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn a_cancelled_call_is_stopped_on_the_other_side() {
    let joined = joined().await;
    let told = Arc::new(Notify::new());
    let mut lingering = call("linger", 0);
    let own = Arc::clone(&told);
    lingering.progress = Some(Arc::new(move |message| {
        assert_eq!(message, "on the way");
        own.notify_one();
    }));
    let token = lingering.cancellation.clone();
    let host = Arc::clone(&joined.host);
    let running = tokio::spawn(async move { host.call(lingering).await });
    joined.probe.started.notified().await;
    told.notified().await;
    token.cancel();
    assert!(matches!(running.await.unwrap(), Err(HostError::Cancelled)));
    joined.probe.stopped.notified().await;
}

#[tokio::test]
async fn wk08_a_server_that_goes_away_costs_the_calls_it_was_running() {
    let joined = joined().await;
    let host = Arc::clone(&joined.host);
    let running = tokio::spawn(async move { host.call(call("linger", 0)).await });
    joined.probe.started.notified().await;
    joined.cable.abort();
    assert!(matches!(running.await.unwrap(), Err(HostError::Lost)));
    let after = joined.host.call(call("fails", 1)).await.unwrap_err();
    assert!(matches!(after, HostError::Unreachable { .. }), "{after:?}");
}
