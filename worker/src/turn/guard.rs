//! Noticing that a model goes round in circles: the same calls with the same results, time after time.
//!
//! Results are part of it, so that polling something that changes is not taken for a circle.

use std::hash::{DefaultHasher, Hash, Hasher};

use protocol::{ToolCallItem, ToolResultItem};

/// Counts batches that repeat the one before.
#[derive(Debug)]
pub(super) struct RepeatGuard {
    limit: u32,
    last: Option<u64>,
    times: u32,
}

impl RepeatGuard {
    /// Makes a guard that objects at the `limit`-th equal batch in a row.
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            last: None,
            times: 0,
        }
    }

    /// Takes note of a batch, and returns how often it came when that is too often.
    pub(super) fn note(
        &mut self,
        calls: &[ToolCallItem],
        results: &[ToolResultItem],
    ) -> Option<u32> {
        let print = fingerprint(calls, results);
        self.times = if self.last == Some(print) {
            self.times + 1
        } else {
            1
        };
        self.last = Some(print);
        (self.times >= self.limit).then_some(self.times)
    }
}

fn fingerprint(calls: &[ToolCallItem], results: &[ToolResultItem]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for call in calls {
        (&call.name, &call.arguments, &call.rejected_arguments).hash(&mut hasher);
    }
    for result in results {
        // Every stored result has a name of its own; without it equal results are equal.
        match &result.blob {
            Some(blob) => result
                .output
                .replace(blob.name.as_str(), "")
                .hash(&mut hasher),
            None => result.output.hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use protocol::{BlobKind, BlobRef, CallId, ToolOutcome};

    use super::*;

    fn batch(
        n: u32,
        arguments: &str,
        output: &str,
        blob: Option<&str>,
    ) -> (Vec<ToolCallItem>, Vec<ToolResultItem>) {
        let call_id = CallId::new(format!("call_{n}")).unwrap();
        let blob = blob.map(|name| BlobRef {
            id: "019aa5d2-7c00-7abc-8def-0123456789ab".parse().unwrap(),
            name: name.parse().unwrap(),
            kind: BlobKind::Text,
            bytes: 1000,
            lines: Some(1),
            entries: None,
            shown: 10,
        });
        let call = ToolCallItem {
            call_id: call_id.clone(),
            name: "t".into(),
            arguments: arguments.into(),
            rejected_arguments: None,
        };
        let result = ToolResultItem {
            call_id,
            output: output.into(),
            outcome: ToolOutcome::Completed,
            blob,
        };
        (vec![call], vec![result])
    }

    #[test]
    fn lm14_equal_batches_are_counted_whatever_their_ids() {
        let mut guard = RepeatGuard::new(3);
        let mut note = |n, arguments, output, blob| {
            let (calls, results) = batch(n, arguments, output, blob);
            guard.note(&calls, &results)
        };
        assert_eq!(note(1, "{}", "same", None), None);
        assert_eq!(note(2, "{}", "same", None), None);
        assert_eq!(note(3, "{}", "changed", None), None, "polling is no circle");
        assert_eq!(note(4, "{\"a\":1}", "changed", None), None);
        assert_eq!(note(5, "{}", "[blob:aaaa] x", Some("aaaa")), None);
        assert_eq!(note(6, "{}", "[blob:bbbb] x", Some("bbbb")), None);
        assert_eq!(note(7, "{}", "[blob:cccc] x", Some("cccc")), Some(3));
    }
}
