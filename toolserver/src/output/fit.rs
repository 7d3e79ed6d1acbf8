//! Cutting text to a number of bytes without ever cutting a character.

use std::borrow::Cow;

/// Stands where something was cut.
const CUT: &str = "…";

/// Returns the largest character boundary of `text` that is not above `at`.
pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

/// Returns the beginning of `text` in at most `max` bytes, the mark of the cut included.
pub(crate) fn fit_start(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let Some(room) = max.checked_sub(CUT.len()) else {
        return Cow::Borrowed("");
    };
    Cow::Owned(format!("{}{CUT}", &text[..floor_boundary(text, room)]))
}

/// Returns the end of `text` in at most `max` bytes, the mark of the cut included.
pub(crate) fn fit_end(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let Some(room) = max.checked_sub(CUT.len()) else {
        return Cow::Borrowed("");
    };
    Cow::Owned(format!(
        "{CUT}{}",
        &text[text.ceil_char_boundary(text.len() - room)..]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_fall_on_characters() {
        for max in 0..20 {
            for text in ["", "abc", "日本語テキスト", "🙂🙂🙂🙂", "aé🙂日bcdefghijkl"]
            {
                for cut in [fit_start(text, max), fit_end(text, max)] {
                    assert!(cut.len() <= max.max(text.len().min(max)), "{text} {max}");
                }
            }
        }
        assert_eq!(fit_start("abcdef", 5), "ab…");
        assert_eq!(fit_end("abcdef", 5), "…ef");
        assert_eq!(fit_end("日本語", 8), "…語");
        assert_eq!(fit_start("abcdef", 6), "abcdef");
    }
}
