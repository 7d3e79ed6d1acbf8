//! The rules a chat completions request must keep, as the strictest vendor applies them.
//!
//! Lenient servers hide mistakes that others answer with status 400, so the double is strict. One pure function; each
//! rule it knows has a row in its tests.

use std::collections::HashSet;

use serde_json::Value;

use super::Received;

/// Returns what is wrong with the headers of a request.
pub(super) fn header_violations(received: &Received) -> Vec<String> {
    let mut found = Vec::new();
    let content_type = received.header("content-type").unwrap_or_default();
    if content_type.split(';').next() != Some("application/json") {
        found.push(format!("the content type is {content_type:?}"));
    }
    if !received
        .header("authorization")
        .is_some_and(|value| value.starts_with("Bearer "))
    {
        found.push("no bearer token".to_owned());
    }
    found
}

/// Returns what is wrong with the body of a request.
#[must_use]
pub fn violations(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if !body["model"].is_string() {
        found.push("no model".to_owned());
    }
    if body.get("stream_options").is_some() && body["stream"] != true {
        found.push("stream_options without stream".to_owned());
    }
    if body.get("max_tokens").is_some() && body.get("max_completion_tokens").is_some() {
        found.push("max_tokens and max_completion_tokens at once".to_owned());
    }
    check_tools(body, &mut found);
    match body["messages"].as_array() {
        Some(messages) if !messages.is_empty() => {
            Conversation::default().check(messages, &mut found)
        }
        _ => found.push("no messages".to_owned()),
    }
    found
}

fn check_tools(body: &Value, found: &mut Vec<String>) {
    let Some(tools) = body.get("tools") else {
        return;
    };
    let tools = tools.as_array().map_or(&[] as &[Value], Vec::as_slice);
    if tools.is_empty() {
        found.push("tools is empty or no list".to_owned());
    }
    let mut names = HashSet::new();
    for tool in tools {
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        let is_plain = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if tool["type"] != "function" || !is_plain || !(1..=64).contains(&name.len()) {
            found.push(format!("tool {name:?} has no proper type and name"));
        }
        if !names.insert(name) {
            found.push(format!("tool {name:?} stands twice"));
        }
        let parameters = &tool["function"]["parameters"];
        if !parameters.is_null() && parameters["type"] != "object" {
            found.push(format!(
                "the parameters of tool {name:?} are not of type object"
            ));
        }
    }
}

/// The calls of a conversation and which of them still have no answer.
#[derive(Default)]
struct Conversation<'a> {
    open: Vec<&'a str>,
    seen: HashSet<&'a str>,
}

impl<'a> Conversation<'a> {
    fn check(mut self, messages: &'a [Value], found: &mut Vec<String>) {
        for (place, message) in messages.iter().enumerate() {
            let mut wrong = |what: String| found.push(format!("messages.{place}: {what}"));
            let role = message["role"].as_str().unwrap_or_default();
            if role == "tool" {
                self.check_result(message, &mut wrong);
                continue;
            }
            if !self.open.is_empty() {
                wrong(format!(
                    "calls without an answer right behind them: {:?}",
                    self.open
                ));
                self.open.clear();
            }
            match role {
                "assistant" => self.check_assistant(message, &mut wrong),
                "system" | "developer" | "user" => check_content(message, &mut wrong),
                other => wrong(format!("role {other:?}")),
            }
        }
        if !self.open.is_empty() {
            found.push(format!("the last calls have no answer: {:?}", self.open));
        }
    }

    fn check_result(&mut self, message: &'a Value, wrong: &mut impl FnMut(String)) {
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        match self.open.iter().position(|open| *open == id) {
            Some(place) => {
                self.open.remove(place);
            }
            None => wrong(format!("answers no open call ({id:?})")),
        }
        check_content(message, wrong);
    }

    fn check_assistant(&mut self, message: &'a Value, wrong: &mut impl FnMut(String)) {
        let calls = message.get("tool_calls");
        if calls.is_none() && !message["content"].is_string() {
            wrong("neither content nor calls".to_owned());
        }
        let calls = calls.map(|calls| calls.as_array().map_or(&[] as &[Value], Vec::as_slice));
        if calls.is_some_and(<[Value]>::is_empty) {
            wrong("tool_calls is empty".to_owned());
        }
        for call in calls.unwrap_or_default() {
            let id = call["id"].as_str().unwrap_or_default();
            if id.is_empty() || !self.seen.insert(id) {
                wrong(format!("call id {id:?} is empty or used twice"));
            }
            self.open.push(id);
            let name = call["function"]["name"].as_str();
            if call["type"] != "function" || name.is_none() {
                wrong(format!("call {id:?} has no type or name"));
            }
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            if !serde_json::from_str(arguments).is_ok_and(|arguments: Value| arguments.is_object())
            {
                wrong(format!(
                    "the arguments of call {id:?} are no object: {arguments:.60}"
                ));
            }
        }
    }
}

