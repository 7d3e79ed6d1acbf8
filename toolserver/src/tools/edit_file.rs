//! `edit_file`: replaces an exact text in a file.

use std::{ops::Range, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{
    EDIT_REPORT_MAX_BYTES, excerpt,
    locks::FileLocks,
    replace::Haystack,
    shared::{FILE_MAX_BYTES, binary, blocking, check, count, failed, file_error, invalid, text},
};
use crate::{
    output::{ToolOutput, fit_start},
    scope::{Parents, ScopedFs, WriteMode, WriteOptions},
    tool,
    tool::{ToolError, ToolExecutionContext},
};

/// How many of several changes, or places, are shown.
const SHOWN_CHANGES: usize = 2;
const SHOWN_PLACES: usize = 20;

#[derive(Clone, Debug)]
pub(super) struct EditFile {
    scope: Arc<ScopedFs>,
    locks: FileLocks,
}

// Described by the tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFileArgs {
    /// File to change
    path: String,
    /// Text to replace, exactly as in the file
    old_string: String,
    /// Text to put in its place
    new_string: String,
    /// Replace every occurrence, not just a unique one
    #[serde(default)]
    replace_all: bool,
}

impl EditFile {
    pub(super) fn new(scope: Arc<ScopedFs>, locks: FileLocks) -> Self {
        Self { scope, locks }
    }

    /// Replaces old_string by new_string in a file. old_string must occur exactly once unless replace_all is set; add
    /// lines around it to make it unique. Line ends of the file are kept.
    #[tool(closed_world)]
    pub(super) async fn edit_file(
        &self,
        #[arguments] args: EditFileArgs,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        if args.old_string.is_empty() {
            return Err(invalid(
                "old_string is empty: give the text to replace, or use write_file to write the whole file",
            ));
        }
        if args.old_string == args.new_string {
            return Err(invalid(
                "old_string and new_string are the same: nothing would change",
            ));
        }
        let this = self.clone();
        blocking(&context, move |token| {
            let key = this.scope.key(&args.path);
            let key = key.map_err(|error| file_error(&this.scope, &args.path, &error))?;
            this.locks.exclusively(key, || this.edit(&args, token))
        })
        .await
    }

    fn edit(
        &self,
        args: &EditFileArgs,
        token: &CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        check(token)?;
        let path = &args.path;
        let file = self.scope.open_file(path);
        let file = file.map_err(|error| file_error(&self.scope, path, &error))?;
        let stamp = file.stamp();
        let old = file.read_all(FILE_MAX_BYTES);
        let old = old.map_err(|error| failed(&error))?.bytes;
        if old.contains(&0) {
            return Err(binary(path, &old, old.len() as u64));
        }
        let haystack = Haystack::new(&old, &args.old_string);
        let places = find(args, &old, &haystack)?;
        let new = haystack.replace(&places, &args.new_string);
        check(token)?;
        let options = WriteOptions {
            mode: WriteMode::IfUnchanged(stamp),
            parents: Parents::MustExist,
        };
        self.scope
            .write_atomic(path, &new, options)
            .map_err(|error| failed(&error))?;
        let inserted = haystack.with_line_ends(&args.new_string).len();
        Ok(text(report(path, &old, &new, &places, inserted)))
    }
}

/// Finds the places to change, or says why there is not exactly one.
fn find(
    args: &EditFileArgs,
    old: &[u8],
    haystack: &Haystack<'_>,
) -> Result<Vec<Range<usize>>, ToolError> {
    let places = if args.replace_all {
        haystack.find(&args.old_string)
    } else {
        haystack.find_overlapping(&args.old_string)
    };
    let path = &args.path;
    match places.len() {
        0 => Err(ToolError::ExecutionFailed(format!(
            "old_string is not in {path:?}, nothing was changed: {}",
            excerpt::nearest(old, &args.old_string)
        ))),
        1 => Ok(places),
        _ if args.replace_all => Ok(places),
        several => {
            let lines: Vec<String> = places
                .iter()
                .take(SHOWN_PLACES)
                .map(|place| excerpt::line_number(old, place.start).to_string())
                .collect();
            let more = if several > SHOWN_PLACES { ", …" } else { "" };
            Err(ToolError::ExecutionFailed(format!(
                "old_string occurs {several} times in {path:?}, at lines {}{more}; nothing was changed. Add lines around \
                 it to make it unique, or set replace_all",
                lines.join(", ")
            )))
        }
    }
}

