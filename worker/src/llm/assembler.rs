//! From the events of a stream to the whole answer.
//!
//! Pure, and the only place that does it: the live providers, the recorder and the replay all agree on what an answer
//! is because they share it.

use std::collections::HashMap;

use protocol::BlockKind;
use serde_json::Value;

use super::{
    ChatResponse, ContentBlock, LlmError, Message, Role, StopReason, StreamEvent, Usage, arguments,
};

/// Collects the events of one answer.
#[derive(Debug, Default)]
pub struct Assembler {
    blocks: Vec<Block>,
    by_number: HashMap<u32, usize>,
    usage: Usage,
    stop_reason: Option<StopReason>,
}

#[derive(Debug)]
struct Block {
    kind: BlockKind,
    id: String,
    name: String,
    text: String,
}

impl Assembler {
    /// Starts with nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// [`LlmError::Stream`] when the event cannot stand here: a provider breaks the contract of [`StreamEvent`].
    pub fn apply(&mut self, event: &StreamEvent) -> Result<(), LlmError> {
        if self.stop_reason.is_some() {
            return Err(broken("an event behind the end"));
        }
        match event {
            StreamEvent::BlockStart {
                block,
                kind,
                id,
                name,
            } => {
                if self.by_number.insert(*block, self.blocks.len()).is_some() {
                    return Err(broken("a block that starts twice"));
                }
                self.blocks.push(Block {
                    kind: *kind,
                    id: id.clone().unwrap_or_default(),
                    name: name.clone().unwrap_or_default(),
                    text: String::new(),
                });
            }
            StreamEvent::BlockDelta { block, delta } => {
                let place = self
                    .by_number
                    .get(block)
                    .ok_or_else(|| broken("a delta without its block"))?;
                self.blocks[*place].text.push_str(delta);
            }
            StreamEvent::BlockStop { block } => {
                if !self.by_number.contains_key(block) {
                    return Err(broken("a stop without its block"));
                }
            }
            StreamEvent::Usage(usage) => self.usage = *usage,
            StreamEvent::Finish { stop_reason } => self.stop_reason = Some(stop_reason.clone()),
        }
        Ok(())
    }

    /// Returns the answer.
    ///
    /// # Errors
    /// [`LlmError::Truncated`] when the events ended before [`StreamEvent::Finish`].
    pub fn finish(self) -> Result<ChatResponse, LlmError> {
        let stop_reason = self.stop_reason.ok_or(LlmError::Truncated)?;
        let was_cut = stop_reason.is_cut() || stop_reason == StopReason::ContentFilter;
        let last = self.blocks.len().saturating_sub(1);
        let content = self.blocks.into_iter().enumerate().map(|(place, block)| {
            // The call at which an answer was cut may have lost its arguments before the first of them came; without
            // this it would look like a call without arguments, and run.
            let lost = was_cut && place == last && block.text.trim().is_empty();
            block.into_content(lost)
        });
        Ok(ChatResponse {
            message: Message {
                role: Role::Assistant,
                content: content.collect(),
            },
            usage: self.usage,
            stop_reason: Some(stop_reason),
        })
    }
}

impl Block {
    fn into_content(self, arguments_lost: bool) -> ContentBlock {
        match self.kind {
            BlockKind::Text => ContentBlock::Text { text: self.text },
            BlockKind::Reasoning => ContentBlock::Reasoning { text: self.text },
            BlockKind::ToolUse => ContentBlock::ToolUse {
                id: self.id,
                name: self.name,
                input: if arguments_lost {
                    Value::String(self.text)
                } else {
                    arguments::parse(&self.text)
                },
            },
        }
    }
}

fn broken(what: &str) -> LlmError {
    LlmError::Stream {
        message: format!("the provider sent {what}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn start(block: u32, kind: BlockKind) -> StreamEvent {
        let call = kind == BlockKind::ToolUse;
        StreamEvent::BlockStart {
            block,
            kind,
            id: call.then(|| format!("c{block}")),
            name: call.then(|| "t".to_owned()),
        }
    }

    fn delta(block: u32, delta: &str) -> StreamEvent {
        StreamEvent::BlockDelta {
            block,
            delta: delta.into(),
        }
    }

    fn finish(stop_reason: StopReason) -> StreamEvent {
        StreamEvent::Finish { stop_reason }
    }

    fn assemble(events: &[StreamEvent]) -> Result<ChatResponse, LlmError> {
        let mut assembler = Assembler::new();
        for event in events {
            assembler.apply(event)?;
        }
        assembler.finish()
    }

    #[test]
    fn interleaved_blocks_keep_the_order_of_their_starts() {
        let events = [
            start(0, BlockKind::Text),
            delta(0, "a"),
            start(1, BlockKind::ToolUse),
            start(2, BlockKind::ToolUse),
            delta(2, "{\"n\":"),
            delta(1, "{\"n\":1}"),
            delta(2, "2}"),
            delta(0, "b"),
            StreamEvent::BlockStop { block: 2 },
            StreamEvent::Usage(Usage {
                input_tokens: 3,
                ..Usage::default()
            }),
            finish(StopReason::ToolUse),
        ];
        let response = assemble(&events).unwrap();
        assert_eq!(
            serde_json::to_value(&response.message.content).unwrap(),
            json!([
                {"type": "text", "text": "ab"},
                {"type": "tool_use", "id": "c1", "name": "t", "input": {"n": 1}},
                {"type": "tool_use", "id": "c2", "name": "t", "input": {"n": 2}},
            ])
        );
        assert_eq!(response.usage.input_tokens, 3);
    }

    #[test]
    fn lm06_without_the_end_there_is_no_answer() {
        let error = assemble(&[start(0, BlockKind::Text), delta(0, "a")]).unwrap_err();
        assert!(matches!(error, LlmError::Truncated));
    }

    #[test]
    fn lm15_a_call_cut_before_its_arguments_does_not_look_whole() {
        let inputs = |reason: StopReason| {
            let events = [
                start(0, BlockKind::ToolUse),
                start(1, BlockKind::ToolUse),
                finish(reason),
            ];
            let content = assemble(&events).unwrap().message.content.into_iter();
            let inputs = content.filter_map(|block| match block {
                ContentBlock::ToolUse { input, .. } => Some(input),
                _ => None,
            });
            inputs.collect::<Vec<_>>()
        };
        assert_eq!(inputs(StopReason::Length), [json!({}), json!("")]);
        assert_eq!(inputs(StopReason::MaxTokens), [json!({}), json!("")]);
        assert_eq!(inputs(StopReason::Stop), [json!({}), json!({})]);
    }

    #[test]
    fn events_that_break_the_contract_are_refused() {
        let wrong: [&[StreamEvent]; 4] = [
            &[delta(0, "a")],
            &[StreamEvent::BlockStop { block: 0 }],
            &[start(0, BlockKind::Text), start(0, BlockKind::Text)],
            &[finish(StopReason::Stop), finish(StopReason::Stop)],
        ];
        for events in wrong {
            assert!(
                matches!(assemble(events), Err(LlmError::Stream { .. })),
                "{events:?}"
            );
        }
    }
}
