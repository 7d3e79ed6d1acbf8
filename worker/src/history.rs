//! The conversation so far, and the rule it never breaks: every tool call is answered exactly once, right after the
//! response that made it, in the order of the calls.
//!
//! Items only enter as wholes that keep the rule: a prompt with its files, an answer without calls, an answer with
//! calls together with all their results. So there is no moment at which a provider would refuse it.

use std::collections::HashSet;

use protocol::{CallId, Item, Role as ItemRole, ToolCallItem, ToolResultItem};
use serde_json::{Map, Value};

use crate::llm::{ContentBlock, Message, Role};

/// A conversation that any provider accepts.
#[derive(Clone, Debug, Default)]
pub struct History {
    items: Vec<Item>,
    call_ids: HashSet<CallId>,
}

/// An item that would break the conversation's rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be added: {why}")]
pub struct InvalidHistory {
    what: &'static str,
    why: String,
}

impl History {
    /// Returns the items in order.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Adds messages: prompts, files, notes.
    ///
    /// # Errors
    /// [`InvalidHistory`] when one of the items is a tool call or a result; those only enter with each other.
    pub fn add_messages(&mut self, items: Vec<Item>) -> Result<(), InvalidHistory> {
        if items
            .iter()
            .any(|item| matches!(item, Item::ToolCall(_) | Item::ToolResult(_)))
        {
            let why = "it has no answer, or answers nothing".to_owned();
            return Err(InvalidHistory {
                what: "a tool call or result",
                why,
            });
        }
        self.items.extend(items);
        Ok(())
    }

    /// Adds a model's answer with the results of all its calls.
    ///
    /// # Errors
    /// [`InvalidHistory`] when the results do not answer the calls one by one in their order, or a call id was used
    /// before; nothing is added then.
    pub fn add_answer(
        &mut self,
        answer: Vec<Item>,
        results: Vec<ToolResultItem>,
    ) -> Result<(), InvalidHistory> {
        let calls: Vec<&ToolCallItem> = calls_in(&answer).collect();
        let answered: Vec<&CallId> = results.iter().map(|result| &result.call_id).collect();
        if calls
            .iter()
            .map(|call| &call.call_id)
            .ne(answered.iter().copied())
        {
            let why = format!(
                "its {} calls have {} results that do not answer them in order",
                calls.len(),
                results.len()
            );
            return Err(InvalidHistory {
                what: "an answer",
                why,
            });
        }
        let fresh: HashSet<&CallId> = answered
            .iter()
            .copied()
            .filter(|id| !self.call_ids.contains(*id))
            .collect();
        if fresh.len() != calls.len() {
            return Err(InvalidHistory {
                what: "an answer",
                why: "it uses a call id twice".to_owned(),
            });
        }
        self.call_ids
            .extend(results.iter().map(|result| result.call_id.clone()));
        self.items.extend(answer);
        self.items.extend(results.into_iter().map(Item::ToolResult));
        Ok(())
    }

    /// Returns an id for a new call: the provider's own where it can be used, else a fresh one.
    pub(crate) fn call_id(&self, provider_id: &str, taken: &HashSet<CallId>) -> CallId {
        let own = CallId::new(provider_id)
            .ok()
            .filter(|id| !self.call_ids.contains(id) && !taken.contains(id));
        own.unwrap_or_else(|| {
            CallId::new(format!("call_{}", uuid::Uuid::now_v7().simple()))
                .expect("it is short and printable")
        })
    }

    /// Builds the messages a provider is sent.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        // Whether the last message is an answer that following pieces of the same answer belong to.
        let mut answer_is_open = false;
        for item in &self.items {
            let piece = match item {
                Item::Message(message) if message.role != ItemRole::Assistant => {
                    messages.push(Message {
                        role: role(message.role),
                        content: content(message),
                    });
                    answer_is_open = false;
                    continue;
                }
                Item::ToolResult(result) => {
                    messages.push(Message::tool_result(
                        result.call_id.as_str(),
                        result.output.clone(),
                    ));
                    answer_is_open = false;
                    continue;
                }
                Item::Message(message) => content(message),
                Item::ToolCall(call) => vec![tool_use(call)],
                Item::Reasoning(reasoning) => vec![ContentBlock::Reasoning {
                    text: reasoning.text.clone(),
                }],
                // An item of a kind that did not exist when this was written has no place in a request.
                _ => continue,
            };
            match messages.last_mut().filter(|_| answer_is_open) {
                Some(answer) => answer.content.extend(piece),
                None => messages.push(Message {
                    role: Role::Assistant,
                    content: piece,
                }),
            }
            answer_is_open = true;
        }
        messages
    }
}

/// Returns the tool calls among items.
pub(crate) fn calls_in(items: &[Item]) -> impl Iterator<Item = &ToolCallItem> {
    items.iter().filter_map(|item| match item {
        Item::ToolCall(call) => Some(call),
        _ => None,
    })
}

