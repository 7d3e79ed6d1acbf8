//! Interceptors and hooks: what they see, what they may change, and what happens when they fail.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use protocol::{Item, StopReason, ToolOutcome};
use serde_json::json;

use super::script::{Model, Tools, answer, outcomes, worker};
use crate::{
    ControlFlow, FinishedCall, Hook, HookDecision, HookError, Interceptor, PendingCall,
    PromptAction, TurnEndAction,
    llm::{ContentBlock, Message, Role},
};

fn echo() -> Tools {
    Tools::default().with("echo", |call| async move { Ok(call.input) })
}

type Log = Arc<Mutex<Vec<String>>>;

/// Rewrites everything it may.
struct Rewriter(Log);

#[async_trait]
impl Interceptor for Rewriter {
    async fn on_prompt_submit(&self, prompt: &[Item]) -> Result<PromptAction, HookError> {
        self.0
            .lock()
            .unwrap()
            .push(format!("prompt of {}", prompt.len()));
        Ok(PromptAction::ContinueWith(vec![Item::system_message(
            "be brief",
        )]))
    }
    async fn on_message_send(&self, context: &mut Vec<Message>) -> Result<ControlFlow, HookError> {
        context.push(Message::text(
            Role::System,
            format!("note {}", context.len()),
        ));
        Ok(ControlFlow::Continue)
    }
    async fn before_tool_call(&self, call: &mut PendingCall) -> Result<ControlFlow, HookError> {
        self.0.lock().unwrap().push(format!(
            "before {} {}",
            call.context().call_index,
            call.input
        ));
        if call.input.contains("skip") {
            return Ok(ControlFlow::Skip);
        }
        call.input = call.input.replace("old", "new");
        Ok(ControlFlow::Continue)
    }
    async fn after_tool_call(&self, result: &mut FinishedCall) -> Result<ControlFlow, HookError> {
        self.0.lock().unwrap().push(format!(
            "after {} {}",
            result.context().call_index,
            result.output
        ));
        result.output.push('!');
        if result.output.contains("hide") {
            Ok(ControlFlow::Skip)
        } else {
            Ok(ControlFlow::Continue)
        }
    }
}

/// Refuses what it is told to, and writes down what it sees.
struct Watcher(Log);

#[async_trait]
impl Hook for Watcher {
    async fn before_tool_call(&self, call: &PendingCall) -> HookDecision {
        self.0
            .lock()
            .unwrap()
            .push(format!("hook {} {}", call.context().call_index, call.input));
        if call.input.contains("refuse") {
            HookDecision::Refuse("not today".into())
        } else {
            HookDecision::Pass
        }
    }
}

#[tokio::test]
async fn interceptors_rewrite_and_hooks_see_what_will_happen() {
    let model = Model::new([
        answer()
            .calls("echo", json!({"v": "old"}))
            .calls("echo", json!({"v": "skip"}))
            .calls("echo", json!({"v": "refuse"}))
            .calls("echo", json!({"v": "hide"}))
            .ends(),
        answer().says("done").ends(),
    ]);
    let log = Log::default();
    let tools = echo();
    let seen = tools.seen();
    let mut worker = worker(&model, tools).await;
    worker.intercept(Rewriter(Arc::clone(&log)));
    worker.hook(Watcher(Arc::clone(&log)));
    assert_eq!(worker.run("go").await.unwrap().stop, StopReason::Finished);

    assert_eq!(
        outcomes(worker.history()),
        [
            (ToolOutcome::Completed, "{\"v\":\"new\"}!".to_owned()),
            (
                ToolOutcome::Skipped,
                "[skipped: this call did not run]".to_owned()
            ),
            (
                ToolOutcome::Denied,
                "[refused, and not run: not today]".to_owned()
            ),
            (
                ToolOutcome::Completed,
                "[the result is withheld]".to_owned()
            ),
        ]
    );
    let ran: Vec<u32> = {
        let mut ran: Vec<u32> = seen
            .contexts()
            .iter()
            .map(|context| context.call_index)
            .collect();
        ran.sort_unstable();
        ran
    };
    assert_eq!(ran, [0, 3], "skipped and refused calls leave gaps");
    let log = log.lock().unwrap();
    assert_eq!(
        log[..8],
        [
            "prompt of 1",
            "before 0 {\"v\":\"old\"}",
            "hook 0 {\"v\":\"new\"}",
            "before 1 {\"v\":\"skip\"}",
            "before 2 {\"v\":\"refuse\"}",
            "hook 2 {\"v\":\"refuse\"}",
            "before 3 {\"v\":\"hide\"}",
            "hook 3 {\"v\":\"hide\"}",
        ]
    );
    assert_eq!(
        worker.history()[..2],
        [Item::user_message("go"), Item::system_message("be brief")]
    );
    // A change of the request is not a change of the history.
    let sent = model.requests();
    assert_eq!(sent[0].messages.len(), 3);
    assert!(
        matches!(&sent[1].messages.last().unwrap().content[0], ContentBlock::Text { text } if text == "note 7")
    );
}

