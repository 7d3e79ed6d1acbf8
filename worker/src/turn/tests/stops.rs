//! Stopping a turn, and what the log says about it.

use std::sync::Arc;

use protocol::{Item, StopReason, ToolOutcome};
use serde_json::json;
use tokio::sync::Notify;

use super::script::{Model, Tools, answer, outcomes, worker};
use crate::{WorkerOptions, session::SessionStore};

/// Fault WK12: k of n calls are done when the turn is stopped.
#[tokio::test]
async fn wk12_an_interrupt_keeps_finished_results_and_the_next_turn_works() {
    let model = Model::new([
        answer()
            .calls("done", json!({}))
            .calls("hang", json!({}))
            .calls("queued", json!({}))
            .ends(),
        answer().says("next").ends(),
    ]);
    let started = Arc::new(Notify::new());
    let tools = {
        let started = Arc::clone(&started);
        Tools::default()
            .with("done", |_| async { Ok("finished".into()) })
            .with("hang", move |_| {
                started.notify_one();
                std::future::pending()
            })
            .with("queued", |_| async { Ok("never".into()) })
    };
    let mut worker = worker(&model, tools).await;
    // One at a time: the third call waits behind the one that hangs.
    worker.options = WorkerOptions {
        max_parallel_calls: 1,
        ..worker.options
    };
    let interrupter = worker.interrupter();
    let interrupt = async {
        started.notified().await;
        interrupter.interrupt();
    };
    let (report, ()) = tokio::join!(worker.run("go"), interrupt);
    assert_eq!(report.unwrap().stop, StopReason::Interrupted);
    let results = outcomes(worker.history());
    let kinds: Vec<_> = results.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(
        kinds,
        [
            ToolOutcome::Completed,
            ToolOutcome::Interrupted,
            ToolOutcome::NotStarted
        ]
    );
    assert_eq!(results[0].1, "finished");
    assert!(
        results[1].1.contains("its effect is unknown") && results[2].1.contains("not run"),
        "{results:?}"
    );
    assert_eq!(worker.run("again").await.unwrap().answer, "next");
    model.assert_finished();
}

#[tokio::test]
async fn an_interrupt_before_the_turn_stops_the_turn() {
    let model = Model::new([answer().says("second").ends()]);
    let mut worker = worker(&model, Tools::default()).await;
    worker.interrupter().interrupt();
    assert_eq!(
        worker.run("first").await.unwrap().stop,
        StopReason::Interrupted
    );
    assert_eq!(worker.run("second").await.unwrap().answer, "second");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_ends_is_stopped_at_its_deadline() {
    let model = Model::new([
        answer().calls("hang", json!({})).ends(),
        answer().says("done").ends(),
    ]);
    let mut worker = worker(
        &model,
        Tools::default().with("hang", |_| std::future::pending()),
    )
    .await;
    assert_eq!(worker.run("go").await.unwrap().stop, StopReason::Finished);
    let results = outcomes(worker.history());
    assert_eq!(results[0].0, ToolOutcome::Failed);
    assert!(
        results[0].1.contains("longer than 1200 s"),
        "{}",
        results[0].1
    );
}

/// Fault WK01: whatever is in the log when the process dies, the session goes on with a valid history.
#[tokio::test]
async fn wk01_a_session_goes_on_from_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let store = SessionStore::open(directory.path()).unwrap();
    let log = store.create("m").unwrap();
    let id = log.id().to_owned();
    let model = Model::new([
        answer()
            .says("I look")
            .calls("echo", json!({"n": 1}))
            .calls("echo", json!({"n": 2}))
            .ends(),
        answer().says("done").ends(),
        answer().says("and on").ends(),
    ]);
    let echo = || Tools::default().with("echo", |call| async move { Ok(call.input) });
    let mut first = worker(&model, echo()).await.with_session(log);
    first.run("go").await.unwrap();
    let history = first.history().to_vec();
    drop(first);

    let (log, recovered) = store.resume(&id).unwrap();
    assert_eq!(
        (recovered.history.items(), recovered.turns),
        (history.as_slice(), 1)
    );
    drop(log);
    let file = store.file(&id).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let ends: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    assert!(
        ends.len() >= 9,
        "a record each: session, prompt, two answers, four of calls, end"
    );
    for end in ends {
        std::fs::write(&file, &whole[..end]).unwrap();
        let (log, recovered) = store.resume(&id).unwrap();
        let model = Model::new([answer().says("and on").ends()]);
        let mut resumed = worker(&model, echo())
            .await
            .with_session(log)
            .with_recovered(recovered);
        // The scripted model refuses a history that is not valid.
        assert_eq!(
            resumed.run("more").await.unwrap().answer,
            "and on",
            "cut at {end}"
        );
    }
}

#[tokio::test]
async fn the_log_is_one_record_per_fact_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let store = SessionStore::open(directory.path()).unwrap();
    let log = store.create("m").unwrap();
    let id = log.id().to_owned();
    let model = Model::new([
        answer().calls("echo", json!({})).ends(),
        answer().says("done").ends(),
    ]);
    let tools = Tools::default().with("echo", |call| async move { Ok(call.input) });
    let mut worker = worker(&model, tools).await.with_session(log);
    worker.run("go").await.unwrap();
    let text = std::fs::read_to_string(store.file(&id).unwrap()).unwrap();
    let records: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = records
        .iter()
        .map(|record| record["record"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "session",
            "submitted",
            "answered",
            "call_started",
            "call_ended",
            "answered",
            "turn_ended"
        ]
    );
    let sequence: Vec<u64> = records
        .iter()
        .map(|record| record["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(sequence, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(
        records[4]["context"]["batchId"],
        records[3]["context"]["batchId"]
    );
}

#[tokio::test]
async fn what_cannot_be_logged_does_not_happen() {
    let directory = tempfile::tempdir().unwrap();
    let store = SessionStore::open(directory.path()).unwrap();
    let log = store.create("m").unwrap();
    let id = log.id().to_owned();
    drop(log);
    // A log that can be read but not written stands for a full disk.
    let file = std::fs::File::open(store.file(&id).unwrap()).unwrap();
    let log = crate::session::SessionLog::for_tests(file);
    let model = Model::new([]);
    let mut worker = worker(&model, Tools::default()).await.with_session(log);
    let report = worker.run("go").await.unwrap();
    let StopReason::Failed { message } = report.stop else {
        panic!("{:?}", report.stop)
    };
    assert!(message.contains("session log"), "{message}");
    assert!(
        worker
            .history()
            .iter()
            .all(|item| !matches!(item, Item::ToolCall(_)))
    );
}
