//! One entry of a conversation's history, flat and independent of any model vendor.
//!
//! Messages for a vendor are built from items; items are what the log keeps. The invariant lives one level up, in the
//! history that holds them: every tool call is followed by exactly one result with the same `call_id`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BlobRef, CallId};

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person or program that gives the task.
    User,
    /// The model.
    Assistant,
    /// The program around the model: instructions and attached files.
    System,
}

/// One piece of a message's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentPart {
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
}

/// Text said by somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageItem {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: Vec<ContentPart>,
}

/// A tool call the model made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallItem {
    /// Unique in the conversation. The provider's id where it is, else one made by the worker.
    pub call_id: CallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments: always the text of a JSON object, so that any server accepts the history.
    pub arguments: String,
    /// What the model wrote where that was no JSON object. Such a call never runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_arguments: Option<String>,
}

/// How a tool call ended. Every call of a batch ends in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The tool ran and gave a result.
    Completed,
    /// The tool ran, or could not be run, and gave an error the model can read.
    Failed,
    /// A hook refused the call; it did not run.
    Denied,
    /// An interceptor skipped the call; it did not run.
    Skipped,
    /// The turn was stopped before the call started; it did not run.
    NotStarted,
    /// The turn was stopped, or the process died, while the call ran; its effect is unknown.
    Interrupted,
}

/// The one answer to a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResultItem {
    /// The call it answers.
    pub call_id: CallId,
    /// What the model reads.
    pub output: String,
    /// How the call ended.
    pub outcome: ToolOutcome,
    /// The stored result behind a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobRef>,
}

/// What a model thought aloud before it answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningItem {
    /// The readable part.
    pub text: String,
    /// The vendor's own form where it must be sent back unchanged (signatures, encrypted content).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Value>,
}

/// One entry of history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Item {
    /// Text said by somebody.
    Message(MessageItem),
    /// A tool call the model made.
    ToolCall(ToolCallItem),
    /// The answer to a tool call.
    ToolResult(ToolResultItem),
    /// What a model thought aloud.
    Reasoning(ReasoningItem),
}

impl Item {
    /// Makes a message of one text.
    #[must_use]
    pub fn message(role: Role, text: impl Into<String>) -> Self {
        Self::Message(MessageItem {
            role,
            content: vec![ContentPart::Text { text: text.into() }],
        })
    }

    /// Makes a message of the user.
    #[must_use]
    pub fn user_message(text: impl Into<String>) -> Self {
        Self::message(Role::User, text)
    }

    /// Makes a message of the program around the model.
    #[must_use]
    pub fn system_message(text: impl Into<String>) -> Self {
        Self::message(Role::System, text)
    }

    /// Makes a message of the model.
    #[must_use]
    pub fn assistant_message(text: impl Into<String>) -> Self {
        Self::message(Role::Assistant, text)
    }
}

impl MessageItem {
    /// Returns the texts of the message, joined.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            ContentPart::Text { text } => Some(text.as_str()),
            ContentPart::ImageUrl { .. } => None,
        });
        texts.collect()
    }
}
