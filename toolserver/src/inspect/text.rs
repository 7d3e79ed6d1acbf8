//! Lines and bytes of a stored text. Memory stays flat however large the blob is: only what is shown, and the way to
//! it from the nearest indexed line, is read.

use protocol::Selector;

use super::InspectError;
use crate::{
    blob::{BlobFacts, BlobStore, LINE_INDEX_STEP},
    output::floor_boundary,
};

/// How much is read at a time on the way to a line.
const STRIDE: u64 = 256 * 1024;

/// Returns the lines that `selector` names, as many as fit the budget.
pub(super) async fn lines(
    store: &dyn BlobStore,
    facts: &BlobFacts,
    selector: &Selector,
    budget: usize,
) -> Result<String, InspectError> {
    let Selector::Lines { first, last } = *selector else {
        unreachable!("the caller matched lines")
    };
    let total = facts.lines.unwrap_or(0);
    if first > total {
        return Err(behind_the_end(selector, total, "lines"));
    }
    let last = last.unwrap_or(total).min(total);
    let start = line_start(store, facts, first).await?;
    let window = store
        .load_range(facts.id, start..start.saturating_add(budget as u64))
        .await?;
    let window = valid_text(&window);
    let reaches_the_end = start + window.len() as u64 == facts.bytes;
    let (shown, end) = whole_lines(window, last - first + 1, reaches_the_end);
    if shown == 0 {
        let line_end = if first == total {
            facts.bytes
        } else {
            line_start(store, facts, first + 1).await?
        };
        let next = Selector::Bytes {
            start: start + window.len() as u64,
            end: Some(line_end),
        };
        let (part, length) = (window.len(), line_end - start);
        let frame = format!(
            "line {first} of {total}, the first {part} of its {length} bytes; next: {next}"
        );
        return Ok(framed(window, &frame));
    }
    let until = first + shown - 1;
    let go_on = next_lines(until, last, total, shown);
    Ok(framed(
        &window[..end],
        &format!("lines {first}-{until} of {total}{go_on}"),
    ))
}

/// Returns how many whole lines stand at the beginning of `window`, up to `wanted`, and where they end.
fn whole_lines(window: &str, wanted: u64, reaches_the_end: bool) -> (u64, usize) {
    let mut shown = 0;
    let mut end = 0;
    for line in window.split_inclusive('\n').take(count(wanted)) {
        let is_whole =
            line.ends_with('\n') || (reaches_the_end && end + line.len() == window.len());
        if !is_whole {
            break;
        }
        shown += 1;
        end += line.len();
    }
    (shown, end)
}

/// Says how to go on behind line `until`: with the rest of what was asked for, else with as much again.
fn next_lines(until: u64, last: u64, total: u64, shown: u64) -> String {
    let (why, last) = if until < last {
        ("no more fits, ", last)
    } else {
        ("", (until + shown).min(total))
    };
    if until == total {
        return String::new();
    }
    format!(
        "; {why}next: {}",
        Selector::Lines {
            first: until + 1,
            last: Some(last)
        }
    )
}

/// Returns the bytes that `selector` names, as many as fit the budget, and never half a character.
///
/// A part begins with the character that holds its first byte and ends with the one that holds its last, so that every
/// page moves on and pages join without a gap.
pub(super) async fn bytes(
    store: &dyn BlobStore,
    facts: &BlobFacts,
    selector: &Selector,
    budget: usize,
) -> Result<String, InspectError> {
    let Selector::Bytes { start, end } = *selector else {
        unreachable!("the caller matched bytes")
    };
    if start > 0 && start >= facts.bytes {
        return Err(behind_the_end(selector, facts.bytes, "bytes"));
    }
    let wanted_end = end.unwrap_or(facts.bytes).min(facts.bytes);
    // A character has at most four bytes: three more on either side are enough to complete the outermost ones.
    let from = start.saturating_sub(3);
    let until = wanted_end.min(start.saturating_add(budget as u64));
    let window = store
        .load_range(facts.id, from..until.saturating_add(3))
        .await?;
    let is_inside = |at: usize| window.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let (mut begin, mut end) = (count(start - from), count(until - from));
    while begin > 0 && is_inside(begin) {
        begin -= 1;
    }
    while is_inside(end) {
        end += 1;
    }
    let shown = valid_text(window.get(begin..end).unwrap_or_default());
    let begin = from + begin as u64;
    let end = begin + shown.len() as u64;
    let go_on = next_bytes(end, wanted_end, facts.bytes, shown.len());
    Ok(framed(
        shown,
        &format!("bytes {begin}-{end} of {}{go_on}", facts.bytes),
    ))
}

/// Says how to go on behind byte `end`: with the rest of what was asked for, else with as much again.
fn next_bytes(end: u64, wanted_end: u64, total: u64, shown: usize) -> String {
    let last = if end < wanted_end {
        wanted_end
    } else {
        (end + shown as u64).min(total)
    };
    if last <= end {
        return String::new();
    }
    format!(
        "; next: {}",
        Selector::Bytes {
            start: end,
            end: Some(last)
        }
    )
}

fn behind_the_end(selector: &Selector, count: u64, unit: &'static str) -> InspectError {
    InspectError::OutOfRange {
        selector: selector.clone(),
        count,
        unit,
    }
}

/// Puts the line that says what is shown behind a body.
pub(super) fn framed(body: &str, frame: &str) -> String {
    let separator = if body.is_empty() || body.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{body}{separator}[{frame}]")
}

/// Returns where a line that exists begins.
async fn line_start(
    store: &dyn BlobStore,
    facts: &BlobFacts,
    line: u64,
) -> Result<u64, InspectError> {
    let indexed = (line - 1) / LINE_INDEX_STEP;
    let mut position = facts.line_index.get(count(indexed)).copied().unwrap_or(0);
    let mut to_skip = (line - 1) % LINE_INDEX_STEP;
    while to_skip > 0 && position < facts.bytes {
        let chunk = store
            .load_range(facts.id, position..position.saturating_add(STRIDE))
            .await?;
        let ends = chunk.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let mut read = chunk.len();
        for (index, _) in ends {
            to_skip -= 1;
            if to_skip == 0 {
                read = index + 1;
                break;
            }
        }
        position += read as u64;
    }
    Ok(position)
}

/// Returns the longest beginning of `bytes` that is text. A window may end inside a character, never begin there.
fn valid_text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("it is valid up to there")
        }
    }
}

/// Returns the beginning of `text` in at most `max` bytes.
pub(super) fn clip(text: &str, max: usize) -> &str {
    &text[..floor_boundary(text, max)]
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
