//! `read_file`: a whole text file, or some of its lines.
//!
//! A range is read as a stream, so that it works on files of any size in bounded memory.

use std::{
    io::{self, Read},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::shared::{as_text, binary, blocking, check, count, file_error, read_whole, text};
use crate::{
    output::{TOOL_OUTPUT_MAX_BYTES, ToolOutput},
    scope::ScopedFs,
    tool,
    tool::{ToolError, ToolExecutionContext},
};

/// What a range keeps free for saying how to go on.
const NOTE_MAX_BYTES: usize = 384;
const LINES_MAX_BYTES: usize = TOOL_OUTPUT_MAX_BYTES - NOTE_MAX_BYTES;
const READ_BYTES: usize = 128 * 1024;
/// Up to this size lines are counted to the end of the file; beyond, counting would take longer than reading.
const COUNTED_MAX_BYTES: u64 = 256 * 1024 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Debug)]
pub(super) struct ReadFile {
    scope: Arc<ScopedFs>,
}

// Described by the tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFileArgs {
    /// File to read
    path: String,
    /// First line, from 1
    offset: Option<u64>,
    /// Number of lines
    limit: Option<u64>,
}

impl ReadFile {
    pub(super) fn new(scope: Arc<ScopedFs>) -> Self {
        Self { scope }
    }

    /// Reads a text file, exactly as it is. Large files come as a stored summary; give offset and limit to get just
    /// those lines, which works on files of any size.
    #[tool(read_only, closed_world)]
    pub(super) async fn read_file(
        &self,
        #[arguments] args: ReadFileArgs,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        let scope = Arc::clone(&self.scope);
        blocking(&context, move |token| {
            if args.offset.is_none() && args.limit.is_none() {
                return whole(&scope, &args.path);
            }
            let file = scope.open_file(&args.path);
            let file = file.map_err(|error| file_error(&scope, &args.path, &error))?;
            let range = Range {
                first: args.offset.unwrap_or(1).max(1),
                limit: args.limit.unwrap_or(u64::MAX).max(1),
                size: file.size(),
                path: &args.path,
            };
            range.read(file.into_file(), token).map(ToolOutput::Inline)
        })
        .await
    }
}

fn whole(scope: &ScopedFs, path: &str) -> Result<ToolOutput, ToolError> {
    let mut content = as_text(path, read_whole(scope, path)?.bytes)?;
    if content.starts_with('\u{feff}') {
        content.drain(..BOM.len());
    }
    if content.is_empty() {
        return Ok(ToolOutput::Inline("[the file is empty]".to_owned()));
    }
    Ok(text(content))
}

/// The lines that are asked for.
struct Range<'a> {
    first: u64,
    limit: u64,
    size: u64,
    path: &'a str,
}

/// What was seen of the file so far.
#[derive(Default)]
struct Seen {
    /// Complete lines before the place of reading.
    lines: u64,
    /// The lines asked for, as many as fit.
    kept: Vec<u8>,
    /// How many lines of `kept` are complete.
    complete: u64,
    /// Bytes of the line at the place of reading.
    line_bytes: u64,
    /// The first line that did not fit, and how long it is when its end was seen.
    clipped: Option<(u64, u64)>,
    /// The file was read to its end.
    ended: bool,
}

