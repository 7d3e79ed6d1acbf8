//! One turn: from a prompt to the answer, over any number of requests and batches of tool calls.
//!
//! The loop asks the model, waits for the whole answer, runs its calls as one batch and asks again. Nothing enters the
//! history before it is complete: an answer that broke off leaves no trace, and an answer with calls enters together
//! with all their results. So a turn can stop anywhere, and the next one works.

mod batch;
mod guard;
mod ledger;
mod points;
mod submit;

use protocol::{CallId, EventBody, Item, StopReason, TokenUsage, ToolCallItem, log::LogRecord};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::{batch::BatchEnd, guard::RepeatGuard};
pub(crate) use self::{
    ledger::synthetic,
    points::{Points, Verdict},
    submit::Submission,
};
use crate::{
    interceptor::{PromptAction, TurnEndAction},
    llm::{AttemptBudget, ChatResponse, ContentBlock, CycleObserver, LlmError, StreamEvent},
    timeline::Timeline,
    worker::{TurnReport, Worker},
};

/// How often a model that says nothing is asked again.
const EMPTY_ANSWERS_ALLOWED: u32 = 1;

/// A turn while it runs.
pub(crate) struct Turn<'a> {
    worker: &'a mut Worker,
    stop: CancellationToken,
    number: u64,
    requests: u32,
    continuations: u32,
    empty_answers: u32,
    usage: TokenUsage,
    answer: String,
    budget: AttemptBudget,
    guard: RepeatGuard,
    error: Option<LlmError>,
}

/// Whether the turn goes on after a step.
enum Next {
    Ask,
    Stop(StopReason),
}

impl<'a> Turn<'a> {
    pub(crate) fn new(worker: &'a mut Worker, stop: CancellationToken) -> Self {
        let number = worker.turns + 1;
        let budget = AttemptBudget::new(worker.options.max_retries);
        let guard = RepeatGuard::new(worker.options.max_repeats);
        Self {
            worker,
            stop,
            number,
            requests: 0,
            continuations: 0,
            empty_answers: 0,
            usage: TokenUsage::default(),
            answer: String::new(),
            budget,
            guard,
            error: None,
        }
    }

    /// Runs the turn to its end.
    pub(crate) async fn run(mut self, submission: Submission) -> TurnReport {
        self.worker.timeline.place(self.number, 0);
        let reason = match self.submit(submission).await {
            Next::Ask => self.ask_until_done().await,
            Next::Stop(reason) => reason,
        };
        self.end(reason)
    }

    /// Lets interceptors and hooks see the prompt, then takes it into log and history.
    async fn submit(&mut self, submission: Submission) -> Next {
        let Submission {
            text,
            items,
            alerts,
        } = submission;
        self.worker.timeline.tell(EventBody::TurnStart {
            prompt: text,
            session: self.worker.session_id(),
        });
        for (level, message) in alerts {
            self.worker.alert(level, message);
        }
        let mut items = items;
        match self.worker.points.prompt_submit(&items).await {
            PromptAction::Continue => {}
            PromptAction::ContinueWith(extra) => items.extend(extra),
            PromptAction::Cancel(message) => return Next::Stop(StopReason::Aborted { message }),
        }
        self.worker.turns = self.number;
        let record = LogRecord::Submitted {
            turn: self.number,
            items: items.clone(),
        };
        if let Err(reason) = self.worker.log_synced(record) {
            return Next::Stop(reason);
        }
        match self.worker.history.add_messages(items) {
            Ok(()) => Next::Ask,
            Err(error) => Next::Stop(StopReason::Aborted {
                message: error.to_string(),
            }),
        }
    }

    async fn ask_until_done(&mut self) -> StopReason {
        loop {
            if self.requests >= self.worker.options.max_requests {
                return StopReason::RequestLimit {
                    limit: self.worker.options.max_requests,
                };
            }
            self.requests += 1;
            self.worker.timeline.place(self.number, self.requests);
            let response = match self.ask().await {
                Ok(response) => response,
                Err(reason) => return reason,
            };
            match self.take(response).await {
                Next::Ask => {}
                Next::Stop(reason) => return reason,
            }
        }
    }

