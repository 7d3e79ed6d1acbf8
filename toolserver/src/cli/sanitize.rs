//! Making text safe for a terminal: what a model or a tool wrote must not move the cursor, set the title or hide
//! anything. Stored data stays as it is.

use std::borrow::Cow;

/// Escapes control and direction characters; line breaks and tabs stay.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes control and direction characters, line breaks too.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_unsafe(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) && !keep(c) {
            safe.extend(c.escape_default())
        } else {
            safe.push(c)
        }
    }
    Cow::Owned(safe)
}

/// Returns whether a terminal might act on a character instead of showing it: C0 and C1 controls, characters that turn
/// the direction of what follows, and tags nobody sees.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pi01_what_a_terminal_would_act_on_is_escaped() {
        assert_eq!(text("a\tb\nc 日本 é 🙂"), "a\tb\nc 日本 é 🙂");
        assert_eq!(
            text("\u{1b}[2Jx\u{7}\u{9b}31m\r"),
            "\\u{1b}[2Jx\\u{7}\\u{9b}31m\\r"
        );
        assert_eq!(text("a\u{202e}b\u{e0041}"), "a\\u{202e}b\\u{e0041}");
        assert_eq!(line("a\nb"), "a\\nb");
    }
}
