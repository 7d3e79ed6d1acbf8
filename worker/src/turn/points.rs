//! Asking interceptors and hooks at the points of a turn.
//!
//! Each is guarded: one that panics, or takes longer than the deadline, aborts the turn with a reason that names the
//! point. A guard that is broken must not let pass.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use protocol::Item;

use crate::{
    interceptor::{
        ControlFlow, FinishedCall, Hook, HookDecision, HookError, Interceptor, PendingCall,
        PromptAction, TurnEndAction,
    },
    llm::Message,
};

/// The interceptors and hooks of a worker, in the order they are asked.
pub(crate) struct Points {
    pub(crate) interceptors: Vec<Arc<dyn Interceptor>>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) deadline: Duration,
}

/// What all of them together decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Continue,
    Skip,
    Refuse(String),
    Abort(String),
}

impl From<ControlFlow> for Verdict {
    fn from(flow: ControlFlow) -> Self {
        match flow {
            ControlFlow::Continue => Self::Continue,
            ControlFlow::Skip => Self::Skip,
            ControlFlow::Abort(reason) => Self::Abort(reason),
        }
    }
}

impl From<Result<ControlFlow, HookError>> for Verdict {
    fn from(answer: Result<ControlFlow, HookError>) -> Self {
        told(answer).map_or_else(Self::Abort, Self::from)
    }
}

impl From<HookDecision> for Verdict {
    fn from(decision: HookDecision) -> Self {
        match decision {
            HookDecision::Pass => Self::Continue,
            HookDecision::Refuse(reason) => Self::Refuse(reason),
            HookDecision::Abort(reason) => Self::Abort(reason),
        }
    }
}

impl Points {
    pub(crate) async fn prompt_submit(&self, prompt: &[Item]) -> PromptAction {
        let mut extra = Vec::new();
        for interceptor in &self.interceptors {
            match self
                .guarded("on_prompt_submit", interceptor.on_prompt_submit(prompt))
                .await
                .and_then(told)
            {
                Ok(PromptAction::Continue) => {}
                Ok(PromptAction::ContinueWith(items)) => extra.extend(items),
                Ok(PromptAction::Cancel(reason)) | Err(reason) => {
                    return PromptAction::Cancel(reason);
                }
            }
        }
        let shown: Vec<Item> = prompt.iter().chain(&extra).cloned().collect();
        for hook in &self.hooks {
            match self
                .guarded("on_prompt_submit", hook.on_prompt_submit(&shown))
                .await
            {
                Ok(HookDecision::Pass) => {}
                Ok(HookDecision::Refuse(reason) | HookDecision::Abort(reason)) | Err(reason) => {
                    return PromptAction::Cancel(reason);
                }
            }
        }
        if extra.is_empty() {
            PromptAction::Continue
        } else {
            PromptAction::ContinueWith(extra)
        }
    }

    pub(crate) async fn message_send(&self, messages: &mut Vec<Message>) -> Verdict {
        for interceptor in &self.interceptors {
            let asked = interceptor.on_message_send(messages);
            if let Verdict::Abort(reason) = self.verdict("on_message_send", asked).await {
                return Verdict::Abort(reason);
            }
        }
        for hook in &self.hooks {
            match self
                .verdict("on_message_send", hook.on_message_send(messages))
                .await
            {
                Verdict::Refuse(reason) | Verdict::Abort(reason) => return Verdict::Abort(reason),
                Verdict::Continue | Verdict::Skip => {}
            }
        }
        Verdict::Continue
    }

    pub(crate) async fn before_tool_call(&self, call: &mut PendingCall) -> Verdict {
        for interceptor in &self.interceptors {
            match self
                .verdict("before_tool_call", interceptor.before_tool_call(call))
                .await
            {
                Verdict::Continue => {}
                other => return other,
            }
        }
        for hook in &self.hooks {
            match self
                .verdict("before_tool_call", hook.before_tool_call(call))
                .await
            {
                Verdict::Continue => {}
                other => return other,
            }
        }
        Verdict::Continue
    }

    pub(crate) async fn after_tool_call(&self, result: &mut FinishedCall) -> Verdict {
        for interceptor in &self.interceptors {
            match self
                .verdict("after_tool_call", interceptor.after_tool_call(result))
                .await
            {
                Verdict::Continue => {}
                other => return other,
            }
        }
        for hook in &self.hooks {
            if let Verdict::Abort(reason) = self
                .verdict("after_tool_call", hook.after_tool_call(result))
                .await
            {
                return Verdict::Abort(reason);
            }
        }
        Verdict::Continue
    }

    /// Returns the action, or the reason to abort.
    pub(crate) async fn turn_end(&self, history: &[Item]) -> Result<TurnEndAction, String> {
        for interceptor in &self.interceptors {
            match self
                .guarded("on_turn_end", interceptor.on_turn_end(history))
                .await
                .and_then(told)?
            {
                TurnEndAction::Finish => {}
                action => return Ok(action),
            }
        }
        for hook in &self.hooks {
            if let HookDecision::Abort(reason) = self
                .guarded("on_turn_end", hook.on_turn_end(history))
                .await?
            {
                return Err(reason);
            }
        }
        Ok(TurnEndAction::Finish)
    }

    /// Waits for one of them; one that is broken aborts.
    async fn verdict<T: Into<Verdict>>(
        &self,
        point: &str,
        asked: impl Future<Output = T>,
    ) -> Verdict {
        self.guarded(point, asked)
            .await
            .map_or_else(Verdict::Abort, Into::into)
    }

    /// Waits for one of them, and makes an error of a panic or of too long a wait.
    async fn guarded<T>(&self, point: &str, asked: impl Future<Output = T>) -> Result<T, String> {
        match tokio::time::timeout(self.deadline, AssertUnwindSafe(asked).catch_unwind()).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(format!("a hook panicked at {point}")),
            Err(_) => Err(format!(
                "a hook did not answer at {point} within {} s",
                self.deadline.as_secs()
            )),
        }
    }
}

fn told<T>(answer: Result<T, HookError>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}