    /// Sends one request and waits for the whole answer, or for somebody to stop the turn.
    async fn ask(&mut self) -> Result<ChatResponse, StopReason> {
        let mut messages = self.worker.history.messages();
        if let Verdict::Abort(message) = self.worker.points.message_send(&mut messages).await {
            return Err(StopReason::Aborted { message });
        }
        let tools = self.worker.tools.definitions().to_vec();
        let request = self.worker.cycle.request_for(messages, tools);
        let worker = &mut *self.worker;
        worker.timeline.tell(EventBody::RequestStart {
            model: request.model.clone(),
        });
        let mut observer = Teller {
            timeline: &mut worker.timeline,
            streaming: false,
        };
        let answered = tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            answered = worker.cycle.request(&request, &mut self.budget, &mut observer) => Some(answered),
        };
        let streaming = observer.streaming;
        match answered {
            Some(Ok(response)) => {
                self.usage.add(&response.usage);
                worker.timeline.tell(EventBody::Usage {
                    usage: response.usage,
                });
                Ok(response)
            }
            Some(Err(error)) => {
                let message = crate::error_chain(&error);
                self.error = Some(error);
                Err(StopReason::Failed { message })
            }
            None => {
                if streaming {
                    worker.timeline.tell(EventBody::AnswerVoided);
                }
                Err(StopReason::Interrupted)
            }
        }
    }

    /// Takes a whole answer: runs its calls, or ends the turn with it.
    async fn take(&mut self, response: ChatResponse) -> Next {
        let cut = response
            .stop_reason
            .as_ref()
            .is_some_and(crate::llm::StopReason::is_cut);
        let withheld = matches!(
            response.stop_reason,
            Some(crate::llm::StopReason::ContentFilter)
        );
        let usage = response.usage;
        let mut items = self.answer_items(response);
        let has_calls = crate::history::calls_in(&items).next().is_some();
        let says_nothing = !has_calls && !items.iter().any(|item| matches!(item, Item::Message(_)));
        if says_nothing && !cut && !withheld {
            self.empty_answers += 1;
            if self.empty_answers > EMPTY_ANSWERS_ALLOWED {
                return Next::Stop(StopReason::EmptyAnswer);
            }
            return Next::Ask;
        }
        if says_nothing {
            // Reasoning alone is no answer; neither log nor history keeps it.
            items.clear();
        }
        self.answer = answer_text(&items);
        let record = LogRecord::Answered {
            turn: self.number,
            request: self.requests,
            items: items.clone(),
            usage,
        };
        if let Err(reason) = self.worker.log(record) {
            return Next::Stop(reason);
        }
        if has_calls {
            return self.run_calls(items).await;
        }
        self.worker
            .history
            .add_answer(items, Vec::new())
            .expect("an answer without calls breaks no rule");
        match (withheld, cut) {
            (true, _) => Next::Stop(StopReason::ContentFilter),
            (false, true) => Next::Stop(StopReason::Length),
            (false, false) => self.finish().await,
        }
    }

    /// Makes items of an answer. Calls get ids that are unique in the conversation, and arguments that any server
    /// accepts; what the model really wrote is kept beside them.
    fn answer_items(&mut self, response: ChatResponse) -> Vec<Item> {
        let mut taken = std::collections::HashSet::new();
        let mut items = Vec::new();
        for block in response.message.content {
            match block {
                ContentBlock::Text { text } if text.trim().is_empty() => {}
                ContentBlock::Text { text } => items.push(Item::assistant_message(text)),
                ContentBlock::Reasoning { text } => {
                    items.push(Item::Reasoning(protocol::ReasoningItem {
                        text,
                        opaque: None,
                    }));
                }
                ContentBlock::ToolUse { id, name, input } => {
                    let call_id = self.worker.history.call_id(&id, &taken);
                    taken.insert(call_id.clone());
                    items.push(Item::ToolCall(tool_call(call_id, name, input)));
                }
                ContentBlock::ImageUrl { .. } | ContentBlock::ToolResult { .. } => {}
            }
        }
        for call in crate::history::calls_in(&items) {
            let arguments = call
                .rejected_arguments
                .as_ref()
                .unwrap_or(&call.arguments)
                .clone();
            self.worker.timeline.tool_call_complete(
                call.call_id.clone(),
                call.name.clone(),
                arguments,
            );
        }
        items
    }

    /// Runs the calls of an answer as one batch and takes both into the history.
    async fn run_calls(&mut self, items: Vec<Item>) -> Next {
        let calls: Vec<ToolCallItem> = crate::history::calls_in(&items).cloned().collect();
        let (results, end) = batch::run(self.worker, calls.clone(), &self.stop).await;
        let repeats = self.guard.note(&calls, &results);
        self.worker
            .history
            .add_answer(items, results)
            .expect("the ledger answers every call once, and the ids are fresh");
        match (end, repeats) {
            (BatchEnd::Aborted(message), _) => Next::Stop(StopReason::Aborted { message }),
            (BatchEnd::Failed(reason), _) => Next::Stop(reason),
            (BatchEnd::Interrupted, _) => Next::Stop(StopReason::Interrupted),
            (BatchEnd::Complete, Some(times)) => Next::Stop(StopReason::RepeatedCalls { times }),
            (BatchEnd::Complete, None) => Next::Ask,
        }
    }

    /// Asks interceptors and hooks whether the answer will do.
    async fn finish(&mut self) -> Next {
        let items = match self
            .worker
            .points
            .turn_end(self.worker.history.items())
            .await
        {
            Ok(TurnEndAction::Finish) => return Next::Stop(StopReason::Finished),
            Ok(TurnEndAction::ContinueWithMessages(items)) => items,
            Err(message) => return Next::Stop(StopReason::Aborted { message }),
        };
        let limit = self.worker.options.max_continuations;
        if self.continuations >= limit {
            return Next::Stop(StopReason::ContinuationLimit { limit });
        }
        self.continuations += 1;
        let record = LogRecord::Continued {
            turn: self.number,
            items: items.clone(),
        };
        if let Err(reason) = self.worker.log(record) {
            return Next::Stop(reason);
        }
        match self.worker.history.add_messages(items) {
            Ok(()) => Next::Ask,
            Err(error) => Next::Stop(StopReason::Aborted {
                message: error.to_string(),
            }),
        }
    }

    fn end(self, stop: StopReason) -> TurnReport {
        let record = LogRecord::TurnEnded {
            turn: self.number,
            stop: stop.clone(),
            usage: self.usage,
        };
        // A failing log has been reported where it failed first; the turn ends either way.
        let _ = self.worker.log_synced(record);
        let answer = if stop.is_answer() || matches!(stop, StopReason::Length) {
            self.answer
        } else {
            String::new()
        };
        self.worker.timeline.tell(EventBody::TurnEnd {
            stop: stop.clone(),
            answer: answer.clone(),
            usage: self.usage,
        });
        TurnReport {
            turn: self.number,
            stop,
            answer,
            usage: self.usage,
            requests: self.requests,
            error: self.error,
        }
    }
}

