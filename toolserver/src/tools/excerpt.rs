//! The lines around a change, and the lines nearest to a text that was not found.

use std::{fmt::Write as _, ops::Range};

use crate::output::fit_start;

/// Lines shown before and after a change.
const CONTEXT_LINES: usize = 2;
/// Lines of one side of a change that are shown.
const SIDE_MAX_LINES: usize = 12;
const LINE_MAX_BYTES: usize = 160;
/// Lines that are compared when something was not found.
const COMPARED_MAX_LINES: usize = 20_000;
/// How alike the nearest line must be to be worth telling, from 0 to 1.
const LIKENESS_MIN: f64 = 0.6;

/// Returns the number of the line a byte is in, from 1.
pub(super) fn line_number(bytes: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1
}

/// Shows a change, given where it is in the old and in the new content: some lines before, the old lines with `-`, the
/// new with `+`, some lines after.
pub(super) fn change(old: (&[u8], Range<usize>), new: (&[u8], Range<usize>)) -> String {
    // If only one of the two ends with its line, the rest of the line belongs to the change on both sides.
    let complete = at_line_start(old.0, old.1.end) && at_line_start(new.0, new.1.end);
    let old_span = whole_lines(old.0, old.1, complete);
    let new_span = whole_lines(new.0, new.1, complete);
    let (old, new) = (old.0, new.0);
    let first = line_number(new, new_span.start);
    let mut shown = String::new();
    let before: Vec<&[u8]> = lines(&new[..new_span.start]).collect();
    let skipped = before.len().saturating_sub(CONTEXT_LINES);
    for (index, line) in before.iter().enumerate().skip(skipped) {
        push(&mut shown, ' ', index + 1, line);
    }
    side(
        &mut shown,
        '-',
        line_number(old, old_span.start),
        &old[old_span],
    );
    side(&mut shown, '+', first, &new[new_span.clone()]);
    let after = line_number(new, new_span.end);
    for (index, line) in lines(&new[new_span.end..]).take(CONTEXT_LINES).enumerate() {
        push(&mut shown, ' ', after + index, line);
    }
    shown
}

fn at_line_start(bytes: &[u8], at: usize) -> bool {
    at == 0 || bytes[at - 1] == b'\n'
}

/// Widens a place to the lines it touches, to the end of the last one unless it is `complete`.
fn whole_lines(bytes: &[u8], place: Range<usize>, complete: bool) -> Range<usize> {
    let start = memchr::memrchr(b'\n', &bytes[..place.start]).map_or(0, |at| at + 1);
    let end = if complete {
        place.end
    } else {
        memchr::memchr(b'\n', &bytes[place.end..]).map_or(bytes.len(), |at| place.end + at + 1)
    };
    start..end
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| line.trim_ascii_end())
}

fn side(shown: &mut String, mark: char, first: usize, bytes: &[u8]) {
    let count = lines(bytes).count();
    for (index, line) in lines(bytes).take(SIDE_MAX_LINES).enumerate() {
        push(shown, mark, first + index, line);
    }
    if count > SIDE_MAX_LINES {
        let more = count - SIDE_MAX_LINES;
        writeln!(shown, "{mark} … {more} more lines").expect("writing to a String never fails");
    }
}

fn push(shown: &mut String, mark: char, number: usize, line: &[u8]) {
    let line = String::from_utf8_lossy(line);
    let line = fit_start(&line, LINE_MAX_BYTES);
    writeln!(shown, "{mark}{number:>5} {line}").expect("writing to a String never fails");
}

/// Says what in the file is nearest to a text that is not in it.
pub(super) fn nearest(file: &[u8], wanted: &str) -> String {
    let file = String::from_utf8_lossy(file);
    let lines: Vec<&str> = file.lines().take(COMPARED_MAX_LINES).collect();
    let wanted: Vec<&str> = wanted.lines().collect();
    if let Some(number) = same_but_for_space(&lines, &wanted) {
        return format!(
            "lines {number}-{} are the same but for white space; copy them exactly",
            number + wanted.len() - 1
        );
    }
    let first = wanted
        .iter()
        .map(|line| line.trim())
        .find(|line| !line.is_empty());
    let Some(first) = first.map(|line| fit_start(line, LINE_MAX_BYTES)) else {
        return "read the file to see what it holds".to_owned();
    };
    let likeness = |line: &&str| {
        strsim::normalized_levenshtein(&first, &fit_start(line.trim(), LINE_MAX_BYTES))
    };
    let best = lines
        .iter()
        .map(likeness)
        .enumerate()
        .max_by(|one, two| one.1.total_cmp(&two.1).then(two.0.cmp(&one.0)));
    match best {
        Some((index, likeness)) if likeness >= LIKENESS_MIN => format!(
            "the nearest to its first line is line {}: {}",
            index + 1,
            fit_start(lines[index], LINE_MAX_BYTES)
        ),
        _ => "no line is like its first line; read the file to see what it holds".to_owned(),
    }
}

/// Finds lines that differ only in white space, wherever it is.
fn same_but_for_space(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let bare = |line: &str| line.split_whitespace().collect::<String>();
    let wanted: Vec<String> = wanted.iter().map(|line| bare(line)).collect();
    if wanted.iter().all(String::is_empty) || lines.len() < wanted.len() {
        return None;
    }
    let lines: Vec<String> = lines.iter().map(|line| bare(line)).collect();
    let found = lines
        .windows(wanted.len())
        .position(|window| window == wanted)?;
    Some(found + 1)
}
