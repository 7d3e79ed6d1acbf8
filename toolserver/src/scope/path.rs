//! Paths as models write them, and names as they are shown to models.
//!
//! A model can only write text, but a name on disk is any bytes. The escape between the two loses nothing: a byte that
//! is not part of valid UTF-8, and every byte of a character that could deceive a reader (control characters, marks of
//! writing direction, invisible characters), is shown as `\xHH`; a backslash that would be read as the beginning of
//! such an escape is shown as `\x5C`. Reading turns back exactly what showing produces, so `C:\` or `\x41` stay what
//! they are. Nothing else is expanded: no `~`, no `$HOME`, no `%2e`, no URLs.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Component, Path, PathBuf},
};

use super::error::ScopeError;

/// The kernel's limit, its final NUL included.
const PATH_MAX_BYTES: usize = 4096;

/// A path as it was given, checked once: not empty, no NUL, of a length the system takes.
#[derive(Clone, Debug)]
pub(super) struct ScopedPath {
    given: String,
    path: PathBuf,
    wants_directory: bool,
}

impl ScopedPath {
    /// Checks a path a model gave.
    pub(super) fn parse(given: &str) -> Result<Self, ScopeError> {
        let bytes = unescape(given);
        if bytes.is_empty() {
            return Err(ScopeError::invalid(
                given,
                "it is empty; use \".\" for the first root",
            ));
        }
        if bytes.contains(&0) {
            return Err(ScopeError::invalid(given, "it contains a NUL character"));
        }
        if bytes.len() >= PATH_MAX_BYTES {
            return Err(ScopeError::invalid(given, "it is longer than 4095 bytes"));
        }
        let wants_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        Ok(Self {
            given: given.to_owned(),
            path: PathBuf::from(OsString::from_vec(bytes)),
            wants_directory,
        })
    }

    /// Returns the text the caller wrote.
    pub(super) fn given(&self) -> &str {
        &self.given
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the path ends like one of a directory.
    pub(super) fn wants_directory(&self) -> bool {
        self.wants_directory
    }

    /// Splits off the last name. There is none at the end of `..` or `/`.
    pub(super) fn split(&self) -> Option<(Self, OsString)> {
        let name = self.path.file_name()?.to_owned();
        let parent = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let parent = Self {
            given: self.given.clone(),
            path: parent,
            wants_directory: true,
        };
        Some((parent, name))
    }
}

/// Resolves `.` and `..` by text alone. Right only for paths without links, such as canonical ones.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::Normal(_) => normal.push(component),
        }
    }
    normal
}

/// Returns a name as it is shown to models; see the module for the escape.
#[must_use]
pub fn escape_name(name: &OsStr) -> String {
    let mut shown = String::with_capacity(name.len());
    let mut rest = name.as_bytes();
    for chunk in name.as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            let here = rest;
            rest = &rest[character.len_utf8()..];
            if deceives(character) || escape_at(here).is_some() {
                escape_bytes(&mut shown, &here[..character.len_utf8()]);
            } else {
                shown.push(character);
            }
        }
        escape_bytes(&mut shown, chunk.invalid());
        rest = &rest[chunk.invalid().len()..];
    }
    shown
}

/// Returns whether a character is not shown as itself: it is invisible, or changes how its neighbours are shown.
fn deceives(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}')
}

fn escape_bytes(shown: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(shown, "\\x{byte:02X}").expect("writing to a String never fails");
    }
}

/// Returns the bytes a text stands for.
fn unescape(shown: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(byte) = escape_at(rest) {
            bytes.push(byte);
            rest = &rest[4..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    bytes
}

/// Returns the byte of the escape at the beginning of `text`. Printable ASCII is never escaped, but for the backslash.
fn escape_at(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = *text else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = u8::try_from(digit(high)? * 16 + digit(low)?).ok()?;
    let escaped = byte < 0x20 || byte == b'\\' || byte >= 0x7f;
    escaped.then_some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fs19_names_survive_showing_and_reading() {
        let names: [&[u8]; 9] = [
            b"plain.txt",
            b"\xff\xfe",
            b"a\\xFFb",
            b"a\\x5Cx",
            b"C:\\x41\\",
            b"caf\xc3\xa9 \xc3",
            b"new\nline\x1b[31m\x7f",
            "rlo\u{202e}txt.exe".as_bytes(),
            b"\\x\\x5",
        ];
        for name in names {
            let shown = escape_name(OsStr::from_bytes(name));
            assert_eq!(unescape(&shown), name, "{shown}");
            assert!(!shown.chars().any(deceives), "{shown:?}");
        }
        assert_eq!(escape_name(OsStr::from_bytes(b"a\xff")), "a\\xFF");
        assert_eq!(escape_name(OsStr::new("日本 🙂 C:\\x")), "日本 🙂 C:\\x");
    }

    #[test]
    fn fs20_only_nul_empty_and_overlong_are_refused() {
        for path in ["", "a\0b", "a\\x00b", &"a/".repeat(2048)] {
            assert!(ScopedPath::parse(path).is_err(), "{path:?}");
        }
        for path in [
            "~",
            "$HOME",
            "%2e%2e/",
            "file:///etc/passwd",
            "C:\\",
            "x. ",
            "\u{1b}\n",
        ] {
            let parsed = ScopedPath::parse(path).unwrap();
            assert_eq!(parsed.path(), Path::new(path));
        }
    }

    #[test]
    fn text_is_normalized() {
        assert_eq!(normalize(Path::new("//w//a/./../b/")), Path::new("/w/b"));
        assert_eq!(normalize(Path::new("/../..")), Path::new("/"));
    }
}
