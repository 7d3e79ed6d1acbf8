//! The answer as it comes over the connection: which form it has, when it is over, what a silence means.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use futures_util::{Stream, StreamExt as _};
use tokio::time::{Sleep, sleep};

use super::decode::{Decoder, Progress};
use crate::llm::{
    LlmError, Redaction, StreamEvent,
    sse::{LimitedBytes, SseEvents},
};

/// How long the end of a complete answer is waited for. Some servers leave the connection open and say nothing more.
const GRACE: Duration = Duration::from_secs(5);

/// How long the end of the body is waited for once the answer is over. A connection whose body was read to its end
/// serves the next request; one that was dropped before costs a new handshake.
const DRAIN: Duration = Duration::from_millis(50);

/// The form of an answer, told by its first byte. The content type is no help: it is wrong too often.
pub(super) enum Opening {
    /// A stream of events.
    Events(Box<SseEvents>),
    /// One JSON text, from a server that does not stream.
    Json(String),
}

/// Waits for the first byte and tells the form.
pub(super) async fn open(
    mut bytes: LimitedBytes,
    redaction: &Redaction,
) -> Result<Opening, LlmError> {
    let mut start = BytesMut::new();
    let first = loop {
        match first_letter(&start) {
            Some(first) => break first,
            None => match bytes.next().await {
                Some(chunk) => start.extend_from_slice(&chunk?),
                None => return Err(LlmError::Truncated),
            },
        }
    };
    match first {
        // No field of an event begins like this.
        b'{' | b'[' => {
            while let Some(chunk) = bytes.next().await {
                start.extend_from_slice(&chunk?);
            }
            let text = std::str::from_utf8(&start).map_err(|_| LlmError::Stream {
                message: "it is no UTF-8".to_owned(),
            })?;
            Ok(Opening::Json(
                text.trim_start_matches('\u{FEFF}').to_owned(),
            ))
        }
        b'<' => {
            let page = String::from_utf8_lossy(&start);
            Err(LlmError::Stream {
                message: redaction
                    .excerpt(&format!("it is a web page, is the base URL right? {page}")),
            })
        }
        _ => {
            bytes.put_back(start.freeze());
            Ok(Opening::Events(Box::new(SseEvents::new(bytes))))
        }
    }
}

fn first_letter(start: &[u8]) -> Option<u8> {
    let bom = [0xEF, 0xBB, 0xBF];
    if start.len() < bom.len() && bom.starts_with(start) {
        return None;
    }
    let start = start.strip_prefix(&bom).unwrap_or(start);
    start
        .iter()
        .copied()
        .find(|byte| !byte.is_ascii_whitespace())
}

/// The events of an answer.
pub(super) struct AnswerStream {
    source: Option<Box<SseEvents>>,
    decoder: Decoder,
    is_over: bool,
    /// Runs once the reason for the end has come, and anew once the answer is over.
    grace: Option<Pin<Box<Sleep>>>,
}

/// What one look at the connection brought.
enum Look {
    /// Something was decoded, or nothing of interest came.
    Again,
    /// Nothing came yet.
    Wait,
    /// The connection is of no further use.
    Ended(Result<(), LlmError>),
}

impl AnswerStream {
    pub(super) fn new(source: Box<SseEvents>, decoder: Decoder) -> Self {
        Self {
            source: Some(source),
            decoder,
            is_over: false,
            grace: None,
        }
    }

    fn look(&mut self, source: &mut SseEvents, cx: &mut Context<'_>) -> Look {
        match source.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(_))) if self.is_over => Look::Again,
            Poll::Ready(Some(Ok(event))) => {
                let data = event.data.as_deref().unwrap_or_default();
                match self.decoder.feed(event.event.as_deref(), data) {
                    Ok(progress) => self.note(progress),
                    Err(error) => Look::Ended(Err(error)),
                }
            }
            // A connection that breaks behind the end of the answer takes nothing from it.
            Poll::Ready(Some(Err(error))) => self.end(|_| error.into()),
            Poll::Ready(None) => self.end(|error| error),
            Poll::Pending if self.poll_grace(cx) => self.end(|error| error),
            Poll::Pending => Look::Wait,
        }
    }

    fn note(&mut self, progress: Progress) -> Look {
        match progress {
            Progress::More => {}
            Progress::AlmostDone => {
                self.grace.get_or_insert_with(|| Box::pin(sleep(GRACE)));
            }
            Progress::Done => {
                self.is_over = true;
                self.grace = Some(Box::pin(sleep(DRAIN)));
            }
        }
        Look::Again
    }

    /// Ends the answer with its connection.
    fn end(&mut self, error: impl FnOnce(LlmError) -> LlmError) -> Look {
        let ended = if self.is_over {
            Ok(())
        } else {
            self.decoder.end_of_body()
        };
        self.is_over = true;
        Look::Ended(ended.map_err(error))
    }

    fn poll_grace(&mut self, cx: &mut Context<'_>) -> bool {
        let grace = self.grace.as_mut();
        grace.is_some_and(|grace| grace.as_mut().poll(cx).is_ready())
    }
}

impl Stream for AnswerStream {
    type Item = Result<StreamEvent, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.decoder.next() {
                return Poll::Ready(Some(Ok(event)));
            }
            let Some(mut source) = this.source.take() else {
                return Poll::Ready(None);
            };
            match this.look(&mut source, cx) {
                Look::Again => this.source = Some(source),
                Look::Wait => {
                    this.source = Some(source);
                    return Poll::Pending;
                }
                Look::Ended(Ok(())) => {}
                Look::Ended(Err(error)) => {
                    // What was decoded before the error is void; nobody needs to see it.
                    this.decoder.drain();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;
    use tokio::time::Instant;

    use super::*;
    use crate::llm::{ChatRequest, StopReason, call_ids::CallIds, sse::BodyLimits};

    /// Fault LM07.
    #[tokio::test(start_paused = true)]
    async fn lm07_silence_behind_the_end_is_not_waited_out() {
        let text = r#"data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
        let said = stream::iter([Ok(Bytes::from(format!("{text}\n\n")))]);
        let limits = BodyLimits {
            idle: Duration::from_secs(120),
            whole: Duration::from_secs(1800),
            event_bytes: 1000,
            wire_bytes: 1000,
        };
        let bytes = LimitedBytes::new(said.chain(stream::pending()), limits);
        let Ok(Opening::Events(events)) = open(bytes, &Redaction::default()).await else {
            panic!("it is a stream of events");
        };
        let decoder = Decoder::new(
            CallIds::of(&ChatRequest::default()),
            Redaction::default(),
            1000,
        );
        let started = Instant::now();
        let events: Vec<_> = AnswerStream::new(events, decoder).collect().await;
        assert_eq!(started.elapsed(), GRACE);
        let end = StreamEvent::Finish {
            stop_reason: StopReason::Stop,
        };
        assert!(
            matches!(events.last(), Some(Ok(last)) if *last == end),
            "{events:?}"
        );
    }

    #[test]
    fn the_first_letter_is_found_behind_white_space_and_marks() {
        let cases: [(&[u8], Option<u8>); 8] = [
            (b"", None),
            (b"\xEF", None),
            (b"\xEF\xBB", None),
            (b"\xEF\xBB\xBF", None),
            (b"\xEF\xBB\xBFdata", Some(b'd')),
            (b" \r\n{", Some(b'{')),
            (b"<html>", Some(b'<')),
            (b"\xEF\xBBx", Some(0xEF)),
        ];
        for (start, expected) in cases {
            assert_eq!(first_letter(start), expected, "{start:?}");
        }
    }
}
