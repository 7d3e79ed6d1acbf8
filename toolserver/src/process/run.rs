//! One run of a command, from its start until nothing of it is left.

use std::{
    io,
    os::fd::OwnedFd,
    process::ExitStatus,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tokio::{io::AsyncReadExt, net::unix::pipe, time};
use tokio_util::sync::CancellationToken;

use super::{capture::Captured, group::Group};
use crate::{
    scope::Directory,
    tool::{Progress, ProgressSink},
};

/// How long output is awaited after the shell exited, while something else still holds the pipe.
const DRAIN: Duration = Duration::from_millis(250);
/// How long a group has to end by itself after it was asked to, and again after it was killed.
const GRACE: Duration = Duration::from_millis(400);
/// How often it is looked at whether a group is empty; there is nothing to wait on.
const POLL: Duration = Duration::from_millis(10);
/// What is read of a pipe that somebody outside the group goes on filling.
const LEFT_MAX_READS: usize = 64;
const READ_BYTES: usize = 64 * 1024;

/// What is to be run, and how.
#[derive(Debug)]
pub(crate) struct ShellCommand {
    /// What the shell reads.
    pub(crate) text: String,
    /// Where it runs.
    pub(crate) directory: Directory,
    /// When it is ended.
    pub(crate) timeout: Duration,
    /// How much of its output is kept.
    pub(crate) max_output_bytes: usize,
    /// How often it is said how far it is.
    pub(crate) report_every: Duration,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The shell exited, by itself or by a signal that was not ours.
    Exited(ExitStatus),
    /// It took too long.
    TimedOut,
    /// The caller took the call back.
    Cancelled,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ending: Ending,
    pub(crate) output: Captured,
    /// Processes that outlived the shell were ended.
    pub(crate) ended_background: bool,
}

/// Runs a command to its end.
///
/// The run is a task of its own, so that a dropped call still ends its group politely: the task is told to stop, and
/// ends within two graces. If the runtime stops before, the group is killed with it.
///
/// # Errors
/// What the system says if the command cannot be started.
///
/// # Cancel safety
/// Dropping the future cancels the run.
pub(crate) async fn run(
    command: ShellCommand,
    cancellation: &CancellationToken,
    progress: ProgressSink,
) -> io::Result<Finished> {
    let stop = cancellation.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    let (group, reader) = Group::start(&command)?;
    let run = Run {
        group,
        pipe: Some(pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?),
        scratch: vec![0; READ_BYTES],
        output: Captured::default(),
        command,
        started: Instant::now(),
    };
    let task = tokio::spawn(async move { run.finish(stop, progress).await });
    task.await.map_err(io::Error::other)
}

struct Run {
    group: Group,
    /// `None` after its end: nobody can write any more.
    pipe: Option<pipe::Receiver>,
    scratch: Vec<u8>,
    output: Captured,
    command: ShellCommand,
    started: Instant,
}

enum Event {
    Read,
    Exited,
    Deadline,
    Cancelled,
    Report,
}

impl Run {
    async fn finish(mut self, stop: CancellationToken, progress: ProgressSink) -> Finished {
        let ending = self.until_over(&stop, &progress).await;
        if matches!(ending, Event::Exited) {
            self.drain().await;
        }
        let ended_background = self.end_group().await;
        let status = self.group.reap();
        let ending = match (ending, status) {
            (Event::Deadline, _) | (_, None) => Ending::TimedOut,
            (Event::Cancelled, _) => Ending::Cancelled,
            (_, Some(status)) => Ending::Exited(status),
        };
        Finished {
            ending,
            output: std::mem::take(&mut self.output),
            ended_background,
        }
    }

    /// Collects output until the shell exits or has to.
    async fn until_over(&mut self, stop: &CancellationToken, progress: &ProgressSink) -> Event {
        let deadline = time::sleep(self.command.timeout);
        tokio::pin!(deadline);
        let mut reports = time::interval(self.command.report_every);
        reports.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        reports.reset();
        loop {
            let event = tokio::select! {
                // In this order, so that a command that floods its output cannot outrun its end.
                biased;
                () = stop.cancelled() => Event::Cancelled,
                () = &mut deadline => Event::Deadline,
                () = self.group.exited() => Event::Exited,
                _ = reports.tick(), if progress.is_connected() => Event::Report,
                () = read(&mut self.pipe, &mut self.scratch, &mut self.output, self.command.max_output_bytes) =>
                    Event::Read,
            };
            match event {
                Event::Read => {}
                Event::Report => self.report(progress),
                Event::Exited | Event::Deadline | Event::Cancelled => return event,
            }
        }
    }

    fn report(&self, progress: &ProgressSink) {
        let elapsed = self.started.elapsed();
        progress.report(Progress {
            done: elapsed.as_secs_f64(),
            total: Some(self.command.timeout.as_secs_f64()),
            message: format!(
                "running for {} s, {} bytes of output",
                elapsed.as_secs(),
                self.output.total
            ),
        });
    }

    /// Collects what is still in the pipe, and for a moment what others still write.
    async fn drain(&mut self) {
        let all = async {
            while self.pipe.is_some() {
                self.read().await;
            }
        };
        // Whoever holds the pipe any longer is in the background, and about to be ended.
        let _late = time::timeout(DRAIN, all).await;
    }

    /// Ends every member of the group. Returns whether there was one besides the shell that had already exited.
    async fn end_group(&mut self) -> bool {
        self.group.reap();
        if !self.group.has_living_members() {
            return false;
        }
        self.group.signal(Signal::TERM);
        // A stopped process cannot hear anything else.
        self.group.signal(Signal::CONT);
        if !self.settled().await {
            self.group.signal(Signal::KILL);
            self.settled().await;
        }
        for _ in 0..LEFT_MAX_READS {
            let left = self
                .pipe
                .as_ref()
                .map(|pipe| pipe.try_read(&mut self.scratch));
            let Some(Ok(count @ 1..)) = left else {
                break;
            };
            self.output
                .push(&self.scratch[..count], self.command.max_output_bytes);
        }
        true
    }

    /// Waits a grace for the group to be empty, collecting last words.
    async fn settled(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < GRACE {
            self.group.reap();
            if !self.group.has_living_members() {
                return true;
            }
            tokio::select! {
                biased;
                () = time::sleep(POLL) => {}
                () = self.read() => {}
            }
        }
        false
    }

    async fn read(&mut self) {
        let max = self.command.max_output_bytes;
        read(&mut self.pipe, &mut self.scratch, &mut self.output, max).await;
    }
}

/// Reads once; at the end of the pipe closes it, and then waits for ever.
///
/// # Cancel safety
/// What was read is in `output`.
async fn read(
    pipe: &mut Option<pipe::Receiver>,
    scratch: &mut [u8],
    output: &mut Captured,
    max: usize,
) {
    let Some(open) = pipe else {
        return std::future::pending().await;
    };
    match open.read(scratch).await {
        Ok(count @ 1..) => output.push(&scratch[..count], max),
        Ok(0) | Err(_) => *pipe = None,
    }
}
