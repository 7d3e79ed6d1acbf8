//! Which tool call a fragment of a stream belongs to.
//!
//! The schema says: `index` tells. Servers leave it out, send 0 for every call, let it jump inside a call, leave out
//! ids or send one twice. The rule here serves all of them; it is pure and knows nothing of blocks or events.

use std::collections::HashMap;

use serde_json::Value;

use crate::llm::{arguments::ObjectTracker, surrogate::HalfJoiner};

/// One element of `delta.tool_calls`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: String,
}

impl Fragment {
    /// Reads a fragment, whatever of it is there.
    pub(super) fn read(element: &Value) -> Self {
        let function = element.get("function").unwrap_or(element);
        let id = match element.get("id") {
            Some(Value::String(id)) if !id.is_empty() && id != "null" => Some(id.clone()),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        };
        Self {
            index: element.get("index").and_then(Value::as_u64),
            id,
            name: function
                .get("name")
                .and_then(Value::as_str)
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
            arguments: match function.get("arguments") {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => String::new(),
                // Not as the schema wants it, but what is meant is plain.
                Some(value) => value.to_string(),
            },
        }
    }

    fn is_empty(&self) -> bool {
        self.id.is_none() && self.name.is_none() && self.arguments.trim().is_empty()
    }
}

/// A call as far as it came.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// The server's own id.
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// Whether any of the arguments came.
    has_arguments: bool,
    tracker: ObjectTracker,
    /// Joins characters that are cut between two fragments.
    pub(super) halves: HalfJoiner,
    /// The block that was started for it.
    pub(super) block: Option<u32>,
    /// Arguments that came before the name, and so before the block.
    pub(super) waiting: String,
}

impl Call {
    /// Whether a fragment that points at this call continues it; otherwise it begins another one.
    fn is_continued_by(&self, fragment: &Fragment) -> bool {
        let is_whole = self.tracker.is_whole();
        let is_other_id = matches!((&self.id, &fragment.id), (Some(own), Some(id)) if own != id);
        if is_other_id {
            return !is_whole && fragment.name.is_none();
        }
        match &fragment.name {
            Some(name) if !self.name.is_empty() && *name != self.name => false,
            // Some servers repeat the name with every fragment; only a new beginning of arguments is a new call.
            Some(_) => !is_whole || fragment.arguments.trim().is_empty(),
            None => true,
        }
    }

    /// Notes the arguments of a fragment, after they were joined.
    pub(super) fn note(&mut self, arguments: &str) {
        self.has_arguments |= !arguments.is_empty();
        self.tracker.feed(arguments);
    }
}

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) list: Vec<Call>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
}

impl Calls {
    /// Returns the place of the call a fragment belongs to, a new one if need be. `None` when it says nothing.
    pub(super) fn route(&mut self, fragment: &Fragment) -> Option<usize> {
        let place = match self.pointed_at(fragment) {
            Some(held) if self.list[held].is_continued_by(fragment) => held,
            _ if fragment.is_empty() => return None,
            _ => {
                self.list.push(Call::default());
                self.list.len() - 1
            }
        };
        let call = &mut self.list[place];
        if call.name.is_empty() {
            call.name = fragment.name.clone().unwrap_or_default();
        }
        if call.id.is_none() {
            call.id.clone_from(&fragment.id);
        }
        if let Some(index) = fragment.index {
            self.by_index.insert(index, place);
        }
        if let Some(id) = &fragment.id {
            self.by_id.insert(id.clone(), place);
        }
        Some(place)
    }

