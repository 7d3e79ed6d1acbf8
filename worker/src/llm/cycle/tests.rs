//! The engine with a provider that plays a script, on paused time.

use std::{collections::VecDeque, sync::Mutex};

use async_trait::async_trait;
use futures_util::stream;
use protocol::BlockKind;
use tokio::time::Instant;

use super::*;
use crate::llm::{EventStream, RetryAdvice, StopReason, Usage};

type Attempt = Result<Vec<Result<StreamEvent, LlmError>>, LlmError>;

#[derive(Default)]
struct Scripted {
    attempts: Mutex<VecDeque<Attempt>>,
    requests: Mutex<Vec<ChatRequest>>,
}

#[async_trait]
impl LlmProvider for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn stream(&self, request: &ChatRequest) -> Result<EventStream, LlmError> {
        self.requests.lock().unwrap().push(request.clone());
        let attempt = self
            .attempts
            .lock()
            .unwrap()
            .pop_front()
            .expect("an attempt too many");
        Ok(Box::pin(stream::iter(attempt?)))
    }
}

fn start_and_text(text: &str) -> Vec<Result<StreamEvent, LlmError>> {
    vec![
        Ok(StreamEvent::BlockStart {
            block: 0,
            kind: BlockKind::Text,
            id: None,
            name: None,
        }),
        Ok(StreamEvent::BlockDelta {
            block: 0,
            delta: text.into(),
        }),
    ]
}

fn says(text: &str) -> Attempt {
    let mut events = start_and_text(text);
    events.push(Ok(StreamEvent::BlockStop { block: 0 }));
    events.push(Ok(StreamEvent::Usage(Usage {
        input_tokens: 2,
        output_tokens: 1,
        ..Usage::default()
    })));
    events.push(Ok(StreamEvent::Finish {
        stop_reason: StopReason::Stop,
    }));
    Ok(events)
}

fn breaks_off(text: &str) -> Attempt {
    Ok(start_and_text(text))
}

fn limited(after: Option<Duration>) -> Attempt {
    let advice = RetryAdvice {
        after,
        should_retry: None,
    };
    Err(LlmError::RateLimit {
        message: "slow".into(),
        advice,
    })
}

fn cycle(attempts: impl IntoIterator<Item = Attempt>) -> (Arc<Scripted>, LlmCycle) {
    let provider = Arc::new(Scripted {
        attempts: Mutex::new(attempts.into_iter().collect()),
        ..Scripted::default()
    });
    let retry = RetryConfig {
        jitter_factor: 0.0,
        ..RetryConfig::default()
    };
    let config = CycleConfig {
        model: "m".into(),
        retry,
        ..CycleConfig::default()
    };
    (Arc::clone(&provider), LlmCycle::new(provider, config))
}

#[derive(Default)]
struct Notes(Vec<String>);

impl CycleObserver for Notes {
    fn on_event(&mut self, event: &StreamEvent) {
        if let StreamEvent::BlockDelta { delta, .. } = event {
            self.0.push(delta.clone());
        }
    }

    fn on_retry(&mut self, attempt: u32, delay: Duration, error: &LlmError) {
        self.0
            .push(format!("retry {attempt} in {delay:?}: {error}"));
    }

    fn on_voided(&mut self) {
        self.0.push("void".into());
    }
}

#[tokio::test]
async fn submit_adds_prompt_and_answer_together() {
    let (provider, cycle) = cycle([
        says("one"),
        Err(LlmError::Config {
            message: "no".into(),
        }),
        says("two"),
    ]);
    let mut cycle = cycle.with_system_prompt("be kind");
    assert_eq!(cycle.submit("a", vec![]).await.unwrap().text(), "one");
    assert!(cycle.submit("b", vec![]).await.is_err());
    assert_eq!(cycle.messages().len(), 2);
    assert_eq!(cycle.submit("c", vec![]).await.unwrap().text(), "two");
    let texts: Vec<_> = cycle
        .messages()
        .iter()
        .map(|message| (message.role, &message.content[0]))
        .collect();
    assert_eq!(texts.len(), 4);
    assert_eq!(
        *cycle.usage().total(),
        Usage {
            input_tokens: 4,
            output_tokens: 2,
            ..Usage::default()
        }
    );
    let requests = provider.requests.lock().unwrap();
    assert_eq!(requests[2].messages.len(), 3);
    assert_eq!(requests[2].system_prompt.as_deref(), Some("be kind"));
}

/// Fault LM06.
#[tokio::test(start_paused = true)]
async fn lm06_a_broken_answer_is_void_and_asked_for_again() {
    let (_, cycle) = cycle([
        breaks_off("half"),
        limited(Some(Duration::from_secs(7))),
        says("whole"),
    ]);
    let mut notes = Notes::default();
    let started = Instant::now();
    let mut budget = AttemptBudget::new(3);
    let response = cycle
        .request(&ChatRequest::default(), &mut budget, &mut notes)
        .await
        .unwrap();
    assert_eq!(response.text(), "whole");
    assert_eq!(
        notes.0,
        [
            "half",
            "void",
            "retry 1 in 1s: the answer broke off",
            "retry 2 in 7s: rate limited: slow",
            "whole"
        ]
    );
    assert_eq!(started.elapsed(), Duration::from_secs(8));
    assert_eq!(budget.retries_left, 1);
}

#[tokio::test(start_paused = true)]
async fn one_budget_serves_all_requests_of_a_turn() {
    let (provider, cycle) = cycle([
        limited(None),
        says("a"),
        limited(None),
        breaks_off("b"),
        says("never"),
    ]);
    let mut budget = AttemptBudget::new(2);
    let mut notes = Notes::default();
    let request = ChatRequest::default();
    cycle
        .request(&request, &mut budget, &mut notes)
        .await
        .unwrap();
    let error = cycle
        .request(&request, &mut budget, &mut notes)
        .await
        .unwrap_err();
    assert!(matches!(error, LlmError::Truncated));
    assert_eq!(notes.0.last().unwrap(), "void");
    assert_eq!(provider.requests.lock().unwrap().len(), 4);
}

/// Fault LM01.
#[tokio::test(start_paused = true)]
async fn lm01_too_long_a_wait_is_told_at_once() {
    let (_, cycle) = cycle([limited(Some(Duration::from_secs(3600)))]);
    let started = Instant::now();
    let error = cycle
        .request(
            &ChatRequest::default(),
            &mut AttemptBudget::new(3),
            &mut Silent,
        )
        .await
        .unwrap_err();
    assert!(
        matches!(error, LlmError::WaitTooLong { source, .. } if matches!(*source, LlmError::RateLimit { .. }))
    );
    assert_eq!(started.elapsed(), Duration::ZERO);
}

/// Fault LM21.
#[tokio::test(start_paused = true)]
async fn lm21_a_wait_ends_with_its_future() {
    let (provider, cycle) = cycle([limited(None), says("never")]);
    let mut budget = AttemptBudget::new(3);
    {
        let request = ChatRequest::default();
        let mut silent = Silent;
        let mut asking = Box::pin(cycle.request(&request, &mut budget, &mut silent));
        assert!(futures_util::poll!(asking.as_mut()).is_pending());
    }
    tokio::time::advance(Duration::from_secs(100)).await;
    assert_eq!(provider.requests.lock().unwrap().len(), 1);
}
