//! `list_dir`: the names in one directory.

use std::{collections::BinaryHeap, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::shared::{blocking, check, count, failed, file_error, text};
use crate::{
    output::ToolOutput,
    scope::{Directory, Entry, EntryKind, LinkTarget, ScopeError, ScopedFs, escape_name},
    tool,
    tool::{ToolError, ToolExecutionContext},
};

/// How many names are shown; all are counted.
const SHOWN_MAX: usize = 5000;

#[derive(Clone, Debug)]
pub(super) struct ListDir {
    scope: Arc<ScopedFs>,
}

// Described by the tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListDirArgs {
    /// Directory to list
    #[serde(default = "super::shared::here")]
    path: String,
}

impl ListDir {
    pub(super) fn new(scope: Arc<ScopedFs>) -> Self {
        Self { scope }
    }

    /// Lists a directory, sorted by name: directories end in /, files have their size in bytes, links show where they
    /// lead. Unusual bytes in names appear as \xHH; write them like that in paths.
    #[tool(read_only, closed_world)]
    pub(super) async fn list_dir(
        &self,
        #[arguments] args: ListDirArgs,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        let scope = Arc::clone(&self.scope);
        blocking(&context, move |token| {
            list(&scope, &args.path, SHOWN_MAX, token)
        })
        .await
    }
}

fn list(
    scope: &ScopedFs,
    path: &str,
    shown_max: usize,
    token: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let directory = scope.directory(path).map_err(|error| match error {
        ScopeError::NotADirectory { .. } => ToolError::ExecutionFailed(format!(
            "{path:?} is not a directory; use read_file to read a file"
        )),
        error => file_error(scope, path, &error),
    })?;
    // Only the first names are kept, so that a directory of millions does not fill the memory.
    let mut first = BinaryHeap::new();
    let mut total: u64 = 0;
    for entry in directory.entries().map_err(|error| failed(&error))? {
        check(token)?;
        first.push(entry.map_err(|error| failed(&error))?);
        total += 1;
        if first.len() > shown_max {
            first.pop();
        }
    }
    let first = first.into_sorted_vec();
    if first.is_empty() {
        return Ok(ToolOutput::Inline("[the directory is empty]".to_owned()));
    }
    let mut lines = Vec::with_capacity(first.len() + 1);
    for entry in &first {
        check(token)?;
        lines.push(line(scope, &directory, path, entry));
    }
    if total > first.len() as u64 {
        lines.push(format!(
            "[the first {} of {}; use glob with a pattern to see others]",
            first.len(),
            count(total, "entry", "entries")
        ));
    }
    Ok(text(lines.join("\n")))
}

fn line(scope: &ScopedFs, directory: &Directory, path: &str, entry: &Entry) -> String {
    let name = escape_name(&entry.name);
    match entry.kind {
        EntryKind::Directory => format!("{name}/"),
        EntryKind::Other => format!("{name} (pipe, socket or device)"),
        EntryKind::File => match directory.metadata(&entry.name) {
            Ok(metadata) => format!("{name} {}", metadata.size),
            // Deleted since it was listed, or not ours to look at.
            Err(_) => name,
        },
        EntryKind::Link => match scope.link_target(directory, path, &entry.name) {
            LinkTarget::Inside { target, metadata } if metadata.kind == EntryKind::Directory => {
                format!("{name} -> {}/", target.trim_end_matches('/'))
            }
            LinkTarget::Inside { target, metadata } => {
                format!("{name} -> {target} {}", metadata.size)
            }
            LinkTarget::Dangling { target } => format!("{name} -> {target} (missing)"),
            LinkTarget::Refused => format!("{name} -> (outside)"),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use serde_json::json;

    use super::{super::testing::Fixture, *};

    #[tokio::test]
    async fn fs19_every_kind_of_name_is_shown() {
        let fixture = Fixture::new();
        fixture
            .write("b.txt", "12345")
            .write("a/x", "")
            .write("n\nl", "");
        fixture.write(OsStr::from_bytes(b"\xff"), "1");
        for (target, name) in [
            ("a", "l1"),
            ("b.txt", "l2"),
            ("none", "l3"),
            ("/etc/passwd", "l4"),
        ] {
            fixture.link(target, name);
        }
        let listed = fixture.good("list_dir", json!({})).await;
        let expected = "a/\nb.txt 5\nl1 -> a/\nl2 -> b.txt 5\nl3 -> none (missing)\nl4 -> (outside)\nn\\x0Al 0\n\\xFF 1";
        assert_eq!(listed, expected);
        assert_eq!(fixture.good("list_dir", json!({"path": "a"})).await, "x 0");
        assert_eq!(
            fixture.good("read_file", json!({"path": "\\xFF"})).await,
            "1"
        );
    }

    #[test]
    fn fs22_large_directories_are_capped_and_counted() {
        let fixture = Fixture::new();
        for index in 0..9 {
            fixture.write(format!("d/{index}"), "");
        }
        let listed = list(&fixture.scope(), "d", 3, &CancellationToken::new()).unwrap();
        let note = "[the first 3 of 9 entries; use glob with a pattern to see others]";
        assert_eq!(listed, text(format!("0 0\n1 0\n2 0\n{note}")));
    }

    #[tokio::test]
    async fn refusals_say_what_to_do() {
        let fixture = Fixture::new();
        fixture.write("f", "");
        assert!(
            fixture
                .bad("list_dir", json!({"path": "f"}))
                .await
                .contains("read_file")
        );
        assert!(
            fixture
                .bad("list_dir", json!({"path": "g"}))
                .await
                .contains("does not exist")
        );
        assert!(
            fixture
                .bad("list_dir", json!({"path": ".."}))
                .await
                .contains("outside")
        );
    }
}