fn report(path: &str, old: &[u8], new: &[u8], places: &[Range<usize>], inserted: usize) -> String {
    let mut report = format!(
        "changed {path}: {}\n",
        count(places.len() as u64, "replacement", "replacements")
    );
    for (index, place) in places.iter().take(SHOWN_CHANGES).enumerate() {
        // Each change before moved the text after it.
        let removed: usize = places[..index].iter().map(Range::len).sum();
        let start = place.start - removed + index * inserted;
        let moved = start..start + inserted;
        report.push_str(&excerpt::change((old, place.clone()), (new, moved)));
    }
    if places.len() > SHOWN_CHANGES {
        report.push_str(&format!("… {} more\n", places.len() - SHOWN_CHANGES));
    }
    fit_start(&report, EDIT_REPORT_MAX_BYTES).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::Fixture;

    fn edit(old: &str, new: &str) -> serde_json::Value {
        json!({"path": "f", "old_string": old, "new_string": new})
    }

    #[tokio::test]
    async fn a_unique_text_is_replaced_and_shown() {
        let fixture = Fixture::new();
        fixture.write("f", "one\ntwo\nthree\nfour\nfive\n");
        let report = fixture.good("edit_file", edit("three", "3\n3½")).await;
        let expected = "changed f: 1 replacement\n     1 one\n     2 two\n-    3 three\n+    3 3\n+    4 3½\n     5 four\n     6 five\n";
        assert_eq!(report, expected);
        assert_eq!(
            fixture.bytes("f"),
            "one\ntwo\n3\n3½\nfour\nfive\n".as_bytes()
        );
        fixture.good("edit_file", edit("one\n", "")).await;
        fixture.good("edit_file", edit("five\n", "five")).await;
        assert_eq!(fixture.bytes("f"), "two\n3\n3½\nfour\nfive".as_bytes());
    }

    #[tokio::test]
    async fn bytes_that_are_not_touched_stay() {
        let fixture = Fixture::new();
        fixture.write("f", b"\xef\xbb\xbfa\r\nb\r\n\xe9 c");
        fixture.good("edit_file", edit("a\nb\n", "x\ny\n")).await;
        assert_eq!(fixture.bytes("f"), b"\xef\xbb\xbfx\r\ny\r\n\xe9 c");
    }

    #[tokio::test]
    async fn several_places_are_listed_or_all_replaced() {
        let fixture = Fixture::new();
        fixture.write("f", "x\na\nx\nb\nx");
        let refusal = fixture.bad("edit_file", edit("x", "y")).await;
        assert!(
            refusal.contains("3 times") && refusal.contains("lines 1, 3, 5;"),
            "{refusal}"
        );
        let mut all = edit("x", "yy");
        all["replace_all"] = true.into();
        let report = fixture.good("edit_file", all).await;
        assert!(
            report.starts_with("changed f: 3 replacements\n-    1 x\n+    1 yy\n"),
            "{report}"
        );
        assert!(
            report.contains("-    3 x\n+    3 yy\n") && report.ends_with("… 1 more\n"),
            "{report}"
        );
        assert_eq!(fixture.bytes("f"), b"yy\na\nyy\nb\nyy");
    }

    #[tokio::test]
    async fn refusals_say_what_to_do() {
        let fixture = Fixture::new();
        fixture
            .write("f", "fn main() {\n\tlet x = 1;\n}\n")
            .write("b", "a\0");
        for (old, new, reason) in [
            ("", "x", "empty"),
            ("x", "x", "the same"),
            (
                "fn main() {\n  let x = 1;",
                "x",
                "lines 1-2 are the same but for white space",
            ),
            ("fn mian() {", "x", "line 1: fn main() {"),
            ("something else", "x", "no line is like"),
        ] {
            let refusal = fixture.bad("edit_file", edit(old, new)).await;
            assert!(refusal.contains(reason), "{refusal}");
        }
        let binary = json!({"path": "b", "old_string": "a", "new_string": "b"});
        assert!(fixture.bad("edit_file", binary).await.contains("binary"));
        let missing = json!({"path": "ff", "old_string": "a", "new_string": "b"});
        assert!(
            fixture
                .bad("edit_file", missing)
                .await
                .contains("does not exist")
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fs24_edits_of_one_batch_all_apply() {
        let fixture = Fixture::new();
        let words: Vec<String> = (0..16).map(|index| format!("<w{index}>")).collect();
        fixture.write("f", words.join("\n"));
        fixture.link("f", "link");
        let edits = words.iter().enumerate().map(|(index, word)| {
            let path = if index % 2 == 0 { "f" } else { "link" };
            fixture.call(
                "edit_file",
                json!({"path": path, "old_string": word, "new_string": "done"}),
            )
        });
        for result in futures_util::future::join_all(edits).await {
            result.unwrap();
        }
        assert_eq!(fixture.bytes("f"), ["done"; 16].join("\n").as_bytes());
    }
}
