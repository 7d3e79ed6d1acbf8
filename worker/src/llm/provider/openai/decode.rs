//! From the JSON of a stream to events, in whatever form a server sends it.
//!
//! Pure: text in, events out, so that every quirk is a row of a table. The invariant: `Finish` comes only when the
//! server said that the answer is complete, and every started block is stopped before it.

use std::collections::VecDeque;

use protocol::BlockKind;
use serde_json::Value;

use super::merge::{Calls, Fragment};
use crate::llm::{
    LlmError, Redaction, StopReason, StreamEvent, Usage,
    call_ids::CallIds,
    error::classify_in_band,
    surrogate::{HalfJoiner, Halves, mark_halves},
};

/// Whether more is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// The reason for the end has come; a little may follow, such as the usage.
    AlmostDone,
    Done,
}

/// Reads one answer.
#[derive(Debug)]
pub(super) struct Decoder {
    ids: CallIds,
    redaction: Redaction,
    /// How many bytes of text the answer may still have.
    room: u64,
    limit: u64,
    queue: VecDeque<StreamEvent>,
    next_block: u32,
    /// The text or reasoning block that is being written.
    open: Option<OpenText>,
    calls: Calls,
    usage: Option<Usage>,
    finish_reason: Option<String>,
}

#[derive(Debug)]
struct OpenText {
    kind: BlockKind,
    block: u32,
    halves: HalfJoiner,
}

impl Decoder {
    pub(super) fn new(ids: CallIds, redaction: Redaction, limit: u64) -> Self {
        Self {
            ids,
            redaction,
            room: limit,
            limit,
            queue: VecDeque::new(),
            next_block: 0,
            open: None,
            calls: Calls::default(),
            usage: None,
            finish_reason: None,
        }
    }

    /// Returns the next event, if one is ready.
    pub(super) fn next(&mut self) -> Option<StreamEvent> {
        self.queue.pop_front()
    }

    /// Returns all events that are ready.
    pub(super) fn drain(&mut self) -> std::collections::vec_deque::IntoIter<StreamEvent> {
        std::mem::take(&mut self.queue).into_iter()
    }

    /// Reads the data of one event.
    pub(super) fn feed(&mut self, event: Option<&str>, data: &str) -> Result<Progress, LlmError> {
        let data = data.trim();
        if data == "[DONE]" {
            self.end()?;
            return Ok(Progress::Done);
        }
        if data.is_empty() {
            return Ok(self.progress());
        }
        let (json, halves) = match self.parse(data) {
            Ok(parsed) => parsed,
            Err(_) if event == Some("error") => (Value::String(data.to_owned()), Halves::Absent),
            Err(error) => return Err(error),
        };
        if event == Some("error") || is_error(&json) {
            return Err(classify_in_band(&json, &self.redaction));
        }
        self.chunk(&json, halves)?;
        Ok(self.progress())
    }

    /// Reads an answer that was not streamed.
    pub(super) fn feed_whole(&mut self, text: &str) -> Result<(), LlmError> {
        let (json, halves) = self.parse(text)?;
        if is_error(&json) {
            return Err(classify_in_band(&json, &self.redaction));
        }
        if first_choice(&json).is_none() {
            return Err(self.unreadable("it has no choices", text));
        }
        self.chunk(&json, halves)?;
        self.end()
    }

    /// Ends the answer where the server stopped sending.
    pub(super) fn end_of_body(&mut self) -> Result<(), LlmError> {
        if self.finish_reason.is_none() {
            return Err(LlmError::Truncated);
        }
        self.end()
    }

    fn progress(&self) -> Progress {
        if self.finish_reason.is_some() {
            Progress::AlmostDone
        } else {
            Progress::More
        }
    }

    fn parse(&self, text: &str) -> Result<(Value, Halves), LlmError> {
        let marked = mark_halves(text);
        let halves = if marked.is_some() {
            Halves::Marked
        } else {
            Halves::Absent
        };
        match serde_json::from_str(marked.as_deref().unwrap_or(text)) {
            Ok(json) => Ok((json, halves)),
            Err(error) if error.is_eof() => Err(LlmError::Truncated),
            Err(error) => Err(self.unreadable(&error.to_string(), text)),
        }
    }

