//! What a store records about a blob: identity, counts, and what it takes to read a part and know that it is right.

use std::ops::Range;

use protocol::{BlobId, BlobKind, BlobName, BlobRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StoreOptions;
use crate::output::Content;

/// Every how many lines of a text the record holds an offset.
pub const LINE_INDEX_STEP: u64 = 1024;

/// Contents are checked in pieces of this size, so that a part can be checked without reading the whole.
pub(super) const PIECE_BYTES: u64 = 64 * 1024;

/// The version of the record. A store refuses newer ones.
pub(super) const FACTS_VERSION: u32 = 1;

/// What a store records about a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobFacts {
    /// The version of this record.
    pub version: u32,
    /// The id.
    pub id: BlobId,
    /// The short name.
    pub name: BlobName,
    /// What it holds.
    pub kind: BlobKind,
    /// Its size as stored: UTF-8 text, or compact JSON.
    pub bytes: u64,
    /// How many lines a text has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// How many entries or keys JSON has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// The tool that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// When it was stored, in milliseconds since 1970.
    pub created_ms: u64,
    /// BLAKE3 of all of it, in hexadecimal.
    pub hash: String,
    /// BLAKE3 of each 64 KiB piece, shortened to 128 bits.
    pub piece_hashes: Vec<String>,
    /// Where every 1024th line of a text begins, the first one included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_index: Vec<u64>,
}

impl BlobFacts {
    /// Works out the record of new content. `text` is the content as stored.
    pub(super) fn of(
        content: &Content,
        text: &str,
        id: BlobId,
        name: BlobName,
        options: StoreOptions,
    ) -> Self {
        let (kind, entries) = match content {
            Content::Text(_) => (BlobKind::Text, None),
            Content::Structured(Value::Array(entries)) => {
                (BlobKind::JsonArray, Some(entries.len() as u64))
            }
            Content::Structured(Value::Object(object)) => {
                (BlobKind::JsonObject, Some(object.len() as u64))
            }
            Content::Structured(_) => (BlobKind::JsonScalar, None),
        };
        let (lines, line_index) = match kind {
            BlobKind::Text => {
                let (lines, index) = index_lines(text);
                (Some(lines), index)
            }
            _ => (None, Vec::new()),
        };
        let pieces = text
            .as_bytes()
            .chunks(usize::try_from(PIECE_BYTES).expect("64 KiB fit"));
        Self {
            version: FACTS_VERSION,
            id,
            name,
            kind,
            bytes: text.len() as u64,
            lines,
            entries,
            tool: options.tool,
            created_ms: created_ms(id),
            hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
            piece_hashes: pieces.map(piece_hash).collect(),
            line_index,
        }
    }

    /// Returns what travels in a result's `_meta`, given how much of the blob was shown.
    #[must_use]
    pub fn to_ref(&self, shown: usize) -> BlobRef {
        BlobRef {
            id: self.id,
            name: self.name.clone(),
            kind: self.kind,
            bytes: self.bytes,
            lines: self.lines,
            entries: self.entries,
            shown: shown as u64,
        }
    }

    /// Returns the file name's ending of the content.
    pub(super) fn extension(&self) -> &'static str {
        if self.kind == BlobKind::Text {
            "txt"
        } else {
            "json"
        }
    }

    /// Returns the range of whole pieces that covers `range`, which must lie inside the blob.
    pub(super) fn piece_range(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start / PIECE_BYTES * PIECE_BYTES;
        let end = range
            .end
            .div_ceil(PIECE_BYTES)
            .saturating_mul(PIECE_BYTES)
            .min(self.bytes);
        start..end
    }

    /// Checks pieces read from `start`, a piece's beginning, against the record.
    pub(super) fn check_pieces(&self, start: u64, bytes: &[u8]) -> Result<(), String> {
        let first = usize::try_from(start / PIECE_BYTES).unwrap_or(usize::MAX);
        let pieces = bytes.chunks(usize::try_from(PIECE_BYTES).expect("64 KiB fit"));
        for (index, piece) in pieces.enumerate() {
            let expected = self
                .piece_hashes
                .get(first + index)
                .ok_or("the record lacks a piece")?;
            if *expected != piece_hash(piece) {
                return Err(format!(
                    "the bytes from {} on do not match the record",
                    start + index as u64 * PIECE_BYTES
                ));
            }
        }
        Ok(())
    }
}

fn piece_hash(piece: &[u8]) -> String {
    let mut hash = blake3::hash(piece).to_hex().to_string();
    hash.truncate(32);
    hash
}

/// Counts lines and notes where every 1024th begins. Every byte belongs to exactly one line; `\n` ends it.
fn index_lines(text: &str) -> (u64, Vec<u64>) {
    let mut lines = 0;
    let mut index = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if lines % LINE_INDEX_STEP == 0 {
            index.push(start);
        }
        lines += 1;
        start += line.len() as u64;
    }
    (lines, index)
}

/// Reads the time out of an id, which holds it in its first 48 bits.
fn created_ms(id: BlobId) -> u64 {
    let text = id.to_string().replace('-', "");
    u64::from_str_radix(&text[..12], 16).expect("an id begins with hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_belongs_to_one_line() {
        let cases = [
            ("", 0),
            ("a", 1),
            ("a\n", 1),
            ("a\nb", 2),
            ("\n", 1),
            ("\n\n", 2),
            ("a\r\nb\r\n", 2),
            ("a\rb", 1),
        ];
        for (text, lines) in cases {
            assert_eq!(index_lines(text).0, lines, "{text:?}");
        }
        let text: String = (0..3000).map(|n| format!("{n}\n")).collect();
        let (lines, index) = index_lines(&text);
        assert_eq!((lines, index.len()), (3000, 3));
        assert!(text[usize::try_from(index[1]).unwrap()..].starts_with("1024\n"));
        assert!(text[usize::try_from(index[2]).unwrap()..].starts_with("2048\n"));
    }
}