/// Does one thing at one point.
struct At(&'static str, ControlFlow);

#[async_trait]
impl Interceptor for At {
    async fn on_prompt_submit(&self, _: &[Item]) -> Result<PromptAction, HookError> {
        if self.0 == "prompt" {
            Ok(PromptAction::Cancel("no".into()))
        } else {
            Ok(PromptAction::Continue)
        }
    }
    async fn before_tool_call(&self, call: &mut PendingCall) -> Result<ControlFlow, HookError> {
        match self.0 {
            "before" if call.context().call_index == 1 => Ok(self.1.clone()),
            "error" => Err("it broke".into()),
            "panic" => panic!("a broken hook"),
            _ => Ok(ControlFlow::Continue),
        }
    }
    async fn after_tool_call(&self, result: &mut FinishedCall) -> Result<ControlFlow, HookError> {
        if self.0 == "after" && result.context().call_index == 0 {
            Ok(self.1.clone())
        } else {
            Ok(ControlFlow::Continue)
        }
    }
}

async fn aborted_at(point: &'static str) -> (String, Vec<ToolOutcome>) {
    let model = Model::new([
        answer()
            .calls("echo", json!({}))
            .calls("wait", json!({}))
            .ends(),
        answer().says("next").ends(),
    ]);
    let tools = echo().with("wait", |_| std::future::pending());
    let mut worker = worker(&model, tools).await;
    worker.intercept(At(point, ControlFlow::Abort("enough".into())));
    let report = worker.run("go").await.unwrap();
    let StopReason::Aborted { message } = report.stop else {
        panic!("{:?}", report.stop)
    };
    let kinds = outcomes(worker.history())
        .into_iter()
        .map(|(outcome, _)| outcome)
        .collect();
    if point != "prompt" {
        // The script checks that the history is valid for the next request.
        worker.points.interceptors.clear();
        assert_eq!(worker.run("more").await.unwrap().answer, "next");
    }
    (message, kinds)
}

/// Faults WK11 and WK12.
#[tokio::test]
async fn wk11_an_abort_keeps_what_is_there_and_closes_the_rest() {
    use ToolOutcome::{Completed, Interrupted, NotStarted};
    assert_eq!(aborted_at("prompt").await, ("no".into(), vec![]));
    assert_eq!(
        aborted_at("before").await,
        ("enough".into(), vec![NotStarted, NotStarted])
    );
    assert_eq!(
        aborted_at("after").await,
        ("enough".into(), vec![Completed, Interrupted])
    );
    assert_eq!(
        aborted_at("error").await,
        ("it broke".into(), vec![NotStarted, NotStarted])
    );
    assert_eq!(
        aborted_at("panic").await,
        (
            "a hook panicked at before_tool_call".into(),
            vec![NotStarted, NotStarted]
        )
    );
}

struct Hangs;

#[async_trait]
impl Hook for Hangs {
    async fn on_message_send(&self, _: &[Message]) -> HookDecision {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn wk11_a_hook_that_hangs_does_not_let_pass() {
    let model = Model::new([]);
    let mut worker = worker(&model, echo()).await;
    worker.hook(Hangs);
    let report = worker.run("go").await.unwrap();
    assert_eq!(
        report.stop,
        StopReason::Aborted {
            message: "a hook did not answer at on_message_send within 60 s".into()
        }
    );
}

/// Sends the answer back until it is long enough, or for ever.
struct Linter {
    enough: usize,
}

#[async_trait]
impl Interceptor for Linter {
    async fn on_turn_end(&self, history: &[Item]) -> Result<TurnEndAction, HookError> {
        let Some(Item::Message(answer)) = history.last() else {
            panic!("{history:?}")
        };
        if answer.text().len() >= self.enough {
            return Ok(TurnEndAction::Finish);
        }
        Ok(TurnEndAction::ContinueWithMessages(vec![
            Item::user_message("longer, please"),
        ]))
    }
}

#[tokio::test]
async fn the_end_of_a_turn_can_be_put_off_but_not_for_ever() {
    let model = Model::new([
        answer().says("a").ends(),
        answer().says("long enough").ends(),
    ]);
    let mut corrected = worker(&model, echo()).await;
    corrected.intercept(Linter { enough: 5 });
    assert_eq!(corrected.run("go").await.unwrap().answer, "long enough");
    assert_eq!(corrected.history()[2], Item::user_message("longer, please"));

    let model = Model::new((0..9).map(|_| answer().says("a").ends()));
    let mut stubborn = worker(&model, echo()).await;
    stubborn.intercept(Linter { enough: usize::MAX });
    assert_eq!(
        stubborn.run("go").await.unwrap().stop,
        StopReason::ContinuationLimit { limit: 8 }
    );
    model.assert_finished();
}
