//! Reads server-sent events from a response body, within limits of time and size.
//!
//! The decoder itself is a library; this layer adds what it leaves open. The idle clock runs on bytes, not on events,
//! since a comment or half an event is a sign of life too. Sizes are counted before anything is kept.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use sse_stream::{Error as SseError, Sse, SseByteStream};
use tokio::time::{Instant, Sleep, sleep};

use super::{LlmError, Waiting};

/// How long and how large an answer may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    /// Silence that means the connection is dead.
    pub(crate) idle: Duration,
    /// The time for the whole answer.
    pub(crate) whole: Duration,
    /// Bytes of one event, also of a body that is one JSON text.
    pub(crate) event_bytes: u64,
    /// Bytes of everything on the wire.
    pub(crate) wire_bytes: u64,
}

/// Why a body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("nothing came for {0:?}")]
    Idle(Duration),
    #[error("it took longer than {0:?}")]
    Slow(Duration),
    #[error("one event is larger than {0} bytes")]
    LargeEvent(u64),
    #[error("it is larger than {0} bytes")]
    Large(u64),
    #[error("it is no UTF-8")]
    NotText,
    #[error("the connection broke")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<BodyError> for LlmError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Idle(duration) => Self::Timeout {
                waiting: Waiting::NextByte,
                duration,
            },
            BodyError::Slow(duration) => Self::Timeout {
                waiting: Waiting::WholeAnswer,
                duration,
            },
            BodyError::LargeEvent(limit) => Self::TooLarge {
                what: "one event of the answer",
                limit,
            },
            BodyError::Large(limit) => Self::TooLarge {
                what: "the answer",
                limit,
            },
            BodyError::NotText => Self::Stream {
                message: "it is no UTF-8".to_owned(),
            },
            BodyError::Broken(source) => Self::Connection { source },
        }
    }
}

type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>;

/// The bytes of a body, within limits.
pub(crate) struct LimitedBytes {
    body: ByteStream,
    limits: BodyLimits,
    idle: Pin<Box<Sleep>>,
    end: Pin<Box<Sleep>>,
    received: u64,
    /// Bytes that came since the last complete event; the decoder's owner sets it back.
    undecoded: Arc<AtomicU64>,
    put_back: Option<Bytes>,
}

impl LimitedBytes {
    /// Wraps a body; both clocks start now.
    pub(crate) fn new(
        body: impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + 'static,
        limits: BodyLimits,
    ) -> Self {
        Self {
            body: Box::pin(body),
            limits,
            idle: Box::pin(sleep(limits.idle)),
            end: Box::pin(sleep(limits.whole)),
            received: 0,
            undecoded: Arc::default(),
            put_back: None,
        }
    }

    /// Makes bytes that were read the next to be read.
    pub(crate) fn put_back(&mut self, bytes: Bytes) {
        self.put_back = Some(bytes);
    }

    fn admit(&mut self, bytes: &Bytes) -> Result<(), BodyError> {
        self.idle.as_mut().reset(Instant::now() + self.limits.idle);
        let length = bytes.len() as u64;
        self.received = self.received.saturating_add(length);
        self.undecoded.fetch_add(length, Ordering::Relaxed);
        if self.received > self.limits.wire_bytes {
            Err(BodyError::Large(self.limits.wire_bytes))
        } else {
            Ok(())
        }
    }
}

impl Stream for LimitedBytes {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(bytes) = self.put_back.take() {
            return Poll::Ready(Some(Ok(bytes)));
        }
        // Checked when more is wanted, not when it comes: one read may bring many whole events.
        if self.undecoded.load(Ordering::Relaxed) > self.limits.event_bytes {
            return Poll::Ready(Some(Err(BodyError::LargeEvent(self.limits.event_bytes))));
        }
        if let Poll::Ready(next) = self.body.as_mut().poll_next(cx) {
            return Poll::Ready(next.map(|bytes| {
                let bytes =
                    bytes.map_err(|error| BodyError::Broken(Box::new(error.without_url())))?;
                self.admit(&bytes).map(|()| bytes)
            }));
        }
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(BodyError::Slow(self.limits.whole))));
        }
        ready!(self.idle.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::Idle(self.limits.idle))))
    }
}

