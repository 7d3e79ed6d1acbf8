//! What an endpoint says about trying again, in the headers vendors use for it.

use std::time::{Duration, SystemTime};

/// When and whether to try again, as the endpoint wishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryAdvice {
    /// How long to wait.
    pub after: Option<Duration>,
    /// Whether to try at all.
    pub should_retry: Option<bool>,
}

impl RetryAdvice {
    /// Reads `retry-after-ms`, `retry-after` (seconds or a date) and `x-should-retry`.
    ///
    /// A date in the past means now. What cannot be read, or is negative, says nothing.
    #[must_use]
    pub fn from_headers<'a>(header: impl Fn(&str) -> Option<&'a str>, now: SystemTime) -> Self {
        let milliseconds = header("retry-after-ms").and_then(|text| seconds(text, 0.001));
        let after = milliseconds.or_else(|| {
            let text = header("retry-after")?.trim();
            seconds(text, 1.0).or_else(|| {
                let date = httpdate::parse_http_date(text).ok()?;
                Some(date.duration_since(now).unwrap_or(Duration::ZERO))
            })
        });
        let should_retry = match header("x-should-retry").map(str::trim) {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        Self {
            after,
            should_retry,
        }
    }

    /// Adds the wait a message speaks of, where no header said one.
    pub(super) fn or_from_text(mut self, text: &str) -> Self {
        if self.after.is_none() {
            self.after = wait_in_text(text);
        }
        self
    }
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    if number.is_nan() || number < 0.0 {
        return None;
    }
    // What is too long to count is too long to wait; the caller gives up on it.
    Some(Duration::try_from_secs_f64(number * unit).unwrap_or(Duration::MAX))
}

/// Finds `try again in 1.5s` (or `20ms`, `1m30s`) and the `"retryDelay": "2s"` of one vendor.
fn wait_in_text(text: &str) -> Option<Duration> {
    let rest = match text.find("try again in ") {
        Some(at) => &text[at + "try again in ".len()..],
        None => {
            let at = text.find("\"retryDelay\"")? + "\"retryDelay\"".len();
            text[at..].trim_start_matches([' ', ':', '"', '\n'])
        }
    };
    let mut total = None;
    let mut rest = rest;
    while let Some(length) = rest.find(|c: char| !c.is_ascii_digit() && c != '.') {
        let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
        let (number, behind) = rest.split_at(length);
        let Some((word, unit)) = units
            .into_iter()
            .find(|(word, _)| behind.trim_start().starts_with(word))
        else {
            break;
        };
        let Some(part) = seconds(number, unit) else {
            break;
        };
        total = Some(total.unwrap_or(Duration::ZERO).saturating_add(part));
        rest = &behind.trim_start()[word.len()..];
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    type Headers = &'static [(&'static str, &'static str)];

    fn after(headers: Headers) -> Option<Duration> {
        let now = httpdate::parse_http_date("Sat, 21 Nov 2026 10:00:00 GMT").unwrap();
        let find = |name: &str| {
            headers
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        RetryAdvice::from_headers(find, now).after
    }

    /// Fault LM01.
    #[test]
    fn lm01_every_form_of_retry_after_is_read() {
        let s = Duration::from_secs;
        let cases: [(Headers, Option<Duration>); 12] = [
            (&[], None),
            (&[("retry-after", "3")], Some(s(3))),
            (&[("retry-after", "1.5")], Some(Duration::from_millis(1500))),
            (
                &[("retry-after", "Sat, 21 Nov 2026 10:00:30 GMT")],
                Some(s(30)),
            ),
            (
                &[("retry-after", "Sat, 21 Nov 2026 09:00:00 GMT")],
                Some(s(0)),
            ),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "1e9")], Some(s(1_000_000_000))),
            (&[("retry-after", "1e300")], Some(Duration::MAX)),
            (&[("retry-after", "abc")], None),
            (&[("retry-after", "NaN")], None),
            (
                &[("retry-after", "9"), ("retry-after-ms", "250.0")],
                Some(Duration::from_millis(250)),
            ),
            (&[("retry-after", "9"), ("retry-after-ms", "x")], Some(s(9))),
        ];
        for (headers, expected) in cases {
            assert_eq!(after(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn waits_in_texts_are_found() {
        let ms = Duration::from_millis;
        let cases = [
            ("Please try again in 11.054s. Visit", Some(ms(11_054))),
            ("try again in 20ms", Some(ms(20))),
            ("try again in 1m30.5s.", Some(ms(90_500))),
            ("try again in 2 seconds", Some(ms(2_000))),
            ("{\"retryDelay\": \"2s\"}", Some(ms(2_000))),
            ("try again in a while", None),
            ("nothing", None),
        ];
        for (text, expected) in cases {
            let advice = RetryAdvice::default().or_from_text(text);
            assert_eq!(advice.after, expected, "{text}");
        }
    }
}
