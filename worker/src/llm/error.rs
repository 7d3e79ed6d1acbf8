//! What can go wrong between the worker and a model, sorted by what the caller can do about it.
//!
//! Every text that came from a server passes [`Redaction`] first: it is short, has no control characters and never
//! holds the key.

mod advice;
mod classify;
mod context_length;
mod redaction;

use std::{io, path::PathBuf, time::Duration};

pub(crate) use self::classify::classify_in_band;
pub use self::{
    advice::RetryAdvice,
    classify::{ErrorReply, classify},
    redaction::Redaction,
};

/// What was waited for when the time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// For the connection.
    Connection,
    /// For the first byte of the answer, or the next one.
    NextByte,
    /// For the end of the answer.
    WholeAnswer,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connection => "a connection",
            Self::NextByte => "the next byte of the answer",
            Self::WholeAnswer => "the end of the answer",
        })
    }
}

/// Why a model gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LlmError {
    /// The endpoint does not accept the key, or not for this.
    #[error("the endpoint refuses the key ({status}): {message}")]
    Authentication {
        /// The HTTP status.
        status: u16,
        /// What the endpoint said.
        message: String,
    },
    /// Too many requests or tokens for now.
    #[error("rate limited: {message}")]
    RateLimit {
        /// What the endpoint said.
        message: String,
        /// When to try again.
        advice: RetryAdvice,
    },
    /// The account may not spend more. Waiting does not help.
    #[error("the quota of the account is used up: {message}")]
    QuotaExhausted {
        /// What the endpoint said.
        message: String,
    },
    /// The endpoint has more to do than it can.
    #[error("the endpoint is overloaded: {message}")]
    Overloaded {
        /// What the endpoint said.
        message: String,
        /// When to try again.
        advice: RetryAdvice,
    },
    /// The endpoint failed.
    #[error("the request failed ({status}): {body}")]
    Request {
        /// The HTTP status, or the one that an error inside a stream stands for.
        status: u16,
        /// What the endpoint said.
        body: String,
        /// When to try again.
        advice: RetryAdvice,
    },
    /// The request is wrong; the same one will be refused again.
    #[error("the request is invalid{}: {message}", status_in_brackets(*.status))]
    InvalidRequest {
        /// The HTTP status; none when the request was not sent.
        status: Option<u16>,
        /// What is wrong.
        message: String,
        /// What the endpoint said about trying again.
        advice: RetryAdvice,
    },
    /// The conversation does not fit into the model.
    #[error("the conversation is too long for the model: {message}")]
    ContextLength {
        /// How many tokens it has, where the endpoint told.
        actual: Option<u64>,
        /// How many tokens fit, where the endpoint told.
        limit: Option<u64>,
        /// What the endpoint said.
        message: String,
    },
    /// Nothing happened for too long.
    #[error("waited {duration:?} for {waiting}")]
    Timeout {
        /// For what.
        waiting: Waiting,
        /// How long.
        duration: Duration,
    },
    /// The endpoint could not be reached, or the connection broke.
    #[error("the connection to the endpoint failed")]
    Connection {
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer ended before its end marker.
    #[error("the answer broke off")]
    Truncated,
    /// The answer is not of the agreed form.
    #[error("the answer cannot be read: {message}")]
    Stream {
        /// What is wrong with it.
        message: String,
    },
    /// The answer is larger than this program takes.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What is.
        what: &'static str,
        /// How large it may be.
        limit: u64,
    },
    /// The endpoint sent the request elsewhere. It is not followed: the key belongs to one host.
    #[error("the endpoint redirects ({status}) to {host}; use the right base URL instead")]
    Redirected {
        /// The HTTP status.
        status: u16,
        /// Where to.
        host: String,
    },
    /// The settings of a provider cannot be used.
    #[error("{message}")]
    Config {
        /// What is wrong with them.
        message: String,
    },
    /// The endpoint asked to wait longer than is reasonable.
    #[error("the endpoint asks to wait {wait:?}, more than {limit:?}")]
    WaitTooLong {
        /// How long it asks for.
        wait: Duration,
        /// How long one wait may be.
        limit: Duration,
        /// What it asks for it about.
        source: Box<LlmError>,
    },
    /// A replay file cannot be read.
    #[error("replay file {}", file.display())]
    ReplayFile {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A line of a replay file is wrong.
    #[error("replay file {}, line {line}: {message}", file.display())]
    Replay {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A replay file has no further answer.
    #[error("replay file {} ended: it has {answers} answers and one more was asked for", file.display())]
    ReplayEnded {
        /// The file.
        file: PathBuf,
        /// How many answers it has.
        answers: usize,
    },
    /// An answer could not be recorded.
    #[error("recording to {}", file.display())]
    Recording {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

fn status_in_brackets(status: Option<u16>) -> String {
    status
        .map(|status| format!(" ({status})"))
        .unwrap_or_default()
}

impl LlmError {
    /// Returns whether the same request may succeed later. What the endpoint says about that wins over the kind of
    /// error.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let by_kind = match self {
            Self::RateLimit { .. }
            | Self::Overloaded { .. }
            | Self::Timeout { .. }
            | Self::Connection { .. }
            | Self::Truncated => true,
            Self::Request { status, .. } => matches!(status, 408 | 409 | 429 | 500..),
            Self::Authentication { .. }
            | Self::QuotaExhausted { .. }
            | Self::InvalidRequest { .. }
            | Self::ContextLength { .. }
            | Self::Stream { .. }
            | Self::TooLarge { .. }
            | Self::Redirected { .. }
            | Self::Config { .. }
            | Self::WaitTooLong { .. }
            | Self::ReplayFile { .. }
            | Self::Replay { .. }
            | Self::ReplayEnded { .. }
            | Self::Recording { .. } => false,
        };
        self.advice()
            .and_then(|advice| advice.should_retry)
            .unwrap_or(by_kind)
    }

    /// Returns what the endpoint said about trying again, where it may be said.
    #[must_use]
    pub fn advice(&self) -> Option<&RetryAdvice> {
        match self {
            Self::RateLimit { advice, .. }
            | Self::Overloaded { advice, .. }
            | Self::Request { advice, .. }
            | Self::InvalidRequest { advice, .. } => Some(advice),
            _ => None,
        }
    }

    /// Makes the error for a request that is not worth sending.
    pub(crate) fn unsendable(message: impl Into<String>) -> Self {
        Self::InvalidRequest {
            status: None,
            message: message.into(),
            advice: RetryAdvice::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_of_the_endpoint_wins() {
        let request = |status, should_retry| LlmError::Request {
            status,
            body: String::new(),
            advice: RetryAdvice {
                after: None,
                should_retry,
            },
        };
        assert!(request(500, None).is_retryable());
        assert!(!request(500, Some(false)).is_retryable());
        assert!(request(418, Some(true)).is_retryable());
        assert!(!request(418, None).is_retryable());
        assert!(request(408, None).is_retryable() && request(409, None).is_retryable());
        assert!(LlmError::Truncated.is_retryable());
        assert!(
            !LlmError::Config {
                message: String::new()
            }
            .is_retryable()
        );
    }
}
