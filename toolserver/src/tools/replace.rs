//! Finding and replacing in the bytes of a file, leaving all others as they are.
//!
//! Models write `\n`. In a file with `\r\n` the search sees the file without the `\r` of each line end, the place found
//! is translated back, and what is put in gets the line ends of the file.

use std::{borrow::Cow, ops::Range};

use memchr::memmem::Finder;

/// A file's content, ready to be searched.
#[derive(Debug)]
pub(super) struct Haystack<'a> {
    original: &'a [u8],
    /// Without the `\r` of `\r\n`, if the file has any and the search none.
    searched: Cow<'a, [u8]>,
    /// Where in `searched` one was left out.
    left_out: Vec<usize>,
    /// Most line ends of the file are `\r\n`.
    is_crlf: bool,
}

impl<'a> Haystack<'a> {
    /// Prepares `original` for searching `wanted`.
    pub(super) fn new(original: &'a [u8], wanted: &str) -> Self {
        let crlf = memchr::memmem::find_iter(original, b"\r\n").count();
        let line_ends = memchr::memchr_iter(b'\n', original).count();
        let mut haystack = Self {
            original,
            searched: Cow::Borrowed(original),
            left_out: Vec::new(),
            is_crlf: crlf * 2 > line_ends,
        };
        if crlf > 0 && !wanted.contains("\r\n") {
            haystack.leave_out();
        }
        haystack
    }

    fn leave_out(&mut self) {
        let mut searched = Vec::with_capacity(self.original.len());
        let mut from = 0;
        for at in memchr::memmem::find_iter(self.original, b"\r\n") {
            searched.extend_from_slice(&self.original[from..at]);
            self.left_out.push(searched.len());
            from = at + 1;
        }
        searched.extend_from_slice(&self.original[from..]);
        self.searched = Cow::Owned(searched);
    }

    /// Finds `wanted`, as places in the original. Places overlap if the text does, for telling whether it is unique.
    pub(super) fn find_overlapping(&self, wanted: &str) -> Vec<Range<usize>> {
        self.search(wanted, 1)
    }

    /// Finds `wanted`, as places in the original that do not overlap.
    pub(super) fn find(&self, wanted: &str) -> Vec<Range<usize>> {
        self.search(wanted, wanted.len())
    }

    fn search(&self, wanted: &str, step: usize) -> Vec<Range<usize>> {
        let finder = Finder::new(wanted);
        let mut places = Vec::new();
        let mut from = 0;
        while let Some(at) = self.searched.get(from..).and_then(|rest| finder.find(rest)) {
            let start = from + at;
            places.push(self.in_original(start)..self.in_original(start + wanted.len()));
            from = start + step;
        }
        places
    }

    fn in_original(&self, at: usize) -> usize {
        at + self.left_out.partition_point(|left_out| *left_out < at)
    }

    /// Returns the original with `new` at each of the places, which are in order.
    pub(super) fn replace(&self, places: &[Range<usize>], new: &str) -> Vec<u8> {
        let new = self.with_line_ends(new);
        let mut replaced = Vec::with_capacity(self.original.len() + new.len());
        let mut from = 0;
        for place in places {
            replaced.extend_from_slice(&self.original[from..place.start]);
            replaced.extend_from_slice(new.as_bytes());
            from = place.end;
        }
        replaced.extend_from_slice(&self.original[from..]);
        replaced
    }

    /// Returns `new` with the line ends of the file.
    pub(super) fn with_line_ends<'t>(&self, new: &'t str) -> Cow<'t, str> {
        if self.is_crlf && !new.contains("\r\n") {
            Cow::Owned(new.replace('\n', "\r\n"))
        } else {
            Cow::Borrowed(new)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(original: &str, old: &str, new: &str) -> String {
        let haystack = Haystack::new(original.as_bytes(), old);
        let places = haystack.find(old);
        String::from_utf8(haystack.replace(&places, new)).unwrap()
    }

    #[test]
    fn every_other_byte_stays() {
        for (original, old, new, expected) in [
            ("a\nb\n", "b", "c", "a\nc\n"),
            ("a\r\nb\r\nc", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc"),
            ("a\r\nb\r\n", "a\n", "x\n", "x\r\nb\r\n"),
            ("a\r\nb\r\n", "\nb", "", "a\r\n"),
            ("a\r\nb\r\n", "a", "1\n2", "1\r\n2\r\nb\r\n"),
            ("a\r\nb\r\n", "a\r\n", "x\r\n", "x\r\nb\r\n"),
            ("a\r\nb\nc\nd\n", "a\nb", "x\ny", "x\ny\nc\nd\n"),
            ("\u{feff}a", "a", "b", "\u{feff}b"),
            ("aaaa", "aa", "b", "bb"),
            ("a\rb\r\n", "b\n", "c\n", "a\rc\r\n"),
        ] {
            assert_eq!(replaced(original, old, new), expected, "{original:?}");
        }
    }

    #[test]
    fn overlapping_places_are_told() {
        let haystack = Haystack::new(b"aaa", "aa");
        assert_eq!(haystack.find_overlapping("aa"), [0..2, 1..3]);
        assert_eq!(haystack.find("aa"), [0..2; 1]);
    }
}
