//! Runs of real shells: how they end, what is left of them, what is kept of their output.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    scope::{Access, ScopedFs},
    tool::ProgressSink,
};

/// An argument no other process has; with it survivors are found.
fn marker() -> String {
    format!("987{}", fastrand::u32(100_000..1_000_000))
}

fn command(text: &str) -> ShellCommand {
    let scope = ScopedFs::new([(PathBuf::from("/"), Access::ReadOnly)]).unwrap();
    ShellCommand {
        text: text.to_owned(),
        directory: scope.directory(".").unwrap(),
        timeout: Duration::from_secs(20),
        max_output_bytes: 1 << 20,
        report_every: Duration::from_secs(2),
    }
}

async fn finish(command: ShellCommand) -> Finished {
    run(command, &CancellationToken::new(), ProgressSink::default())
        .await
        .unwrap()
}

fn code(finished: &Finished) -> Option<i32> {
    match finished.ending {
        Ending::Exited(status) => status.code(),
        Ending::TimedOut | Ending::Cancelled => None,
    }
}

fn text(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.output.bytes).into_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "survivors are found by their arguments in the table of processes"
)]
fn survivors(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap();
    let lines =
        processes.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(marker))
        .count()
}

/// Waits for a forgotten run to clean up; polling, as there is nobody to tell.
async fn assert_gone(marker: &str) {
    let start = Instant::now();
    while survivors(marker) > 0 {
        assert!(start.elapsed() < Duration::from_secs(3), "survivors");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn sh13_exit_codes_and_signals_are_told_apart() {
    use std::os::unix::process::ExitStatusExt;
    for expected in [0, 1, 126, 127, 255] {
        let finished = finish(command(&format!("exit {expected}"))).await;
        assert_eq!(code(&finished), Some(expected));
    }
    let finished = finish(command("kill -9 $$")).await;
    let Ending::Exited(status) = finished.ending else {
        panic!("{finished:?}");
    };
    assert_eq!((status.code(), status.signal()), (None, Some(9)));
}

#[tokio::test]
async fn both_streams_arrive_in_order() {
    let finished = finish(command("for i in 1 2 3; do echo o$i; echo e$i >&2; done")).await;
    assert_eq!(text(&finished), "o1\ne1\no2\ne2\no3\ne3\n");
}

#[tokio::test]
async fn sh01_a_timeout_ends_the_group_and_keeps_the_output() {
    let marker = marker();
    let mut command = command(&format!("echo before; sleep {marker} & sleep {marker}"));
    command.timeout = Duration::from_millis(200);
    let start = Instant::now();
    let finished = finish(command).await;
    assert!(start.elapsed() < Duration::from_millis(1500));
    assert_eq!(finished.ending, Ending::TimedOut);
    assert_eq!(text(&finished), "before\n");
    assert_eq!(survivors(&marker), 0);
}

#[tokio::test]
async fn sh02_who_ignores_the_polite_signal_is_killed() {
    let marker = marker();
    let mut command = command(&format!(
        "trap '' TERM HUP; nohup sleep {marker} & echo ready; while :; do sleep {marker}; done"
    ));
    command.timeout = Duration::from_millis(200);
    let finished = finish(command).await;
    assert_eq!(finished.ending, Ending::TimedOut);
    assert_eq!(survivors(&marker), 0);
}

#[tokio::test]
async fn sh13_a_stopped_shell_is_a_timeout() {
    let mut command = command("kill -STOP $$");
    command.timeout = Duration::from_millis(100);
    assert_eq!(finish(command).await.ending, Ending::TimedOut);
}

#[tokio::test]
async fn sh03_a_background_child_does_not_hold_the_result() {
    let marker = marker();
    for text_of in [
        format!("sleep {marker} & echo hi"),
        format!("sleep {marker} 9>&1 >/dev/null 2>&1 & echo hi"),
    ] {
        let start = Instant::now();
        let finished = finish(command(&text_of)).await;
        assert!(start.elapsed() < Duration::from_secs(2));
        assert_eq!(
            (text(&finished).as_str(), code(&finished)),
            ("hi\n", Some(0))
        );
        assert!(finished.ended_background);
        assert_eq!(survivors(&marker), 0);
    }
    let start = Instant::now();
    let finished = finish(command("setsid sleep 3 & echo hi")).await;
    assert_eq!(text(&finished), "hi\n");
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn sh04_output_beyond_the_cap_is_counted_not_kept() {
    let finished = finish(command("head -c 12000000 /dev/zero")).await;
    assert_eq!(finished.output.bytes.len(), 1 << 20);
    assert_eq!(finished.output.total, 12_000_000);
    assert!(finished.output.is_cut());

    let marker = marker();
    let mut command = command(&format!("yes {marker} & yes {marker} >&2"));
    command.timeout = Duration::from_millis(200);
    let finished = finish(command).await;
    assert_eq!(finished.ending, Ending::TimedOut);
    assert_eq!(finished.output.bytes.len(), 1 << 20);
    assert_eq!(survivors(&marker), 0);
}

#[tokio::test]
async fn sh05_sh18_there_is_no_input_and_no_foreign_handle() {
    let finished = finish(command("cat; read x; echo $?; ls /proc/self/fd")).await;
    let text = text(&finished);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("1"), "reading the input did not end");
    // The fourth is the listing's own; whoever started the tests may have left others open for us.
    let foreign = lines.filter(|number| !["0", "1", "2", "3"].contains(number));
    assert_eq!(
        foreign.filter(|number| !is_inherited(number)).count(),
        0,
        "{text}"
    );
}

/// Returns whether one of our own handles is passed on to every child, whatever we do.
#[expect(
    clippy::disallowed_methods,
    reason = "handles are listed in the table of processes"
)]
fn is_inherited(number: &str) -> bool {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 0o2_000_000 == 0)
}

