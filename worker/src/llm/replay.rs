//! Answers from a file in place of a model, and the recorder that writes such files.
//!
//! A replay file is JSON lines: first `{"replay":1}`, then one whole answer per line. Blank lines and lines that begin
//! with `#` are skipped, so that a file can be written and explained by hand. Names of stored results are not known
//! before a run, so files hold placeholders for them, see [`placeholder`].

mod placeholder;
mod record;

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
    sync::atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures_util::stream;
use protocol::BlockKind;
use serde_json::Value;

use self::placeholder::BlobNames;
pub use self::record::RecordingProvider;
use super::{
    ChatRequest, ChatResponse, ContentBlock, EventStream, LlmError, LlmProvider, Role, StopReason,
    StreamEvent, call_ids::CallIds,
};

/// The version in the first line of a replay file.
const REPLAY_VERSION: u64 = 1;

/// Answers with the lines of a file, one for each request, in order.
#[derive(Debug)]
pub struct ReplayProvider {
    file: PathBuf,
    /// The answers with the number of their line.
    answers: Vec<(usize, ChatResponse)>,
    next: AtomicUsize,
}

impl ReplayProvider {
    /// Reads a replay file, all of it.
    ///
    /// # Errors
    /// [`LlmError::ReplayFile`] when it cannot be read, [`LlmError::Replay`] when a line is wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LlmError> {
        let file = path.as_ref().to_owned();
        match fs::read_to_string(&file) {
            Ok(text) => Self::parse(file, &text),
            Err(source) => Err(LlmError::ReplayFile { file, source }),
        }
    }

    /// Returns how many answers have not been given yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.answers
            .len()
            .saturating_sub(self.next.load(Ordering::Relaxed))
    }

    fn parse(file: PathBuf, text: &str) -> Result<Self, LlmError> {
        let lines = text.trim_start_matches('\u{FEFF}').lines().enumerate();
        let mut lines = lines
            .map(|(place, line)| (place + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let wrong = |line, message: String| LlmError::Replay {
            file: file.clone(),
            line,
            message,
        };
        let Some((first, header)) = lines.next() else {
            return Err(wrong(
                1,
                "it is empty; the first line must be {\"replay\":1}".to_owned(),
            ));
        };
        let header: Value = serde_json::from_str(header).unwrap_or_default();
        match header.get("replay").and_then(Value::as_u64) {
            Some(REPLAY_VERSION) => {}
            Some(version) => {
                return Err(wrong(
                    first,
                    format!("version {version} is not known, only {REPLAY_VERSION}"),
                ));
            }
            None => {
                return Err(wrong(
                    first,
                    "the first line must be {\"replay\":1}".to_owned(),
                ));
            }
        }
        let mut answers = Vec::new();
        for (number, line) in lines {
            let answer: ChatResponse =
                serde_json::from_str(line).map_err(|error| wrong(number, error.to_string()))?;
            check(&answer).map_err(|problem| wrong(number, problem.to_owned()))?;
            answers.push((number, answer));
        }
        Ok(Self {
            answers,
            file,
            next: AtomicUsize::new(0),
        })
    }

    fn answer(&self, request: &ChatRequest) -> Result<ChatResponse, LlmError> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        let Some((line, recorded)) = self.answers.get(place) else {
            return Err(LlmError::ReplayEnded {
                file: self.file.clone(),
                answers: self.answers.len(),
            });
        };
        let names = BlobNames::seen_in(request);
        let mut answer = recorded.clone();
        for block in &mut answer.message.content {
            names.resolve(block).map_err(|error| LlmError::Replay {
                file: self.file.clone(),
                line: *line,
                message: error.to_string(),
            })?;
        }
        Ok(answer)
    }
}

impl FromStr for ReplayProvider {
    type Err = LlmError;

    fn from_str(text: &str) -> Result<Self, LlmError> {
        Self::parse(PathBuf::from("(text)"), text)
    }
}

#[async_trait]
impl LlmProvider for ReplayProvider {
    fn name(&self) -> &str {
        "replay"
    }

    async fn stream(&self, request: &ChatRequest) -> Result<EventStream, LlmError> {
        let answer = self.answer(request)?;
        let events = events(answer, CallIds::of(request));
        Ok(Box::pin(stream::iter(events.into_iter().map(Ok))))
    }
}

fn check(answer: &ChatResponse) -> Result<(), &'static str> {
    if answer.message.role != Role::Assistant {
        return Err("the role of an answer must be assistant");
    }
    let is_answer = |block: &ContentBlock| {
        matches!(
            block,
            ContentBlock::Text { .. }
                | ContentBlock::Reasoning { .. }
                | ContentBlock::ToolUse { .. }
        )
    };
    if answer.message.content.iter().all(is_answer) {
        Ok(())
    } else {
        Err("an answer holds only text, reasoning and tool_use blocks")
    }
}

/// Turns an answer into the events it would have come in.
fn events(answer: ChatResponse, mut ids: CallIds) -> Vec<StreamEvent> {
    let has_calls = answer.has_tool_calls();
    let mut events = Vec::new();
    for (block, content) in (0..).zip(answer.message.content) {
        let (kind, call, text) = match content {
            ContentBlock::Reasoning { text } => (BlockKind::Reasoning, None, text),
            ContentBlock::ToolUse { id, name, input } => {
                let text = match input {
                    Value::String(raw) => raw,
                    input => input.to_string(),
                };
                (BlockKind::ToolUse, Some((ids.claim(Some(&id)), name)), text)
            }
            ContentBlock::Text { text } => (BlockKind::Text, None, text),
            // Refused when the file was read.
            ContentBlock::ImageUrl { .. } | ContentBlock::ToolResult { .. } => continue,
        };
        let (id, name) = call.unzip();
        events.push(StreamEvent::BlockStart {
            block,
            kind,
            id,
            name,
        });
        let deltas = pieces(&text).map(|delta| StreamEvent::BlockDelta {
            block,
            delta: delta.to_owned(),
        });
        events.extend(deltas);
        events.push(StreamEvent::BlockStop { block });
    }
    events.push(StreamEvent::Usage(answer.usage));
    let by_content = if has_calls {
        StopReason::ToolUse
    } else {
        StopReason::Stop
    };
    events.push(StreamEvent::Finish {
        stop_reason: answer.stop_reason.unwrap_or(by_content),
    });
    events
}

/// Cuts a text into about as many pieces as a model would send, though not more than some dozens.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let size = (text.len() / 64).max(12);
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = (size..rest.len())
            .find(|end| rest.is_char_boundary(*end))
            .unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests;
