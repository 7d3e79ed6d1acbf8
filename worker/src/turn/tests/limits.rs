//! The limits of a turn: each ends it with a reason of its own, and a history that stays valid.

use protocol::{StopReason, ToolOutcome};
use serde_json::json;

use super::script::{Model, Tools, answer, outcomes, worker};
use crate::{WorkerOptions, llm};

fn echo() -> Tools {
    Tools::default().with("echo", |call| async move { Ok(call.input) })
}

#[tokio::test]
async fn the_request_limit_is_told() {
    let model = Model::new((0..3).map(|n| answer().calls("echo", json!({"n": n})).ends()));
    let mut worker = worker(&model, echo()).await;
    worker.options = WorkerOptions {
        max_requests: 3,
        ..worker.options
    };
    let report = worker.run("go").await.unwrap();
    assert_eq!(
        (report.stop, report.requests),
        (StopReason::RequestLimit { limit: 3 }, 3)
    );
    assert_eq!(outcomes(worker.history()).len(), 3);
    model.assert_finished();
}

#[tokio::test]
async fn lm14_the_same_call_for_ever_is_stopped() {
    let model = Model::new((0..8).map(|_| answer().calls("echo", json!({})).ends()));
    let mut worker = worker(&model, echo()).await;
    assert_eq!(
        worker.run("go").await.unwrap().stop,
        StopReason::RepeatedCalls { times: 8 }
    );
    model.assert_finished();
}

#[tokio::test]
async fn lm16_an_empty_answer_is_asked_again_once() {
    let model = Model::new([answer().ends(), answer().says("now").ends()]);
    let mut speaking = worker(&model, echo()).await;
    assert_eq!(speaking.run("go").await.unwrap().answer, "now");
    let model = Model::new([answer().says("  \n").ends(), answer().thinks("hm").ends()]);
    let mut silent = worker(&model, echo()).await;
    let report = silent.run("go").await.unwrap();
    assert_eq!((report.stop, report.requests), (StopReason::EmptyAnswer, 2));
    model.assert_finished();
}

#[tokio::test]
async fn lm15_calls_are_decided_by_content_and_cut_ones_never_run() {
    let model = Model::new([
        answer()
            .calls("echo", json!({"whole": 1}))
            .raw_call("echo", json!("{\"cut\":"))
            .stopped_by(llm::StopReason::Length)
            .ends(),
        answer()
            .says("half an ans")
            .stopped_by(llm::StopReason::Length)
            .ends(),
    ]);
    let tools = echo();
    let seen = tools.seen();
    let mut worker = worker(&model, tools).await;
    let report = worker.run("go").await.unwrap();
    assert_eq!(
        (report.stop, report.answer.as_str()),
        (StopReason::Length, "half an ans")
    );
    assert_eq!(seen.contexts().len(), 1);
    let kinds: Vec<_> = outcomes(worker.history())
        .into_iter()
        .map(|(outcome, _)| outcome)
        .collect();
    assert_eq!(kinds, [ToolOutcome::Completed, ToolOutcome::Failed]);

    let model = Model::new([answer()
        .says("I")
        .stopped_by(llm::StopReason::ContentFilter)
        .ends()]);
    let mut filtered = super::script::worker(&model, echo()).await;
    let report = filtered.run("go").await.unwrap();
    assert_eq!(
        (report.stop, report.answer.as_str()),
        (StopReason::ContentFilter, "")
    );
}

#[tokio::test]
async fn lm13_a_thousand_and_one_calls_get_a_thousand_and_one_results() {
    let many = (0..1001).fold(answer(), |many, n| many.calls("echo", json!({"n": n})));
    let model = Model::new([many.ends(), answer().says("done").ends()]);
    let tools = echo();
    let seen = tools.seen();
    let mut worker = worker(&model, tools).await;
    assert_eq!(worker.run("go").await.unwrap().stop, StopReason::Finished);
    assert_eq!(seen.contexts().len(), 1000);
    let results = outcomes(worker.history());
    assert_eq!(results.len(), 1001);
    assert_eq!(results[999].1, "{\"n\":999}");
    assert!(
        results[1000].1.contains("one answer may make 1000 calls"),
        "{}",
        results[1000].1
    );
}