    fn unreadable(&self, problem: &str, text: &str) -> LlmError {
        let start: String = text.chars().take(200).collect();
        LlmError::Stream {
            message: self.redaction.excerpt(&format!("{problem}: {start}")),
        }
    }

    fn chunk(&mut self, chunk: &Value, halves: Halves) -> Result<(), LlmError> {
        let usage = [chunk.get("usage"), chunk.pointer("/x_groq/usage")];
        if let Some(usage) = usage.into_iter().flatten().find(|usage| usage.is_object()) {
            // The last one counts: some servers send a running total with every chunk.
            self.usage = Some(read_usage(usage));
        }
        let Some(choice) = first_choice(chunk) else {
            return Ok(());
        };
        let delta = ["delta", "message"]
            .iter()
            .find_map(|name| choice.get(name).filter(|delta| delta.is_object()));
        if let Some(delta) = delta {
            self.delta(delta, halves)?;
        }
        if let Some(reason) = choice
            .get("finish_reason")
            .and_then(Value::as_str)
            .filter(|reason| !reason.is_empty())
        {
            self.finish_reason = Some(reason.to_owned());
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, halves: Halves) -> Result<(), LlmError> {
        let reasoning = ["reasoning_content", "reasoning", "reasoning_details"];
        let reasoning = reasoning
            .iter()
            .filter_map(|name| delta.get(name))
            .map(|value| text_of(value, "text"));
        // A server that fills several of them says the same in each.
        if let Some(text) = reasoning.into_iter().find(|text| !text.is_empty()) {
            self.text(BlockKind::Reasoning, &text, halves)?;
        }
        if let Some(content) = delta.get("content") {
            self.text(BlockKind::Reasoning, &thinking_of(content), halves)?;
            self.text(BlockKind::Text, &text_of(content, "text"), halves)?;
        }
        if let Some(refusal) = delta.get("refusal").and_then(Value::as_str) {
            self.text(BlockKind::Text, refusal, halves)?;
        }
        let calls = delta
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let older_form = delta.get("function_call").filter(|call| call.is_object());
        for element in calls.chain(older_form) {
            self.fragment(&Fragment::read(element), halves)?;
        }
        Ok(())
    }

    fn text(&mut self, kind: BlockKind, text: &str, halves: Halves) -> Result<(), LlmError> {
        if text.is_empty() {
            return Ok(());
        }
        self.take_room(text)?;
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close_text();
            let block = self.start(kind, None, None);
            self.open = Some(OpenText {
                kind,
                block,
                halves: HalfJoiner::default(),
            });
        }
        if let Some(open) = &mut self.open {
            let delta = open.halves.join(text, halves);
            push_delta(&mut self.queue, open.block, &delta);
        }
        Ok(())
    }

    fn fragment(&mut self, fragment: &Fragment, halves: Halves) -> Result<(), LlmError> {
        let Some(place) = self.calls.route(fragment) else {
            return Ok(());
        };
        self.take_room(&fragment.arguments)?;
        let call = &mut self.calls.list[place];
        let delta = call.halves.join(&fragment.arguments, halves);
        call.note(&delta);
        if let Some(block) = call.block {
            push_delta(&mut self.queue, block, &delta);
            return Ok(());
        }
        call.waiting.push_str(&delta);
        if !call.name.is_empty() {
            self.start_call(place);
        }
        Ok(())
    }

    fn start_call(&mut self, place: usize) {
        self.close_text();
        let call = &mut self.calls.list[place];
        let id = self.ids.claim(call.id.as_deref());
        let name = call.name.clone();
        let waiting = std::mem::take(&mut call.waiting);
        let block = self.start(BlockKind::ToolUse, Some(id), Some(name));
        self.calls.list[place].block = Some(block);
        push_delta(&mut self.queue, block, &waiting);
    }

    fn start(&mut self, kind: BlockKind, id: Option<String>, name: Option<String>) -> u32 {
        let block = self.next_block;
        self.next_block += 1;
        self.queue.push_back(StreamEvent::BlockStart {
            block,
            kind,
            id,
            name,
        });
        block
    }

