//! `worker run` as a user starts it: the real binary, its tool process, a scripted model over HTTP.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
};

use protocol::log::{LogLine, LogRecord};
use serde_json::{Value, json};
use tests::{
    binaries::{Place, Ran, binary},
    model_server::{ModelServer, answer, fault},
};
use worker::session::recover;

const KEY: &str = "sk-canary-7f3a9c";

/// Runs a task against a model, while the test's runtime keeps the model answering.
async fn run(place: &Place, model: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = place.command("worker");
    command
        .env("OPENAI_API_KEY", KEY)
        .args(["run", "--base-url", &model.base_url(), "--model", "m"])
        .args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap();
    Ran::of(output.expect("the worker starts"))
}

fn log_of(place: &Place) -> Vec<LogRecord> {
    let text = std::fs::read_to_string(place.session_log()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<LogLine>(line).unwrap().record)
        .collect()
}

/// Returns the tool results in a request, in order.
fn tool_results(body: &Value) -> Vec<&str> {
    let messages = body["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap())
        .collect()
}

/// Returns the text of the last tool result the model was sent.
fn last_result(model: &ModelServer, request: usize) -> String {
    tool_results(&model.body(request)).pop().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_path_from_a_task_to_the_answer() {
    let lines: String = (1..=5000).map(|n| format!("entry {n}\n")).collect();
    let place = Place::with(&[("large.txt", &lines), ("small.txt", "old text\n")]);
    let model = ModelServer::script([
        answer()
            .text("I look.")
            .call("read_file", json!({"path": "large.txt"}))
            .call("read_file", json!({"path": "small.txt"})),
        answer().call(
            "edit_file",
            json!({"path": "small.txt", "old_string": "old", "new_string": "new"}),
        ),
        answer().call("shell", json!({"command": "cat small.txt; env"})),
        answer().text("It is done."),
    ])
    .await;
    let ran = run(&place, &model, &["change @small.txt"]).await;
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (Some(0), "It is done.\n"),
        "{}",
        ran.stderr
    );
    model.assert_finished();

    let first = model.body(0);
    let roles: Vec<&str> = first["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "system"]);
    assert_eq!(
        first["messages"][2]["content"],
        "[File: small.txt]\nold text\n"
    );
    assert_eq!(
        model.requests()[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    let second = model.body(1);
    let results = tool_results(&second);
    assert!(
        results[0].starts_with("[blob:")
            && results[0].contains("] text | 5000 lines\n── head ──\nentry 1\n"),
        "{}",
        results[0]
    );
    assert_eq!(results[1], "old text\n");
    // The tools ran for real, without the model's key in their environment.
    let environment = last_result(&model, 3);
    assert!(
        environment.starts_with("new text\n") && environment.contains("PATH="),
        "{environment}"
    );
    assert!(
        !environment.contains("canary") && !environment.contains("OPENAI"),
        "{environment}"
    );

    for told in [
        "✓ read_file {\"path\":\"large.txt\"}",
        "✓ edit_file",
        "✓ shell",
        "4 requests",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    let recovered = recover(log_of(&place));
    assert!(recovered.damage.is_empty());
    assert_eq!(recovered.history.items().len(), 12);
    // Nothing that was written holds the key.
    assert!(
        !std::fs::read_to_string(place.session_log())
            .unwrap()
            .contains("canary")
    );
    let name = results[0]["[blob:".len()..]
        .split(']')
        .next()
        .unwrap()
        .to_owned();
    let shown = place.run("toolserver", &["blobs", "show", &name]);
    assert_eq!(
        (shown.status, shown.stdout == lines),
        (Some(0), true),
        "{}",
        shown.stderr
    );
    let part = place.run("toolserver", &["blobs", "show", &name, "lines:4999-5000"]);
    assert_eq!(
        part.stdout,
        "entry 4999\nentry 5000\n[lines 4999-5000 of 5000]\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_plays_without_a_model() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../worker/examples/tour.jsonl");
    let lock = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock"))
        .unwrap();
    let place = Place::with(&[("Cargo.lock", &lock)]);
    let ran = place.run(
        "worker",
        &[
            "run",
            "--replay",
            examples.to_str().unwrap(),
            "which crates?",
        ],
    );
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let report = std::fs::read_to_string(place.root().join("target/tour/report.md")).unwrap();
    let crates = lock
        .lines()
        .filter(|line| line.starts_with("name = "))
        .count();
    assert_eq!(
        report,
        format!(
            "# Locked crates\n\nLock file version: 4\nCrates: counted by the command below\n{crates} crates\n"
        )
    );
    let listed = place.run("toolserver", &["blobs", "ls"]);
    let name = listed.stdout.split_whitespace().next().unwrap();
    assert!(
        ran.stdout.contains(&format!("kept as blob {name}.")),
        "{}",
        ran.stdout
    );
    assert_eq!(
        place.run("toolserver", &["blobs", "show", name]).stdout,
        lock
    );
    assert_eq!(ran.stderr.matches('✓').count(), 5, "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_run_plays_again() {
    let place = Place::with(&[]);
    let script = || {
        [
            answer().call("shell", json!({"command": "seq 1 900"})),
            answer().text("counted"),
        ]
    };
    let model = ModelServer::script(script()).await;
    let recorded = run(&place, &model, &["--record", "run.jsonl", "count"]).await;
    assert_eq!(recorded.status, Some(0), "{}", recorded.stderr);
    let replayed = place.run("worker", &["run", "--replay", "run.jsonl", "count"]);
    assert_eq!(
        (replayed.status, replayed.stdout),
        (Some(0), recorded.stdout),
        "{}",
        replayed.stderr
    );

    let text = std::fs::read_to_string(place.root().join("run.jsonl")).unwrap();
    let shortened: Vec<&str> = text.lines().take(2).collect();
    std::fs::write(place.root().join("short.jsonl"), shortened.join("\n")).unwrap();
    let ended = place.run("worker", &["run", "--replay", "short.jsonl", "count"]);
    assert_eq!(ended.status, Some(1));
    assert!(ended.stderr.contains("short.jsonl"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_resumed_with_its_history() {
    let place = Place::with(&[]);
    let model = ModelServer::script([
        answer().text("first answer"),
        answer().text("second answer"),
    ])
    .await;
    assert_eq!(run(&place, &model, &["one"]).await.status, Some(0));
    let log = place.session_log();
    let id = log.file_stem().unwrap().to_str().unwrap();
    let ran = run(&place, &model, &["--resume", id, "two"]).await;
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (Some(0), "second answer\n"),
        "{}",
        ran.stderr
    );
    let texts: Vec<Value> = model.body(1)["messages"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|m| m["content"].clone())
        .collect();
    assert_eq!(texts, [json!("one"), json!("first answer"), json!("two")]);
    let listed = place.run("worker", &["sessions", "ls", "--json"]);
    let session: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!((&session["id"], &session["turns"]), (&json!(id), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn lm03_what_the_endpoint_refuses_is_told_to_the_person() {
    let cases = [
        (
            fault().status(401).error("invalid_api_key", "no such key"),
            "refuses the key",
        ),
        (
            fault().status(400).error("bad", "messages.3 is odd"),
            "messages.3 is odd",
        ),
        (
            fault()
                .status(429)
                .header("x-should-retry", "false")
                .error("rate_limit", "slow down"),
            "slow down",
        ),
        (
            fault()
                .status(500)
                .header("x-should-retry", "false")
                .error("oops", "it broke"),
            "it broke",
        ),
    ];
    for (reply, told) in cases {
        let place = Place::with(&[]);
        let model = ModelServer::script([reply]).await;
        let ran = run(&place, &model, &["hi"]).await;
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (Some(1), ""),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.to_lowercase().contains(told),
            "{told}: {}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("canary"), "{}", ran.stderr);
        let records = log_of(&place);
        assert!(
            matches!(records.last(), Some(LogRecord::TurnEnded { .. })),
            "{records:?}"
        );
    }
}

#[test]
fn bad_input_is_refused_before_anything_starts() {
    // No key is set here, and the vendor's own endpoint wants one.
    let place = Place::with(&[("bad.jsonl", "{\"replay\":1}\nnot json\n")]);
    let replay: &[&str] = &["run", "--replay", "bad.jsonl", "hi"];
    let own: &[&str] = &["run", "--model", "m", "hi"];
    let named: &[&str] = &[
        "run",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--model",
        "m",
        "--key-env",
        "NOPE",
        "hi",
    ];
    let cases: [(&[&str], &str); 10] = [
        (own, "OPENAI_API_KEY holds no key"),
        (named, "NOPE holds no key"),
        (&["run", "--model", "m", ""], "the prompt is empty"),
        (&["run", "--model", "m", "  \n "], "the prompt is empty"),
        (&["run", "hi"], "--model"),
        (replay, "bad.jsonl"),
        (
            &["run", "--model", "m", "--root", "missing", "hi"],
            "missing",
        ),
        (
            &["run", "--model", "m", "--base-url", "ftp://x", "hi"],
            "base URL",
        ),
        (
            &["run", "--model", "m", "--resume", "nonsense", "hi"],
            "\"nonsense\" is no session id",
        ),
        (
            &["run", "--model", "m", "--max-requests", "0", "hi"],
            "max-requests",
        ),
    ];
    for (arguments, told) in cases {
        let ran = place.run("worker", arguments);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (Some(2), ""),
            "{arguments:?}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_calls_are_told_to_the_model_and_the_turn_goes_on() {
    let place = Place::with(&[("binary", "\0\u{1}\u{2}")]);
    std::fs::create_dir(place.root().join("dir")).unwrap();
    let model = ModelServer::script([
        answer()
            .raw_call("a", "read_file", "{\"path\": 5}")
            .raw_call("b", "read_file", "{\"path\": \"x")
            .raw_call("c", "read_file", "{\"path\": \"/etc/passwd\"}")
            .raw_call("d", "read_file", "{\"path\": \"missing\"}")
            .raw_call("e", "read_file", "{\"path\": \"dir\"}")
            .raw_call("f", "read_file", "{\"path\": \"binary\"}")
            .raw_call("g", "reed_file", "{}"),
        answer().text("I see."),
    ])
    .await;
    let ran = run(&place, &model, &["go"]).await;
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let body = model.body(1);
    let results = tool_results(&body);
    let told = [
        "/path: 5 is not of type \"string\"",
        "must be one JSON object",
        "outside the directories",
        "does not exist",
        "is a directory",
        "binary",
        "did you mean read_file",
    ];
    assert_eq!(results.len(), told.len());
    for (result, told) in results.iter().zip(told) {
        assert!(result.contains(told), "{told}: {result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn file_references_that_fail_are_told_to_both() {
    let place = Place::with(&[]);
    let model = ModelServer::script([answer().text("I cannot see it.")]).await;
    let ran = run(&place, &model, &["read @missing.txt"]).await;
    assert_eq!(ran.status, Some(0));
    assert!(
        ran.stderr.contains("! @missing.txt is not attached: "),
        "{}",
        ran.stderr
    );
    assert_eq!(
        model.body(0)["messages"][1]["content"],
        "read [unresolved file ref: missing.txt]"
    );
}

/// Fault WK08: the tool process dies in the middle of a batch.
#[tokio::test(flavor = "multi_thread")]
async fn wk08_a_dead_tool_process_costs_its_calls_and_is_started_again() {
    let place = Place::with(&[("a.txt", "still here\n")]);
    let model = ModelServer::script([
        answer().call("shell", json!({"command": "kill -9 $PPID; sleep 60"})),
        answer().call("read_file", json!({"path": "a.txt"})),
        answer().text("done"),
    ])
    .await;
    let ran = run(&place, &model, &["go"]).await;
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(
        last_result(&model, 1).contains("its effect is unknown"),
        "{}",
        last_result(&model, 1)
    );
    assert_eq!(last_result(&model, 2), "still here\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn wk12_an_interrupt_ends_the_run_with_a_log_that_can_go_on() {
    let place = Place::with(&[]);
    let model = ModelServer::script([
        answer().call(
            "shell",
            json!({"command": "echo begun > started; sleep 300"}),
        ),
        answer().text("going on"),
    ])
    .await;
    let mut command = place.command("worker");
    command.args([
        "run",
        "--base-url",
        &model.base_url(),
        "--model",
        "m",
        "--output",
        "jsonl",
        "wait",
    ]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let pid = child.id().to_string();
    let (status, events) = tokio::task::spawn_blocking(move || {
        let mut events = Vec::new();
        for line in output.lines() {
            let event: Value =
                serde_json::from_str(&line.unwrap()).expect("every line is an event");
            // The call is running once its start was told.
            if event["event"] == "tool_start" {
                std::process::Command::new("kill")
                    .args(["-INT", &pid])
                    .status()
                    .unwrap();
            }
            events.push(event);
        }
        (child.wait().unwrap().code(), events)
    })
    .await
    .unwrap();
    assert_eq!(status, Some(130));
    let ends: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "tool_end")
        .collect();
    assert_eq!(
        (ends.len(), &ends[0]["outcome"]),
        (1, &json!("interrupted")),
        "{ends:?}"
    );
    assert_eq!(events.last().unwrap()["event"], "turn_end");
    let sequence: Vec<u64> = events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(sequence, (0..sequence.len() as u64).collect::<Vec<_>>());

    let id = place
        .session_log()
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let ran = run(&place, &model, &["--resume", &id, "go on"]).await;
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (Some(0), "going on\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn one_binary_is_enough() {
    let place = Place::with(&[("a.txt", "x\n")]);
    let own = place.run("toolserver", &["tools"]);
    let inside = place.run("worker", &["toolserver", "tools"]);
    assert_eq!((own.status, &own.stdout), (Some(0), &inside.stdout));
    assert_eq!(
        place
            .run(
                "worker",
                &["toolserver", "call", "read_file", "{\"path\":\"a.txt\"}"]
            )
            .stdout,
        "x\n"
    );
    let help = place.run("worker", &["toolserver", "--help"]);
    assert!(
        help.stdout.contains("Usage: worker toolserver"),
        "{}",
        help.stdout
    );
    assert!(binary("worker").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn json_output_is_one_object() {
    let place = Place::with(&[]);
    let model = ModelServer::script([answer().text("yes")]).await;
    let ran = run(&place, &model, &["--output", "json", "-q", "ok?"]).await;
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&summary["answer"], &summary["stop"]["reason"]),
        (&json!("yes"), &json!("finished"))
    );
    assert_eq!(ran.stderr, "");
}
