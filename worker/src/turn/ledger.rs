//! The book of a batch: every call of a response ends in exactly one result, in the place the model gave it.
//!
//! Pure data: opened with the calls, closed call by call in any order, read out in call order. What is still open when
//! the batch must end is closed with a result that says so.

use std::time::Duration;

use protocol::{
    BatchId, BlobRef, CallId, ExecutionContext, ToolCallItem, ToolOutcome, ToolResultItem,
};

use crate::interceptor::PendingCall;

/// The calls of one response and what became of them.
#[derive(Debug)]
pub(super) struct Ledger {
    batch_id: BatchId,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    call: PendingCall,
    started: bool,
    result: Option<ToolResultItem>,
}

/// How one call ended, before it becomes a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) outcome: ToolOutcome,
    pub(super) output: String,
    pub(super) blob: Option<BlobRef>,
    pub(super) duration: Duration,
}

impl Ending {
    /// Makes the ending of a call that did not run, or has nothing to show for it.
    pub(super) fn without_run(outcome: ToolOutcome, output: impl Into<String>) -> Self {
        Self {
            outcome,
            output: output.into(),
            blob: None,
            duration: Duration::ZERO,
        }
    }
}

impl Ledger {
    /// Opens the book for calls in the order the model made them.
    pub(super) fn open(batch_id: BatchId, calls: Vec<ToolCallItem>) -> Self {
        let entries = calls.into_iter().zip(0..).map(|(call, call_index)| {
            let context = ExecutionContext {
                call_id: call.call_id,
                batch_id: batch_id.clone(),
                call_index,
            };
            Entry {
                call: PendingCall::new(context, call.name, call.arguments),
                started: false,
                result: None,
            }
        });
        let entries = entries.collect();
        Self { batch_id, entries }
    }

    pub(super) fn batch_id(&self) -> &BatchId {
        &self.batch_id
    }

    pub(super) fn call(&self, index: usize) -> &PendingCall {
        &self.entries[index].call
    }

    pub(super) fn call_mut(&mut self, index: usize) -> &mut PendingCall {
        &mut self.entries[index].call
    }

    /// Returns the calls without a result, in call order.
    pub(super) fn still_open(&self) -> Vec<usize> {
        (0..self.entries.len())
            .filter(|&index| self.entries[index].result.is_none())
            .collect()
    }

    pub(super) fn start(&mut self, index: usize) {
        self.entries[index].started = true;
    }

    /// Closes a call. The first result of a call stays; a later one is dropped.
    pub(super) fn close(&mut self, index: usize, ending: &Ending) -> Option<&ToolResultItem> {
        let entry = &mut self.entries[index];
        if entry.result.is_some() {
            return None;
        }
        entry.result = Some(ToolResultItem {
            call_id: entry.call.context().call_id.clone(),
            output: ending.output.clone(),
            outcome: ending.outcome,
            blob: ending.blob.clone(),
        });
        entry.result.as_ref()
    }

    /// Returns how a call that is still open must be said to have ended when the batch ends now.
    pub(super) fn unfinished(&self, index: usize) -> Ending {
        let outcome = if self.entries[index].started {
            ToolOutcome::Interrupted
        } else {
            ToolOutcome::NotStarted
        };
        Ending::without_run(outcome, synthetic_text(outcome))
    }

    /// Returns the results in call order.
    pub(super) fn into_results(self) -> Vec<ToolResultItem> {
        let results = self.entries.into_iter().map(|entry| {
            let call_id = entry.call.context().call_id.clone();
            let outcome = if entry.started {
                ToolOutcome::Interrupted
            } else {
                ToolOutcome::NotStarted
            };
            entry.result.unwrap_or_else(|| synthetic(call_id, outcome))
        });
        results.collect()
    }
}

/// Makes the result of a call nobody has a result of.
pub(crate) fn synthetic(call_id: CallId, outcome: ToolOutcome) -> ToolResultItem {
    ToolResultItem {
        call_id,
        output: synthetic_text(outcome).to_owned(),
        outcome,
        blob: None,
    }
}

fn synthetic_text(outcome: ToolOutcome) -> &'static str {
    match outcome {
        ToolOutcome::Interrupted => {
            "[interrupted while it ran; its effect is unknown: check before you do it again]"
        }
        ToolOutcome::NotStarted => "[not run: the turn was stopped before this call started]",
        ToolOutcome::Completed => "[completed without output]",
        ToolOutcome::Failed => "[failed]",
        ToolOutcome::Denied => "[refused]",
        ToolOutcome::Skipped => "[skipped]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(calls: usize) -> Ledger {
        let calls = (0..calls).map(|n| ToolCallItem {
            call_id: CallId::new(format!("call_{n}")).unwrap(),
            name: "t".into(),
            arguments: "{}".into(),
            rejected_arguments: None,
        });
        Ledger::open(BatchId::new("b").unwrap(), calls.collect())
    }

    fn ending(outcome: ToolOutcome) -> Ending {
        Ending::without_run(outcome, "x")
    }

    #[test]
    fn calls_share_the_batch_and_count_up() {
        let ledger = ledger(3);
        for index in 0..3 {
            let context = ledger.call(index).context();
            assert_eq!(
                (context.batch_id.as_str(), context.call_index as usize),
                ("b", index)
            );
        }
    }

    #[test]
    fn results_come_in_call_order_whatever_finishes_first() {
        let mut ledger = ledger(4);
        ledger.close(3, &ending(ToolOutcome::Completed));
        ledger.close(1, &ending(ToolOutcome::Denied));
        ledger.start(0);
        assert_eq!(ledger.still_open(), [0, 2]);
        assert_eq!(ledger.unfinished(0).outcome, ToolOutcome::Interrupted);
        assert_eq!(ledger.unfinished(2).outcome, ToolOutcome::NotStarted);
        let results = ledger.into_results();
        let outcomes: Vec<_> = results
            .iter()
            .map(|result| (result.call_id.as_str(), result.outcome))
            .collect();
        assert_eq!(
            outcomes,
            [
                ("call_0", ToolOutcome::Interrupted),
                ("call_1", ToolOutcome::Denied),
                ("call_2", ToolOutcome::NotStarted),
                ("call_3", ToolOutcome::Completed),
            ]
        );
    }

    #[test]
    fn the_first_result_of_a_call_stays() {
        let mut ledger = ledger(1);
        assert!(ledger.close(0, &ending(ToolOutcome::Completed)).is_some());
        assert!(ledger.close(0, &ending(ToolOutcome::Failed)).is_none());
        assert_eq!(ledger.into_results()[0].outcome, ToolOutcome::Completed);
    }
}
