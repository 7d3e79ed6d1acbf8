//! Running the calls of one response: all that may run start at once, results are kept in call order.
//!
//! One owner for the whole batch: it asks the hooks, writes the intent before a call starts, starts it as a task, and
//! closes its entry in the ledger when it ends. There is no scheduling by tool; a high cap keeps a response with a
//! thousand calls from starting a thousand tasks, the rest waits in order.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::{
    BatchId, CallId, EventBody, StopReason, ToolCallItem, ToolOutcome, ToolResultItem,
    log::LogRecord,
};
use tokio::{
    sync::mpsc,
    task::{Id, JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

use super::{
    Verdict,
    ledger::{Ending, Ledger},
};
use crate::{
    interceptor::{FinishedCall, PendingCall},
    tools::{HostCall, HostError, HostReply, ToolSet},
    worker::Worker,
};

/// How much of a failed call's result is told to listeners, in characters.
const PROBLEM_MAX_CHARS: usize = 200;

/// How many progress reports may wait before the newest are dropped.
const PROGRESS_QUEUE: usize = 64;

/// What a call's task gives: the host's answer, and how long it took.
type Ran = (Result<HostReply, HostError>, Duration);

/// How a batch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BatchEnd {
    /// Every call has had its way.
    Complete,
    /// A hook or interceptor ended the turn.
    Aborted(String),
    /// Somebody stopped the turn.
    Interrupted,
    /// The turn cannot go on; the log failed, for example.
    Failed(StopReason),
}

/// Runs the calls of one response and returns a result for each, in call order.
pub(super) async fn run(
    worker: &mut Worker,
    calls: Vec<ToolCallItem>,
    stop: &CancellationToken,
) -> (Vec<ToolResultItem>, BatchEnd) {
    let rejected: Vec<Option<String>> = calls
        .iter()
        .map(|call| call.rejected_arguments.clone())
        .collect();
    let batch_id = BatchId::from(uuid::Uuid::now_v7());
    let (progress, reports) = mpsc::channel(PROGRESS_QUEUE);
    let mut batch = Batch {
        ledger: Ledger::open(batch_id, calls),
        worker,
        queue: VecDeque::new(),
        running: JoinSet::new(),
        indexes: HashMap::new(),
        calls_stop: CancellationToken::new(),
        end: BatchEnd::Complete,
        progress,
    };
    batch.approve(&rejected, stop).await;
    batch.drive(reports, stop).await;
    batch.finish()
}

struct Batch<'a> {
    worker: &'a mut Worker,
    ledger: Ledger,
    /// The calls that may run and have not started, in call order.
    queue: VecDeque<usize>,
    running: JoinSet<Ran>,
    indexes: HashMap<Id, usize>,
    /// Cancelled when the calls that run must stop.
    calls_stop: CancellationToken,
    end: BatchEnd,
    progress: mpsc::Sender<(CallId, String)>,
}