impl Range<'_> {
    fn read(&self, mut file: impl Read, token: &CancellationToken) -> Result<String, ToolError> {
        let failed = |error: io::Error| {
            ToolError::ExecutionFailed(format!("reading {:?} failed: {error}", self.path))
        };
        let mut seen = Seen::default();
        let mut buffer = vec![0; READ_BYTES];
        let mut at_start = true;
        loop {
            check(token)?;
            let count = match file.read(&mut buffer) {
                Ok(0) => {
                    seen.ended = true;
                    break;
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            let mut chunk = &buffer[..count];
            if std::mem::take(&mut at_start) {
                if matches!(chunk, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
                    return Err(binary(self.path, chunk, self.size));
                }
                chunk = chunk.strip_prefix(BOM).unwrap_or(chunk);
            }
            self.take(chunk, &mut seen);
            if self.is_satisfied(&seen) && self.size > COUNTED_MAX_BYTES {
                break;
            }
        }
        self.show(seen)
    }

    fn end(&self) -> u64 {
        self.first.saturating_add(self.limit)
    }

    /// Returns whether nothing more of the file can be shown.
    fn is_satisfied(&self, seen: &Seen) -> bool {
        let open_clip = matches!(seen.clipped, Some((line, _)) if line > seen.lines);
        !open_clip && (seen.clipped.is_some() || seen.lines + 1 >= self.end())
    }

    fn take(&self, chunk: &[u8], seen: &mut Seen) {
        let mut rest = chunk;
        while !rest.is_empty() {
            if seen.lines + 1 < self.first || self.is_satisfied(seen) {
                let wanted = if seen.lines + 1 < self.first {
                    self.first - 1 - seen.lines
                } else {
                    u64::MAX
                };
                let skipped = skip_lines(rest, wanted, seen);
                rest = &rest[skipped..];
                continue;
            }
            let end = memchr::memchr(b'\n', rest).map(|at| at + 1);
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
            self.keep(piece, seen);
            seen.line_bytes += piece.len() as u64;
            if end.is_some() {
                seen.lines += 1;
                if let Some((_, bytes)) = &mut seen.clipped {
                    *bytes = seen.line_bytes - 1;
                } else {
                    seen.complete += 1;
                }
                seen.line_bytes = 0;
            }
            rest = after;
        }
    }

    fn keep(&self, piece: &[u8], seen: &mut Seen) {
        if seen.clipped.is_some() {
            return;
        }
        let room = LINES_MAX_BYTES - seen.kept.len();
        if piece.len() > room {
            seen.clipped = Some((seen.lines + 1, 0));
        }
        seen.kept.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn show(&self, mut seen: Seen) -> Result<String, ToolError> {
        let unfinished = u64::from(seen.line_bytes > 0);
        let total = seen.lines + unfinished;
        if seen.kept.is_empty() {
            return Err(self.nothing_there(total));
        }
        let mut shown = seen.complete;
        if let Some((_, bytes)) = &mut seen.clipped {
            if unfinished == 1 && *bytes == 0 {
                *bytes = seen.line_bytes;
            }
            if shown > 0 {
                // Whole lines only; the long one is the next to ask for.
                let end = memchr::memrchr(b'\n', &seen.kept).map_or(0, |at| at + 1);
                seen.kept.truncate(end);
                seen.clipped = None;
            }
        } else if seen.kept.last() != Some(&b'\n') {
            shown += 1;
        }
        let body = self.as_text(seen.kept, seen.clipped.is_some())?;
        let total = seen.ended.then_some(total);
        let note = self.note(
            shown,
            seen.clipped.map(|(_, bytes)| (bytes, body.len())),
            total,
        );
        let line_end = if body.ends_with('\n') { "" } else { "\n" };
        Ok(format!("{body}{line_end}{note}"))
    }

    fn as_text(&self, mut bytes: Vec<u8>, clipped: bool) -> Result<String, ToolError> {
        if let Err(error) = std::str::from_utf8(&bytes)
            && clipped
            && error.error_len().is_none()
        {
            bytes.truncate(error.valid_up_to());
        }
        if bytes.contains(&0) || std::str::from_utf8(&bytes).is_err() {
            return Err(binary(self.path, &bytes, self.size));
        }
        String::from_utf8(bytes).map_err(|error| binary(self.path, error.as_bytes(), self.size))
    }

    fn nothing_there(&self, total: u64) -> ToolError {
        ToolError::InvalidArgument(format!(
            "offset {} is beyond the end: {:?} has {}",
            self.first,
            self.path,
            count(total, "line", "lines")
        ))
    }

    /// Says which lines these are and how to go on. `clipped` is the length of a line and how much of it is shown.
    fn note(&self, shown: u64, clipped: Option<(u64, usize)>, total: Option<u64>) -> String {
        let first = self.first;
        let of = total.map_or_else(|| " of many".to_owned(), |total| format!(" of {total}"));
        if let Some((bytes, part)) = clipped {
            let next = match total {
                Some(total) if first >= total => String::new(),
                _ => format!("; next offset={}", first + 1),
            };
            return format!(
                "[line {first}{of}, cut: it has {bytes} bytes, the first {part} are shown; read_file without offset \
                 and limit stores all of it{next}]"
            );
        }
        let last = first + shown - 1;
        let lines = if shown == 1 {
            format!("line {first}")
        } else {
            format!("lines {first}-{last}")
        };
        match total {
            Some(total) if last >= total => format!("[{lines}{of}, the end of the file]"),
            _ => format!("[{lines}{of}; next offset={}]", last + 1),
        }
    }
}

/// Passes up to `wanted` lines. Returns how many bytes that took.
fn skip_lines(bytes: &[u8], wanted: u64, seen: &mut Seen) -> usize {
    let mut passed = 0;
    let mut end = 0;
    for at in memchr::memchr_iter(b'\n', bytes) {
        passed += 1;
        end = at + 1;
        if passed == wanted {
            seen.lines += passed;
            seen.line_bytes = 0;
            return end;
        }
    }
    seen.lines += passed;
    let rest = (bytes.len() - end) as u64;
    seen.line_bytes = if passed > 0 {
        rest
    } else {
        seen.line_bytes + rest
    };
    bytes.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::Fixture, *};

    #[tokio::test]
    async fn a_range_is_exact_and_says_how_to_go_on() {
        let fixture = Fixture::new();
        fixture.write("f", "one\ntwo\r\nthree\nfour");
        for (offset, limit, expected) in [
            (1, 2, "one\ntwo\r\n[lines 1-2 of 4; next offset=3]"),
            (3, 1, "three\n[line 3 of 4; next offset=4]"),
            (3, 9, "three\nfour\n[lines 3-4 of 4, the end of the file]"),
            (0, 0, "one\n[line 1 of 4; next offset=2]"),
            (4, 1, "four\n[line 4 of 4, the end of the file]"),
        ] {
            let arguments = json!({"path": "f", "offset": offset, "limit": limit});
            assert_eq!(fixture.good("read_file", arguments).await, expected);
        }
        let beyond = json!({"path": "f", "offset": 5});
        let refusal = fixture.bad("read_file", beyond).await;
        assert!(refusal.contains("has 4 lines"), "{refusal}");
    }

    #[tokio::test]
    async fn fs18_ranges_fit_whatever_the_lines() {
        let fixture = Fixture::new();
        fixture.write("long", format!("{}\nafter\n", "日".repeat(1_000_000)));
        fixture.write("mixed", format!("short\n{}", "x".repeat(100_000)));
        fixture.write("many", "\n".repeat(1_000_000));
        fixture.write("rows", "0123456789\n".repeat(10_000));
        for (file, offset, note) in [
            (
                "long",
                1,
                "[line 1 of 2, cut: it has 3000000 bytes, the first 15999 are shown; ",
            ),
            ("long", 2, "[line 2 of 2, the end of the file]"),
            ("mixed", 1, "[line 1 of 2; next offset=2]"),
            ("mixed", 2, "[line 2 of 2, cut: it has 100000 bytes"),
            (
                "many",
                900_000,
                "[lines 900000-915999 of 1000000; next offset=916000]",
            ),
            ("rows", 1, "[lines 1-1454 of 10000; next offset=1455]"),
        ] {
            let text = fixture
                .good("read_file", json!({"path": file, "offset": offset}))
                .await;
            assert!(text.len() <= TOOL_OUTPUT_MAX_BYTES);
            let last = text.lines().last().unwrap();
            assert!(last.starts_with(note), "{file}: {last}");
        }
    }

    #[tokio::test]
    async fn fs16_ranges_work_on_files_too_large_to_read() {
        let fixture = Fixture::new();
        fixture.sparse("sparse", 5 << 30);
        let refusal = fixture.bad("read_file", json!({"path": "sparse"})).await;
        assert!(refusal.contains("offset and limit"), "{refusal}");
        let line = format!("{}\n", "x".repeat(99));
        fixture.write("large", line.repeat(700_000));
        let range = json!({"path": "large", "offset": 699_999});
        let text = fixture.good("read_file", range).await;
        let note = "[lines 699999-700000 of 700000, the end of the file]";
        assert_eq!(text, format!("{line}{line}{note}"));
    }

    #[tokio::test]
    async fn fr03_only_text_is_shown() {
        let fixture = Fixture::new();
        fixture.write("bom", "\u{feff}text\n").write("empty", "");
        fixture
            .write("nul", "a\0b\n")
            .write("latin", b"caf\xe9\n")
            .write("utf16", b"\xff\xfea\0");
        assert_eq!(
            fixture.good("read_file", json!({"path": "bom"})).await,
            "text\n"
        );
        let text = fixture
            .good("read_file", json!({"path": "bom", "limit": 1}))
            .await;
        assert!(text.starts_with("text\n["), "{text}");
        let empty = fixture.good("read_file", json!({"path": "empty"})).await;
        assert_eq!(empty, "[the file is empty]");
        for (path, size) in [
            ("nul", "4 bytes"),
            ("latin", "5 bytes"),
            ("utf16", "UTF-16"),
        ] {
            for arguments in [json!({"path": path}), json!({"path": path, "limit": 3})] {
                let refusal = fixture.bad("read_file", arguments).await;
                assert!(
                    refusal.contains("binary") && refusal.contains(size),
                    "{refusal}"
                );
            }
        }
    }

    #[tokio::test]
    async fn refusals_say_what_to_do() {
        let fixture = Fixture::new();
        fixture.write("src/main.rs", "").write("src/mains.rs", "");
        let refusal = fixture
            .bad("read_file", json!({"path": "src/Main.rs"}))
            .await;
        assert!(refusal.contains("\"main.rs\", \"mains.rs\""), "{refusal}");
        let refusal = fixture.bad("read_file", json!({"path": "src"})).await;
        assert!(refusal.contains("list_dir"), "{refusal}");
        let refusal = fixture
            .bad("read_file", json!({"path": "f", "lines": 3}))
            .await;
        assert!(refusal.contains("unknown field"), "{refusal}");
        let refusal = fixture.bad("read_file", json!({"path": "none/f"})).await;
        assert!(refusal.contains("does not exist"), "{refusal}");
    }
}
