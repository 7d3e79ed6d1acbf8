//! Which call of which batch a tool is executing, and how that travels in MCP `_meta`.
//!
//! The context is metadata for tools: it tells calls of one model response apart and puts them in order. Nobody
//! schedules by it. It is separate from the tool crate because both ends of the wire must agree on its bytes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The `_meta` key of a `tools/call` request under which an [`ExecutionContext`] travels.
pub const CONTEXT_META_KEY: &str = "dev.toolserver/context";

/// Call ids other clients send, in the order they are believed. `claudecode/toolUseId` is the provider's own id.
const FOREIGN_CALL_ID_KEYS: [&str; 2] = ["claudecode/toolUseId", "callId"];

/// Longest identifier accepted, in bytes. Providers use well under 100.
const IDENTIFIER_MAX_BYTES: usize = 256;

/// An identifier that is empty, too long or holds control characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id must have 1 to {IDENTIFIER_MAX_BYTES} bytes and no control characters")]
pub struct InvalidIdentifier;

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[derive(schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and wraps an identifier.
            ///
            /// # Errors
            /// [`InvalidIdentifier`] when it is empty, longer than 256 bytes or holds control characters.
            pub fn new(id: impl Into<String>) -> Result<Self, InvalidIdentifier> {
                let id = id.into();
                let fits = (1..=IDENTIFIER_MAX_BYTES).contains(&id.len());
                if fits && !id.chars().any(char::is_control) { Ok(Self(id)) } else { Err(InvalidIdentifier) }
            }

            /// Returns the identifier as it is written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id.to_string())
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidIdentifier;

            fn try_from(id: String) -> Result<Self, InvalidIdentifier> {
                Self::new(id)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

identifier! {
    /// Identifies one tool call: the provider's id where it is usable, else one made by the caller.
    CallId
}

identifier! {
    /// Identifies all tool calls of one model response.
    BatchId
}

/// Says which call of which batch is executing.
///
/// All calls of one model response share `batch_id`; `call_index` is the position in that response. Calls that were
/// refused leave gaps. A caller that sends no context gets a batch of its own for every call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionContext {
    /// The call.
    pub call_id: CallId,
    /// The model response the call belongs to.
    pub batch_id: BatchId,
    /// The position in that response, from 0.
    pub call_index: u32,
}

/// An execution context that does not have the agreed form.
#[derive(Debug, thiserror::Error)]
#[error(
    "_meta[\"{CONTEXT_META_KEY}\"] must be {{\"callId\": string, \"batchId\": string, \"callIndex\": integer}}: {reason}"
)]
pub struct InvalidContext {
    /// What is wrong with it.
    pub reason: String,
}

impl ExecutionContext {
    /// Writes the context into the `_meta` of a request, replacing an earlier one.
    pub fn write_meta(&self, meta: &mut Map<String, Value>) {
        let value = serde_json::to_value(self).expect("strings and an integer always serialise");
        meta.insert(CONTEXT_META_KEY.to_owned(), value);
    }

    /// Reads the context from the `_meta` of a request.
    ///
    /// A caller that sends none gets one made for it: the call id of the first known foreign key that holds a usable
    /// id, else a fresh one; a batch of its own; index 0. `fresh_id` is asked once for every id that is missing.
    ///
    /// # Errors
    /// [`InvalidContext`] when the key is there and its value is malformed. It is not ignored: a caller that sends a
    /// context relies on it.
    pub fn from_meta(
        meta: &Map<String, Value>,
        mut fresh_id: impl FnMut() -> Uuid,
    ) -> Result<Self, InvalidContext> {
        if let Some(value) = meta.get(CONTEXT_META_KEY) {
            return Self::deserialize(value).map_err(|error| InvalidContext {
                reason: error.to_string(),
            });
        }
        let foreign = FOREIGN_CALL_ID_KEYS
            .iter()
            .filter_map(|key| meta.get(*key)?.as_str())
            .find_map(|id| CallId::new(id).ok());
        let call_id = foreign.unwrap_or_else(|| fresh_id().into());
        Ok(Self {
            call_id,
            batch_id: fresh_id().into(),
            call_index: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    fn numbered() -> impl FnMut() -> Uuid {
        let mut next = 0;
        move || {
            next += 1;
            Uuid::from_u128(next)
        }
    }

    #[test]
    fn context_survives_the_wire() {
        let context = ExecutionContext {
            call_id: CallId::new("call_7").unwrap(),
            batch_id: BatchId::new("b").unwrap(),
            call_index: 3,
        };
        let mut wire = meta(json!({"progressToken": 1, CONTEXT_META_KEY: "old"}));
        context.write_meta(&mut wire);
        assert_eq!(
            wire["dev.toolserver/context"],
            json!({"callId": "call_7", "batchId": "b", "callIndex": 3})
        );
        assert_eq!(wire["progressToken"], 1);
        assert_eq!(
            ExecutionContext::from_meta(&wire, || panic!("no id is missing")).unwrap(),
            context
        );
    }

    #[test]
    fn unknown_fields_of_a_newer_caller_are_ignored() {
        let wire = meta(
            json!({CONTEXT_META_KEY: {"callId": "a", "batchId": "b", "callIndex": 0, "batchSize": 9}}),
        );
        assert_eq!(
            ExecutionContext::from_meta(&wire, Uuid::nil)
                .unwrap()
                .call_id
                .as_str(),
            "a"
        );
    }

    #[test]
    fn callers_without_a_context_get_one() {
        let cases = [
            (json!({}), Uuid::from_u128(1).to_string(), 2),
            (json!({"callId": "codex-1"}), "codex-1".to_owned(), 1),
            (
                json!({"callId": "x", "claudecode/toolUseId": "toolu_1"}),
                "toolu_1".to_owned(),
                1,
            ),
            (json!({"callId": 5}), Uuid::from_u128(1).to_string(), 2),
            (
                json!({"callId": "", "claudecode/toolUseId": "a\nb"}),
                Uuid::from_u128(1).to_string(),
                2,
            ),
        ];
        for (wire, call, batch) in cases {
            let context = ExecutionContext::from_meta(&meta(wire.clone()), numbered()).unwrap();
            assert_eq!(context.call_id.as_str(), call, "{wire}");
            assert_eq!(context.batch_id, Uuid::from_u128(batch).into(), "{wire}");
            assert_eq!(context.call_index, 0, "{wire}");
        }
    }

    #[test]
    fn malformed_contexts_are_refused_with_the_right_form() {
        for bad in [
            json!(null),
            json!("x"),
            json!({"callId": "a", "batchId": "b"}),
            json!({"callId": "a", "batchId": "b", "callIndex": -1}),
            json!({"callId": "a", "batchId": "b", "callIndex": 1.5}),
            json!({"callId": "", "batchId": "b", "callIndex": 0}),
            json!({"callId": "a\u{7}", "batchId": "b", "callIndex": 0}),
            json!({"callId": "a".repeat(257), "batchId": "b", "callIndex": 0}),
        ] {
            let wire = meta(json!({CONTEXT_META_KEY: bad}));
            let error = ExecutionContext::from_meta(&wire, Uuid::nil)
                .unwrap_err()
                .to_string();
            assert!(error.contains("\"callIndex\": integer"), "{bad}: {error}");
        }
    }
}