    fn close_text(&mut self) {
        if let Some(mut open) = self.open.take() {
            let rest: String = open.halves.finish().into_iter().collect();
            push_delta(&mut self.queue, open.block, &rest);
            self.queue
                .push_back(StreamEvent::BlockStop { block: open.block });
        }
    }

    fn take_room(&mut self, text: &str) -> Result<(), LlmError> {
        let rest = self.room.checked_sub(text.len() as u64);
        self.room = rest.ok_or(LlmError::TooLarge {
            what: "the answer",
            limit: self.limit,
        })?;
        Ok(())
    }

    /// Stops all blocks and says why the answer ended.
    fn end(&mut self) -> Result<(), LlmError> {
        // A server that says nothing but that it is done has not answered.
        if self.finish_reason.is_none() && self.next_block == 0 && self.calls.list.is_empty() {
            return Err(LlmError::Truncated);
        }
        self.close_text();
        for place in 0..self.calls.list.len() {
            if self.calls.list[place].block.is_none() {
                // It never got a name, but it is a call, and must get its answer.
                self.start_call(place);
            }
            let call = &mut self.calls.list[place];
            if let Some(block) = call.block {
                let rest: String = call.halves.finish().into_iter().collect();
                push_delta(&mut self.queue, block, &rest);
                self.queue.push_back(StreamEvent::BlockStop { block });
            }
        }
        self.queue.extend(self.usage.take().map(StreamEvent::Usage));
        let stop_reason = stop_reason(self.finish_reason.as_deref(), !self.calls.list.is_empty());
        self.queue.push_back(StreamEvent::Finish { stop_reason });
        Ok(())
    }
}

fn push_delta(queue: &mut VecDeque<StreamEvent>, block: u32, delta: &str) {
    if !delta.is_empty() {
        queue.push_back(StreamEvent::BlockDelta {
            block,
            delta: delta.to_owned(),
        });
    }
}

/// Only the first answer counts; more are never asked for.
fn first_choice(chunk: &Value) -> Option<&Value> {
    let mut choices = chunk.get("choices")?.as_array()?.iter();
    choices.find(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0)
}

fn is_error(json: &Value) -> bool {
    let has_error = json.get("error").is_some_and(|error| !error.is_null());
    let says_error = |name: &str| json.get(name).and_then(Value::as_str) == Some("error");
    has_error
        || says_error("object")
        || says_error("type")
        || (json.get("detail").is_some() && json.get("choices").is_none())
}

/// A string, or the texts of a list of typed parts.
fn text_of(value: &Value, field: &str) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts
                .iter()
                .filter_map(|part| part.get(field).or_else(|| part.get("summary"))?.as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

/// The reasoning that one vendor puts among the parts of the content.
fn thinking_of(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    parts
        .filter_map(|part| part.get("thinking"))
        .map(|thinking| text_of(thinking, "text"))
        .collect()
}

fn stop_reason(word: Option<&str>, has_calls: bool) -> StopReason {
    match word {
        // What the model did decides: servers say `stop` with calls and `tool_calls` without.
        None
        | Some(
            "stop" | "tool_calls" | "function_call" | "end_turn" | "eos" | "end" | "stop_sequence",
        ) => {
            if has_calls {
                StopReason::ToolUse
            } else {
                StopReason::Stop
            }
        }
        Some("length") => StopReason::Length,
        Some("max_tokens" | "model_length") => StopReason::MaxTokens,
        Some("content_filter") => StopReason::ContentFilter,
        Some(other) => StopReason::Other(other.chars().take(64).collect()),
    }
}

fn read_usage(usage: &Value) -> Usage {
    let count = |pointer: &str| usage.pointer(pointer).map_or(0, saturated);
    Usage {
        input_tokens: count("/prompt_tokens"),
        output_tokens: count("/completion_tokens"),
        cached_tokens: count("/prompt_tokens_details/cached_tokens")
            .max(count("/prompt_cache_hit_tokens")),
        reasoning_tokens: count("/completion_tokens_details/reasoning_tokens"),
    }
}

fn saturated(number: &Value) -> u64 {
    // The cast saturates: negative is 0, too large is the largest number.
    let from_float = || number.as_f64().unwrap_or(0.0) as u64;
    number.as_u64().unwrap_or_else(from_float)
}

#[cfg(test)]
mod tests;
