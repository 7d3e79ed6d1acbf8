//! What the scripted model says, and how the bytes of it travel.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::sync::Notify;

/// Begins an answer: status 200, streamed, ending as it should.
#[must_use]
pub fn answer() -> Reply {
    Reply::new(200)
}

/// Begins a refusal: status 500 unless another one is set, no body.
#[must_use]
pub fn fault() -> Reply {
    let mut reply = Reply::new(500);
    reply.body = Body::Text(String::new());
    reply
}

/// One reply of the script.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    finish: Option<String>,
    usage: Option<Value>,
    says_done: bool,
    line_end: &'static str,
    prefix: Vec<u8>,
    piece_bytes: usize,
    pub(super) ending: Ending,
    pub(super) gate: Option<Arc<Notify>>,
}

#[derive(Clone, Debug)]
enum Body {
    /// Deltas, one event each.
    Deltas(Vec<Value>),
    /// The same as one JSON text.
    Whole(Vec<Value>),
    /// Anything else.
    Text(String),
}

/// What happens to the connection, counted in bytes of the whole reply, head included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    /// Closed after so many bytes.
    Cut(usize),
    /// Reset after so many bytes.
    Reset(usize),
    /// Silent after so many bytes, until the client hangs up.
    Stall(usize),
}

impl Reply {
    fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Deltas(vec![json!({"role": "assistant", "content": ""})]),
            finish: None,
            usage: Some(json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})),
            says_done: true,
            line_end: "\n",
            prefix: Vec::new(),
            piece_bytes: usize::MAX,
            ending: Ending::Complete,
            gate: None,
        }
    }

    /// Adds any delta.
    #[must_use]
    pub fn delta(mut self, delta: Value) -> Self {
        match &mut self.body {
            Body::Deltas(deltas) | Body::Whole(deltas) => deltas.push(delta),
            Body::Text(_) => self.body = Body::Deltas(vec![delta]),
        }
        self
    }

    /// Says something, in several deltas.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        pieces(text, 9)
            .into_iter()
            .fold(self, |reply, piece| reply.delta(json!({"content": piece})))
    }

    /// Thinks aloud.
    #[must_use]
    pub fn reasoning(self, text: &str) -> Self {
        self.delta(json!({"reasoning_content": text}))
    }

    /// Calls a tool, under an id that no other call has.
    #[must_use]
    pub fn call(self, name: &str, arguments: Value) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = format!("call_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.raw_call(&id, name, &arguments.to_string())
    }

    /// Calls a tool under a given id with any text as arguments, in several fragments.
    #[must_use]
    pub fn raw_call(self, id: &str, name: &str, arguments: &str) -> Self {
        let index = self.calls_so_far();
        let first = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
        let mut reply = self.delta(json!({"tool_calls": [first]}));
        for piece in pieces(arguments, 7) {
            reply = reply
                .delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
        }
        reply.finish = reply.finish.or_else(|| Some("tool_calls".to_owned()));
        reply
    }

    /// Sets the reason for the end; `stop`, or `tool_calls` after a call, if none is set.
    #[must_use]
    pub fn finish(mut self, reason: &str) -> Self {
        self.finish = Some(reason.to_owned());
        self
    }

    /// Leaves the reason for the end out, and `[DONE]` with it: the stream ends cleanly in the middle.
    #[must_use]
    pub fn without_end(mut self) -> Self {
        self.finish = Some(String::new());
        self.says_done = false;
        self
    }

    /// Leaves `[DONE]` out.
    #[must_use]
    pub fn without_done(mut self) -> Self {
        self.says_done = false;
        self
    }

    /// Sets the tokens, or that none are told.
    #[must_use]
    pub fn usage(mut self, usage: impl Into<Option<Value>>) -> Self {
        self.usage = usage.into();
        self
    }

    /// Answers with one JSON text, as a server does that does not stream.
    #[must_use]
    pub fn not_streamed(mut self) -> Self {
        if let Body::Deltas(deltas) = self.body {
            self.body = Body::Whole(deltas);
        }
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the whole body.
    #[must_use]
    pub fn body(mut self, text: impl Into<String>) -> Self {
        self.body = Body::Text(text.into());
        self
    }

    /// Sets the body to an error in the vendor's form.
    #[must_use]
    pub fn error(self, code: &str, message: &str) -> Self {
        self.body(
            json!({"error": {"message": message, "type": code, "param": null, "code": code}})
                .to_string(),
        )
    }

    /// Sends the body in pieces of so many bytes.
    #[must_use]
    pub fn pieces_of(mut self, bytes: usize) -> Self {
        self.piece_bytes = bytes.max(1);
        self
    }

    /// Ends lines with CR LF.
    #[must_use]
    pub fn crlf(mut self) -> Self {
        self.line_end = "\r\n";
        self
    }

    /// Puts bytes before the body, for example a byte order mark or comments.
    #[must_use]
    pub fn prefix(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.prefix = bytes.into();
        self
    }

    /// Closes the connection after so many bytes of the reply, head included.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.ending = Ending::Cut(bytes);
        self
    }

    /// Resets the connection after so many bytes of the reply, head included.
    #[must_use]
    pub fn reset_after(mut self, bytes: usize) -> Self {
        self.ending = Ending::Reset(bytes);
        self
    }

    /// Falls silent after so many bytes of the reply, head included, until the client hangs up.
    #[must_use]
    pub fn stall_after(mut self, bytes: usize) -> Self {
        self.ending = Ending::Stall(bytes);
        self
    }

    /// Falls silent where the answer should end.
    #[must_use]
    pub fn stall_before_end(self) -> Self {
        let end = self.wire().iter().map(Vec::len).sum::<usize>();
        // The terminating chunk is what says that the body is over.
        self.stall_after(end - b"0\r\n\r\n".len())
    }

    /// Waits for a notice before the first byte.
    #[must_use]
    pub fn after(mut self, gate: &Arc<Notify>) -> Self {
        self.gate = Some(Arc::clone(gate));
        self
    }

    /// Returns how many bytes the reply has, head included.
    #[must_use]
    pub fn wire_length(&self) -> usize {
        self.wire().iter().map(Vec::len).sum()
    }

    /// Returns the bytes of the reply, as the writes they are sent in.
    pub(super) fn wire(&self) -> Vec<Vec<u8>> {
        let (content_type, text) = self.body_text();
        let mut head = format!(
            "HTTP/1.1 {} Scripted\r\nconnection: close\r\ntransfer-encoding: chunked\r\n",
            self.status
        );
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let has_type = self
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        for (name, value) in headers.chain((!has_type).then_some(("content-type", content_type))) {
            // Writing to a string cannot fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        let body = [self.prefix.as_slice(), text.as_bytes()].concat();
        let mut writes = vec![head.into_bytes()];
        for piece in body.chunks(self.piece_bytes.min(body.len().max(1))) {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            writes.push(chunk);
        }
        writes.push(b"0\r\n\r\n".to_vec());
        writes
    }

    fn body_text(&self) -> (&'static str, String) {
        match &self.body {
            Body::Text(text) => ("application/json", text.clone()),
            Body::Whole(deltas) => ("application/json", self.whole(deltas).to_string()),
            Body::Deltas(deltas) => ("text/event-stream", self.events(deltas)),
        }
    }

    fn events(&self, deltas: &[Value]) -> String {
        let chunk = |choices: Value, usage: Option<&Value>| {
            let mut chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": choices});
            if let Some(usage) = usage {
                chunk["usage"] = usage.clone();
            }
            chunk.to_string()
        };
        let mut events: Vec<_> = deltas
            .iter()
            .map(|delta| {
                chunk(
                    json!([{"index": 0, "delta": delta, "finish_reason": null}]),
                    None,
                )
            })
            .collect();
        let reason = self.finish.as_deref().unwrap_or("stop");
        if !reason.is_empty() {
            events.push(chunk(
                json!([{"index": 0, "delta": {}, "finish_reason": reason}]),
                None,
            ));
            events.extend(
                self.usage
                    .as_ref()
                    .map(|usage| chunk(json!([]), Some(usage))),
            );
        }
        if self.says_done {
            events.push("[DONE]".to_owned());
        }
        let lines = events
            .iter()
            .map(|event| format!("data: {event}{0}{0}", self.line_end));
        lines.collect()
    }

    fn whole(&self, deltas: &[Value]) -> Value {
        let texts = deltas.iter().filter_map(|delta| delta["content"].as_str());
        let mut message = json!({"role": "assistant", "content": texts.collect::<String>()});
        let mut calls: Vec<Value> = Vec::new();
        for fragment in deltas.iter().filter_map(|delta| delta["tool_calls"].get(0)) {
            if fragment.get("id").is_some() {
                calls.push(fragment.clone());
            } else if let Some(call) = calls.last_mut() {
                let so_far = call["function"]["arguments"].as_str().unwrap_or_default();
                call["function"]["arguments"] = json!(format!(
                    "{so_far}{}",
                    fragment["function"]["arguments"]
                        .as_str()
                        .unwrap_or_default()
                ));
            }
        }
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted", "usage": self.usage,
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish.as_deref().unwrap_or("stop")}],
        })
    }

    fn calls_so_far(&self) -> usize {
        let (Body::Deltas(deltas) | Body::Whole(deltas)) = &self.body else {
            return 0;
        };
        deltas
            .iter()
            .filter(|delta| delta["tool_calls"][0].get("id").is_some())
            .count()
    }
}

fn pieces(text: &str, size: usize) -> Vec<String> {
    let letters: Vec<_> = text.chars().collect();
    letters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}
