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
        return Err(InspectError::OutOfRange {
            selector: selector.clone(),
            count: total,
            unit: "lines",
        });
    }
    let last = last.unwrap_or(total).min(total);
    let start = line_start(store, facts, first).await?;
    let window = store
        .load_range(facts.id, start..start.saturating_add(budget as u64))
        .await?;
    let window = valid_text(&window);

    let mut shown = 0;
    let mut end = 0;
    for line in window.split_inclusive('\n').take(count(last - first + 1)) {
        let is_whole = line.ends_with('\n') || start + (end + line.len()) as u64 == facts.bytes;
        if !is_whole {
            break;
        }
        shown += 1;
        end += line.len();
    }
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
        let length = line_end - start;
        let part = window.len();
        return Ok(framed(
            window,
            &format!(
                "line {first} of {total}, the first {part} of its {length} bytes; next: {next}"
            ),
        ));
    }
    let until = first + shown - 1;
    let go_on = match until {
        until if until < last => {
            format!(
                "; no more fits, next: {}",
                Selector::Lines {
                    first: until + 1,
                    last: Some(last)
                }
            )
        }
        until if until < total => {
            let last = (until + shown).min(total);
            format!(
                "; next: {}",
                Selector::Lines {
                    first: until + 1,
                    last: Some(last)
                }
            )
        }
        _ => String::new(),
    };
    Ok(framed(
        &window[..end],
        &format!("lines {first}-{until} of {total}{go_on}"),
    ))
}

/// Returns the bytes that `selector` names, as many as fit the budget, and never half a character.
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
        return Err(InspectError::OutOfRange {
            selector: selector.clone(),
            count: facts.bytes,
            unit: "bytes",
        });
    }
    let wanted_end = end.unwrap_or(facts.bytes).min(facts.bytes);
    // A character has at most four bytes. The part begins with the character that holds its first byte and ends with
    // the one that holds its last, so that every page moves on and pages join without a gap.
    let from = start.saturating_sub(3);
    let until = wanted_end.min(start.saturating_add(budget as u64));
    let mut window = store
        .load_range(facts.id, from..until.saturating_add(3))
        .await?;
    let mut end = count(until - from);
    while window
        .get(end)
        .is_some_and(|byte| is_inside_character(*byte))
    {
        end += 1;
    }
    window.truncate(end);
    let mut skip = count(start - from);
    while skip > 0
        && window
            .get(skip)
            .is_some_and(|byte| is_inside_character(*byte))
    {
        skip -= 1;
    }
    let shown = valid_text(&window[skip.min(window.len())..]);
    let begin = from + skip as u64;
    let end = begin + shown.len() as u64;
    let go_on = if end < wanted_end || (end < facts.bytes && !shown.is_empty()) {
        let last = if end < wanted_end {
            wanted_end
        } else {
            (end + shown.len() as u64).min(facts.bytes)
        };
        format!(
            "; next: {}",
            Selector::Bytes {
                start: end,
                end: Some(last)
            }
        )
    } else {
        String::new()
    };
    Ok(framed(
        shown,
        &format!("bytes {begin}-{end} of {}{go_on}", facts.bytes),
    ))
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

fn is_inside_character(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Returns the beginning of `text` in at most `max` bytes.
pub(super) fn clip(text: &str, max: usize) -> &str {
    &text[..floor_boundary(text, max)]
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
