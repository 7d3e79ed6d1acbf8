//! Which part of a blob to return: `lines:20-50`, `slice:3..8`, `key:results`, `bytes:0-4096`.
//!
//! One grammar for every place a selector is written. Whether a selector fits a blob is not decided here, since that
//! needs the blob. `Display` writes the form that parses back to the same value.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Longest selector accepted, in bytes. A key can be long; a selector of a megabyte is a mistake.
pub const SELECTOR_MAX_BYTES: usize = 4096;

/// A part of a blob.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Selector {
    /// `lines:FIRST-LAST` or `lines:FIRST-`: lines of a text, counted from 1, both ends included.
    Lines {
        /// The first line.
        first: u64,
        /// The last line; the end of the text without one.
        last: Option<u64>,
    },
    /// `slice:START..END` or `slice:START..`: entries of a JSON array, counted from 0, without END.
    Slice {
        /// The first entry.
        start: u64,
        /// The entry behind the last one; the end of the array without one.
        end: Option<u64>,
    },
    /// `key:NAME`: the value under one key of a JSON object. Everything behind the colon is the key.
    Key(String),
    /// `bytes:START-END` or `bytes:START-`: bytes of the stored text, counted from 0, without END. It reaches into
    /// what the other forms only return whole: a line or a JSON value larger than one reply.
    Bytes {
        /// The first byte.
        start: u64,
        /// The byte behind the last one; the end of the blob without one.
        end: Option<u64>,
    },
}

/// What is wrong with a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorProblem {
    /// It starts with no known word.
    #[error(
        "is no selector; write lines:20-50 (text), slice:3..8 (JSON array) or key:results (JSON object)"
    )]
    UnknownForm,
    /// It is longer than [`SELECTOR_MAX_BYTES`].
    #[error("is longer than {SELECTOR_MAX_BYTES} bytes")]
    TooLong,
    /// `lines:` without two numbers.
    #[error(
        "needs line numbers: write lines:FIRST-LAST, for example lines:20-50, or lines:20- up to the end"
    )]
    LinesForm,
    /// Line 0.
    #[error("counts lines from 0, but the first line is 1: write for example lines:1-50")]
    LineZero,
    /// `slice:` without two numbers.
    #[error(
        "needs entry numbers: write slice:START..END, for example slice:3..8, or slice:3.. up to the end"
    )]
    SliceForm,
    /// `bytes:` without two numbers.
    #[error(
        "needs byte numbers: write bytes:START-END, for example bytes:0-4096, or bytes:4096- up to the end"
    )]
    BytesForm,
    /// The end stands before the beginning.
    #[error("ends before it begins: the smaller number comes first")]
    Reversed,
    /// A number that does not fit 64 bits.
    #[error("has a number that is too large")]
    NumberTooLarge,
}

/// A selector that cannot be read, with the right form in its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("selector {given:?} {problem}")]
pub struct InvalidSelector {
    /// The beginning of what was given, at most 80 characters.
    pub given: String,
    /// What is wrong with it.
    pub problem: SelectorProblem,
}

impl FromStr for Selector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        parse(text).map_err(|problem| InvalidSelector {
            given: text.chars().take(80).collect(),
            problem,
        })
    }
}

fn parse(text: &str) -> Result<Selector, SelectorProblem> {
    if text.len() > SELECTOR_MAX_BYTES {
        return Err(SelectorProblem::TooLong);
    }
    let (word, rest) = text.split_once(':').ok_or(SelectorProblem::UnknownForm)?;
    match word {
        "lines" => {
            let (first, last) = range(rest, "-", SelectorProblem::LinesForm)?;
            if first == 0 {
                Err(SelectorProblem::LineZero)
            } else {
                Ok(Selector::Lines { first, last })
            }
        }
        "slice" => {
            let (start, end) = range(rest, "..", SelectorProblem::SliceForm)?;
            Ok(Selector::Slice { start, end })
        }
        "key" => Ok(Selector::Key(rest.to_owned())),
        "bytes" => {
            let (start, end) = range(rest, "-", SelectorProblem::BytesForm)?;
            Ok(Selector::Bytes { start, end })
        }
        _ => Err(SelectorProblem::UnknownForm),
    }
}

fn range(
    text: &str,
    separator: &str,
    form: SelectorProblem,
) -> Result<(u64, Option<u64>), SelectorProblem> {
    let (low, high) = text.split_once(separator).ok_or(form)?;
    let low = number(low, form)?;
    let high = if high.is_empty() {
        None
    } else {
        Some(number(high, form)?)
    };
    if high.is_some_and(|high| high < low) {
        Err(SelectorProblem::Reversed)
    } else {
        Ok((low, high))
    }
}

/// Reads plain ASCII digits. `str::parse` alone would take a leading plus sign.
fn number(text: &str, form: SelectorProblem) -> Result<u64, SelectorProblem> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(form);
    }
    text.parse().map_err(|_| SelectorProblem::NumberTooLarge)
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines {
                first,
                last: Some(last),
            } => write!(f, "lines:{first}-{last}"),
            Self::Lines { first, last: None } => write!(f, "lines:{first}-"),
            Self::Slice {
                start,
                end: Some(end),
            } => write!(f, "slice:{start}..{end}"),
            Self::Slice { start, end: None } => write!(f, "slice:{start}.."),
            Self::Key(key) => write!(f, "key:{key}"),
            Self::Bytes {
                start,
                end: Some(end),
            } => write!(f, "bytes:{start}-{end}"),
            Self::Bytes { start, end: None } => write!(f, "bytes:{start}-"),
        }
    }
}

