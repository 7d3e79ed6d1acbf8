//! Half surrogate pairs in JSON escapes.
//!
//! Some servers cut their text between the two `\u` escapes of one character, so that each of two events holds half a
//! pair. That is valid JSON grammar but no Unicode text, and the JSON parser refuses the whole event. The halves are
//! rewritten before parsing and put together again behind it; a half that stays alone becomes U+FFFD.

use std::borrow::Cow;

/// Where halves are kept between parsing and joining: the last 2,048 characters of the last private plane, one for
/// each half.
const MARK_BASE: u32 = 0x10_F800;

/// Rewrites every lone half in JSON text into its mark. `None` when there is none.
pub(crate) fn mark_halves(json: &str) -> Option<String> {
    rewrite(json, |half| {
        char::from_u32(MARK_BASE + u32::from(half - 0xD800)).unwrap_or(char::REPLACEMENT_CHARACTER)
    })
}

/// Rewrites every lone half in JSON text into U+FFFD.
pub(crate) fn replace_halves(json: &str) -> Cow<'_, str> {
    rewrite(json, |_| char::REPLACEMENT_CHARACTER).map_or(Cow::Borrowed(json), Cow::Owned)
}

fn rewrite(json: &str, mark: impl Fn(u16) -> char) -> Option<String> {
    let mut out: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = json[at..].find('\\') {
        let escape = at + found;
        let Some(unit) = unit_at(json, escape) else {
            // The escaped character is skipped with its backslash, so that `\\u` is not taken for an escape.
            let escaped = json[escape + 1..].chars().next().map_or(0, char::len_utf8);
            at = escape + 1 + escaped;
            continue;
        };
        let next = unit_at(json, escape + 6);
        if is_high(unit) && next.is_some_and(is_low) {
            at = escape + 12;
        } else {
            at = escape + 6;
            if is_high(unit) || is_low(unit) {
                let out = out.get_or_insert_default();
                out.push_str(&json[copied..escape]);
                out.push(mark(unit));
                copied = at;
            }
        }
    }
    if let Some(out) = &mut out {
        out.push_str(&json[copied..]);
    }
    out
}

/// Reads `\uXXXX` at a byte position.
fn unit_at(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain {
        u16::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

fn is_high(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xDC00..0xE000).contains(&unit)
}

/// Whether the event a text came from had halves in it. Without, a character of the private plane is only itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halves {
    Absent,
    Marked,
}

/// Joins the marked halves of one channel of text over its deltas.
#[derive(Debug, Default)]
pub(crate) struct HalfJoiner {
    high: Option<u16>,
}

impl HalfJoiner {
    /// Returns the text that can be handed on now; a high half at its end is held back for the next delta.
    pub(crate) fn join<'a>(&mut self, text: &'a str, halves: Halves) -> Cow<'a, str> {
        if text.is_empty() || (halves == Halves::Absent && self.high.is_none()) {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            let half = marked_half(c).filter(|_| halves == Halves::Marked);
            match (self.high.take(), half) {
                (Some(high), Some(low)) if is_low(low) => {
                    out.extend(
                        char::decode_utf16([high, low])
                            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)),
                    );
                    continue;
                }
                (Some(_), _) => out.push(char::REPLACEMENT_CHARACTER),
                (None, _) => {}
            }
            match half {
                Some(high) if is_high(high) => self.high = Some(high),
                Some(_) => out.push(char::REPLACEMENT_CHARACTER),
                None => out.push(c),
            }
        }
        Cow::Owned(out)
    }

    /// Returns what stands for a half whose other half never came.
    pub(crate) fn finish(&mut self) -> Option<char> {
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER)
    }
}

fn marked_half(c: char) -> Option<u16> {
    let offset = u32::from(c).checked_sub(MARK_BASE)?;
    u16::try_from(0xD800 + offset).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(events: &[&str]) -> String {
        let mut joiner = HalfJoiner::default();
        let mut out = String::new();
        for event in events {
            let marked = mark_halves(event);
            let halves = if marked.is_some() {
                Halves::Marked
            } else {
                Halves::Absent
            };
            let text: String = serde_json::from_str(marked.as_deref().unwrap_or(event)).unwrap();
            out.push_str(&joiner.join(&text, halves));
        }
        out.extend(joiner.finish());
        out
    }

    #[test]
    fn halves_of_two_deltas_are_joined() {
        let cases: [(&[&str], &str); 9] = [
            (&[r#""a\ud83d""#, r#""\ude42b""#], "a🙂b"),
            (&[r#""\uD83D""#, r#""""#, r#""\uDE42""#], "🙂"),
            (&[r#""\ud83d\ude42""#], "🙂"),
            (&[r#""\ud83d""#], "\u{FFFD}"),
            (&[r#""\ude42x""#], "\u{FFFD}x"),
            (&[r#""\ud83d""#, r#""x""#], "\u{FFFD}x"),
            (&[r#""\ud83d\ud83d""#, r#""\ude42""#], "\u{FFFD}🙂"),
            (&[r#""\\ud83d \u0041 \n""#], "\\ud83d A \n"),
            (&["\"\u{10F83D}é\""], "\u{10F83D}é"),
        ];
        for (events, expected) in cases {
            assert_eq!(joined(events), expected, "{events:?}");
        }
    }

    #[test]
    fn odd_escapes_do_not_disturb() {
        for json in ["\"\\", "\\u", "\\uD83", "\\ud8zz", "\\é", "é\\", "\\u+123"] {
            assert_eq!(mark_halves(json), None, "{json}");
        }
        assert_eq!(replace_halves(r"\udc00"), "\u{FFFD}");
        assert!(matches!(replace_halves("plain"), Cow::Borrowed(_)));
    }
}
