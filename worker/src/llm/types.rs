//! What a model is asked and what it answers, in no vendor's dialect.
//!
//! Providers translate to and from these types; nothing else does. They are plain data, so that an answer can be
//! written to a replay file and read back unchanged.

use std::pin::Pin;

use futures_util::Stream;
use protocol::BlockKind;
pub use protocol::TokenUsage as Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LlmError;

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person or program that gives the task.
    User,
    /// The model.
    Assistant,
    /// The program around the model. May stand anywhere in a conversation.
    System,
    /// The results of tool calls.
    Tool,
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, by `https:` or `data:` URL.
    ImageUrl {
        /// Where the image is.
        url: String,
    },
    /// A tool call the model made.
    ToolUse {
        /// Unique in the conversation.
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// The arguments: a JSON object. Where the model wrote anything else, or two values under one key, or was cut
        /// off, this is a string with the raw text, and the call must not run. Nothing written at all is `{}`.
        input: Value,
    },
    /// The answer to a tool call.
    ToolResult {
        /// The call it answers.
        tool_use_id: String,
        /// What the model reads.
        content: String,
    },
    /// What the model thought aloud.
    Reasoning {
        /// The readable part.
        text: String,
    },
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<ContentBlock>,
}

impl Message {
    /// Makes a message of one text.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            content: vec![ContentBlock::Text { text: text.into() }],
        }
    }

    /// Makes the message that answers one tool call.
    #[must_use]
    pub fn tool_result(tool_use_id: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            role: Role::Tool,
            content: vec![ContentBlock::ToolResult {
                tool_use_id: tool_use_id.into(),
                content: content.into(),
            }],
        }
    }
}

/// A tool as the model is told about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// What the model calls it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

/// One question to a model: the whole conversation and what it may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The model's name.
    pub model: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// Instructions put before the conversation.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The tools the model may call.
    #[serde(default)]
    pub tools: Vec<ToolDefinition>,
    /// How many tokens the answer may have.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// How freely the model chooses its words.
    #[serde(default)]
    pub temperature: Option<f32>,
    /// Fields of the vendor's dialect put into the request as they are; an object.
    #[serde(default)]
    pub extra_body: Option<Value>,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said everything.
    Stop,
    /// It waits for the results of its tool calls.
    ToolUse,
    /// The answer reached the allowed number of tokens, as some vendors call it.
    MaxTokens,
    /// The vendor withheld the answer.
    ContentFilter,
    /// The answer reached the allowed number of tokens.
    Length,
    /// A word this crate does not know.
    Other(String),
}

impl StopReason {
    /// Returns whether the answer was cut because it grew too long.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Length | Self::MaxTokens)
    }
}

/// A model's whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// What it said and called, in the order it began each block.
    pub message: Message,
    /// What it cost; zero where the endpoint does not tell.
    #[serde(default)]
    pub usage: Usage,
    /// Why it stopped.
    #[serde(default)]
    pub stop_reason: Option<StopReason>,
}

impl ChatResponse {
    /// Returns the text of all text blocks, one after the other.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.message.content.iter().filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Returns whether the model called a tool. What it called decides, not the reason it gave for stopping.
    #[must_use]
    pub fn has_tool_calls(&self) -> bool {
        let mut blocks = self.message.content.iter();
        blocks.any(|block| matches!(block, ContentBlock::ToolUse { .. }))
    }
}

/// One step of an answer that is being written.
///
/// Every block has a number of its own, a start, any number of deltas and a stop. Blocks may overlap: vendors
/// interleave the fragments of parallel calls. `Usage` comes at most once, and `Finish` is the last event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum StreamEvent {
    /// A block began.
    BlockStart {
        /// Tells the blocks of one answer apart, counted from 0.
        block: u32,
        /// What it holds.
        kind: BlockKind,
        /// The call's id, unique in the conversation, when it is a tool call.
        id: Option<String>,
        /// The tool's name, when it is a tool call.
        name: Option<String>,
    },
    /// A block grew.
    BlockDelta {
        /// The block.
        block: u32,
        /// What was added; for a tool call a piece of the arguments' text.
        delta: String,
    },
    /// A block is complete.
    BlockStop {
        /// The block.
        block: u32,
    },
    /// What the answer cost.
    Usage(Usage),
    /// The answer is complete.
    Finish {
        /// Why the model stopped.
        stop_reason: StopReason,
    },
}

/// An answer while it is being written. It is complete only if its last item is [`StreamEvent::Finish`]; dropping it
/// cancels the request.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, LlmError>> + Send>>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn responses_round_trip_and_keep_the_order_of_keys() {
        let line = r#"{"message":{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"a"},{"type":"tool_use","id":"1","name":"t","input":{"z":1,"a":[{"y":2,"b":3}]}}]},"usage":{"input_tokens":1,"output_tokens":2,"cached_tokens":0,"reasoning_tokens":0},"stop_reason":"tool_use"}"#;
        let response: ChatResponse = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&response).unwrap(), line);
        assert!(response.has_tool_calls());
        assert_eq!(response.text(), "a");
    }

    #[test]
    fn short_forms_are_read() {
        let response: ChatResponse =
            serde_json::from_value(json!({"message": {"role": "assistant", "content": []}}))
                .unwrap();
        assert_eq!(response.usage, Usage::default());
        assert_eq!(response.stop_reason, None);
        assert_eq!(
            serde_json::to_value(StopReason::Other("load".into())).unwrap(),
            json!({"other": "load"})
        );
    }

    #[test]
    fn images_and_results_are_tagged() {
        let message = Message::tool_result("c1", "done");
        assert_eq!(
            serde_json::to_value(&message).unwrap(),
            json!({"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "done"}]})
        );
        let image = ContentBlock::ImageUrl {
            url: "data:,".into(),
        };
        assert_eq!(
            serde_json::to_value(&image).unwrap(),
            json!({"type": "image_url", "url": "data:,"})
        );
    }
}
