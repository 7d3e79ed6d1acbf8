//! Whole turns against a scripted model and scripted tools, in one process.

mod limits;
mod points;
mod script;
mod stops;

use std::sync::Arc;

use protocol::{Item, StopReason, ToolOutcome};
use serde_json::json;
use tokio::sync::Barrier;

use self::script::{Model, Tools, answer, outcomes, worker};
use crate::llm::LlmError;

#[tokio::test]
async fn an_answer_without_calls_ends_the_turn() {
    let model = Model::new([answer().says("hello").ends()]);
    let mut worker = worker(&model, Tools::default()).await;
    let report = worker.run("hi").await.unwrap();
    assert_eq!(
        (report.stop, report.answer.as_str(), report.requests),
        (StopReason::Finished, "hello", 1)
    );
    assert_eq!(
        worker.history(),
        [Item::user_message("hi"), Item::assistant_message("hello")]
    );
    model.assert_finished();
}

#[tokio::test]
async fn calls_of_one_response_share_a_batch_and_run_at_the_same_time() {
    let model = Model::new([
        answer()
            .says("I look")
            .calls("meet", json!({"n": 0}))
            .calls("meet", json!({"n": 1}))
            .calls("meet", json!({"n": 2}))
            .ends(),
        answer()
            .calls("meet", json!({"n": 3}))
            .calls("meet", json!({"n": 4}))
            .calls("meet", json!({"n": 5}))
            .ends(),
        answer().says("done").ends(),
    ]);
    // The barrier opens only when all three calls of a batch are inside their tools at once.
    let barrier = Arc::new(Barrier::new(3));
    let tools = Tools::default().with("meet", move |call| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok(format!("met {}", call.input))
        }
    });
    let seen = tools.seen();
    let mut worker = worker(&model, tools).await;
    assert_eq!(worker.run("go").await.unwrap().stop, StopReason::Finished);
    model.assert_finished();

    let mut contexts = seen.contexts();
    contexts.sort_by_key(|context| (context.batch_id.clone(), context.call_index));
    let indexes: Vec<u32> = contexts.iter().map(|context| context.call_index).collect();
    assert_eq!(indexes, [0, 1, 2, 0, 1, 2]);
    assert!(
        contexts[..3]
            .iter()
            .all(|context| context.batch_id == contexts[0].batch_id)
    );
    assert!(
        contexts[3..]
            .iter()
            .all(|context| context.batch_id == contexts[3].batch_id)
    );
    assert_ne!(contexts[0].batch_id, contexts[3].batch_id);
    let results = outcomes(worker.history());
    let expected: Vec<_> = (0..6)
        .map(|n| (ToolOutcome::Completed, format!("met {{\"n\":{n}}}")))
        .collect();
    assert_eq!(results, expected);
}

#[tokio::test]
async fn wk13_one_bad_call_costs_only_itself() {
    let model = Model::new([
        answer()
            .calls("slow", json!({}))
            .calls("panic", json!({}))
            .calls("unknown_tool", json!({}))
            .raw_call("fast", json!("{\"cut\": "))
            .calls("fails", json!({}))
            .calls("fast", json!({"n": 1}))
            .ends(),
        answer().says("done").ends(),
    ]);
    let gate = Arc::new(tokio::sync::Notify::new());
    let opened = Arc::clone(&gate);
    let tools = Tools::default()
        .with("slow", move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                Ok("slow".into())
            }
        })
        .with("fast", move |_| {
            opened.notify_one();
            async { Ok("fast".into()) }
        })
        .with("panic", |_| async { panic!("a broken tool") })
        .with("fails", |_| async { Err("no such thing".into()) });
    let mut worker = worker(&model, tools).await;
    assert_eq!(worker.run("go").await.unwrap().stop, StopReason::Finished);
    model.assert_finished();
    let results = outcomes(worker.history());
    use ToolOutcome::{Completed, Failed};
    let kinds: Vec<_> = results.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(
        kinds,
        [Completed, Failed, Failed, Failed, Failed, Completed]
    );
    assert_eq!(results[0].1, "slow");
    assert!(results[1].1.contains("internal error"), "{}", results[1].1);
    assert!(
        results[2]
            .1
            .contains("there is no tool \"unknown_tool\"; the tools are"),
        "{}",
        results[2].1
    );
    assert!(
        results[3].1.contains("must be one JSON object") && results[3].1.contains("{\"cut\": "),
        "{}",
        results[3].1
    );
    assert_eq!(results[4].1, "no such thing");
}

#[tokio::test]
async fn lm12_call_ids_are_made_unique_and_arguments_stay_valid() {
    let model = Model::new([
        answer()
            .call_with_id("same", "echo", json!({"n": 1}))
            .call_with_id("same", "echo", json!({"n": 2}))
            .call_with_id("", "echo", json!({"n": 3}))
            .ends(),
        answer()
            .call_with_id("same", "echo", json!({"n": 4}))
            .ends(),
        answer().says("done").ends(),
    ]);
    let tools = Tools::default().with("echo", |call| async move { Ok(call.input) });
    let mut worker = worker(&model, tools).await;
    worker.run("go").await.unwrap();
    // The scripted model checks that ids are unique and paired in every request.
    model.assert_finished();
    let texts: Vec<String> = outcomes(worker.history())
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(texts, ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":4}"]);
}

#[tokio::test]
async fn a_model_that_cannot_be_asked_ends_the_turn_and_the_next_one_works() {
    let model = Model::new([
        Err(LlmError::Truncated),
        Err(LlmError::Truncated),
        answer().says("back").ends(),
    ]);
    let mut worker = script::worker_with_retries(&model, Tools::default(), 1).await;
    let report = worker.run("one").await.unwrap();
    assert!(
        matches!(report.stop, StopReason::Failed { .. }),
        "{:?}",
        report.stop
    );
    assert!(matches!(report.error, Some(LlmError::Truncated)));
    assert_eq!(worker.history(), [Item::user_message("one")]);
    assert_eq!(worker.run("two").await.unwrap().answer, "back");
    model.assert_finished();
}

#[tokio::test]
async fn an_empty_prompt_is_refused() {
    let model = Model::new([]);
    let mut worker = worker(&model, Tools::default()).await;
    for prompt in ["", " \n\t"] {
        assert_eq!(
            worker.run(prompt).await.unwrap_err(),
            crate::PromptError::Empty
        );
    }
    assert!(worker.history().is_empty());
}
