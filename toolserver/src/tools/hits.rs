//! The lines of one file that fit a search, and the collection of all files in order.

use std::{collections::BTreeMap, io};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use crate::output::{fit_end, fit_start};

/// How much of a line is shown.
const LINE_MAX_BYTES: usize = 400;
/// How much of it may come before the match.
const BEFORE_MAX_BYTES: usize = 120;

/// What one file gave.
#[derive(Debug, Default)]
pub(super) struct FileHits {
    /// Lines for the model, without the path.
    pub(super) lines: Vec<String>,
    /// How many lines fit.
    pub(super) matches: u64,
    /// The search ended at a NUL.
    pub(super) is_binary: bool,
}

/// Takes what the searcher finds in one file.
pub(super) struct HitSink<'a> {
    matcher: &'a RegexMatcher,
    /// How many lines are kept; 0 to count only.
    keep: usize,
    /// One match is enough.
    first_only: bool,
    pub(super) hits: FileHits,
}

impl<'a> HitSink<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, keep: usize, first_only: bool) -> Self {
        Self {
            matcher,
            keep,
            first_only,
            hits: FileHits::default(),
        }
    }

    fn keep(&mut self, number: Option<u64>, mark: char, line: &[u8]) {
        if self.hits.lines.len() < self.keep {
            let number = number.unwrap_or(0);
            let line = clip(self.matcher, line);
            self.hits.lines.push(format!("{mark}{number}{mark}{line}"));
        }
    }
}

impl Sink for HitSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.hits.matches += 1;
        self.keep(found.line_number(), ':', found.bytes());
        Ok(!self.first_only)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.keep(context.line_number(), '-', context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if self.hits.lines.len() < self.keep {
            self.hits.lines.push(String::new());
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.hits.is_binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Shows a line, and of a long one the part around its first match.
fn clip(matcher: &RegexMatcher, line: &[u8]) -> String {
    let line = line.trim_ascii_end();
    if line.len() <= LINE_MAX_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = matcher
        .find(line)
        .ok()
        .flatten()
        .map_or(0, |found| found.start());
    let before = String::from_utf8_lossy(&line[start.saturating_sub(4 * LINE_MAX_BYTES)..start]);
    let before = if start > BEFORE_MAX_BYTES {
        fit_end(&before, BEFORE_MAX_BYTES)
    } else {
        before.as_ref().into()
    };
    // Lossy text can be three times as long as the bytes, and never shorter.
    let after = String::from_utf8_lossy(&line[start..line.len().min(start + LINE_MAX_BYTES)]);
    let room = LINE_MAX_BYTES.saturating_sub(before.len());
    let after = fit_start(&after, room);
    format!("{before}{after} [line of {} bytes]", line.len())
}

/// What all files gave, in the order of the walk, of which only the first lines are kept.
#[derive(Debug)]
pub(super) struct Collection {
    limit: usize,
    kept: BTreeMap<u64, Vec<String>>,
    kept_lines: usize,
    /// How many lines were given, kept or not.
    pub(super) lines: u64,
    /// How many lines fit.
    pub(super) matches: u64,
    /// How many files have such a line.
    pub(super) files: u64,
    /// How many files were left out as binary.
    pub(super) binary: u64,
    /// How many could not be read.
    pub(super) unreadable: u64,
}

impl Collection {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: BTreeMap::new(),
            kept_lines: 0,
            lines: 0,
            matches: 0,
            files: 0,
            binary: 0,
            unreadable: 0,
        }
    }

    /// Takes the lines of the file with this place in the order. Lines that can no longer be among the first go.
    pub(super) fn add(&mut self, order: u64, lines: Vec<String>, matches: u64) {
        self.files += 1;
        self.matches += matches;
        self.lines += lines.len() as u64;
        self.kept_lines += lines.len();
        self.kept.insert(order, lines);
        while let Some(last) = self.kept.last_entry() {
            let without = self.kept_lines - last.get().len();
            if without < self.limit {
                break;
            }
            self.kept_lines = without;
            last.remove();
        }
    }

    /// Returns the first lines.
    pub(super) fn into_lines(self) -> Vec<String> {
        let mut lines: Vec<String> = self.kept.into_values().flatten().collect();
        lines.truncate(self.limit);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_lines_are_kept_whatever_the_order_of_arrival() {
        let mut collection = Collection::new(3);
        for order in [5, 1, 4, 0, 2, 3] {
            collection.add(order, vec![format!("{order}a"), format!("{order}b")], 2);
            assert!(collection.kept_lines <= 4);
        }
        assert_eq!((collection.matches, collection.files), (12, 6));
        assert_eq!(collection.into_lines(), ["0a", "0b", "1a"]);
    }

    #[test]
    fn long_lines_are_cut_around_the_match() {
        let matcher = RegexMatcher::new("needle").unwrap();
        let line = format!("{}needle{}\n", "日".repeat(5000), "x".repeat(5000));
        let clipped = clip(&matcher, line.as_bytes());
        assert!(clipped.contains("日needlexxx"), "{clipped}");
        assert!(clipped.ends_with("xx… [line of 20006 bytes]"), "{clipped}");
        assert!(clipped.len() < LINE_MAX_BYTES + 40);
        assert_eq!(clip(&matcher, b"a needle\r\n"), "a needle");
    }
}
