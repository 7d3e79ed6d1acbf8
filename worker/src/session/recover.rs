//! Rebuilding a conversation from its log.
//!
//! An answer with calls enters the history when all its calls have results. A crash leaves some without: those that
//! had started get a result that says their effect is unknown, the others one that says they did not run. Nothing is
//! run again.

use std::collections::HashMap;

use protocol::{CallId, Item, ToolCallItem, ToolOutcome, ToolResultItem, log::LogRecord};

use crate::{
    history::{History, calls_in},
    turn::synthetic,
};

/// What a log says about its session.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The conversation, valid for any provider.
    pub history: History,
    /// How many turns were begun.
    pub turns: u64,
    /// The model it began with.
    pub model: Option<String>,
    /// What could not be used, one sentence each.
    pub damage: Vec<String>,
}

/// An answer whose results are still being read.
#[derive(Default)]
struct OpenAnswer {
    items: Vec<Item>,
    started: Vec<CallId>,
    results: HashMap<CallId, ToolResultItem>,
}

/// Rebuilds a conversation from the records of its log, in order.
pub fn recover(records: impl IntoIterator<Item = LogRecord>) -> Recovered {
    let mut recovered = Recovered::default();
    let mut open: Option<OpenAnswer> = None;
    for record in records {
        match record {
            LogRecord::Session { model, .. } => recovered.model = Some(model),
            LogRecord::CallStarted { context, .. } => {
                if let Some(answer) = &mut open {
                    answer.started.push(context.call_id);
                }
            }
            LogRecord::CallEnded { result, .. } => {
                if let Some(answer) = &mut open {
                    answer.results.insert(result.call_id.clone(), result);
                }
            }
            LogRecord::Submitted { turn, items } => {
                recovered.close(open.take());
                recovered.turns = recovered.turns.max(turn);
                recovered.add_messages(items);
            }
            LogRecord::Continued { items, .. } => {
                recovered.close(open.take());
                recovered.add_messages(items);
            }
            LogRecord::Answered { items, .. } => {
                recovered.close(open.take());
                open = Some(OpenAnswer {
                    items,
                    ..OpenAnswer::default()
                });
            }
            LogRecord::TurnEnded { .. } => recovered.close(open.take()),
            _ => {}
        }
    }
    recovered.close(open);
    recovered
}

impl Recovered {
    fn add_messages(&mut self, items: Vec<Item>) {
        if let Err(error) = self.history.add_messages(items) {
            self.damage.push(error.to_string());
        }
    }

    /// Adds an answer, with results for the calls that have none.
    fn close(&mut self, open: Option<OpenAnswer>) {
        let Some(mut open) = open else { return };
        let calls: Vec<ToolCallItem> = calls_in(&open.items).cloned().collect();
        let results = calls.into_iter().map(|call| {
            open.results.remove(&call.call_id).unwrap_or_else(|| {
                let was_started = open.started.contains(&call.call_id);
                synthetic(
                    call.call_id,
                    if was_started {
                        ToolOutcome::Interrupted
                    } else {
                        ToolOutcome::NotStarted
                    },
                )
            })
        });
        let results = results.collect();
        if let Err(error) = self.history.add_answer(open.items, results) {
            self.damage.push(error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::{BatchId, ExecutionContext, TokenUsage};

    use super::*;

    fn call(id: &str) -> Item {
        Item::ToolCall(ToolCallItem {
            call_id: CallId::new(id).unwrap(),
            name: "shell".into(),
            arguments: "{}".into(),
            rejected_arguments: None,
        })
    }

    fn context(id: &str) -> ExecutionContext {
        ExecutionContext {
            call_id: CallId::new(id).unwrap(),
            batch_id: BatchId::new("b").unwrap(),
            call_index: 0,
        }
    }

    fn started(id: &str) -> LogRecord {
        LogRecord::CallStarted {
            context: context(id),
            name: "shell".into(),
            arguments: "{}".into(),
        }
    }

    fn ended(id: &str) -> LogRecord {
        let result = ToolResultItem {
            call_id: CallId::new(id).unwrap(),
            output: format!("result {id}"),
            outcome: ToolOutcome::Completed,
            blob: None,
        };
        LogRecord::CallEnded {
            context: context(id),
            result,
            duration_ms: 1,
        }
    }

    fn answered(items: Vec<Item>) -> LogRecord {
        LogRecord::Answered {
            turn: 1,
            request: 1,
            items,
            usage: TokenUsage::default(),
        }
    }

    fn outcomes(recovered: &Recovered) -> Vec<(String, ToolOutcome)> {
        let results = recovered
            .history
            .items()
            .iter()
            .filter_map(|item| match item {
                Item::ToolResult(result) => Some((result.call_id.to_string(), result.outcome)),
                _ => None,
            });
        results.collect()
    }

    #[test]
    fn wk01_every_prefix_of_a_log_gives_a_valid_history() {
        let submitted = |text: &str| LogRecord::Submitted {
            turn: 1,
            items: vec![
                Item::user_message(text),
                Item::system_message("[File: a]\n"),
            ],
        };
        let records = vec![
            submitted("first"),
            answered(vec![
                Item::assistant_message("look"),
                call("a"),
                call("b"),
                call("c"),
            ]),
            started("a"),
            started("b"),
            ended("b"),
            started("c"),
            ended("a"),
            ended("c"),
            answered(vec![Item::assistant_message("done")]),
            submitted("second"),
        ];
        for length in 0..=records.len() {
            let recovered = recover(records[..length].iter().cloned());
            assert!(
                recovered.damage.is_empty(),
                "{length}: {:?}",
                recovered.damage
            );
            let calls = calls_in(recovered.history.items()).count();
            assert_eq!(outcomes(&recovered).len(), calls, "{length}");
        }
        use ToolOutcome::{Completed, Interrupted, NotStarted};
        let order = |outcomes: [ToolOutcome; 3]| {
            ["a", "b", "c"]
                .iter()
                .map(|id| (*id).to_owned())
                .zip(outcomes)
                .collect::<Vec<_>>()
        };
        let expected = [
            (2, order([NotStarted, NotStarted, NotStarted])),
            (4, order([Interrupted, Interrupted, NotStarted])),
            (5, order([Interrupted, Completed, NotStarted])),
            (6, order([Interrupted, Completed, Interrupted])),
            (8, order([Completed, Completed, Completed])),
        ];
        for (length, expected) in expected {
            assert_eq!(
                outcomes(&recover(records[..length].iter().cloned())),
                expected,
                "{length}"
            );
        }
    }

    #[test]
    fn results_without_a_call_are_ignored() {
        let recovered = recover([
            started("x"),
            ended("x"),
            answered(vec![Item::assistant_message("hi")]),
            ended("y"),
        ]);
        assert_eq!(recovered.history.items().len(), 1);
    }
}