#[tokio::test]
async fn sh07_the_environment_is_on_the_list() {
    let finished = finish(command("env")).await;
    for line in text(&finished).lines() {
        let name = line.split('=').next().unwrap();
        let own = ["PWD", "_", "SHLVL", "OLDPWD"].contains(&name);
        let passed = environment::passed([(name.into(), "".into())].into_iter()).count() == 1;
        assert!(own || passed, "{line}");
    }
}

#[tokio::test]
async fn cancelled_and_dropped_runs_leave_nothing() {
    let marker = marker();
    let sleeping = || command(&format!("sleep {marker} & sleep {marker}"));
    let token = CancellationToken::new();
    token.cancel();
    let finished = run(sleeping(), &token, ProgressSink::default())
        .await
        .unwrap();
    assert_eq!(finished.ending, Ending::Cancelled);
    assert_eq!(survivors(&marker), 0);

    let token = CancellationToken::new();
    let mut dropped = Box::pin(run(sleeping(), &token, ProgressSink::default()));
    // Started by the first poll.
    assert!(futures_util::poll!(&mut dropped).is_pending());
    drop(dropped);
    assert_gone(&marker).await;
}

#[tokio::test]
async fn sh20_a_storm_of_cancelled_runs_leaves_nothing() {
    let marker = marker();
    let token = CancellationToken::new();
    for _ in 0..40 {
        let mut dropped = Box::pin(run(
            command(&format!("sleep {marker}")),
            &token,
            ProgressSink::default(),
        ));
        assert!(futures_util::poll!(&mut dropped).is_pending());
    }
    assert_gone(&marker).await;
}

#[test]
fn a_runtime_that_stops_takes_its_runs_along() {
    let marker = marker();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let token = CancellationToken::new();
        let mut running = Box::pin(run(
            command(&format!("trap '' TERM; sleep {marker}")),
            &token,
            ProgressSink::default(),
        ));
        assert!(futures_util::poll!(&mut running).is_pending());
    });
    drop(runtime);
    // Killed, but a member that was no child of ours is reaped by others.
    let start = Instant::now();
    while survivors(&marker) > 0 {
        assert!(start.elapsed() < Duration::from_secs(3), "survivors");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn progress_is_reported_while_running() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let token = CancellationToken::new();
    let (heard, stop) = (Arc::clone(&reports), token.clone());
    let sink = ProgressSink::new(move |report| {
        heard.lock().unwrap().push(report);
        if heard.lock().unwrap().len() == 2 {
            stop.cancel();
        }
    });
    let mut command = command("echo out; while :; do :; done");
    command.report_every = Duration::from_millis(20);
    let finished = run(command, &token, sink).await.unwrap();
    assert_eq!(finished.ending, Ending::Cancelled);
    let reports = reports.lock().unwrap();
    assert!(reports[0].done < reports[1].done);
    assert!(
        reports[1].message.ends_with("4 bytes of output"),
        "{reports:?}"
    );
}

#[tokio::test]
async fn sh15_impossible_commands_are_errors() {
    for text in ["x".repeat(200_000), "a\0b".to_owned()] {
        let result = run(
            command(&text),
            &CancellationToken::new(),
            ProgressSink::default(),
        )
        .await;
        assert!(result.is_err());
    }
    for text in ["", "# only a comment", "--"] {
        let finished = finish(command(text)).await;
        assert!(code(&finished).is_some(), "{text}");
    }
    assert_ne!(code(&finish(command("echo 'unmatched")).await), Some(0));
    let finished = finish(command("-c echo")).await;
    assert_eq!(code(&finished), Some(127));
}