impl TryFrom<String> for Selector {
    type Error = InvalidSelector;

    fn try_from(text: String) -> Result<Self, InvalidSelector> {
        text.parse()
    }
}

impl From<Selector> for String {
    fn from(selector: Selector) -> Self {
        selector.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn documented_forms_parse() {
        let cases = [
            (
                "lines:20-50",
                Selector::Lines {
                    first: 20,
                    last: Some(50),
                },
            ),
            (
                "lines:7-7",
                Selector::Lines {
                    first: 7,
                    last: Some(7),
                },
            ),
            (
                "lines:20-",
                Selector::Lines {
                    first: 20,
                    last: None,
                },
            ),
            (
                "slice:3..8",
                Selector::Slice {
                    start: 3,
                    end: Some(8),
                },
            ),
            (
                "slice:3..3",
                Selector::Slice {
                    start: 3,
                    end: Some(3),
                },
            ),
            (
                "slice:0..",
                Selector::Slice {
                    start: 0,
                    end: None,
                },
            ),
            ("key:results", Selector::Key("results".into())),
            ("key:a:b.c/\"d\" é", Selector::Key("a:b.c/\"d\" é".into())),
            ("key:", Selector::Key(String::new())),
            (
                "bytes:0-4096",
                Selector::Bytes {
                    start: 0,
                    end: Some(4096),
                },
            ),
            (
                "bytes:9-",
                Selector::Bytes {
                    start: 9,
                    end: None,
                },
            ),
        ];
        for (text, selector) in cases {
            assert_eq!(text.parse(), Ok(selector), "{text}");
        }
    }

    /// Faults SE01 to SE03.
    #[test]
    fn se01_se02_se03_wrong_forms_are_named() {
        use SelectorProblem as P;
        let cases = [
            ("", P::UnknownForm),
            ("lines", P::UnknownForm),
            ("LINES:1-2", P::UnknownForm),
            (" lines:1-2 ", P::UnknownForm),
            ("regex:x", P::UnknownForm),
            ("lines:", P::LinesForm),
            ("lines:x-y", P::LinesForm),
            ("lines:1", P::LinesForm),
            ("lines:-5", P::LinesForm),
            ("lines:1--2", P::LinesForm),
            ("lines:1-2-3", P::LinesForm),
            ("lines:+1-2", P::LinesForm),
            ("lines:0x10-0x20", P::LinesForm),
            ("lines:１-２", P::LinesForm),
            ("lines:1-2 ", P::LinesForm),
            ("lines:0-5", P::LineZero),
            ("lines:50-20", P::Reversed),
            ("lines:99999999999999999999-1", P::NumberTooLarge),
            ("lines:1-18446744073709551616", P::NumberTooLarge),
            ("slice:3", P::SliceForm),
            ("slice:3-8", P::SliceForm),
            ("slice:..8", P::SliceForm),
            ("slice:8..3", P::Reversed),
            ("bytes:", P::BytesForm),
            ("bytes:0..5", P::BytesForm),
            ("bytes:5-4", P::Reversed),
        ];
        for (text, problem) in cases {
            assert_eq!(
                text.parse::<Selector>().unwrap_err().problem,
                problem,
                "{text:?}"
            );
        }
        let digits = format!("lines:{}", "9".repeat(1_000_000));
        let error = digits.parse::<Selector>().unwrap_err();
        assert_eq!((error.problem, error.given.len()), (P::TooLong, 80));
    }

    #[test]
    fn messages_show_the_right_form() {
        let error = "lines:50".parse::<Selector>().unwrap_err().to_string();
        assert!(error.contains("lines:20-50"), "{error}");
        let error = "rows:1".parse::<Selector>().unwrap_err().to_string();
        assert!(
            error.contains("slice:3..8") && error.contains("key:results"),
            "{error}"
        );
    }

    fn any_selector() -> impl Strategy<Value = Selector> {
        prop_oneof![
            (1..u64::MAX, prop::option::of(0..u64::MAX)).prop_map(|(first, more)| {
                Selector::Lines {
                    first,
                    last: more.map(|more| first.saturating_add(more)),
                }
            }),
            (0..u64::MAX, prop::option::of(0..u64::MAX)).prop_map(|(start, more)| {
                Selector::Slice {
                    start,
                    end: more.map(|more| start.saturating_add(more)),
                }
            }),
            ".{0,40}".prop_map(Selector::Key),
            (0..u64::MAX, prop::option::of(0..u64::MAX)).prop_map(|(start, more)| {
                Selector::Bytes {
                    start,
                    end: more.map(|more| start.saturating_add(more)),
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn display_parses_back(selector in any_selector()) {
            prop_assert_eq!(selector.to_string().parse::<Selector>(), Ok(selector));
        }

        #[test]
        fn any_text_gets_an_answer(text in ".{0,60}") {
            if let Ok(selector) = text.parse::<Selector>() {
                prop_assert_eq!(selector.to_string().parse(), Ok(selector));
            }
        }
    }
}
