//! What a model is shown of a stored result: its kind, exact counts, and its most telling part, in at most 400 bytes.
//!
//! The formats are those of the tool output document. The text here lacks the `[blob:…]` marker, since the blob has
//! no name yet; room for it is kept, so that marker and summary together stay within the limit.

use std::fmt::Write;

use protocol::BlobKind;
use serde_json::{Map, Value};

use super::{Content, OutputLimits, fit_end, fit_start, floor_boundary};

/// Longest marker in front of a summary: `[blob:` and a name of twelve characters and `] `.
pub(crate) const MARKER_MAX_BYTES: usize = 20;

const HEAD: &str = "── head ──";
const TAIL: &str = "── tail ──";
const SCHEMA: &str = "── schema ──";
const KEYS: &str = "── keys ──";

/// Summarises content within the limits.
#[must_use]
pub fn summarize(content: &Content, limits: &OutputLimits) -> String {
    let budget = limits.summary_max_bytes.saturating_sub(MARKER_MAX_BYTES);
    let mut summary = match content {
        Content::Text(text) => text_summary(text, limits, budget),
        Content::Structured(Value::Array(entries)) => array_summary(entries, budget),
        Content::Structured(Value::Object(object)) => object_summary(object, budget),
        Content::Structured(scalar) => {
            format!("{} | {}", BlobKind::JsonScalar, type_and_size(scalar))
        }
    };
    // Only very small limits get here: the fixed parts alone are above them.
    summary.truncate(floor_boundary(&summary, budget));
    summary
}

fn text_summary(text: &str, limits: &OutputLimits, budget: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let head_count = limits.head_lines.min(lines.len());
    let tail_count = limits.tail_lines.min(lines.len() - head_count);
    let mut summary = format!("{} | {} lines", BlobKind::Text, lines.len());

    let mut shown: Vec<&str> = lines[..head_count].to_vec();
    shown.extend(&lines[lines.len() - tail_count..]);
    // A few very long lines have no tail lines of their own: the end of the last one is shown instead.
    let end_of_last = if tail_count == 0 {
        lines.last().copied()
    } else {
        None
    };
    shown.extend(end_of_last);

    let fixed = summary.len() + HEAD.len() + TAIL.len() + 2 + shown.len();
    let rooms = share(budget.saturating_sub(fixed), &shown);
    let _ = write!(summary, "\n{HEAD}");
    for (index, (line, room)) in shown.iter().zip(rooms).enumerate() {
        if index == head_count {
            let _ = write!(summary, "\n{TAIL}");
        }
        let is_end = end_of_last.is_some() && index + 1 == shown.len();
        let part = if is_end {
            fit_end(line, room)
        } else {
            fit_start(line, room)
        };
        let _ = write!(summary, "\n{part}");
    }
    summary
}

/// Divides `budget` bytes among lines: short ones get all they need, the long ones share the rest equally.
fn share(budget: usize, lines: &[&str]) -> Vec<usize> {
    let mut by_length: Vec<usize> = (0..lines.len()).collect();
    by_length.sort_by_key(|&index| lines[index].len());
    let mut rooms = vec![0; lines.len()];
    let mut left = budget;
    for (done, &index) in by_length.iter().enumerate() {
        rooms[index] = lines[index].len().min(left / (lines.len() - done));
        left -= rooms[index];
    }
    rooms
}

fn array_summary(entries: &[Value], budget: usize) -> String {
    let mut summary = format!("{} | {} entries", BlobKind::JsonArray, entries.len());
    let schema = match entries.first() {
        Some(Value::Object(object)) => {
            let fields = object
                .iter()
                .map(|(key, value)| format!("{key}: {}", type_name(value)));
            fields.collect::<Vec<_>>().join(", ")
        }
        Some(other) => type_name(other).to_owned(),
        None => String::new(),
    };
    let head: Vec<String> = entries.iter().take(2).map(Value::to_string).collect();
    let mut shown = vec![schema.as_str()];
    shown.extend(head.iter().map(String::as_str));
    let fixed = summary.len() + SCHEMA.len() + HEAD.len() + 2 + shown.len();
    let rooms = share(budget.saturating_sub(fixed), &shown);
    let _ = write!(
        summary,
        "\n{SCHEMA}\n{}\n{HEAD}",
        fit_start(shown[0], rooms[0])
    );
    for (entry, room) in shown.iter().zip(rooms).skip(1) {
        let _ = write!(summary, "\n{}", fit_start(entry, room));
    }
    summary
}

fn object_summary(object: &Map<String, Value>, budget: usize) -> String {
    let mut summary = format!("{} | {} keys\n{KEYS}", BlobKind::JsonObject, object.len());
    let room_for_rest = "\n… and 4294967295 more keys".len();
    for (index, (key, value)) in object.iter().enumerate() {
        let line = format!("\n{}: {}", fit_start(key, 80), type_and_size(value));
        let is_last = index + 1 == object.len();
        let reserved = if is_last { 0 } else { room_for_rest };
        if summary.len() + line.len() + reserved > budget {
            let _ = write!(summary, "\n… and {} more keys", object.len() - index);
            break;
        }
        summary.push_str(&line);
    }
    summary
}

