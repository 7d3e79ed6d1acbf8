//! What to say when there is no such file: which names are near.

use crate::{
    rank_by_likeness,
    scope::{ScopedFs, escape_name},
    tool::ToolError,
};

/// How many names are offered.
const NAMES_MAX: usize = 3;
/// How many names of a directory are looked at.
const LOOKED_AT_MAX: usize = 10_000;
/// How alike a name must be to be offered, from 0 to 1.
const LIKENESS_MIN: f64 = 0.7;

/// Makes the error for a path with nothing at it.
pub(super) fn missing(scope: &ScopedFs, path: &str) -> ToolError {
    let near = nearest(scope, path).unwrap_or_default();
    let hint = if near.is_empty() {
        "list_dir and glob show what is there".to_owned()
    } else {
        format!("in the same directory there is {}", near.join(", "))
    };
    ToolError::ExecutionFailed(format!("{path:?} does not exist; {hint}"))
}

fn nearest(scope: &ScopedFs, path: &str) -> Option<Vec<String>> {
    let (directory, wanted) = scope.parent_directory(path).ok()?;
    let entries = directory.entries().ok()?.take(LOOKED_AT_MAX).flatten();
    let names = entries.map(|entry| escape_name(&entry.name));
    let near = rank_by_likeness(&escape_name(&wanted), names).into_iter();
    let near = near
        .take_while(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .take(NAMES_MAX);
    Some(near.map(|(_, name)| format!("{name:?}")).collect())
}
