//! How a stored result is named: the id it has for ever, the short name a model reads, and the facts on the wire.
//!
//! A model pays tokens for every character of an id it reads or writes, so the text it sees carries a short name
//! while files, URIs and `_meta` carry the full id. Every place that takes a blob takes either. Neither is ever
//! parsed out of free text: only structured fields are read.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::{Uuid, Variant};

/// The `_meta` key of a `tools/call` result that holds a [`BlobRef`].
pub const BLOB_META_KEY: &str = "dev.toolserver/blob";

/// What the URI of every blob begins with; the id follows.
pub const BLOB_URI_PREFIX: &str = "toolserver://blob/";

/// What is wrong with a blob id or name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is no blob id: write the short name from [blob:…], for example k7qm, or the full UUID, and nothing else"
)]
pub struct InvalidBlobHandle {
    /// The beginning of what was given, at most 80 characters.
    pub given: String,
}

impl InvalidBlobHandle {
    fn new(given: &str) -> Self {
        Self {
            given: given.chars().take(80).collect(),
        }
    }
}

/// The id of a stored result: a UUID of version 7, written in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobId(Uuid);

impl BlobId {
    /// Wraps a UUID; `None` when it is not of version 7.
    #[must_use]
    pub fn from_uuid(id: Uuid) -> Option<Self> {
        (id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122).then_some(Self(id))
    }

    /// Returns the URI under which the blob is an MCP resource.
    #[must_use]
    pub fn uri(self) -> String {
        format!("{BLOB_URI_PREFIX}{self}")
    }

    /// Reads the URI written by [`BlobId::uri`].
    ///
    /// # Errors
    /// [`InvalidBlobHandle`] when it is no such URI.
    pub fn from_uri(uri: &str) -> Result<Self, InvalidBlobHandle> {
        uri.strip_prefix(BLOB_URI_PREFIX)
            .ok_or_else(|| InvalidBlobHandle::new(uri))?
            .parse()
    }
}

impl FromStr for BlobId {
    type Err = InvalidBlobHandle;

    /// Reads exactly the form that [`fmt::Display`] writes: no braces, no `urn:`, no upper case, no other version.
    fn from_str(text: &str) -> Result<Self, InvalidBlobHandle> {
        let exact = text.len() == 36 && !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let id = exact.then(|| Uuid::try_parse(text).ok()).flatten();
        id.and_then(Self::from_uuid)
            .ok_or_else(|| InvalidBlobHandle::new(text))
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The short name of a blob inside its store, for example `k7qm`.
///
/// Three to twelve characters of [`BlobName::ALPHABET`]. The store gives it at creation and never gives it again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobName(String);

impl BlobName {
    /// The characters of a name: no capitals, and none that is easily taken for another (0 o, 1 l i).
    pub const ALPHABET: &str = "23456789abcdefghjkmnpqrstuvwxyz";

    /// Returns the name as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BlobName {
    type Err = InvalidBlobHandle;

    fn from_str(text: &str) -> Result<Self, InvalidBlobHandle> {
        let known =
            (3..=12).contains(&text.len()) && text.chars().all(|c| Self::ALPHABET.contains(c));
        if known {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidBlobHandle::new(text))
        }
    }
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A blob as somebody names it: by id or by short name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum BlobHandle {
    /// By its id.
    Id(BlobId),
    /// By its short name.
    Name(BlobName),
}

impl FromStr for BlobHandle {
    type Err = InvalidBlobHandle;

    fn from_str(text: &str) -> Result<Self, InvalidBlobHandle> {
        if text.len() == 36 {
            text.parse().map(Self::Id)
        } else {
            text.parse().map(Self::Name)
        }
    }
}

impl fmt::Display for BlobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

macro_rules! string_conversions {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = InvalidBlobHandle;

            fn try_from(text: String) -> Result<Self, InvalidBlobHandle> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}

string_conversions!(BlobId, BlobName, BlobHandle);

/// What a blob holds; decides which selectors fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlobKind {
    /// UTF-8 text, read by lines.
    Text,
    /// A JSON array, read by entries.
    JsonArray,
    /// A JSON object, read by keys.
    JsonObject,
    /// A JSON string, number, boolean or null.
    JsonScalar,
}

impl BlobKind {
    /// Returns the word used in summaries and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::JsonArray => "json_array",
            Self::JsonObject => "json_object",
            Self::JsonScalar => "json_scalar",
        }
    }
}

impl fmt::Display for BlobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The machine-readable facts about a stored result, as they stand in a result's `_meta`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// The id.
    pub id: BlobId,
    /// The short name shown to the model.
    pub name: BlobName,
    /// What it holds.
    pub kind: BlobKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many lines it has, when it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// How many entries or keys it has, when it is a JSON array or object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// How many bytes of text the model was shown in its place.
    pub shown: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "019aa5d2-7c00-7abc-8def-0123456789ab";

    #[test]
    fn id_and_uri_round_trip() {
        let id: BlobId = ID.parse().unwrap();
        assert_eq!(id.to_string(), ID);
        assert_eq!(id.uri(), format!("toolserver://blob/{ID}"));
        assert_eq!(BlobId::from_uri(&id.uri()), Ok(id));
        assert!(BlobId::from_uri(ID).is_err());
        assert!(BlobId::from_uri("toolserver://blob/../x").is_err());
    }

    #[test]
    fn bl01_strange_ids_are_refused() {
        let upper = ID.to_uppercase();
        let braces = format!("{{{ID}}}");
        let urn = format!("urn:uuid:{ID}");
        let newline = format!("{ID}\n");
        let simple = ID.replace('-', "");
        let v4 = "3f2b8c52-6a0e-4f5b-9b1c-2d3e4f5a6b7c";
        let long = "k".repeat(1 << 20);
        let cases = [
            "",
            "../x",
            "a/b",
            "k7",
            "K7QM",
            "k7qm\n",
            " k7qm",
            "k0qm",
            "k7qm\0",
            "blob:k7qm",
            "[blob:k7qm]",
            v4,
            &upper,
            &braces,
            &urn,
            &newline,
            &simple,
            &long,
            "zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz",
        ];
        for case in cases {
            let error = case.parse::<BlobHandle>().unwrap_err();
            assert!(error.given.len() <= 80, "{case:.100}");
            assert!(error.to_string().contains("for example k7qm"));
        }
    }

    #[test]
    fn handles_are_read_in_both_forms() {
        assert_eq!(ID.parse(), Ok(BlobHandle::Id(ID.parse().unwrap())));
        assert_eq!(
            "k7qm".parse(),
            Ok(BlobHandle::Name("k7qm".parse().unwrap()))
        );
        assert_eq!("k7qm".parse::<BlobHandle>().unwrap().to_string(), "k7qm");
    }

    #[test]
    fn facts_say_only_what_applies() {
        let facts = BlobRef {
            id: ID.parse().unwrap(),
            name: "k7qm".parse().unwrap(),
            kind: BlobKind::Text,
            bytes: 12_345,
            lines: Some(200),
            entries: None,
            shown: 390,
        };
        let json = serde_json::to_value(&facts).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"id": ID, "name": "k7qm", "kind": "text", "bytes": 12345, "lines": 200, "shown": 390})
        );
        assert_eq!(serde_json::from_value::<BlobRef>(json).unwrap(), facts);
    }
}
