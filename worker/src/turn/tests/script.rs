//! A scripted model that checks every request, and tools made of closures.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use protocol::{BlockKind, ExecutionContext, Item, TokenUsage, ToolOutcome};
use serde_json::{Value, json};

use crate::{
    Worker, WorkerOptions,
    llm::{
        ChatRequest, ChatResponse, ContentBlock, CycleConfig, EventStream, LlmCycle, LlmError,
        LlmProvider, Message, RetryConfig, Role, StopReason, StreamEvent, ToolDefinition,
    },
    tools::{HostCall, HostError, HostReply, ToolHost, ToolSet},
};

/// Answers from a script and refuses any request a strict vendor would refuse.
#[derive(Clone)]
pub(super) struct Model(Arc<Script>);

struct Script {
    answers: Mutex<VecDeque<Result<ChatResponse, LlmError>>>,
    requests: Mutex<Vec<ChatRequest>>,
}

impl Model {
    pub(super) fn new(answers: impl IntoIterator<Item = Result<ChatResponse, LlmError>>) -> Self {
        let answers = Mutex::new(answers.into_iter().collect());
        Self(Arc::new(Script {
            answers,
            requests: Mutex::default(),
        }))
    }

    pub(super) fn assert_finished(&self) {
        assert_eq!(self.0.answers.lock().unwrap().len(), 0, "answers are left");
    }

    pub(super) fn requests(&self) -> Vec<ChatRequest> {
        self.0.requests.lock().unwrap().clone()
    }
}

#[async_trait]
impl LlmProvider for Model {
    fn name(&self) -> &str {
        "script"
    }

    async fn stream(&self, request: &ChatRequest) -> Result<EventStream, LlmError> {
        check(&request.messages);
        self.0.requests.lock().unwrap().push(request.clone());
        let answer = self
            .0
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .expect("one request too many")?;
        Ok(Box::pin(futures_util::stream::iter(
            events(answer).into_iter().map(Ok),
        )))
    }
}

/// Every tool call is answered once, right after, in order; ids are used once.
fn check(messages: &[Message]) {
    let mut open: VecDeque<String> = VecDeque::new();
    let mut used = HashSet::new();
    for message in messages {
        for block in &message.content {
            match block {
                ContentBlock::ToolResult { tool_use_id, .. } => {
                    assert_eq!(message.role, Role::Tool);
                    assert_eq!(
                        open.pop_front().as_ref(),
                        Some(tool_use_id),
                        "results answer calls in order"
                    );
                }
                ContentBlock::ToolUse { id, input, .. } => {
                    assert!(input.is_object(), "arguments are an object: {input}");
                    assert!(used.insert(id.clone()), "the id {id} is used once");
                    open.push_back(id.clone());
                }
                _ => assert!(
                    open.is_empty() || message.role == Role::Assistant,
                    "nothing stands before the results"
                ),
            }
        }
    }
    assert!(open.is_empty(), "every call is answered");
}

fn events(answer: ChatResponse) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    for (block, content) in (0..).zip(answer.message.content) {
        let (kind, id, name, delta) = match content {
            ContentBlock::Text { text } => (BlockKind::Text, None, None, text),
            ContentBlock::Reasoning { text } => (BlockKind::Reasoning, None, None, text),
            ContentBlock::ToolUse { id, name, input } => {
                let raw = input
                    .as_str()
                    .map_or_else(|| input.to_string(), str::to_owned);
                (BlockKind::ToolUse, Some(id), Some(name), raw)
            }
            other => panic!("a model does not say {other:?}"),
        };
        events.push(StreamEvent::BlockStart {
            block,
            kind,
            id,
            name,
        });
        events.push(StreamEvent::BlockDelta { block, delta });
        events.push(StreamEvent::BlockStop { block });
    }
    events.push(StreamEvent::Usage(answer.usage));
    events.push(StreamEvent::Finish {
        stop_reason: answer.stop_reason.unwrap_or(StopReason::Stop),
    });
    events
}

/// Builds an answer.
pub(super) struct Answer {
    content: Vec<ContentBlock>,
    stop_reason: StopReason,
}

pub(super) fn answer() -> Answer {
    Answer {
        content: Vec::new(),
        stop_reason: StopReason::Stop,
    }
}