fn role(role: ItemRole) -> Role {
    match role {
        ItemRole::User => Role::User,
        ItemRole::Assistant => Role::Assistant,
        ItemRole::System => Role::System,
    }
}

fn content(message: &protocol::MessageItem) -> Vec<ContentBlock> {
    let parts = message.content.iter().filter_map(|part| match part {
        protocol::ContentPart::Text { text } => Some(ContentBlock::Text { text: text.clone() }),
        protocol::ContentPart::ImageUrl { url } => {
            Some(ContentBlock::ImageUrl { url: url.clone() })
        }
        _ => None,
    });
    parts.collect()
}

fn tool_use(call: &ToolCallItem) -> ContentBlock {
    // The item's arguments are an object; a log edited by hand may hold something else.
    let input: Option<Map<String, Value>> = serde_json::from_str(&call.arguments).ok();
    ContentBlock::ToolUse {
        id: call.call_id.to_string(),
        name: sendable_name(&call.name),
        input: Value::Object(input.unwrap_or_default()),
    }
}

/// Makes a tool name every vendor accepts: models sometimes invent names that none would take back.
fn sendable_name(name: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().take(64).map(allowed).collect();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use protocol::ToolOutcome;
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> Item {
        Item::ToolCall(ToolCallItem {
            call_id: CallId::new(id).unwrap(),
            name: "grep".into(),
            arguments: r#"{"b":1,"a":2}"#.into(),
            rejected_arguments: None,
        })
    }

    fn result(id: &str) -> ToolResultItem {
        ToolResultItem {
            call_id: CallId::new(id).unwrap(),
            output: format!("result of {id}"),
            outcome: ToolOutcome::Completed,
            blob: None,
        }
    }

    #[test]
    fn answers_enter_only_with_all_their_results_in_order() {
        let mut history = History::default();
        let two = || vec![Item::assistant_message("I look"), call("a"), call("b")];
        for results in [
            vec![],
            vec![result("a")],
            vec![result("b"), result("a")],
            vec![result("a"), result("b"), result("c")],
        ] {
            assert!(history.add_answer(two(), results).is_err());
        }
        assert!(
            history
                .add_answer(vec![call("a"), call("a")], vec![result("a"), result("a")])
                .is_err()
        );
        assert!(history.add_messages(vec![call("a")]).is_err());
        assert!(history.items().is_empty());
        history
            .add_answer(two(), vec![result("a"), result("b")])
            .unwrap();
        assert!(
            history
                .add_answer(vec![call("a")], vec![result("a")])
                .is_err(),
            "an id is used once"
        );
    }

    #[test]
    fn call_ids_are_unique_in_the_conversation() {
        let mut history = History::default();
        history
            .add_answer(vec![call("a")], vec![result("a")])
            .unwrap();
        let taken = HashSet::from([CallId::new("b").unwrap()]);
        assert_eq!(history.call_id("c", &taken).as_str(), "c");
        for unusable in ["a", "b", "", "x\ny", &"z".repeat(300)] {
            let id = history.call_id(unusable, &taken);
            assert!(id.as_str().starts_with("call_"), "{id}");
        }
    }

    #[test]
    fn lm11_names_that_no_vendor_takes_are_made_sendable() {
        let long = "x".repeat(5000);
        let cases = [
            ("grep", "grep"),
            ("", "unnamed"),
            ("a/b🙂\u{1b}[2J", "a_b___2J"),
            (&long, &"x".repeat(64)),
        ];
        for (name, sent) in cases {
            assert_eq!(sendable_name(name), sent);
        }
    }

    #[test]
    fn pieces_of_one_answer_become_one_message() {
        let mut history = History::default();
        history
            .add_messages(vec![
                Item::user_message("do it"),
                Item::system_message("[File: a]\nx"),
            ])
            .unwrap();
        let reasoning = Item::Reasoning(protocol::ReasoningItem {
            text: "hm".into(),
            opaque: None,
        });
        let answer = vec![
            reasoning,
            Item::assistant_message("I look"),
            call("a"),
            call("b"),
        ];
        history
            .add_answer(answer, vec![result("a"), result("b")])
            .unwrap();
        history
            .add_answer(vec![Item::assistant_message("done")], vec![])
            .unwrap();
        assert_eq!(
            serde_json::to_value(history.messages()).unwrap(),
            json!([
                {"role": "user", "content": [{"type": "text", "text": "do it"}]},
                {"role": "system", "content": [{"type": "text", "text": "[File: a]\nx"}]},
                {"role": "assistant", "content": [
                    {"type": "reasoning", "text": "hm"},
                    {"type": "text", "text": "I look"},
                    {"type": "tool_use", "id": "a", "name": "grep", "input": {"b": 1, "a": 2}},
                    {"type": "tool_use", "id": "b", "name": "grep", "input": {"b": 1, "a": 2}},
                ]},
                {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "result of a"}]},
                {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "result of b"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
            ])
        );
    }
}