fn check_content(message: &Value, wrong: &mut impl FnMut(String)) {
    match &message["content"] {
        Value::String(_) => {}
        Value::Array(parts) if !parts.is_empty() => {
            for part in parts {
                let is_text = part["type"] == "text" && part["text"].is_string();
                let is_image = part["type"] == "image_url" && part["image_url"]["url"].is_string();
                if !is_text && !is_image {
                    wrong(format!("a part of unknown form: {part}"));
                }
            }
        }
        other => wrong(format!("content is {other}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_messages(messages: Value) -> Vec<String> {
        violations(&json!({"model": "m", "stream": true, "messages": messages}))
    }

    fn call(id: &str, arguments: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": "t", "arguments": arguments}})
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "x"})
    }

    #[test]
    fn a_proper_conversation_passes() {
        let messages = json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:,"}}]},
            {"role": "assistant", "tool_calls": [call("a", "{}"), call("b", "{\"n\":1}")]},
            result("b"),
            result("a"),
            {"role": "system", "content": "in the middle"},
            {"role": "assistant", "content": ""},
        ]);
        assert_eq!(with_messages(messages), [""; 0]);
    }

    #[test]
    fn every_rule_is_applied() {
        let user = json!({"role": "user", "content": "x"});
        let calls = |calls: Value| json!({"role": "assistant", "tool_calls": calls});
        let rows = [
            (json!([]), "no messages"),
            (json!([{"role": "user"}]), "content is null"),
            (json!([{"role": "robot", "content": "x"}]), "role \"robot\""),
            (
                json!([{"role": "user", "content": [{"type": "video"}]}]),
                "unknown form",
            ),
            (
                json!([{"role": "assistant", "content": null}]),
                "neither content nor calls",
            ),
            (json!([calls(json!([]))]), "tool_calls is empty"),
            (
                json!([calls(json!([call("a", "{}")]))]),
                "the last calls have no answer",
            ),
            (
                json!([calls(json!([call("a", "{}")])), user]),
                "calls without an answer right behind",
            ),
            (
                json!([calls(json!([call("a", "{}")])), result("b"), result("a")]),
                "answers no open call (\"b\")",
            ),
            (
                json!([calls(json!([call("a", "{}")])), result("a"), result("a")]),
                "answers no open call (\"a\")",
            ),
            (
                json!([
                    calls(json!([call("a", "{}"), call("a", "{}")])),
                    result("a"),
                    result("a")
                ]),
                "used twice",
            ),
            (
                json!([calls(json!([call("", "{}")])), result("")]),
                "is empty",
            ),
            (
                json!([calls(json!([call("a", "[]")])), result("a")]),
                "are no object",
            ),
        ];
        for (messages, expected) in rows {
            let found = with_messages(messages.clone());
            assert!(
                found.iter().any(|what| what.contains(expected)),
                "{messages}: {found:?}"
            );
        }
        let tool = json!({"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}});
        let rows = [
            (json!({"tools": []}), "tools is empty"),
            (json!({"tools": [tool, tool]}), "stands twice"),
            (
                json!({"tools": [{"type": "function", "function": {"name": "a.b"}}]}),
                "no proper type and name",
            ),
            (
                json!({"tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}]}),
                "not of type object",
            ),
            (
                json!({"stream": false, "stream_options": {}}),
                "stream_options without stream",
            ),
            (
                json!({"max_tokens": 1, "max_completion_tokens": 1}),
                "at once",
            ),
            (json!({"model": null}), "no model"),
        ];
        for (extra, expected) in rows {
            let mut body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]});
            for (name, value) in extra.as_object().unwrap() {
                body[name] = value.clone();
            }
            let found = violations(&body);
            assert!(
                found.iter().any(|what| what.contains(expected)),
                "{extra}: {found:?}"
            );
        }
    }
}
