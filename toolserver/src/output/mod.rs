//! What a tool gives back, and how much of it a model is shown.
//!
//! Small results go to the model as they are. Everything else is stored whole, and the model gets a summary with the
//! name of the blob. Which of the two happens is decided here, by bytes; storing itself is the server's work.

mod fit;
mod summary;

use serde_json::Value;

pub use self::summary::summarize;
pub(crate) use self::{
    fit::{fit_end, fit_start, floor_boundary},
    summary::{MARKER_MAX_BYTES, type_and_size},
};

/// Largest inline result of a tool that was asked for an exact part, and of one inspect reply, in bytes.
pub const TOOL_OUTPUT_MAX_BYTES: usize = 16 * 1024;

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolOutput {
    /// Goes to the model as it is.
    Inline(String),
    /// Is stored whole; the model gets the summary.
    Stored {
        /// What the model is shown, without the `[blob:…]` marker, which is added when the blob has a name.
        summary: String,
        /// All of it.
        content: Content,
    },
    /// The server decides by its limits whether this stays inline.
    Auto(Content),
}

/// What is stored of a result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text, read by lines.
    Text(String),
    /// JSON, read by entries and keys.
    Structured(Value),
}

/// How much of a result is shown. All limits are in bytes of UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Results up to this size stay inline.
    pub inline_max_bytes: usize,
    /// A summary, its `[blob:…]` marker included, has at most this size.
    pub summary_max_bytes: usize,
    /// How many lines of the beginning of a text a summary shows.
    pub head_lines: usize,
    /// How many lines of the end of a text a summary shows.
    pub tail_lines: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            inline_max_bytes: 800,
            summary_max_bytes: 400,
            head_lines: 5,
            tail_lines: 3,
        }
    }
}

impl Content {
    /// Wraps a JSON value. A string is text, so that a model is not shown quotes and escapes.
    #[must_use]
    pub fn from_json(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            value => Self::Structured(value),
        }
    }

    /// Returns all of it as text; JSON in its compact form.
    #[must_use]
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Structured(value) => value.to_string(),
        }
    }
}

impl ToolOutput {
    /// Decides by the limits whether content stays inline.
    #[must_use]
    pub fn decide(content: Content, limits: &OutputLimits) -> Self {
        match content {
            Content::Text(text) if text.len() <= limits.inline_max_bytes => Self::Inline(text),
            Content::Text(text) => Self::store(Content::Text(text), limits),
            Content::Structured(value) => {
                let text = value.to_string();
                if text.len() <= limits.inline_max_bytes {
                    Self::Inline(text)
                } else {
                    Self::store(Content::Structured(value), limits)
                }
            }
        }
    }

    fn store(content: Content, limits: &OutputLimits) -> Self {
        Self::Stored {
            summary: summarize(&content, limits),
            content,
        }
    }
}

/// Keeps up to 800 bytes inline and stores the rest behind an automatic summary of at most 400 bytes.
impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::decide(Content::Text(text), &OutputLimits::default())
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        Self::decide(Content::from_json(value), &OutputLimits::default())
    }
}
