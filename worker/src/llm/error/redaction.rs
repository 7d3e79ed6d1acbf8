//! Makes a server's text fit for an error: without the key, short, and harmless to a terminal or a log.

use secrecy::{ExposeSecret, SecretString};

/// Longest text of a server kept in an error, in bytes.
const EXCERPT_MAX_BYTES: usize = 1024;

/// A shorter value is no secret (local servers are given `x`, headers say `true`), and replacing it would garble every
/// message.
const SECRET_MIN_BYTES: usize = 8;

/// What stands where the key stood.
const MASK: &str = "[key]";

/// Takes the key out of texts.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    secrets: Vec<SecretString>,
}

impl Redaction {
    /// Remembers what must never be shown.
    #[must_use]
    pub fn of(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let long = secrets
            .into_iter()
            .filter(|secret| secret.expose_secret().len() >= SECRET_MIN_BYTES);
        Self {
            secrets: long.collect(),
        }
    }

    /// Returns the beginning of a text, at most 1 KiB, without secrets, with control characters escaped.
    #[must_use]
    pub fn excerpt(&self, text: &str) -> String {
        let mut shown = text.trim().to_owned();
        for secret in &self.secrets {
            // Before cutting, so that no part of it survives at the cut.
            shown = shown.replace(secret.expose_secret(), MASK);
        }
        let mut out = String::with_capacity(shown.len().min(EXCERPT_MAX_BYTES));
        for c in shown.chars() {
            let before = out.len();
            if c.is_control() || is_invisible(c) {
                out.extend(c.escape_default())
            } else {
                out.push(c)
            }
            if out.len() > EXCERPT_MAX_BYTES - '…'.len_utf8() {
                out.truncate(before);
                out.push('…');
                break;
            }
        }
        out
    }
}

/// Characters that reorder or hide what stands around them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault LM03.
    #[test]
    fn lm03_the_key_is_in_no_text() {
        let redaction = Redaction::of(["sk-very-secret".to_owned().into(), "x".to_owned().into()]);
        assert_eq!(
            redaction.excerpt(" Bearer sk-very-secret is next "),
            "Bearer [key] is next"
        );
        let long = format!("{}sk-very-secret", "é".repeat(508));
        let shown = redaction.excerpt(&long);
        assert!(!shown.contains("sk-"), "{shown}");
        assert!(!format!("{redaction:?}").contains("very"));
    }

    #[test]
    fn texts_are_short_and_harmless() {
        let redaction = Redaction::default();
        assert_eq!(
            redaction.excerpt("a\u{1b}[31m\nb\u{202e}"),
            "a\\u{1b}[31m\\nb\\u{202e}"
        );
        for text in ["é".repeat(5000), "\0".repeat(5000), "a".repeat(1025)] {
            let shown = redaction.excerpt(&text);
            assert!(
                shown.len() <= 1024 && shown.ends_with('…'),
                "{}",
                shown.len()
            );
        }
        assert_eq!(redaction.excerpt(&"a".repeat(1000)).len(), 1000);
    }
}
