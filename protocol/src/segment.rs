//! What a person typed, cut into text and references to files: `compare @src/a.rs with @"my notes.txt"`.
//!
//! Cutting is separate from reading: here nothing is opened, and a reference is only a claim about a path. A segment
//! keeps what it was written as, so text goes through unchanged.

use serde::{Deserialize, Serialize};

/// A piece of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Segment {
    /// Text as it stands.
    Text {
        /// The text.
        text: String,
    },
    /// A file the model should see.
    FileRef {
        /// The path as written behind the `@`, without quotes.
        path: String,
    },
}

/// What became of a file reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// It stands as it was typed.
    AsTyped,
    /// The file could not be attached.
    Unresolved,
}

impl Segment {
    /// Writes the segment into the text of a user message.
    ///
    /// A reference whose file follows as an item of its own stays as it was typed, and so does a word that was no
    /// reference after all. One that could not be resolved becomes a placeholder the model can see and ask about.
    pub fn flatten_into(&self, text: &mut String, reference: Reference) {
        match self {
            Self::Text { text: own } => text.push_str(own),
            Self::FileRef { path } if reference == Reference::Unresolved => {
                text.push_str("[unresolved file ref: ");
                text.push_str(path);
                text.push(']');
            }
            Self::FileRef { path } if path.contains(char::is_whitespace) => {
                text.push_str("@\"");
                text.push_str(path);
                text.push('"');
            }
            Self::FileRef { path } => {
                text.push('@');
                text.push_str(path);
            }
        }
    }
}

/// Cuts a prompt into segments.
///
/// A reference is an `@` at the beginning of a word, followed by a path up to the next white space or quotation mark, or
/// by a path in quotes, single or double. An `@` inside a word (a mail address), alone, or before another `@` stays text. Punctuation at the
/// end of a word belongs to the sentence, not to the path.
#[must_use]
pub fn parse_prompt(prompt: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut text_start = 0;
    let mut position = 0;
    while let Some(found) = prompt[position..].find('@') {
        let at = position + found;
        let Some((path, end)) = reference_at(prompt, at) else {
            position = at + 1;
            continue;
        };
        push_text(&mut segments, &prompt[text_start..at]);
        segments.push(Segment::FileRef {
            path: path.to_owned(),
        });
        text_start = end;
        position = end;
    }
    push_text(&mut segments, &prompt[text_start..]);
    segments
}

fn push_text(segments: &mut Vec<Segment>, text: &str) {
    if !text.is_empty() {
        segments.push(Segment::Text {
            text: text.to_owned(),
        });
    }
}

/// Returns the path of the reference whose `@` stands at `at`, and where it ends.
fn reference_at(prompt: &str, at: usize) -> Option<(&str, usize)> {
    let before = prompt[..at].chars().next_back();
    let begins_word = before.is_none_or(|c| c.is_whitespace() || "([{\"'`,;:".contains(c));
    if !begins_word {
        return None;
    }
    let rest = &prompt[at + 1..];
    if let Some(quote @ ('"' | '\'')) = rest.chars().next() {
        let path = &rest[1..1 + rest[1..].find([quote, '\n'])?];
        let closed = rest[1 + path.len()..].starts_with(quote);
        return (closed && !path.is_empty()).then_some((path, at + 1 + path.len() + 2));
    }
    // A quotation mark ends a bare path: "@a.txt's first line" is about a.txt.
    let end = rest
        .find(|c: char| c.is_whitespace() || "\"'`".contains(c))
        .unwrap_or(rest.len());
    let path = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}']);
    if path.is_empty() || path.contains('@') {
        None
    } else {
        Some((path, at + 1 + path.len()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths(prompt: &str) -> Vec<String> {
        let files = parse_prompt(prompt)
            .into_iter()
            .filter_map(|segment| match segment {
                Segment::FileRef { path } => Some(path),
                Segment::Text { .. } => None,
            });
        files.collect()
    }

    /// Fault FR04.
    #[test]
    fn fr04_references_are_told_from_text() {
        let cases: [(&str, &[&str]); 16] = [
            ("read @a.txt now", &["a.txt"]),
            ("@a.txt", &["a.txt"]),
            ("@a.txt @a.txt", &["a.txt", "a.txt"]),
            ("see @src/lib.rs.", &["src/lib.rs"]),
            ("(@x.rs), [@y.rs]: @z.rs?!", &["x.rs", "y.rs", "z.rs"]),
            ("@\"sp ace.txt\" and more", &["sp ace.txt"]),
            ("@\"open quote", &[]),
            ("@'sp ace.txt', @`x", &["sp ace.txt"]),
            ("see @small.txt's line", &["small.txt"]),
            ("@\"\" x", &[]),
            ("mail a@b.c to x", &[]),
            ("@ alone", &[]),
            ("end @", &[]),
            ("@@twice", &[]),
            ("@日本/ü.txt\nnext", &["日本/ü.txt"]),
            ("@../evil/s @/etc/passwd", &["../evil/s", "/etc/passwd"]),
        ];
        for (prompt, expected) in cases {
            assert_eq!(paths(prompt), expected, "{prompt}");
        }
    }

    #[test]
    fn unresolved_references_become_placeholders() {
        let mut text = String::new();
        for segment in parse_prompt("compare @a.txt with @\"b c\".") {
            let unresolved = matches!(&segment, Segment::FileRef { path } if path == "a.txt");
            segment.flatten_into(
                &mut text,
                if unresolved {
                    Reference::Unresolved
                } else {
                    Reference::AsTyped
                },
            );
        }
        assert_eq!(text, "compare [unresolved file ref: a.txt] with @\"b c\".");
    }

    proptest! {
        #[test]
        fn resolved_prompts_read_as_typed(prompt in "[a-z@. \"'(),é\n]{0,60}") {
            let mut text = String::new();
            for segment in parse_prompt(&prompt) {
                segment.flatten_into(&mut text, Reference::AsTyped);
            }
            // Quotes around a path without spaces are not kept; nothing else changes.
            let bare = |text: &str| text.replace(['"', '\''], "");
            prop_assert_eq!(bare(&text), bare(&prompt));
        }
    }
}
