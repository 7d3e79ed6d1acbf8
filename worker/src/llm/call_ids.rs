//! The ids of tool calls, unique in the whole conversation.
//!
//! Servers leave ids out, send one twice or begin at `call_0` with every answer. History pairs calls and results by
//! id, so each call gets one here that nobody else has. The server never misses its own: it only sees what is sent back.

use std::collections::HashSet;

use protocol::CallId;
use uuid::Uuid;

use super::{ChatRequest, ContentBlock};

/// The ids taken so far.
#[derive(Debug)]
pub(crate) struct CallIds {
    taken: HashSet<String>,
}

impl CallIds {
    /// Starts with the ids of a request's conversation.
    pub(crate) fn of(request: &ChatRequest) -> Self {
        let blocks = request.messages.iter().flat_map(|message| &message.content);
        let taken = blocks.filter_map(|block| match block {
            ContentBlock::ToolUse { id, .. } => Some(id.clone()),
            _ => None,
        });
        Self {
            taken: taken.collect(),
        }
    }

    /// Returns the wished id when it is usable and free, else a new one.
    pub(crate) fn claim(&mut self, wished: Option<&str>) -> String {
        let usable = wished.filter(|id| CallId::new(*id).is_ok() && !self.taken.contains(*id));
        let id = usable.map_or_else(
            || format!("call_{}", Uuid::now_v7().simple()),
            str::to_owned,
        );
        self.taken.insert(id.clone());
        id
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::llm::{Message, Role};

    /// Fault LM12.
    #[test]
    fn lm12_ids_are_unique_over_answers() {
        let request = ChatRequest {
            messages: vec![Message {
                role: Role::Assistant,
                content: vec![ContentBlock::ToolUse {
                    id: "call_0".into(),
                    name: "t".into(),
                    input: json!({}),
                }],
            }],
            ..ChatRequest::default()
        };
        let mut ids = CallIds::of(&request);
        assert_eq!(ids.claim(Some("call_1")), "call_1");
        let long = "x".repeat(300);
        let mut seen = HashSet::from(["call_0".to_owned(), "call_1".to_owned()]);
        for wished in [
            Some("call_0"),
            Some("call_1"),
            Some(""),
            Some("a\0"),
            Some(&long),
            None,
            None,
        ] {
            let id = ids.claim(wished);
            assert!(id.starts_with("call_") && seen.insert(id), "{wished:?}");
        }
    }
}
