//! Adds up what requests cost.

use crate::llm::Usage;

/// Sums the tokens of all requests. Sums stop at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostTracker {
    accumulated: Usage,
}

impl CostTracker {
    /// Adds the tokens of one request.
    pub fn add(&mut self, usage: &Usage) {
        self.accumulated.add(usage);
    }

    /// Returns the sum.
    #[must_use]
    pub fn total(&self) -> &Usage {
        &self.accumulated
    }

    /// Starts again from zero.
    pub fn reset(&mut self) {
        self.accumulated = Usage::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault LM17.
    #[test]
    fn lm17_sums_saturate_and_reset() {
        let mut tracker = CostTracker::default();
        let usage = Usage {
            input_tokens: u64::MAX,
            output_tokens: 1,
            ..Usage::default()
        };
        tracker.add(&usage);
        tracker.add(&usage);
        assert_eq!(
            (tracker.total().input_tokens, tracker.total().output_tokens),
            (u64::MAX, 2)
        );
        tracker.reset();
        assert_eq!(*tracker.total(), Usage::default());
    }
}