/// The events of a body.
pub(crate) struct SseEvents {
    events: SseByteStream<LimitedBytes>,
    undecoded: Arc<AtomicU64>,
}

impl SseEvents {
    /// Decodes a body.
    pub(crate) fn new(bytes: LimitedBytes) -> Self {
        Self {
            undecoded: Arc::clone(&bytes.undecoded),
            events: SseByteStream::new(bytes),
        }
    }
}

impl Stream for SseEvents {
    type Item = Result<Sse, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.events.poll_next_unpin(cx));
        self.undecoded.store(0, Ordering::Relaxed);
        Poll::Ready(next.map(|event| {
            event.map_err(|error| match error {
                SseError::Body(error) => match error.downcast::<BodyError>() {
                    Ok(error) => *error,
                    Err(error) => BodyError::Broken(error),
                },
                _ => BodyError::NotText,
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    const LIMITS: BodyLimits = BodyLimits {
        idle: Duration::from_secs(120),
        whole: Duration::from_secs(1800),
        event_bytes: 1000,
        wire_bytes: 10_000,
    };

    async fn read(chunks: Vec<Vec<u8>>, limits: BodyLimits) -> (Vec<Sse>, Option<BodyError>) {
        let body = stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))));
        let mut events = SseEvents::new(LimitedBytes::new(body, limits));
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => seen.push(event),
                Err(error) => return (seen, Some(error)),
            }
        }
        (seen, None)
    }

    /// Fault LM08.
    #[tokio::test]
    async fn lm08_events_do_not_depend_on_how_they_are_cut() {
        let text = "data: é🙂\n\n: ping\n\nevent: x\ndata:two\ndata: lines\n\nid: a\0b\ndata: 3\n\ndata: unfinished";
        for ends in ["\n", "\r\n", "\r"] {
            for bom in ["", "\u{FEFF}"] {
                let body = format!("{bom}{}", text.replace('\n', ends)).into_bytes();
                for size in [1, 2, 3, 7, body.len()] {
                    let chunks = body.chunks(size).map(<[u8]>::to_vec).collect();
                    let (events, error) = read(chunks, LIMITS).await;
                    assert!(error.is_none(), "{error:?}");
                    let data: Vec<_> = events
                        .iter()
                        .filter_map(|event| event.data.as_deref())
                        .collect();
                    assert_eq!(data, ["é🙂", "two\nlines", "3"], "{ends:?} {bom:?} {size}");
                    assert_eq!(events[1].event.as_deref(), Some("x"));
                }
            }
        }
    }

    /// Faults LM08 and LM18.
    #[tokio::test]
    async fn lm08_lm18_sizes_are_limited() {
        let (_, error) = read(
            vec![b"data: ".to_vec(), vec![b'x'; 990], vec![b'x'; 10]],
            LIMITS,
        )
        .await;
        assert!(
            matches!(error, Some(BodyError::LargeEvent(1000))),
            "{error:?}"
        );
        let event = format!("data: {}\n\n", "x".repeat(900)).into_bytes();
        let (events, error) = read(vec![event; 20], LIMITS).await;
        assert!(matches!(error, Some(BodyError::Large(10_000))), "{error:?}");
        assert_eq!(events.len(), 11);
        let (_, error) = read(vec![b"data: \xff\n\n".to_vec()], LIMITS).await;
        assert!(matches!(error, Some(BodyError::NotText)), "{error:?}");
    }

    /// Fault LM07.
    #[tokio::test(start_paused = true)]
    async fn lm07_silence_and_dripping_end() {
        let started = Instant::now();
        let mut events = SseEvents::new(LimitedBytes::new(stream::pending(), LIMITS));
        assert!(matches!(events.next().await, Some(Err(BodyError::Idle(_)))));
        assert_eq!(started.elapsed(), LIMITS.idle);
        assert!(events.next().await.is_none());

        let started = Instant::now();
        let drip = stream::unfold((), |()| async {
            sleep(Duration::from_secs(20)).await;
            Some((Ok(Bytes::from_static(b":")), ()))
        });
        let mut events = SseEvents::new(LimitedBytes::new(drip, LIMITS));
        assert!(matches!(events.next().await, Some(Err(BodyError::Slow(_)))));
        assert_eq!(started.elapsed(), LIMITS.whole);
    }
}