impl Batch<'_> {
    /// Closes the calls that cannot run, and asks interceptors and hooks about the others, in call order.
    async fn approve(&mut self, rejected: &[Option<String>], stop: &CancellationToken) {
        for (index, rejected) in rejected.iter().enumerate() {
            if stop.is_cancelled() {
                self.end = BatchEnd::Interrupted;
                return;
            }
            if let Some(reason) = self.cannot_run(index, rejected.as_deref()) {
                self.settle(index, &Ending::without_run(ToolOutcome::Failed, reason));
                continue;
            }
            let ending = match self
                .worker
                .points
                .before_tool_call(self.ledger.call_mut(index))
                .await
            {
                Verdict::Continue => {
                    self.queue.push_back(index);
                    continue;
                }
                Verdict::Skip => {
                    Ending::without_run(ToolOutcome::Skipped, "[skipped: this call did not run]")
                }
                Verdict::Refuse(reason) => Ending::without_run(
                    ToolOutcome::Denied,
                    format!("[refused, and not run: {reason}]"),
                ),
                Verdict::Abort(reason) => {
                    self.end = BatchEnd::Aborted(reason);
                    return;
                }
            };
            self.settle(index, &ending);
        }
    }

    /// Returns why a call cannot run whatever the hooks say.
    fn cannot_run(&self, index: usize, rejected: Option<&str>) -> Option<String> {
        let limit = self.worker.options.max_calls;
        if index >= limit {
            return Some(format!(
                "not run: one answer may make {limit} calls; make this one again in the next"
            ));
        }
        let name = self.ledger.call(index).name();
        if !self.worker.tools.has(name) {
            return Some(self.worker.tools.unknown(name));
        }
        rejected.map(|raw| {
            let shown: String = raw.chars().take(200).collect();
            format!(
                "not run: the arguments must be one JSON object, complete and not in quotes; {} bytes were sent, \
                 beginning with: {shown}",
                raw.len()
            )
        })
    }

    /// Starts what may run and waits for everything that does.
    async fn drive(
        &mut self,
        mut reports: mpsc::Receiver<(CallId, String)>,
        stop: &CancellationToken,
    ) {
        let mut deadline: Option<tokio::time::Instant> = None;
        loop {
            if self.end == BatchEnd::Complete {
                self.start_queued();
            }
            if self.end != BatchEnd::Complete && deadline.is_none() {
                // The calls hear that they must stop, and have a moment for it.
                self.calls_stop.cancel();
                deadline = Some(tokio::time::Instant::now() + self.worker.options.stop_grace);
            }
            if self.running.is_empty() {
                return;
            }
            let give_up = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(joined) = self.running.join_next_with_id() => self.joined(joined).await,
                Some((call_id, message)) = reports.recv() => {
                    self.worker.timeline.tell(EventBody::ToolProgress { call_id, message });
                }
                () = stop.cancelled(), if deadline.is_none() => self.end = BatchEnd::Interrupted,
                () = give_up => return,
            }
        }
    }

    /// Starts calls in order up to the cap, each after its intent is in the log.
    fn start_queued(&mut self) {
        while self.running.len() < self.worker.options.max_parallel_calls.max(1) {
            let Some(index) = self.queue.pop_front() else {
                return;
            };
            let call = self.ledger.call(index).clone();
            let record = LogRecord::CallStarted {
                context: call.context().clone(),
                name: call.name().to_owned(),
                arguments: call.input.clone(),
            };
            if let Err(reason) = self.worker.log(record) {
                self.end = BatchEnd::Failed(reason);
                return;
            }
            self.ledger.start(index);
            self.worker.timeline.tell(EventBody::ToolStart {
                batch_id: self.ledger.batch_id().clone(),
                call_id: call.context().call_id.clone(),
                call_index: call.context().call_index,
                name: call.name().to_owned(),
            });
            let execution = execute(
                self.worker.tools.clone(),
                call,
                self.calls_stop.child_token(),
                self.progress.clone(),
                self.worker.options.call_deadline,
            );
            let id = self.running.spawn(execution).id();
            self.indexes.insert(id, index);
        }
    }

    async fn joined(&mut self, joined: Result<(Id, Ran), JoinError>) {
        let (id, ending) = match joined {
            Ok((id, (reply, duration))) => (id, ending(reply, duration)),
            // A host that panics costs only this call.
            Err(failure) => {
                let told = "the call failed by an internal error; its effect is unknown";
                (failure.id(), Ending::without_run(ToolOutcome::Failed, told))
            }
        };
        if let Some(index) = self.indexes.remove(&id) {
            self.close(index, ending).await;
        }
    }

    /// Closes a call that ran: interceptors and hooks see the result first.
    async fn close(&mut self, index: usize, mut ending: Ending) {
        let call = self.ledger.call(index).clone();
        let mut finished =
            FinishedCall::new(&call, ending.outcome, ending.output, ending.blob.clone());
        match self.worker.points.after_tool_call(&mut finished).await {
            Verdict::Continue | Verdict::Refuse(_) => {}
            Verdict::Skip => "[the result is withheld]".clone_into(&mut finished.output),
            Verdict::Abort(reason) if self.end == BatchEnd::Complete => {
                self.end = BatchEnd::Aborted(reason)
            }
            Verdict::Abort(_) => {}
        }
        ending.output = finished.output;
        self.settle(index, &ending);
    }

    /// Writes a call's result down: in the ledger, the log and the timeline.
    fn settle(&mut self, index: usize, ending: &Ending) {
        let call = self.ledger.call(index).clone();
        let Some(result) = self.ledger.close(index, ending).cloned() else {
            return;
        };
        let duration_ms = u64::try_from(ending.duration.as_millis()).unwrap_or(u64::MAX);
        let event = EventBody::ToolEnd {
            batch_id: call.context().batch_id.clone(),
            call_id: call.context().call_id.clone(),
            call_index: call.context().call_index,
            name: call.name().to_owned(),
            outcome: ending.outcome,
            duration_ms,
            shown_bytes: result.output.len() as u64,
            problem: problem(&result),
            blob: result.blob.clone(),
        };
        let record = LogRecord::CallEnded {
            context: call.context().clone(),
            result,
            duration_ms,
        };
        if let Err(reason) = self.worker.log(record)
            && self.end == BatchEnd::Complete
        {
            self.end = BatchEnd::Failed(reason);
        }
        self.worker.timeline.tell(event);
    }

    /// Closes what is still open and returns the results.
    fn finish(mut self) -> (Vec<ToolResultItem>, BatchEnd) {
        self.running.abort_all();
        for index in self.ledger.still_open() {
            let ending = self.ledger.unfinished(index);
            self.settle(index, &ending);
        }
        (self.ledger.into_results(), self.end)
    }
}

