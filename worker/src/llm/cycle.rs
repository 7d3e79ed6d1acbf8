//! One request and its answer: ask, try again where that can help, count what it cost.
//!
//! Above this stands the turn loop, which runs tools; below, a provider that asks once. What is retried is always the
//! whole request: nothing of an answer is acted on before it is complete, so a broken one can be thrown away.

mod retry;
mod usage;

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;

pub use self::{
    retry::{AttemptBudget, RetryConfig, RetryPlan, should_retry},
    usage::CostTracker,
};
use super::{
    Assembler, ChatRequest, ChatResponse, LlmError, LlmProvider, Message, Role, StreamEvent,
    ToolDefinition,
};

/// Hears what happens during a request. Calls are made one at a time, in the order things happen.
pub trait CycleObserver: Send {
    /// A step of the answer. It counts only if the request succeeds.
    fn on_event(&mut self, event: &StreamEvent);

    /// The request failed and will be sent again after a wait. `attempt` is the one that failed, from 1.
    fn on_retry(&mut self, attempt: u32, delay: Duration, error: &LlmError);

    /// All events since the last attempt began are void: the answer broke off. Comes before `on_retry`, and also when
    /// there will be no further attempt.
    fn on_voided(&mut self);
}

/// An observer that does not listen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl CycleObserver for Silent {
    fn on_event(&mut self, _: &StreamEvent) {}

    fn on_retry(&mut self, _: u32, _: Duration, _: &LlmError) {}

    fn on_voided(&mut self) {}
}

/// What every request of a cycle has in common.
#[derive(Clone, Debug, Default)]
pub struct CycleConfig {
    /// The model's name.
    pub model: String,
    /// How many tokens an answer may have.
    pub max_tokens: Option<u32>,
    /// How freely the model chooses its words.
    pub temperature: Option<f32>,
    /// Fields of the vendor's dialect put into every request.
    pub extra_body: Option<serde_json::Value>,
    /// When to try again.
    pub retry: RetryConfig,
}

/// Asks a model and keeps a simple conversation with it.
///
/// The turn loop keeps its own history and uses [`request`](Self::request) only; [`submit`](Self::submit) is for a
/// conversation without tools, or one whose caller runs the tools and puts the results back with
/// [`push_message`](Self::push_message).
pub struct LlmCycle {
    provider: Arc<dyn LlmProvider>,
    config: CycleConfig,
    usage: CostTracker,
    messages: Vec<Message>,
    system_prompt: Option<String>,
}

impl std::fmt::Debug for LlmCycle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LlmCycle")
            .field("provider", &self.provider.name())
            .field("config", &self.config)
            .field("usage", &self.usage)
            .field("messages", &self.messages.len())
            .finish_non_exhaustive()
    }
}

impl LlmCycle {
    /// Starts an empty conversation.
    #[must_use]
    pub fn new(provider: Arc<dyn LlmProvider>, config: CycleConfig) -> Self {
        Self {
            provider,
            config,
            usage: CostTracker::default(),
            messages: Vec::new(),
            system_prompt: None,
        }
    }

    /// Sets the instructions put before the conversation.
    #[must_use]
    pub fn with_system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }

    /// Returns the settings.
    #[must_use]
    pub fn config(&self) -> &CycleConfig {
        &self.config
    }

    /// Returns the conversation so far.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Adds to the conversation, for example the result of a tool.
    pub fn push_message(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Returns what all submits cost so far.
    #[must_use]
    pub fn usage(&self) -> &CostTracker {
        &self.usage
    }

    /// Makes the request for a conversation kept elsewhere, with the settings of this cycle.
    #[must_use]
    pub fn request_for(&self, messages: Vec<Message>, tools: Vec<ToolDefinition>) -> ChatRequest {
        ChatRequest {
            model: self.config.model.clone(),
            messages,
            system_prompt: self.system_prompt.clone(),
            tools,
            max_tokens: self.config.max_tokens,
            temperature: self.config.temperature,
            extra_body: self.config.extra_body.clone(),
        }
    }

    /// Adds a prompt to the conversation, asks, and adds the answer.
    ///
    /// Prompt and answer are added together, once there is an answer. After an error the conversation is what it was
    /// before, so the same prompt can be submitted again.
    ///
    /// # Errors
    /// [`LlmError`] when there is no answer, after all retries.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request; the conversation is what it was before.
    pub async fn submit(
        &mut self,
        prompt: impl Into<String>,
        tools: Vec<ToolDefinition>,
    ) -> Result<ChatResponse, LlmError> {
        let prompt = Message::text(Role::User, prompt);
        let messages = self.messages.iter().chain([&prompt]).cloned().collect();
        let request = self.request_for(messages, tools);
        let mut budget = AttemptBudget::new(self.config.retry.max_retries);
        let response = self.request(&request, &mut budget, &mut Silent).await?;
        self.messages.extend([prompt, response.message.clone()]);
        self.usage.add(&response.usage);
        Ok(response)
    }

    /// Asks, and asks again while that can help and the budget lasts.
    ///
    /// The budget belongs to the turn: several requests share it, so that an endpoint that fails every second time
    /// cannot keep a turn busy for ever. No single request is sent again more often than the settings say.
    ///
    /// # Errors
    /// [`LlmError`] of the last attempt, or [`LlmError::WaitTooLong`] when the endpoint wants to be left alone longer
    /// than the settings allow.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request or ends the wait; what the budget lost stays lost.
    pub async fn request(
        &self,
        request: &ChatRequest,
        budget: &mut AttemptBudget,
        observer: &mut dyn CycleObserver,
    ) -> Result<ChatResponse, LlmError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match self.attempt(request, observer).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let delay = match self.config.retry.plan(&error, attempt - 1, fastrand::f64()) {
                RetryPlan::GiveUp => return Err(error),
                RetryPlan::WaitTooLong { wait, limit } => {
                    return Err(LlmError::WaitTooLong {
                        wait,
                        limit,
                        source: Box::new(error),
                    });
                }
                RetryPlan::After(delay) => delay,
            };
            if attempt > self.config.retry.max_retries || !budget.take() {
                return Err(error);
            }
            // The observer tells the person.
            tracing::debug!(attempt, ?delay, %error, "the request failed and is sent again");
            observer.on_retry(attempt, delay, &error);
            tokio::time::sleep(delay).await;
        }
    }

    async fn attempt(
        &self,
        request: &ChatRequest,
        observer: &mut dyn CycleObserver,
    ) -> Result<ChatResponse, LlmError> {
        let mut was_told = false;
        let result = self.listen(request, observer, &mut was_told).await;
        if result.is_err() && was_told {
            observer.on_voided();
        }
        result
    }

    async fn listen(
        &self,
        request: &ChatRequest,
        observer: &mut dyn CycleObserver,
        was_told: &mut bool,
    ) -> Result<ChatResponse, LlmError> {
        let mut events = self.provider.stream(request).await?;
        let mut answer = Assembler::new();
        while let Some(event) = events.next().await {
            let event = event?;
            answer.apply(&event)?;
            *was_told = true;
            observer.on_event(&event);
        }
        answer.finish()
    }
}

#[cfg(test)]
mod tests;
