//! A scripted model behind real HTTP.
//!
//! It plays one reply for each request, in order, refuses what is behind the script's end, and checks every request as
//! the strictest vendor would. It writes to the socket itself, so that a reply can be split, stalled, cut or reset at
//! any byte, which no HTTP server library does.
//!
//! ```
//! # async fn example() {
//! use serde_json::json;
//! use tests::model_server::{ModelServer, answer, fault};
//!
//! let server = ModelServer::script([
//!     fault().status(429).header("retry-after", "0"),
//!     answer().text("I look.").call("read_file", json!({"path": "a.txt"})),
//!     answer().text("done"),
//! ])
//! .await;
//! // … run a worker against server.base_url() …
//! server.assert_finished();
//! # }
//! ```

mod check;
mod reply;
mod wire;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

pub use self::{
    check::violations,
    reply::{Reply, answer, fault},
    wire::Received,
};

/// Where the requests have to go.
const PATH: &str = "/v1/chat/completions";

/// A model that says what the script says.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<State>,
    acceptor: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    script: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<Received>>,
    violations: Mutex<Vec<String>>,
    /// How many requests came.
    arrived: watch::Sender<usize>,
    /// How many connections the client closed while a reply was stalled.
    hung_up: watch::Sender<usize>,
}

impl ModelServer {
    /// Starts a server on a free port of this machine.
    ///
    /// # Panics
    /// When the machine has no free port.
    pub async fn script(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let state = Arc::new(State {
            script: Mutex::new(replies.into_iter().collect()),
            requests: Mutex::default(),
            violations: Mutex::default(),
            arrived: watch::Sender::new(0),
            hung_up: watch::Sender::new(0),
        });
        let acceptor = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self {
            address,
            state,
            acceptor,
        }
    }

    /// Returns what a client is given as base URL.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        locked(&self.state.requests).clone()
    }

    /// Returns the body of one request, counted from 0.
    ///
    /// # Panics
    /// When there were fewer requests.
    #[must_use]
    pub fn body(&self, request: usize) -> Value {
        let requests = locked(&self.state.requests);
        requests
            .get(request)
            .unwrap_or_else(|| panic!("there were only {} requests", requests.len()))
            .body
            .clone()
    }

    /// Waits until so many requests have come.
    pub async fn wait_for_requests(&self, count: usize) {
        reached(&self.state.arrived, count).await;
    }

    /// Waits until the client has closed so many stalled replies.
    pub async fn wait_for_hangups(&self, count: usize) {
        reached(&self.state.hung_up, count).await;
    }

    /// Checks that the script was played to its end and nothing was wrong with the requests.
    ///
    /// # Panics
    /// When replies are left over or a request broke a rule.
    pub fn assert_finished(&self) {
        let violations = std::mem::take(&mut *locked(&self.state.violations));
        assert!(
            violations.is_empty(),
            "the model server refused: {violations:#?}"
        );
        let left = locked(&self.state.script).len();
        assert_eq!(left, 0, "replies of the script were not asked for");
    }

    /// Takes what was wrong with the requests so far, for tests that expect something to be.
    #[must_use]
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.state.violations))
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.acceptor.abort();
        let violations = locked(&self.state.violations);
        // A second panic would end the process and hide the first.
        if !std::thread::panicking() {
            assert!(
                violations.is_empty(),
                "the model server refused: {violations:#?}"
            );
        }
    }
}

async fn reached(counter: &watch::Sender<usize>, count: usize) {
    let mut counter = counter.subscribe();
    counter
        .wait_for(|seen| *seen >= count)
        .await
        .expect("the server lives as long as its counters");
}

/// A test that failed while it held a lock says enough by itself.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    // Dropped with the acceptor, the set ends all its connections.
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection. Every reply closes it: which request a reused connection carries is no business of a script.
async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let Ok(Some(received)) = wire::receive(&mut stream).await else {
        return;
    };
    let reply = state.next_reply(&received);
    locked(&state.requests).push(received);
    state.arrived.send_modify(|count| *count += 1);
    if wire::play(stream, &reply).await.is_hung_up() {
        state.hung_up.send_modify(|count| *count += 1);
    }
}

impl State {
    fn next_reply(&self, received: &Received) -> Reply {
        let mut found = Vec::new();
        if received.method != "POST" || received.path != PATH {
            found.push(format!(
                "{} {} is not served",
                received.method, received.path
            ));
        } else {
            found.extend(check::header_violations(received));
            found.extend(check::violations(&received.body));
        }
        let next = if found.is_empty() {
            locked(&self.script).pop_front()
        } else {
            None
        };
        if let Some(reply) = next {
            return reply;
        }
        if found.is_empty() {
            found.push("one request more than the script has replies".to_owned());
        }
        let message = found.join("; ");
        locked(&self.violations).extend(found);
        fault().status(400).error("invalid_request_error", &message)
    }
}
