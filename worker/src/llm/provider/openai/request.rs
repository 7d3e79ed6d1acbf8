//! From a request to the body of `POST /chat/completions`.
//!
//! What goes out passes the strictest server: every tool message answers a call, no message is empty in a way the
//! schema forbids, and arguments are always the text of an object. Reasoning is not sent back in this dialect.

use serde_json::{Map, Number, Value, json};

use super::TokenLimitField;
use crate::llm::{ChatRequest, ContentBlock, LlmError, Message, Role, ToolDefinition};

/// Fields that must say what this program relies on.
const RESERVED_FIELDS: [&str; 2] = ["messages", "stream"];

/// Writes the body.
///
/// # Errors
/// [`LlmError::InvalidRequest`] when a field cannot be written or `extra_body` claims a reserved one.
pub(super) fn body(
    request: &ChatRequest,
    limit_field: TokenLimitField,
) -> Result<Vec<u8>, LlmError> {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    body.insert("messages".to_owned(), Value::Array(messages(request)));
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if let Some(limit) = request.max_tokens {
        body.insert(limit_field.as_str().to_owned(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), short_number(temperature)?);
    }
    if let Some(extra) = &request.extra_body {
        merge(&mut body, extra)?;
    }
    serde_json::to_vec(&body).map_err(|error| LlmError::unsendable(error.to_string()))
}

/// Puts extra fields over the others. A field that is `null` is taken out, for servers that refuse one.
fn merge(body: &mut Map<String, Value>, extra: &Value) -> Result<(), LlmError> {
    let Value::Object(extra) = extra else {
        return Err(LlmError::unsendable("extra_body must be a JSON object"));
    };
    for (name, value) in extra {
        if RESERVED_FIELDS.contains(&name.as_str()) {
            return Err(LlmError::unsendable(format!(
                "extra_body must not set {name:?}"
            )));
        }
        if value.is_null() {
            body.shift_remove(name);
        } else {
            body.insert(name.clone(), value.clone());
        }
    }
    Ok(())
}

/// Writes 0.7 as 0.7: widened to 64 bits, it would be 0.699999988….
fn short_number(number: f32) -> Result<Value, LlmError> {
    let wide = number.to_string().parse().ok().and_then(Number::from_f64);
    wide.map(Value::Number)
        .ok_or_else(|| LlmError::unsendable("temperature must be a finite number"))
}

fn tool(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
    })
}

fn messages(request: &ChatRequest) -> Vec<Value> {
    let mut out = Vec::with_capacity(request.messages.len() + 1);
    if let Some(prompt) = &request.system_prompt {
        out.push(json!({"role": "system", "content": prompt}));
    }
    for message in &request.messages {
        push_message(&mut out, message);
    }
    out
}

fn push_message(out: &mut Vec<Value>, message: &Message) {
    // Results stand before anything else of their message: nothing may come between a call and its answer.
    out.extend(message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolResult {
            tool_use_id,
            content,
        } => Some(json!({"role": "tool", "tool_call_id": tool_use_id, "content": content})),
        _ => None,
    }));
    match message.role {
        Role::Assistant => out.push(assistant(&message.content)),
        Role::System => out.push(json!({"role": "system", "content": text_of(&message.content)})),
        Role::User | Role::Tool => {
            let mut others = message.content.iter();
            let only_results = others.all(|block| matches!(block, ContentBlock::ToolResult { .. }));
            if !only_results || (message.content.is_empty() && message.role == Role::User) {
                out.push(json!({"role": "user", "content": user_content(&message.content)}));
            }
        }
    }
}

fn assistant(content: &[ContentBlock]) -> Value {
    let calls = content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse { id, name, input } => Some(json!({
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": arguments(input)},
        })),
        _ => None,
    });
    let calls: Vec<_> = calls.collect();
    let text = text_of(content);
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    if !text.is_empty() || calls.is_empty() {
        message.insert("content".to_owned(), json!(text));
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Value::Object(message)
}

/// The text of an object, always: some servers answer a conversation with broken arguments with status 500 for ever.
fn arguments(input: &Value) -> String {
    if input.is_object() {
        input.to_string()
    } else {
        "{}".to_owned()
    }
}

