//! Placeholders for the names of stored results: `${blob:1}` is the first one the conversation shows, and so on.
//!
//! A store gives a result its name during the run, so an answer that speaks of `k7qm` would be wrong in the next run.
//! Names are counted over the tool results that begin with `[blob:NAME]`, in the order the conversation shows them.
//! A text that really says `${blob:` is written `$${blob:`.

use protocol::BlobName;
use serde_json::{Map, Value};

use crate::llm::{ChatRequest, ContentBlock};

const OPEN: &str = "${blob:";

/// A placeholder that stands for nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "placeholder {placeholder} stands for nothing: the conversation shows {known} stored results so far"
)]
pub(super) struct UnknownPlaceholder {
    placeholder: String,
    known: usize,
}

/// The names a conversation shows.
#[derive(Debug)]
pub(super) struct BlobNames(Vec<String>);

impl BlobNames {
    pub(super) fn seen_in(request: &ChatRequest) -> Self {
        let mut names: Vec<String> = Vec::new();
        for block in request.messages.iter().flat_map(|message| &message.content) {
            let ContentBlock::ToolResult { content, .. } = block else {
                continue;
            };
            let name = content
                .strip_prefix("[blob:")
                .and_then(|rest| rest.split_once(']'))
                .map(|(name, _)| name);
            if let Some(name) = name.filter(|name| name.parse::<BlobName>().is_ok())
                && !names.iter().any(|known| known == name)
            {
                names.push(name.to_owned());
            }
        }
        Self(names)
    }

    /// Puts names in place of placeholders.
    pub(super) fn resolve(&self, block: &mut ContentBlock) -> Result<(), UnknownPlaceholder> {
        for_each_text(block, &mut |text| self.resolve_text(text))
    }

    /// Puts placeholders in place of names.
    pub(super) fn abstract_from(&self, block: &mut ContentBlock) {
        let Ok(()) = for_each_text(block, &mut |text| {
            Ok::<_, std::convert::Infallible>(self.abstract_text(text))
        });
    }

    fn resolve_text(&self, text: &str) -> Result<String, UnknownPlaceholder> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(OPEN) {
            if let Some(before) = rest[..at].strip_suffix('$') {
                out.push_str(before);
                out.push_str(OPEN);
                rest = &rest[at + OPEN.len()..];
                continue;
            }
            out.push_str(&rest[..at]);
            let inner = &rest[at + OPEN.len()..];
            let number = inner.split_once('}').map_or(inner, |(number, _)| number);
            let place = number
                .parse::<usize>()
                .ok()
                .and_then(|number| number.checked_sub(1));
            let name =
                place
                    .and_then(|place| self.0.get(place))
                    .ok_or_else(|| UnknownPlaceholder {
                        placeholder: format!(
                            "{OPEN}{}}}",
                            number.chars().take(20).collect::<String>()
                        ),
                        known: self.0.len(),
                    })?;
            out.push_str(name);
            rest = inner.get(number.len() + 1..).unwrap_or_default();
        }
        out.push_str(rest);
        Ok(out)
    }

    fn abstract_text(&self, text: &str) -> String {
        let escaped = text.replace(OPEN, "$${blob:");
        let mut out = String::with_capacity(escaped.len());
        let mut rest = escaped.as_str();
        // Word by word, so that a name inside a longer word is left alone.
        while let Some(start) = rest.find(is_word) {
            let length = rest[start..]
                .find(|c| !is_word(c))
                .unwrap_or(rest.len() - start);
            let word = &rest[start..start + length];
            out.push_str(&rest[..start]);
            match self.0.iter().position(|name| name == word) {
                Some(place) => out.push_str(&format!("{OPEN}{}}}", place + 1)),
                None => out.push_str(word),
            }
            rest = &rest[start + length..];
        }
        out.push_str(rest);
        out
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Rewrites the texts of an answer's block: its text, or every string value of its arguments, however deep.
fn for_each_text<E>(
    block: &mut ContentBlock,
    rewrite: &mut impl FnMut(&str) -> Result<String, E>,
) -> Result<(), E> {
    match block {
        ContentBlock::Text { text } => *text = rewrite(text)?,
        ContentBlock::ToolUse { input, .. } => for_each_string(input, rewrite)?,
        // Nobody acts on reasoning, and the other kinds are no part of an answer.
        ContentBlock::Reasoning { .. }
        | ContentBlock::ImageUrl { .. }
        | ContentBlock::ToolResult { .. } => {}
    }
    Ok(())
}

fn for_each_string<E>(
    value: &mut Value,
    rewrite: &mut impl FnMut(&str) -> Result<String, E>,
) -> Result<(), E> {
    match value {
        Value::String(text) => *text = rewrite(text)?,
        Value::Array(entries) => entries
            .iter_mut()
            .try_for_each(|entry| for_each_string(entry, rewrite))?,
        Value::Object(fields) => {
            Map::values_mut(fields).try_for_each(|field| for_each_string(field, rewrite))?
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::llm::Message;

    fn names(results: &[&str]) -> BlobNames {
        let messages = results
            .iter()
            .map(|result| Message::tool_result("x", *result))
            .collect();
        BlobNames::seen_in(&ChatRequest {
            messages,
            ..ChatRequest::default()
        })
    }

    #[test]
    fn names_are_counted_in_order_of_appearance() {
        let seen = names(&[
            "[blob:k7qm] text | 20 lines",
            "plain",
            " [blob:late] not at the beginning",
            "[blob:K7QM] no name",
            "[blob:2b3] x",
            "[blob:k7qm] again",
            "[blob:open",
        ]);
        assert_eq!(seen.0, ["k7qm", "2b3"]);
    }

    #[test]
    fn placeholders_are_filled_and_made() {
        let names = names(&["[blob:k7qm] x", "[blob:2b3] y"]);
        let pairs = [
            ("${blob:1}", "k7qm"),
            ("see ${blob:2}, ${blob:1}.", "see 2b3, k7qm."),
            ("[blob:${blob:1}]", "[blob:k7qm]"),
            ("$${blob:1} ${HOME}", "${blob:1} ${HOME}"),
            ("k7qmx a-2b3 ümlaut", "k7qmx a-2b3 ümlaut"),
            ("", ""),
        ];
        for (stored, said) in pairs {
            assert_eq!(names.resolve_text(stored).unwrap(), said);
            assert_eq!(names.abstract_text(said), stored);
        }
        for wrong in ["${blob:3}", "${blob:0}", "${blob:x}", "${blob:", "${blob:1"] {
            let result = names.resolve_text(wrong);
            assert!(result.is_err() || wrong == "${blob:1", "{wrong}");
        }
        let error = names.resolve_text("${blob:3}").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("${blob:3} stands for nothing: the conversation shows 2")
        );
    }

    #[test]
    fn arguments_are_rewritten_at_any_depth_but_not_their_keys() {
        let names = names(&["[blob:k7qm] x"]);
        let mut block = ContentBlock::ToolUse {
            id: "1".into(),
            name: "inspect".into(),
            input: json!({"${blob:1}": [{"blob_id": "${blob:1}", "n": 1}]}),
        };
        names.resolve(&mut block).unwrap();
        let ContentBlock::ToolUse { input, .. } = &block else {
            panic!("still a call")
        };
        assert_eq!(*input, json!({"${blob:1}": [{"blob_id": "k7qm", "n": 1}]}));
        names.abstract_from(&mut block);
        let ContentBlock::ToolUse { input, .. } = &block else {
            panic!("still a call")
        };
        assert_eq!(
            *input,
            json!({"${blob:1}": [{"blob_id": "${blob:1}", "n": 1}]})
        );
    }
}
