//! What the rest of the worker knows of a model vendor: one trait.

pub mod openai;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;

use super::{Assembler, ChatRequest, ChatResponse, EventStream, LlmError};

/// An endpoint that answers conversations.
///
/// Each call of [`stream`](Self::stream) or [`chat`](Self::chat) asks once: a provider never tries again by itself,
/// so that one budget above counts every request. Nothing is kept between calls. An error, wherever it comes, means
/// that there is no answer; what was streamed before it is void.
#[async_trait]
pub trait LlmProvider: Send + Sync {
    /// Returns a short name for logs.
    fn name(&self) -> &str;

    /// Asks, and returns the answer as it is being written.
    ///
    /// # Errors
    /// [`LlmError`] when the endpoint gives no answer. The stream yields at most one error and ends with it.
    ///
    /// # Cancel safety
    /// Dropping the future or the stream cancels the request and closes its connection.
    async fn stream(&self, request: &ChatRequest) -> Result<EventStream, LlmError>;

    /// Asks, and returns the whole answer.
    ///
    /// # Errors
    /// [`LlmError`] when the endpoint gives no answer, or half of one.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, LlmError> {
        let mut events = self.stream(request).await?;
        let mut answer = Assembler::new();
        while let Some(event) = events.next().await {
            answer.apply(&event?)?;
        }
        answer.finish()
    }
}

/// So that wrappers take a provider chosen at run time.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<P: LlmProvider + ?Sized> LlmProvider for Arc<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn stream(&self, request: &ChatRequest) -> Result<EventStream, LlmError> {
        (**self).stream(request).await
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, LlmError> {
        (**self).chat(request).await
    }
}