fn text_of(content: &[ContentBlock]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A plain string where there are only texts: not every server takes a list of parts.
fn user_content(content: &[ContentBlock]) -> Value {
    let has_image = content
        .iter()
        .any(|block| matches!(block, ContentBlock::ImageUrl { .. }));
    if !has_image {
        return json!(text_of(content));
    }
    let parts = content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(json!({"type": "text", "text": text})),
        ContentBlock::ImageUrl { url } => {
            Some(json!({"type": "image_url", "image_url": {"url": url}}))
        }
        ContentBlock::ToolUse { .. }
        | ContentBlock::ToolResult { .. }
        | ContentBlock::Reasoning { .. } => None,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(request: &ChatRequest) -> Value {
        let bytes = body(request, TokenLimitField::MaxTokens).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn text(text: &str) -> ContentBlock {
        ContentBlock::Text { text: text.into() }
    }

    fn call(id: &str, input: Value) -> ContentBlock {
        ContentBlock::ToolUse {
            id: id.into(),
            name: "t".into(),
            input,
        }
    }

    #[test]
    fn a_conversation_is_written_as_the_dialect_wants_it() {
        let messages = vec![
            Message::text(Role::User, "go"),
            Message::text(Role::System, "[File: a]\nx"),
            Message {
                role: Role::Assistant,
                content: vec![
                    ContentBlock::Reasoning { text: "hm".into() },
                    call("1", json!({"z": 1, "a": 2})),
                    call("2", json!("{broken")),
                ],
            },
            Message::tool_result("1", "one"),
            Message {
                role: Role::User,
                content: vec![
                    text("look"),
                    ContentBlock::ImageUrl {
                        url: "data:,x".into(),
                    },
                    ContentBlock::ToolResult {
                        tool_use_id: "2".into(),
                        content: "two".into(),
                    },
                ],
            },
            Message {
                role: Role::Assistant,
                content: vec![text("a"), text("b")],
            },
            Message {
                role: Role::Assistant,
                content: vec![ContentBlock::Reasoning { text: "x".into() }],
            },
            Message {
                role: Role::User,
                content: vec![],
            },
        ];
        let request = ChatRequest {
            system_prompt: Some("be kind".into()),
            messages,
            ..ChatRequest::default()
        };
        assert_eq!(
            written(&request)["messages"],
            json!([
                {"role": "system", "content": "be kind"},
                {"role": "user", "content": "go"},
                {"role": "system", "content": "[File: a]\nx"},
                {"role": "assistant", "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "t", "arguments": "{\"z\":1,\"a\":2}"}},
                    {"id": "2", "type": "function", "function": {"name": "t", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "1", "content": "one"},
                {"role": "tool", "tool_call_id": "2", "content": "two"},
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "data:,x"}},
                ]},
                {"role": "assistant", "content": "a\nb"},
                {"role": "assistant", "content": ""},
                {"role": "user", "content": ""},
            ])
        );
    }

    #[test]
    fn settings_and_extra_fields_are_written() {
        let mut request = ChatRequest {
            model: "m".into(),
            tools: vec![ToolDefinition {
                name: "t".into(),
                description: "d".into(),
                input_schema: json!({"type": "object"}),
            }],
            max_tokens: Some(5),
            temperature: Some(0.7),
            extra_body: Some(
                json!({"enable_thinking": false, "temperature": 1, "stream_options": null}),
            ),
            ..ChatRequest::default()
        };
        assert_eq!(
            written(&request),
            json!({
                "model": "m", "messages": [], "stream": true,
                "tools": [{"type": "function", "function": {"name": "t", "description": "d", "parameters": {"type": "object"}}}],
                "max_tokens": 5, "temperature": 1, "enable_thinking": false,
            })
        );
        request.extra_body = None;
        let bytes = body(&request, TokenLimitField::MaxCompletionTokens).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.contains("\"max_completion_tokens\":5")
                && text.contains("\"temperature\":0.7,") | text.ends_with("0.7}"),
            "{text}"
        );
    }

    #[test]
    fn what_cannot_be_sent_is_refused_here() {
        let extras = [
            json!({"messages": []}),
            json!({"stream": false}),
            json!({"stream": null}),
            json!([1]),
            json!("x"),
        ];
        for extra in extras {
            let request = ChatRequest {
                extra_body: Some(extra.clone()),
                ..ChatRequest::default()
            };
            let error = body(&request, TokenLimitField::MaxTokens).unwrap_err();
            assert!(
                matches!(error, LlmError::InvalidRequest { status: None, .. }),
                "{extra}"
            );
        }
        let request = ChatRequest {
            temperature: Some(f32::NAN),
            ..ChatRequest::default()
        };
        assert!(body(&request, TokenLimitField::MaxTokens).is_err());
    }
}