fn tool_call(call_id: CallId, name: String, input: Value) -> ToolCallItem {
    match input {
        Value::Object(_) => ToolCallItem {
            call_id,
            name,
            arguments: input.to_string(),
            rejected_arguments: None,
        },
        Value::String(raw) => ToolCallItem {
            call_id,
            name,
            arguments: "{}".to_owned(),
            rejected_arguments: Some(raw),
        },
        other => ToolCallItem {
            call_id,
            name,
            arguments: "{}".to_owned(),
            rejected_arguments: Some(other.to_string()),
        },
    }
}

/// Joins the texts of an answer.
fn answer_text(items: &[Item]) -> String {
    let texts = items.iter().filter_map(|item| match item {
        Item::Message(message) => Some(message.text()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Tells the timeline what a request streams.
struct Teller<'a> {
    timeline: &'a mut Timeline,
    /// Whether something was streamed that is neither complete nor void.
    streaming: bool,
}

impl CycleObserver for Teller<'_> {
    fn on_event(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::BlockStart {
                block, kind, name, ..
            } => {
                self.streaming = true;
                self.timeline.tell(EventBody::BlockStart {
                    block: *block,
                    kind: *kind,
                    name: name.clone(),
                });
            }
            StreamEvent::BlockDelta { block, delta } => {
                self.timeline.tell(EventBody::BlockDelta {
                    block: *block,
                    delta: delta.clone(),
                });
            }
            StreamEvent::BlockStop { block } => {
                self.timeline.tell(EventBody::BlockStop { block: *block })
            }
            // Both are told once the whole answer is there.
            StreamEvent::Usage(_) | StreamEvent::Finish { .. } => {}
        }
    }

    fn on_retry(&mut self, attempt: u32, delay: std::time::Duration, error: &LlmError) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.timeline.tell(EventBody::Retry {
            attempt,
            delay_ms,
            error: crate::error_chain(error),
        });
    }

    fn on_voided(&mut self) {
        self.streaming = false;
        self.timeline.tell(EventBody::AnswerVoided);
    }
}

#[cfg(test)]
mod tests;
