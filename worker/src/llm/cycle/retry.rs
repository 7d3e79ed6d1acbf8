//! When to send a request again, and how long to wait before.
//!
//! Pure: randomness and the number of the attempt come from outside. Retries of all layers are decided here and
//! nowhere else, since retries that stack multiply.

use std::time::Duration;

use crate::llm::LlmError;

/// Returns whether the same request may succeed later.
#[must_use]
pub fn should_retry(error: &LlmError) -> bool {
    error.is_retryable()
}

/// How often and how patiently a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryConfig {
    /// How many retries a turn has, all its requests together.
    pub max_retries: u32,
    /// The first wait; each further one is twice as long.
    pub base_delay: Duration,
    /// The longest wait of its own choice, random part included.
    pub max_delay: Duration,
    /// How much longer a wait may be at random, as a part of it. Keeps many workers from coming back at once.
    pub jitter_factor: f64,
    /// The longest wait an endpoint may ask for.
    pub max_wait: Duration,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            max_retries: 3,
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            jitter_factor: 0.25,
            max_wait: Duration::from_secs(120),
        }
    }
}

/// What to do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPlan {
    /// Send the request again after this wait.
    After(Duration),
    /// It would fail again.
    GiveUp,
    /// The endpoint asks for a wait that is too long.
    WaitTooLong {
        /// How long.
        wait: Duration,
        /// How long it may be.
        limit: Duration,
    },
}

impl RetryConfig {
    /// Decides what to do after an error. `retry` counts the retries of this request from 0, `random` is from 0 to 1.
    #[must_use]
    pub fn plan(&self, error: &LlmError, retry: u32, random: f64) -> RetryPlan {
        if !should_retry(error) {
            return RetryPlan::GiveUp;
        }
        match error.advice().and_then(|advice| advice.after) {
            Some(wait) if wait > self.max_wait => RetryPlan::WaitTooLong {
                wait,
                limit: self.max_wait,
            },
            Some(wait) => RetryPlan::After(wait),
            None => RetryPlan::After(self.delay(retry, random)),
        }
    }

    /// Returns how long to wait before a retry where the endpoint says nothing.
    #[must_use]
    pub fn delay(&self, retry: u32, random: f64) -> Duration {
        let jitter = if self.jitter_factor.is_finite() {
            self.jitter_factor.max(0.0)
        } else {
            0.0
        };
        let most = self.max_delay.as_secs_f64();
        // The longest wait leaves room for its random part: cutting it off behind would make all late waits equal.
        let doubled = self.base_delay.as_secs_f64() * 2f64.powi(retry.min(1000).cast_signed());
        let fixed = doubled.min(most / (1.0 + jitter));
        let seconds = fixed + fixed * jitter * random.clamp(0.0, 1.0);
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(self.max_delay)
            .min(self.max_delay)
    }
}

/// The retries a turn has left, over all its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptBudget {
    /// How many.
    pub retries_left: u32,
}

impl AttemptBudget {
    /// Starts with a number of retries.
    #[must_use]
    pub fn new(retries: u32) -> Self {
        Self {
            retries_left: retries,
        }
    }

    /// Takes one retry; `false` when none is left.
    pub fn take(&mut self) -> bool {
        let left = self.retries_left.checked_sub(1);
        self.retries_left = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::RetryAdvice;

    #[test]
    fn waits_double_up_to_the_longest() {
        let config = RetryConfig::default();
        let seconds = |retry, random| config.delay(retry, random).as_secs_f64();
        assert_eq!(
            [
                seconds(0, 0.0),
                seconds(1, 0.0),
                seconds(2, 0.0),
                seconds(4, 0.0)
            ],
            [1.0, 2.0, 4.0, 16.0]
        );
        assert_eq!([seconds(0, 1.0), seconds(1, 0.5)], [1.25, 2.25]);
        for retry in [5, 6, 31, 32, 64, u32::MAX] {
            assert_eq!(
                [seconds(retry, 0.0), seconds(retry, 1.0)],
                [24.0, 30.0],
                "{retry}"
            );
        }
    }

    #[test]
    fn strange_settings_do_no_harm() {
        let config = RetryConfig {
            base_delay: Duration::MAX,
            max_delay: Duration::from_secs(3),
            jitter_factor: f64::NAN,
            ..RetryConfig::default()
        };
        assert_eq!(config.delay(7, f64::NAN), Duration::from_secs(3));
        let config = RetryConfig {
            jitter_factor: -1.0,
            max_delay: Duration::ZERO,
            ..config
        };
        assert_eq!(config.delay(0, 0.5), Duration::ZERO);
    }

    /// Fault LM01.
    #[test]
    fn lm01_the_endpoint_decides_within_limits() {
        let config = RetryConfig::default();
        let plan = |after, should_retry| {
            let advice = RetryAdvice {
                after,
                should_retry,
            };
            config.plan(
                &LlmError::RateLimit {
                    message: String::new(),
                    advice,
                },
                0,
                0.0,
            )
        };
        let s = Duration::from_secs;
        assert_eq!(plan(None, None), RetryPlan::After(s(1)));
        assert_eq!(plan(Some(s(0)), None), RetryPlan::After(s(0)));
        assert_eq!(plan(Some(s(120)), None), RetryPlan::After(s(120)));
        assert_eq!(
            plan(Some(s(121)), None),
            RetryPlan::WaitTooLong {
                wait: s(121),
                limit: s(120)
            }
        );
        assert_eq!(plan(Some(s(3)), Some(false)), RetryPlan::GiveUp);
        assert_eq!(
            config.plan(
                &LlmError::QuotaExhausted {
                    message: String::new()
                },
                0,
                0.0
            ),
            RetryPlan::GiveUp
        );
        assert_eq!(
            config.plan(&LlmError::Truncated, 1, 0.0),
            RetryPlan::After(s(2))
        );
    }

    #[test]
    fn a_budget_runs_out_once() {
        let mut budget = AttemptBudget::new(2);
        assert_eq!(
            [budget.take(), budget.take(), budget.take(), budget.take()],
            [true, true, false, false]
        );
        assert_eq!(budget.retries_left, 0);
    }
}
