//! Entries and keys of stored JSON, each shown in the compact form it is stored in.
//!
//! Since the form is the stored one, the place of every value in the file is known: a value larger than a reply goes on
//! with an exact `bytes:` selector.

use protocol::Selector;
use serde_json::{Map, Value};

use super::{
    InspectError,
    text::{clip, framed},
};
use crate::{
    blob::{BlobFacts, BlobStore},
    output::{Content, type_and_size},
};

/// Returns the array entries that `selector` names, one a line, as many as fit the budget.
pub(super) async fn slice(
    store: &dyn BlobStore,
    facts: &BlobFacts,
    selector: &Selector,
    budget: usize,
) -> Result<String, InspectError> {
    let Selector::Slice { start, end } = *selector else {
        unreachable!("the caller matched a slice")
    };
    let Value::Array(entries) = load(store, facts).await? else {
        unreachable!("the record says it is an array")
    };
    let total = entries.len() as u64;
    if start > total || (start == total && end != Some(start)) {
        return Err(InspectError::OutOfRange {
            selector: selector.clone(),
            count: total,
            unit: "entries",
        });
    }
    let end = end.unwrap_or(total).min(total);
    Ok(show_entries(&entries, start..end, budget))
}

fn show_entries(entries: &[Value], range: std::ops::Range<u64>, budget: usize) -> String {
    let total = entries.len() as u64;
    let mut body = String::new();
    let mut until = range.start;
    for entry in entries
        .iter()
        .skip(index(range.start))
        .take(index(range.end - range.start))
    {
        let text = entry.to_string();
        if body.len() + text.len() + 1 > budget {
            if until > range.start {
                break;
            }
            let before: usize = entries[..index(until)]
                .iter()
                .map(|entry| entry.to_string().len() + 1)
                .sum();
            let shown = clip(&text, budget);
            let frame = format!(
                "entry {until} of {total}, {}",
                cut_note(&text, shown, 1 + before)
            );
            return framed(shown, &frame);
        }
        body.push_str(&text);
        body.push('\n');
        until += 1;
    }
    let go_on = match until {
        until if until < range.end => {
            format!(
                "; no more fits, next: {}",
                Selector::Slice {
                    start: until,
                    end: Some(range.end)
                }
            )
        }
        until if until < total && until > range.start => {
            let end = (until + (until - range.start)).min(total);
            format!(
                "; next: {}",
                Selector::Slice {
                    start: until,
                    end: Some(end)
                }
            )
        }
        _ => String::new(),
    };
    framed(
        &body,
        &format!("entries {}..{until} of {total}{go_on}", range.start),
    )
}

/// Returns the value under the key that `selector` names.
pub(super) async fn key(
    store: &dyn BlobStore,
    facts: &BlobFacts,
    selector: &Selector,
    budget: usize,
) -> Result<String, InspectError> {
    let Selector::Key(name) = selector else {
        unreachable!("the caller matched a key")
    };
    let Value::Object(object) = load(store, facts).await? else {
        unreachable!("the record says it is an object")
    };
    let Some(value) = object.get(name) else {
        return Err(no_such_key(name, &object));
    };
    let text = value.to_string();
    let shown = clip(&text, budget);
    let described = format!("key {}: {}", clip(name, 100), type_and_size(value));
    if shown.len() == text.len() {
        return Ok(framed(shown, &described));
    }
    let key_length = |key: &str| Value::from(key).to_string().len() + 1;
    let before: usize = object
        .iter()
        .take_while(|(key, _)| *key != name)
        .map(|(key, value)| key_length(key) + value.to_string().len() + 1)
        .sum();
    let frame = format!(
        "{described}, {}",
        cut_note(&text, shown, 1 + before + key_length(name))
    );
    Ok(framed(shown, &frame))
}

/// Says how much of a value is shown and how to go on. `start` is where the value begins in the stored text.
fn cut_note(text: &str, shown: &str, start: usize) -> String {
    let next = Selector::Bytes {
        start: (start + shown.len()) as u64,
        end: Some((start + text.len()) as u64),
    };
    format!(
        "the first {} of its {} bytes; next: {next}",
        shown.len(),
        text.len()
    )
}

fn no_such_key(name: &str, object: &Map<String, Value>) -> InspectError {
    let mut near: Vec<(f64, &String)> = object
        .keys()
        .map(|key| (strsim::jaro_winkler(clip(name, 100), clip(key, 100)), key))
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let keys: Vec<&str> = near.iter().take(5).map(|(_, key)| clip(key, 60)).collect();
    let hint = if keys.is_empty() {
        "the object is empty".to_owned()
    } else {
        format!("nearest: {}", keys.join(", "))
    };
    InspectError::NoSuchKey {
        key: clip(name, 100).to_owned(),
        count: object.len(),
        hint,
    }
}

/// Returns the beginning of JSON for somebody who does not know it yet.
pub(super) async fn beginning(
    store: &dyn BlobStore,
    facts: &BlobFacts,
    budget: usize,
) -> Result<String, InspectError> {
    match load(store, facts).await? {
        Value::Array(entries) => Ok(show_entries(&entries, 0..entries.len() as u64, budget)),
        Value::Object(object) => Ok(show_keys(&object, budget)),
        scalar => {
            let text = scalar.to_string();
            Ok(framed(clip(&text, budget), &type_and_size(&scalar)))
        }
    }
}

fn show_keys(object: &Map<String, Value>, budget: usize) -> String {
    let mut body = String::new();
    for (shown, (key, value)) in object.iter().enumerate() {
        let line = format!("{}: {}\n", clip(key, 200), type_and_size(value));
        if body.len() + line.len() > budget {
            return framed(
                &body,
                &format!("{shown} of {} keys; read one with key:NAME", object.len()),
            );
        }
        body.push_str(&line);
    }
    framed(
        &body,
        &format!("all {} keys; read one with key:NAME", object.len()),
    )
}

async fn load(store: &dyn BlobStore, facts: &BlobFacts) -> Result<Value, InspectError> {
    match store.load(facts.id).await? {
        Content::Structured(value) => Ok(value),
        Content::Text(text) => Ok(Value::String(text)),
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