impl Answer {
    pub(super) fn says(mut self, text: &str) -> Self {
        self.content.push(ContentBlock::Text { text: text.into() });
        self
    }

    pub(super) fn thinks(mut self, text: &str) -> Self {
        self.content
            .push(ContentBlock::Reasoning { text: text.into() });
        self
    }

    pub(super) fn calls(self, name: &str, input: Value) -> Self {
        let id = format!("call_{}", uuid::Uuid::now_v7());
        self.call_with_id(&id, name, input)
    }

    /// A call whose arguments are what a model wrote, as a string.
    pub(super) fn raw_call(self, name: &str, raw: Value) -> Self {
        self.calls(name, raw)
    }

    pub(super) fn call_with_id(mut self, id: &str, name: &str, input: Value) -> Self {
        self.content.push(ContentBlock::ToolUse {
            id: id.into(),
            name: name.into(),
            input,
        });
        self
    }

    pub(super) fn stopped_by(mut self, stop_reason: StopReason) -> Self {
        self.stop_reason = stop_reason;
        self
    }

    pub(super) fn ends(self) -> Result<ChatResponse, LlmError> {
        let usage = TokenUsage {
            input_tokens: 10,
            output_tokens: 2,
            ..TokenUsage::default()
        };
        let message = Message {
            role: Role::Assistant,
            content: self.content,
        };
        Ok(ChatResponse {
            message,
            usage,
            stop_reason: Some(self.stop_reason),
        })
    }
}

type ToolFuture = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
type ToolClosure = Box<dyn Fn(HostCall) -> ToolFuture + Send + Sync>;

/// Tools made of closures. They end only when their future does, or when the call is cancelled.
#[derive(Default)]
pub(super) struct Tools {
    closures: HashMap<String, ToolClosure>,
    seen: Seen,
}

/// What the tools were called with.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Vec<ExecutionContext>>>);

impl Seen {
    pub(super) fn contexts(&self) -> Vec<ExecutionContext> {
        self.0.lock().unwrap().clone()
    }
}

impl Tools {
    pub(super) fn with<F>(
        mut self,
        name: &str,
        tool: impl Fn(HostCall) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.closures
            .insert(name.into(), Box::new(move |call| Box::pin(tool(call))));
        self
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.clone()
    }
}

#[async_trait]
impl ToolHost for Tools {
    async fn tools(&self) -> Result<Vec<ToolDefinition>, HostError> {
        let definitions = self.closures.keys().map(|name| ToolDefinition {
            name: name.clone(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        });
        Ok(definitions.collect())
    }

    async fn call(&self, call: HostCall) -> Result<HostReply, HostError> {
        self.seen.0.lock().unwrap().push(call.context.clone());
        let cancelled = call.cancellation.clone();
        let running = (self.closures[&call.name])(call);
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(HostError::Cancelled),
            result = running => {
                let is_error = result.is_err();
                Ok(HostReply { text: result.unwrap_or_else(|error| error), is_error, blob: None })
            }
        }
    }
}

pub(super) async fn worker(model: &Model, tools: Tools) -> Worker {
    worker_with_retries(model, tools, 0).await
}

pub(super) async fn worker_with_retries(model: &Model, tools: Tools, max_retries: u32) -> Worker {
    let retry = RetryConfig {
        max_retries,
        base_delay: Duration::ZERO,
        ..RetryConfig::default()
    };
    let config = CycleConfig {
        model: "m".into(),
        retry,
        ..CycleConfig::default()
    };
    let mut set = ToolSet::default();
    set.add(Arc::new(tools)).await.unwrap();
    Worker::new(LlmCycle::new(Arc::new(model.clone()), config))
        .with_tools(set)
        .with_options(WorkerOptions {
            stop_grace: Duration::from_millis(50),
            ..WorkerOptions::default()
        })
}

/// Returns how the calls in a history ended and what the model reads of them.
pub(super) fn outcomes(history: &[Item]) -> Vec<(ToolOutcome, String)> {
    let results = history.iter().filter_map(|item| match item {
        Item::ToolResult(result) => Some((result.outcome, result.output.clone())),
        _ => None,
    });
    results.collect()
}