/// Returns the JSON type of a value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the JSON type of a value and how large it is, where that can differ.
pub(crate) fn type_and_size(value: &Value) -> String {
    let kind = type_name(value);
    match value {
        Value::String(text) => format!("{kind}, {} bytes", text.len()),
        Value::Array(entries) => format!("{kind}, {} entries", entries.len()),
        Value::Object(object) => format!("{kind}, {} keys", object.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::output::ToolOutput;

    fn summary_of(content: Content) -> String {
        summarize(&content, &OutputLimits::default())
    }

    fn text(text: impl Into<String>) -> String {
        summary_of(Content::Text(text.into()))
    }

    #[test]
    fn eight_hundred_bytes_are_the_last_that_stay_inline() {
        for (bytes, inline) in [(799, true), (800, true), (801, false)] {
            let output = ToolOutput::from("x".repeat(bytes));
            assert_eq!(matches!(output, ToolOutput::Inline(_)), inline, "{bytes}");
        }
        // Bytes, not characters: 267 characters of three bytes are 801 bytes.
        assert!(matches!(
            ToolOutput::from("日".repeat(267)),
            ToolOutput::Stored { .. }
        ));
        let json = json!(["x".repeat(795)]);
        assert_eq!(json.to_string().len(), 799);
        assert!(matches!(ToolOutput::from(json), ToolOutput::Inline(_)));
        let json = json!(["x".repeat(797)]);
        assert!(matches!(ToolOutput::from(json), ToolOutput::Stored { .. }));
    }

    #[test]
    fn text_shows_five_lines_and_three() {
        let lines: Vec<String> = (1..=200).map(|n| format!("line {n}")).collect();
        assert_eq!(
            text(lines.join("\n")),
            "text | 200 lines\n── head ──\nline 1\nline 2\nline 3\nline 4\nline 5\n\
             ── tail ──\nline 198\nline 199\nline 200"
        );
    }

    #[test]
    fn a_single_long_line_shows_both_ends() {
        let summary = text(format!("begin{}end", "-".repeat(20_000_000)));
        assert!(
            summary.starts_with("text | 1 lines\n── head ──\nbegin--"),
            "{summary}"
        );
        assert!(
            summary.contains("-…\n── tail ──\n…-") && summary.ends_with("--end"),
            "{summary}"
        );
        assert!(summary.len() <= 380);
    }

    #[test]
    fn array_shows_schema_and_two_entries() {
        let entries: Vec<Value> = (0..50)
            .map(|n| json!({"id": n, "name": format!("n{n}"), "tags": []}))
            .collect();
        assert_eq!(
            summary_of(Content::Structured(json!(entries))),
            "json_array | 50 entries\n── schema ──\nid: number, name: string, tags: array\n── head ──\n\
             {\"id\":0,\"name\":\"n0\",\"tags\":[]}\n{\"id\":1,\"name\":\"n1\",\"tags\":[]}"
        );
    }

    #[test]
    fn object_shows_keys_with_type_and_size() {
        let object = json!({"results": [1, 2, 3], "title": "äb", "ok": true, "meta": {"a": 1}, "none": null});
        assert_eq!(
            summary_of(Content::Structured(object)),
            "json_object | 5 keys\n── keys ──\nresults: array, 3 entries\ntitle: string, 3 bytes\nok: boolean\n\
             meta: object, 1 keys\nnone: null"
        );
    }

    #[test]
    fn many_keys_are_counted_exactly() {
        let object: Map<String, Value> = (0..1000).map(|n| (format!("key{n}"), json!(n))).collect();
        let summary = summary_of(Content::Structured(Value::Object(object)));
        let listed = summary
            .lines()
            .filter(|line| line.starts_with("key"))
            .count();
        assert!(
            summary.ends_with(&format!("… and {} more keys", 1000 - listed)),
            "{summary}"
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,300}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((".{0,90}", inner), 0..8)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn summaries_keep_the_limit(body in "(.{0,200}\n?){0,20}", limit in 0_usize..500) {
            let limits = OutputLimits { summary_max_bytes: limit, ..OutputLimits::default() };
            prop_assert!(summarize(&Content::Text(body), &limits).len() <= limit.saturating_sub(MARKER_MAX_BYTES));
        }

        #[test]
        fn json_summaries_keep_the_limit(value in any_json()) {
            let room = OutputLimits::default().summary_max_bytes - MARKER_MAX_BYTES;
            prop_assert!(summary_of(Content::Structured(value)).len() <= room);
        }
    }
}
