//! A walk over a tree, in the order of names, leaving out what `.gitignore` and `.ignore` name, and `.git` itself.
//!
//! It goes by handles only. It is bounded in depth and time; what was left out for that is told, not hidden.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use tokio_util::sync::CancellationToken;

use super::shared::{check, file_error};
use crate::{
    scope::{Directory, Entry, EntryKind, ScopeError, ScopedFs, escape_name},
    tool::ToolError,
};

/// Each level holds a handle.
const DEPTH_MAX: usize = 128;
const TIME_MAX: Duration = Duration::from_secs(25);
const IGNORE_FILE_MAX_BYTES: u64 = 1024 * 1024;
/// The later ones decide over the earlier.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// A file or link that was come across.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) directory: &'a Arc<Directory>,
    pub(super) entry: &'a Entry,
    /// Its path below the start of the walk.
    pub(super) path: &'a Path,
}

/// What a walk left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut {
    /// Directories that could not be read.
    pub(super) unreadable: u64,
    /// Directories below the deepest level.
    pub(super) too_deep: u64,
    /// The walk took too long and was ended.
    pub(super) out_of_time: bool,
}

impl LeftOut {
    /// Says what was left out, for the end of a result; empty if nothing was.
    pub(super) fn note(&self) -> String {
        let mut note = String::new();
        if self.out_of_time {
            let seconds = TIME_MAX.as_secs();
            note.push_str(&format!(
                "; incomplete: stopped after {seconds} s, search a smaller path"
            ));
        }
        if self.too_deep > 0 {
            let deep = self.too_deep;
            note.push_str(&format!(
                "; {deep} directories deeper than {DEPTH_MAX} levels left out"
            ));
        }
        if self.unreadable > 0 {
            note.push_str(&format!(
                "; {} directories could not be read",
                self.unreadable
            ));
        }
        note
    }
}

/// A directory on the way, and what of it is still to visit.
struct Level {
    directory: Arc<Directory>,
    ignored: Gitignore,
    entries: std::vec::IntoIter<Entry>,
    path_length: usize,
}