/// Returns the first line of the result of a call that did not complete.
fn problem(result: &ToolResultItem) -> Option<String> {
    let line = result
        .output
        .lines()
        .next()
        .filter(|_| result.outcome != ToolOutcome::Completed)?;
    Some(line.chars().take(PROBLEM_MAX_CHARS).collect())
}

/// Runs one call on its host, within its deadline.
async fn execute(
    tools: ToolSet,
    call: PendingCall,
    cancellation: CancellationToken,
    progress: mpsc::Sender<(CallId, String)>,
    deadline: Duration,
) -> Ran {
    let started = Instant::now();
    let call_id = call.context().call_id.clone();
    let host_call = HostCall {
        name: call.name().to_owned(),
        input: call.input.clone(),
        context: call.context().clone(),
        cancellation: cancellation.clone(),
        // A full queue means a slow listener; it will hear of the next report.
        progress: Some(Arc::new(move |message| {
            drop(progress.try_send((call_id.clone(), message)))
        })),
    };
    let calling = tools.call(host_call);
    tokio::pin!(calling);
    let reply = tokio::select! {
        reply = &mut calling => reply,
        () = tokio::time::sleep(deadline) => {
            cancellation.cancel();
            let told = format!("stopped: it took longer than {} s; its effect is unknown", deadline.as_secs());
            match tokio::time::timeout(Duration::from_secs(2), calling).await {
                Ok(Ok(reply)) => Ok(reply),
                Ok(Err(_)) | Err(_) => Err(HostError::Refused(told)),
            }
        }
    };
    (reply, started.elapsed())
}

fn ending(reply: Result<HostReply, HostError>, duration: Duration) -> Ending {
    let (outcome, output, blob) = match reply {
        Ok(HostReply {
            text,
            is_error,
            blob,
        }) => (
            if is_error {
                ToolOutcome::Failed
            } else {
                ToolOutcome::Completed
            },
            text,
            blob,
        ),
        Err(HostError::Refused(message)) => (ToolOutcome::Failed, message, None),
        Err(error @ HostError::Unreachable { .. }) => {
            (ToolOutcome::Failed, format!("not run: {error}"), None)
        }
        Err(error @ (HostError::Cancelled | HostError::Lost)) => {
            let told = format!("[{error}; its effect is unknown: check before you do it again]");
            (ToolOutcome::Interrupted, told, None)
        }
    };
    Ending {
        outcome,
        output,
        blob,
        duration,
    }
}