    fn pointed_at(&self, fragment: &Fragment) -> Option<usize> {
        let at_index = fragment.index.and_then(|index| self.by_index.get(&index));
        if let Some(place) = at_index {
            return Some(*place);
        }
        if let Some(id) = &fragment.id {
            return self.by_id.get(id).copied();
        }
        let latest = self.list.len().checked_sub(1)?;
        let call = &self.list[latest];
        // A number never seen that comes with a name is a call of its own. Without a name it is the latest call whose
        // number jumped, as long as that one misses something.
        let begins = fragment.name.is_some()
            && (fragment.index.is_some() || (call.name.is_empty() && call.has_arguments));
        (!call.tracker.is_whole() && !begins).then_some(latest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Runs fragments through the rule and returns `name|id|arguments` of each call.
    fn merged(fragments: &[Value]) -> Vec<String> {
        let mut calls = Calls::default();
        let mut texts: Vec<String> = Vec::new();
        for fragment in fragments {
            let fragment = Fragment::read(fragment);
            let Some(place) = calls.route(&fragment) else {
                continue;
            };
            calls.list[place].note(&fragment.arguments);
            texts.resize_with(calls.list.len(), String::new);
            texts[place].push_str(&fragment.arguments);
        }
        let shown = calls.list.iter().zip(texts).map(|(call, text)| {
            format!("{}|{}|{text}", call.name, call.id.as_deref().unwrap_or("-"))
        });
        shown.collect()
    }

    fn whole(index: Option<u64>, id: Option<&str>, name: &str, n: u32) -> Value {
        let mut element =
            json!({"function": {"name": name, "arguments": format!("{{\"n\":{n}}}")}});
        if let Some(index) = index {
            element["index"] = json!(index);
        }
        if let Some(id) = id {
            element["id"] = json!(id);
        }
        element
    }

    /// Fault LM12: the order of the table is that of the wire facts it answers.
    #[test]
    fn lm12_every_known_way_to_number_calls_is_read() {
        let f = |index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str| {
            let mut element = json!({"function": {"arguments": arguments}});
            if let Some(index) = index {
                element["index"] = json!(index);
            }
            if let Some(id) = id {
                element["id"] = json!(id);
            }
            if let Some(name) = name {
                element["function"]["name"] = json!(name);
            }
            element
        };
        let three = ["t|a|{\"n\":1}", "t|b|{\"n\":2}", "u|c|{\"n\":3}"];
        let three_nameless = ["t|-|{\"n\":1}", "t|-|{\"n\":2}", "u|-|{\"n\":3}"];
        let cases: Vec<(&str, Vec<Value>, &[&str])> = vec![
            (
                "by the book",
                vec![
                    f(Some(0), Some("a"), Some("t"), ""),
                    f(Some(0), None, None, "{\"n\""),
                    f(Some(0), None, None, ":1}"),
                    f(Some(1), Some("b"), Some("t"), ""),
                    f(Some(1), None, None, "{\"n\":2}"),
                    f(Some(2), Some("c"), Some("u"), "{\"n\":3}"),
                ],
                &three,
            ),
            (
                "interleaved",
                vec![
                    f(Some(0), Some("a"), Some("t"), ""),
                    f(Some(1), Some("b"), Some("t"), ""),
                    f(Some(2), Some("c"), Some("u"), ""),
                    f(Some(2), None, None, "{\"n\":"),
                    f(Some(0), None, None, "{\"n\":"),
                    f(Some(1), None, None, "{\"n\":2}"),
                    f(Some(0), None, None, "1}"),
                    f(Some(2), None, None, "3}"),
                ],
                &three,
            ),
            (
                "gaps and reverse",
                vec![
                    whole(Some(9), Some("a"), "t", 1),
                    whole(Some(4), Some("b"), "t", 2),
                    whole(Some(0), Some("c"), "u", 3),
                ],
                &three,
            ),
            (
                "no index",
                vec![
                    whole(None, Some("a"), "t", 1),
                    whole(None, Some("b"), "t", 2),
                    whole(None, Some("c"), "u", 3),
                ],
                &three,
            ),
            (
                "no index, in fragments",
                vec![
                    f(None, Some("a"), Some("t"), ""),
                    f(None, None, None, "{\"n\":"),
                    f(None, None, None, "1}"),
                    f(None, Some("b"), Some("t"), "{\"n\":"),
                    f(None, Some("b"), None, "2}"),
                    f(None, Some("c"), Some("u"), "{\"n\":3}"),
                ],
                &three,
            ),
            (
                "all index 0",
                vec![
                    whole(Some(0), Some("a"), "t", 1),
                    whole(Some(0), Some("b"), "t", 2),
                    whole(Some(0), Some("c"), "u", 3),
                ],
                &three,
            ),
            (
                "all index 0, in fragments",
                vec![
                    f(Some(0), Some("a"), Some("t"), ""),
                    f(Some(0), None, None, "{\"n\":1}"),
                    f(Some(0), Some("b"), Some("t"), ""),
                    f(Some(0), None, None, "{\"n\":2}"),
                    f(Some(0), Some("c"), Some("u"), ""),
                    f(Some(0), Some("c"), None, "{\"n\":3}"),
                ],
                &three,
            ),
            (
                "all index 0, the first without arguments",
                vec![
                    f(Some(0), Some("a"), Some("t"), ""),
                    f(Some(0), Some("b"), Some("t"), "{\"n\":2}"),
                ],
                &["t|a|", "t|b|{\"n\":2}"],
            ),
            (
                "no id",
                vec![
                    whole(Some(0), None, "t", 1),
                    whole(Some(1), None, "t", 2),
                    whole(Some(2), None, "u", 3),
                ],
                &three_nameless,
            ),
            (
                "no id, no index",
                vec![
                    whole(None, None, "t", 1),
                    whole(None, None, "t", 2),
                    whole(None, None, "u", 3),
                ],
                &three_nameless,
            ),
            (
                "no id, all index 0",
                vec![
                    whole(Some(0), None, "t", 1),
                    whole(Some(0), None, "t", 2),
                    whole(Some(0), None, "u", 3),
                ],
                &three_nameless,
            ),
            (
                "no id, no index, in fragments",
                vec![
                    f(None, None, Some("t"), ""),
                    f(None, None, None, "{\"n\":"),
                    f(None, None, None, "1}"),
                    f(None, None, Some("t"), "{\"n\":2"),
                    f(None, None, None, "}"),
                    f(None, None, Some("u"), "{\"n\":3}"),
                ],
                &three_nameless,
            ),
            (
                "one id for all",
                vec![
                    whole(Some(0), Some("a"), "t", 1),
                    whole(Some(1), Some("a"), "t", 2),
                ],
                &["t|a|{\"n\":1}", "t|a|{\"n\":2}"],
            ),
            (
                "one id for all, no index",
                vec![
                    whole(None, Some("a"), "t", 1),
                    whole(None, Some("a"), "t", 2),
                ],
                &["t|a|{\"n\":1}", "t|a|{\"n\":2}"],
            ),
            (
                "the index jumps inside a call",
                vec![
                    f(Some(0), Some("a"), Some("t"), ""),
                    f(Some(1), None, None, "{\"n\":"),
                    f(Some(2), Some("a"), None, "1}"),
                ],
                &["t|a|{\"n\":1}"],
            ),
            (
                "the id changes inside a call",
                vec![
                    f(Some(0), Some("a"), Some("t"), "{"),
                    f(Some(0), Some("b"), None, "\"n\":"),
                    f(Some(0), Some("c"), None, "1}"),
                ],
                &["t|a|{\"n\":1}"],
            ),
            (
                "the name comes with every fragment",
                vec![
                    f(Some(0), Some("a"), Some("t"), ""),
                    f(Some(0), Some("a"), Some("t"), "{\"n\":"),
                    f(Some(0), Some("a"), Some("t"), "1}"),
                    f(Some(0), Some("a"), Some("t"), ""),
                ],
                &["t|a|{\"n\":1}"],
            ),
            (
                "an empty fragment behind the last",
                vec![
                    whole(Some(0), Some("a"), "t", 1),
                    f(Some(0), None, None, ""),
                    f(None, None, None, ""),
                ],
                &["t|a|{\"n\":1}"],
            ),
            (
                "the id comes late",
                vec![
                    f(Some(0), None, Some("t"), ""),
                    f(Some(0), Some("a"), None, "{\"n\":1}"),
                ],
                &["t|a|{\"n\":1}"],
            ),
            (
                "a call without a name",
                vec![
                    f(Some(0), Some("a"), None, "{\"n\":1}"),
                    whole(Some(1), Some("b"), "t", 2),
                ],
                &["|a|{\"n\":1}", "t|b|{\"n\":2}"],
            ),
            (
                "nothing at all",
                vec![json!({}), json!(null), json!({"index": 0})],
                &[],
            ),
        ];
        for (what, fragments, expected) in cases {
            assert_eq!(merged(&fragments), expected, "{what}");
        }
    }

    #[test]
    fn odd_ids_and_arguments_are_read() {
        for id in [json!(""), json!("null"), json!(null), json!([1])] {
            assert_eq!(Fragment::read(&json!({"id": id})).id, None);
        }
        assert_eq!(Fragment::read(&json!({"id": 7})).id.as_deref(), Some("7"));
        let fragment = Fragment::read(&json!({"name": "t", "arguments": {"n": 1}}));
        assert_eq!(
            (fragment.name.as_deref(), fragment.arguments.as_str()),
            (Some("t"), "{\"n\":1}")
        );
    }

    #[test]
    fn lm13_many_calls_take_linear_time() {
        let fragments = (0..10_000).map(|n| whole(Some(n), Some(&format!("c{n}")), "t", 1));
        assert_eq!(merged(&fragments.collect::<Vec<_>>()).len(), 10_000);
    }
}