/// Visits every file and link below `start`.
///
/// # Errors
/// Why the start cannot be opened, [`ToolError::Cancelled`], and what `visit` returns.
pub(super) fn walk(
    scope: &ScopedFs,
    start: &str,
    token: &CancellationToken,
    mut visit: impl FnMut(Found<'_>) -> Result<(), ToolError>,
) -> Result<LeftOut, ToolError> {
    let began = Instant::now();
    let mut left_out = LeftOut::default();
    let mut path = PathBuf::new();
    let above = rules_above(scope, start);
    let opened = scope.directory(start);
    let opened = opened.and_then(|directory| Level::open(directory, &path));
    let mut levels = vec![opened.map_err(|error| file_error(scope, start, &error))?];
    while let Some(level) = levels.last_mut() {
        check(token)?;
        if began.elapsed() > TIME_MAX {
            left_out.out_of_time = true;
            break;
        }
        truncate(&mut path, level.path_length);
        let Some(entry) = level.entries.next() else {
            levels.pop();
            continue;
        };
        path.push(&entry.name);
        let is_directory = entry.kind == EntryKind::Directory;
        if entry.name == ".git" || is_ignored(&above, &levels, &path, is_directory) {
            continue;
        }
        let Some(level) = levels.last() else { break };
        match entry.kind {
            EntryKind::File | EntryKind::Link => visit(Found {
                directory: &level.directory,
                entry: &entry,
                path: &path,
            })?,
            EntryKind::Other => {}
            EntryKind::Directory if levels.len() >= DEPTH_MAX => left_out.too_deep += 1,
            EntryKind::Directory => {
                let opened = level.directory.open_directory(&entry.name);
                match opened.and_then(|directory| Level::open(directory, &path)) {
                    Ok(level) => levels.push(level),
                    Err(_) => left_out.unreadable += 1,
                }
            }
        }
    }
    Ok(left_out)
}

impl Level {
    fn open(directory: Directory, path: &Path) -> Result<Self, ScopeError> {
        let mut entries = directory.entries()?.collect::<Result<Vec<Entry>, _>>()?;
        entries.sort_unstable();
        let has = |name: &str| {
            entries
                .binary_search_by(|entry| entry.name.as_os_str().cmp(OsStr::new(name)))
                .is_ok()
        };
        let ignored = rules(&directory, path, has);
        Ok(Self {
            directory: Arc::new(directory),
            ignored,
            entries: entries.into_iter(),
            path_length: path.as_os_str().len(),
        })
    }
}

/// Goes back to a directory above. The buffer is kept: a walk has many files.
fn truncate(path: &mut PathBuf, length: usize) {
    while path.as_os_str().len() > length {
        path.pop();
    }
}

/// Asks the rules from the nearest directory outwards; the first that says anything decides.
fn is_ignored(above: &[RulesAbove], levels: &[Level], path: &Path, is_directory: bool) -> bool {
    let near = levels.iter().rev().map(|level| &level.ignored);
    for rules in near.filter(|rules| !rules.is_empty()) {
        match rules.matched(path, is_directory) {
            Match::None => {}
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
        }
    }
    for RulesAbove { rules, between } in above {
        match rules.matched(between.join(path), is_directory) {
            Match::None => {}
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
        }
    }
    false
}

/// The rules of a directory above the start of a walk.
#[derive(Debug)]
struct RulesAbove {
    rules: Gitignore,
    /// The start as seen from there.
    between: PathBuf,
}

/// Reads the rules of the directories of the scope above `start`, the nearest first.
fn rules_above(scope: &ScopedFs, start: &str) -> Vec<RulesAbove> {
    let start = Path::new(start);
    let mut above = Vec::new();
    if start.components().any(|part| part == Component::ParentDir) {
        // Where this leads cannot be told from the text; the rules below the start still hold.
        return above;
    }
    for parent in start.ancestors().skip(1).take(DEPTH_MAX) {
        let Ok(between) = start.strip_prefix(parent) else {
            break;
        };
        let shown = match parent.to_str() {
            Some("") => ".",
            Some(parent) => parent,
            None => break,
        };
        let Ok(directory) = scope.directory(shown) else {
            break;
        };
        let rules = rules(&directory, Path::new(""), |_| true);
        if !rules.is_empty() {
            let between = between.to_owned();
            above.push(RulesAbove { rules, between });
        }
    }
    above
}

/// Reads the rules in a directory. `root` is the directory as the paths to be asked about begin.
fn rules(directory: &Directory, root: &Path, has: impl Fn(&str) -> bool) -> Gitignore {
    let mut builder = GitignoreBuilder::new(root);
    let mut any = false;
    for name in IGNORE_FILES.into_iter().filter(|name| has(name)) {
        let Ok(file) = directory.open_file(OsStr::new(name)) else {
            continue;
        };
        let Ok(content) = file.read_all(IGNORE_FILE_MAX_BYTES) else {
            continue;
        };
        for line in String::from_utf8_lossy(&content.bytes).lines() {
            // A wrong line is no rule; the others still are.
            any |= builder.add_line(None, line).is_ok();
        }
    }
    match builder.build() {
        Ok(rules) if any => rules,
        _ => Gitignore::empty(),
    }
}

/// Writes the path of something found, as it can be given to another tool.
pub(super) fn shown(start: &str, path: &Path) -> String {
    let path = escape_name(path.as_os_str());
    match start.trim_end_matches('/') {
        "." | "" if !start.starts_with('/') => path,
        start => format!("{}/{path}", start.trim_start_matches("./")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_be_given_on() {
        for (start, expected) in [
            (".", "a"),
            ("./", "a"),
            ("d/", "d/a"),
            ("./d", "d/a"),
            ("/", "/a"),
            ("/w", "/w/a"),
        ] {
            assert_eq!(shown(start, Path::new("a")), expected);
        }
    }
}
