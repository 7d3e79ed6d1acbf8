//! Reading a stored result piece by piece, each piece within a budget.
//!
//! A reply ends with a line in square brackets that says which part it shows, of how much, and the exact selector that
//! goes on. Replies are never stored again: what does not fit is left for the next call.

mod json;
mod text;
mod tool;

use protocol::{BlobKind, InvalidBlobHandle, InvalidSelector, Selector};

pub(crate) use self::tool::Inspect;
use crate::{
    blob::{BlobError, BlobFacts, BlobStore},
    output::TOOL_OUTPUT_MAX_BYTES,
};

/// What the last line of a reply, and the facts before the body, may take of the budget.
const FRAME_MAX_BYTES: usize = 512;

/// How much of a blob is shown when no part was asked for.
const BEGINNING_MAX_BYTES: usize = 2048;

/// Why a part of a blob cannot be shown. The text says what this blob allows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum InspectError {
    /// The blob's id or name cannot be read.
    #[error(transparent)]
    Handle(#[from] InvalidBlobHandle),
    /// The selector cannot be read.
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    /// The selector is for another kind of content.
    #[error("`{selector}` does not fit: this blob is {found}; use {fitting}")]
    Mismatch {
        /// What was asked.
        selector: Selector,
        /// What the blob is.
        found: String,
        /// A selector that works.
        fitting: String,
    },
    /// The part begins behind the end.
    #[error("`{selector}` begins behind the end: this blob has {count} {unit}")]
    OutOfRange {
        /// What was asked.
        selector: Selector,
        /// How much there is.
        count: u64,
        /// Of what.
        unit: &'static str,
    },
    /// The object has no such key.
    #[error("there is no key {key:?} among the {count}; {hint}")]
    NoSuchKey {
        /// What was asked.
        key: String,
        /// How many keys there are.
        count: usize,
        /// Keys there are.
        hint: String,
    },
    /// The store could not give it.
    #[error(transparent)]
    Store(#[from] BlobError),
}

/// Returns the part of a blob that `selector` names, or the facts and the beginning without one.
///
/// The reply has at most [`TOOL_OUTPUT_MAX_BYTES`].
///
/// # Errors
/// [`InspectError`] when the selector does not fit the blob, or the store cannot give it.
pub(crate) async fn inspect(
    store: &dyn BlobStore,
    facts: &BlobFacts,
    selector: Option<&Selector>,
) -> Result<String, InspectError> {
    let budget = TOOL_OUTPUT_MAX_BYTES - FRAME_MAX_BYTES;
    let Some(selector) = selector else {
        let beginning = match facts.kind {
            BlobKind::Text => {
                let all = Selector::Lines {
                    first: 1,
                    last: None,
                };
                if facts.bytes == 0 {
                    "[it is empty]".to_owned()
                } else {
                    text::lines(store, facts, &all, BEGINNING_MAX_BYTES).await?
                }
            }
            _ => json::beginning(store, facts, BEGINNING_MAX_BYTES).await?,
        };
        return Ok(format!("{}\n{beginning}", describe(facts)));
    };
    match (selector, facts.kind) {
        (Selector::Bytes { .. }, _) => text::bytes(store, facts, selector, budget).await,
        (Selector::Lines { .. }, BlobKind::Text) => {
            text::lines(store, facts, selector, budget).await
        }
        (Selector::Slice { .. }, BlobKind::JsonArray) => {
            json::slice(store, facts, selector, budget).await
        }
        (Selector::Key(_), BlobKind::JsonObject) => json::key(store, facts, selector, budget).await,
        _ => Err(InspectError::Mismatch {
            selector: selector.clone(),
            found: found(facts),
            fitting: fitting(facts),
        }),
    }
}

fn describe(facts: &BlobFacts) -> String {
    let made_by = facts
        .tool
        .as_ref()
        .map(|tool| format!(", made by {tool}"))
        .unwrap_or_default();
    format!(
        "blob {}: {}, {} bytes{made_by}",
        facts.name,
        found(facts),
        facts.bytes
    )
}

fn found(facts: &BlobFacts) -> String {
    match facts.kind {
        BlobKind::Text => format!("text of {} lines", facts.lines.unwrap_or(0)),
        BlobKind::JsonArray => format!("a JSON array of {} entries", facts.entries.unwrap_or(0)),
        BlobKind::JsonObject => format!("a JSON object of {} keys", facts.entries.unwrap_or(0)),
        _ => "a single JSON value".to_owned(),
    }
}

fn fitting(facts: &BlobFacts) -> String {
    let form = match facts.kind {
        BlobKind::Text => "lines:1-50 or ",
        BlobKind::JsonArray => "slice:0..10 or ",
        BlobKind::JsonObject => "key:NAME or ",
        _ => "",
    };
    format!("{form}bytes:0-4096")
}

#[cfg(test)]
mod tests;
