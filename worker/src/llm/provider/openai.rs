//! Chat completions, the dialect nearly every server speaks.
//!
//! The code sends what the strictest server accepts and reads what the sloppiest one sends. It keeps no state between
//! requests, follows no redirect, uses no proxy from the environment, and never tries again by itself.

mod config;
mod decode;
mod merge;
mod request;
mod stream;

use std::{sync::Once, time::SystemTime};

use async_trait::async_trait;
use bytes::BytesMut;
use futures_util::{StreamExt as _, stream as streams};
use reqwest::{Client, Response, header, redirect};
use tokio::time::timeout;
use url::Url;

pub use self::config::{OpenAiConfig, TokenLimitField};
use self::{
    config::Checked,
    decode::Decoder,
    stream::{AnswerStream, Opening},
};
use super::LlmProvider;
use crate::llm::{
    ChatRequest, ErrorReply, EventStream, LlmError, RetryAdvice, Waiting,
    call_ids::CallIds,
    classify,
    sse::{BodyLimits, LimitedBytes},
};

/// How much of an error's body is read.
const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;

/// What an answer may take on the wire for each byte it may have: servers wrap every word in hundreds of bytes. Nothing
/// of that is kept, so this only ends a stream that says nothing at great length.
const WIRE_FACTOR: u64 = 256;

/// An endpoint that speaks chat completions.
#[derive(Debug)]
pub struct OpenAiProvider {
    client: Client,
    checked: Checked,
}

impl OpenAiProvider {
    /// Checks the settings and prepares a client; nothing is sent.
    ///
    /// # Errors
    /// [`LlmError::Config`] when the base URL, the key or a header cannot be used.
    pub fn new(config: OpenAiConfig) -> Result<Self, LlmError> {
        let checked = Checked::new(config)?;
        let client = client(&checked)?;
        Ok(Self { client, checked })
    }

    fn limits(&self) -> BodyLimits {
        let config = &self.checked.config;
        BodyLimits {
            idle: config.idle_timeout,
            whole: config.answer_timeout,
            event_bytes: config.max_event_bytes,
            wire_bytes: config.max_answer_bytes.saturating_mul(WIRE_FACTOR),
        }
    }

    async fn post(&self, request: &ChatRequest) -> Result<Response, LlmError> {
        let config = &self.checked.config;
        let body = request::body(request, config.token_limit_field)?;
        let post = self
            .client
            .post(self.checked.endpoint.clone())
            .headers(self.checked.headers.clone())
            .body(body);
        match timeout(config.idle_timeout, post.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.not_sent(error)),
            Err(_) => Err(LlmError::Timeout {
                waiting: Waiting::NextByte,
                duration: config.idle_timeout,
            }),
        }
    }

    fn not_sent(&self, error: reqwest::Error) -> LlmError {
        if error.is_builder() {
            LlmError::unsendable(
                self.checked
                    .redaction
                    .excerpt(&error.without_url().to_string()),
            )
        } else if error.is_timeout() {
            LlmError::Timeout {
                waiting: Waiting::Connection,
                duration: self.checked.config.connect_timeout,
            }
        } else {
            LlmError::Connection {
                source: Box::new(error.without_url()),
            }
        }
    }

    async fn refusal(&self, response: Response) -> LlmError {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        if response.status().is_redirection() {
            let target = headers
                .get(header::LOCATION)
                .and_then(|value| value.to_str().ok());
            let target = target.and_then(|target| {
                Url::options()
                    .base_url(Some(response.url()))
                    .parse(target)
                    .ok()
            });
            let host = target
                .as_ref()
                .and_then(Url::host_str)
                .unwrap_or("an unknown host");
            return LlmError::Redirected {
                status,
                host: self.checked.redaction.excerpt(host),
            };
        }
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let advice = RetryAdvice::from_headers(text, SystemTime::now());
        // A refusal is known by its status; what of the body does not come in time only makes the message shorter.
        let mut body = BytesMut::new();
        let mut bytes = LimitedBytes::new(response.bytes_stream(), self.limits());
        while let Some(Ok(chunk)) = bytes.next().await {
            let room = ERROR_BODY_MAX_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == ERROR_BODY_MAX_BYTES {
                break;
            }
        }
        let body = String::from_utf8_lossy(&body);
        classify(
            &ErrorReply {
                status,
                advice,
                body: &body,
            },
            &self.checked.redaction,
        )
    }
}

#[async_trait]
impl LlmProvider for OpenAiProvider {
    fn name(&self) -> &str {
        "openai"
    }

    async fn stream(&self, request: &ChatRequest) -> Result<EventStream, LlmError> {
        let response = self.post(request).await?;
        if response.status().as_u16() != 200 {
            return Err(self.refusal(response).await);
        }
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| encoding != "identity") {
            return Err(LlmError::Stream {
                message: "it is compressed, which was not asked for".to_owned(),
            });
        }
        let redaction = &self.checked.redaction;
        let mut decoder = Decoder::new(
            CallIds::of(request),
            redaction.clone(),
            self.checked.config.max_answer_bytes,
        );
        let bytes = LimitedBytes::new(response.bytes_stream(), self.limits());
        match stream::open(bytes, redaction).await? {
            Opening::Events(events) => Ok(Box::pin(AnswerStream::new(events, decoder))),
            Opening::Json(text) => {
                decoder.feed_whole(&text)?;
                Ok(Box::pin(streams::iter(decoder.drain().map(Ok))))
            }
        }
    }
}

fn client(checked: &Checked) -> Result<Client, LlmError> {
    static CRYPTO: Once = Once::new();
    CRYPTO.call_once(|| {
        // An error means that the program has chosen another one already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let builder = Client::builder()
        .connect_timeout(checked.config.connect_timeout)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tcp_nodelay(true);
    let builder = if checked.endpoint.scheme() == "http" {
        // Redirects are not followed, so no certificate will be looked at: reading those of the system would only
        // cost time, and fail where there are none.
        builder.tls_certs_only([])
    } else {
        builder
    };
    builder.build().map_err(|error| LlmError::Config {
        message: format!("no HTTP client: {}", error.without_url()),
    })
}
