//! The worker's own API for programs that drive it: JSON-RPC 2.0 with subscriptions.
//!
//! It is not MCP: MCP is how tools are called, this is how an agent is. The trait is defined here so that drivers and
//! the worker are built from one source; the worker serves it. Every method answers at once, what takes time is told
//! through `turn_events`.

use jsonrpsee::{core::SubscriptionResult, proc_macros::rpc, types::ErrorObjectOwned};
use serde::{Deserialize, Serialize};

use crate::{Event, Segment};

/// A prompt for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitParams {
    /// The session to go on with; a new one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What is asked.
    pub segments: Vec<Segment>,
}

/// A prompt was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The session.
    pub session: String,
    /// The turn that will answer it.
    pub turn: u64,
}

/// A session as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// The session.
    pub session: String,
    /// How many turns it has had.
    pub turns: u64,
    /// Whether a turn is running.
    pub busy: bool,
}

/// Driving a worker.
#[rpc(client, server)]
pub trait Control {
    /// Starts a turn; fails when the session is busy.
    #[method(name = "turn_submit")]
    async fn submit(&self, params: SubmitParams) -> Result<Submitted, ErrorObjectOwned>;

    /// Stops the running turn; answers whether there was one.
    #[method(name = "turn_interrupt")]
    async fn interrupt(&self, session: String) -> Result<bool, ErrorObjectOwned>;

    /// Lists the sessions.
    #[method(name = "session_list")]
    async fn sessions(&self) -> Result<Vec<SessionSummary>, ErrorObjectOwned>;

    /// Follows a session's events from now on.
    #[subscription(name = "turn_events" => "turn_event", unsubscribe = "turn_events_stop", item = Event)]
    async fn events(&self, session: String) -> SubscriptionResult;
}

#[cfg(test)]
mod tests {
    use jsonrpsee::{PendingSubscriptionSink, core::async_trait};

    use super::*;

    struct OneSession;

    #[async_trait]
    impl ControlServer for OneSession {
        async fn submit(&self, params: SubmitParams) -> Result<Submitted, ErrorObjectOwned> {
            Ok(Submitted {
                session: params.session.unwrap_or_else(|| "new".into()),
                turn: 1,
            })
        }

        async fn interrupt(&self, session: String) -> Result<bool, ErrorObjectOwned> {
            Ok(session == "new")
        }

        async fn sessions(&self) -> Result<Vec<SessionSummary>, ErrorObjectOwned> {
            Ok(vec![SessionSummary {
                session: "new".into(),
                turns: 1,
                busy: false,
            }])
        }

        async fn events(
            &self,
            pending: PendingSubscriptionSink,
            session: String,
        ) -> SubscriptionResult {
            let refused = ErrorObjectOwned::owned(1, format!("no session {session}"), None::<()>);
            pending.reject(refused).await;
            Ok(())
        }
    }

    #[tokio::test]
    async fn requests_have_the_documented_form() {
        let module = OneSession.into_rpc();
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"turn_submit","params":{"params":{"segments":[{"type":"text","text":"hi"}]}}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"session":"new","turn":1}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":2,"method":"turn_interrupt","params":["new"]}"#,
                r#"{"jsonrpc":"2.0","id":2,"result":true}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":"session_list"}"#,
                r#"{"jsonrpc":"2.0","id":3,"result":[{"session":"new","turns":1,"busy":false}]}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"turn_events","params":["gone"]}"#,
                r#"{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"no session gone"}}"#,
            ),
        ];
        for (request, reply) in cases {
            let (got, _) = module.raw_json_request(request, 1).await.unwrap();
            assert_eq!(got.get(), reply, "{request}");
        }
    }
}
