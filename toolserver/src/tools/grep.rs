//! `grep`: searches the content of files by a regular expression.
//!
//! One thread walks, a few search; the result is in the order of paths whoever is faster, and its totals are exact
//! although only the first lines are kept.

use std::{
    ffi::OsString,
    io::{self, Read},
    num::NonZeroUsize,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{
    hits::{Collection, FileHits, HitSink},
    pattern::PathPattern,
    shared::{blocking, check, count, failed, file_error, invalid, text},
    walk::{LeftOut, shown, walk},
};
use crate::{
    output::ToolOutput,
    scope::{Directory, EntryKind, ScopedFile, ScopedFs},
    tool,
    tool::{ToolError, ToolExecutionContext},
};

const LIMIT_DEFAULT: usize = 2_000;
const LIMIT_MAX: usize = 100_000;
const CONTEXT_MAX: usize = 50;
const PATTERN_MAX_BYTES: usize = 64 * 1024;
/// Small, since the time to search a byte may grow with it.
const PROGRAM_MAX_BYTES: usize = 4 * 1024 * 1024;
const CACHE_MAX_BYTES: usize = 32 * 1024 * 1024;
/// A line longer than this is not searched.
const LINE_MAX_BYTES: usize = 64 * 1024 * 1024;
const THREADS_MAX: usize = 4;
/// Files waiting to be searched; each may hold a directory open.
const WAITING_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Grep {
    scope: Arc<ScopedFs>,
}

// Described by the tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrepArgs {
    /// Regular expression (Rust syntax), matched within lines
    pattern: String,
    /// File or directory to search
    #[serde(default = "super::shared::here")]
    path: String,
    /// Only files like this, e.g. *.rs
    glob: Option<String>,
    /// What to return
    #[serde(default)]
    output_mode: OutputMode,
    /// Ignore case
    #[serde(default)]
    case_insensitive: bool,
    /// Lines shown before and after each match
    #[serde(default)]
    context: usize,
    /// Lines returned at most, 2000 by default
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum OutputMode {
    #[default]
    Content,
    Files,
    Count,
}

impl Grep {
    pub(super) fn new(scope: Arc<ScopedFs>) -> Self {
        Self { scope }
    }

    /// Searches file contents. Returns matching lines as path:line:text, or with output_mode the paths (files) or the
    /// number of matching lines per file (count). Binary files and files ignored by .gitignore are left out.
    #[tool(read_only, closed_world)]
    pub(super) async fn grep(
        &self,
        #[arguments] args: GrepArgs,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        let scope = Arc::clone(&self.scope);
        blocking(&context, move |token| {
            let search = Search::new(&args, token)?;
            let left_out = match scope.metadata(&args.path) {
                Ok(metadata) if metadata.kind == EntryKind::Directory => search.tree(&scope)?,
                Ok(_) => search.one(&scope)?,
                Err(error) => return Err(file_error(&scope, &args.path, &error)),
            };
            check(token)?;
            Ok(search.report(&left_out))
        })
        .await
    }
}

/// A search under way, shared by its threads.
struct Search<'a> {
    args: &'a GrepArgs,
    token: &'a CancellationToken,
    matcher: RegexMatcher,
    pattern: Option<PathPattern>,
    limit: usize,
    collection: Mutex<Collection>,
}

/// A file to be searched.
struct Job {
    order: u64,
    directory: Arc<Directory>,
    name: OsString,
    path: PathBuf,
}

impl<'a> Search<'a> {
    fn new(args: &'a GrepArgs, token: &'a CancellationToken) -> Result<Self, ToolError> {
        if args.pattern.len() > PATTERN_MAX_BYTES {
            return Err(invalid(format!(
                "the pattern is longer than {PATTERN_MAX_BYTES} bytes"
            )));
        }
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(args.case_insensitive)
            .line_terminator(Some(b'\n'))
            .size_limit(PROGRAM_MAX_BYTES)
            .dfa_size_limit(CACHE_MAX_BYTES)
            .build(&args.pattern)
            .map_err(|error| invalid(format!("the pattern is wrong: {error}")))?;
        let limit = args.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
        Ok(Self {
            args,
            token,
            matcher,
            pattern: args.glob.as_deref().map(PathPattern::parse).transpose()?,
            limit,
            collection: Mutex::new(Collection::new(limit)),
        })
    }

    /// Searches a single file, whatever the ignore files say.
    fn one(&self, scope: &ScopedFs) -> Result<LeftOut, ToolError> {
        let file = scope.open_file(&self.args.path);
        let file = file.map_err(|error| failed(&error))?;
        self.file(&mut self.searcher(), file, 0, &self.args.path);
        Ok(LeftOut::default())
    }

    fn tree(&self, scope: &ScopedFs) -> Result<LeftOut, ToolError> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let (sender, receiver) = mpsc::sync_channel(WAITING_MAX);
        let receiver = Mutex::new(receiver);
        thread::scope(|scoped| {
            for _ in 0..threads.min(THREADS_MAX) {
                scoped.spawn(|| self.work(&receiver));
            }
            self.feed(scope, sender)
        })
    }

    /// Walks, and hands out the files. Dropping the sender at the end lets the searching threads end.
    fn feed(&self, scope: &ScopedFs, sender: SyncSender<Job>) -> Result<LeftOut, ToolError> {
        let mut order = 0;
        walk(scope, &self.args.path, self.token, |found| {
            let fits = self
                .pattern
                .as_ref()
                .is_none_or(|pattern| pattern.fits(found.path));
            if found.entry.kind != EntryKind::File || !fits {
                return Ok(());
            }
            order += 1;
            let job = Job {
                order,
                directory: Arc::clone(found.directory),
                name: found.entry.name.clone(),
                path: found.path.to_owned(),
            };
            sender.send(job).map_err(|_| ToolError::Cancelled)
        })
    }

    fn work(&self, jobs: &Mutex<Receiver<Job>>) {
        let mut searcher = self.searcher();
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            // The others are taken and dropped, so that the walk never waits.
            if self.token.is_cancelled() {
                continue;
            }
            match job.directory.open_file(&job.name) {
                Ok(file) => self.file(
                    &mut searcher,
                    file,
                    job.order,
                    &shown(&self.args.path, &job.path),
                ),
                Err(_) => self.collect(|collection| collection.unreadable += 1),
            }
        }
    }

    fn searcher(&self) -> Searcher {
        let context = match self.args.output_mode {
            OutputMode::Content => self.args.context.min(CONTEXT_MAX),
            OutputMode::Files | OutputMode::Count => 0,
        };
        SearcherBuilder::new()
            .line_number(self.args.output_mode == OutputMode::Content)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LINE_MAX_BYTES))
            .build()
    }

    fn file(&self, searcher: &mut Searcher, file: ScopedFile, order: u64, path: &str) {
        let mode = self.args.output_mode;
        let keep = if mode == OutputMode::Content {
            self.limit
        } else {
            0
        };
        let mut sink = HitSink::new(&self.matcher, keep, mode == OutputMode::Files);
        let reader = Cancellable {
            inner: file.into_file(),
            token: self.token,
        };
        let searched = searcher.search_reader(&self.matcher, reader, &mut sink);
        let FileHits {
            mut lines,
            matches,
            is_binary,
        } = sink.hits;
        match mode {
            // A break between groups of lines stands alone.
            OutputMode::Content => lines.iter_mut().for_each(|line| {
                *line = if line.is_empty() {
                    "--".to_owned()
                } else {
                    format!("{path}{line}")
                };
            }),
            OutputMode::Files => lines.push(path.to_owned()),
            OutputMode::Count => lines.push(format!("{path}:{matches}")),
        }
        self.collect(|collection| {
            if searched.is_err() {
                collection.unreadable += 1;
            } else if is_binary {
                collection.binary += 1;
            } else if matches > 0 {
                collection.add(order, lines, matches);
            }
        });
    }

    fn collect(&self, change: impl FnOnce(&mut Collection)) {
        // Every change is whole: a panic elsewhere leaves true numbers.
        change(
            &mut self
                .collection
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    fn report(self, left_out: &LeftOut) -> ToolOutput {
        let collection = self.collection.into_inner();
        let collection = collection.unwrap_or_else(PoisonError::into_inner);
        let mut note = left_out.note();
        if collection.binary > 0 {
            let files = count(collection.binary, "binary file", "binary files");
            note.push_str(&format!("; {files} left out"));
        }
        if collection.unreadable > 0 {
            let files = count(collection.unreadable, "file", "files");
            note.push_str(&format!("; {files} could not be searched"));
        }
        if collection.files == 0 {
            return ToolOutput::Inline(format!("[no match{note}]"));
        }
        let mut total = count(collection.files, "file", "files");
        if self.args.output_mode != OutputMode::Files {
            let lines = count(collection.matches, "matching line", "matching lines");
            total = format!("{lines} in {total}");
        }
        let (given, matches) = (collection.lines, collection.matches);
        let mut lines = collection.into_lines();
        let kept = lines.len();
        // Of one file only as many lines are collected as can be shown, so lines may be missing that never were given.
        let not_given = match self.args.output_mode {
            OutputMode::Content if self.args.context > 0 => kept == self.limit,
            OutputMode::Content => matches > kept as u64,
            OutputMode::Files | OutputMode::Count => false,
        };
        if not_given || given > kept as u64 {
            note.insert_str(
                0,
                &format!("; the first {kept} lines are shown, narrow the search or raise limit"),
            );
        }
        lines.push(format!("[{total}{note}]"));
        text(lines.join("\n"))
    }
}

/// A file that ends with an error when the call is cancelled, so that a huge one does not hold us up.
struct Cancellable<'a, R> {
    inner: R,
    token: &'a CancellationToken,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.token.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.inner.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::Fixture;

    fn fixture() -> Fixture {
        let fixture = Fixture::new();
        fixture
            .write("a.rs", "fn one() {}\nfn Two() {}\n")
            .write("d/b.rs", "x\ny\nfn three\nz\nw\nfn 4\n");
        fixture
            .write("d/c.txt", "fn in text\n")
            .write("bin", "fn\0fn")
            .write(".gitignore", "gone\n");
        fixture.write("gone", "fn").write(".git/x", "fn");
        fixture
    }

    #[tokio::test]
    async fn lines_files_and_counts_with_exact_totals() {
        let fixture = fixture();
        for (arguments, expected) in [
            (
                json!({}),
                "a.rs:1:fn one() {}\na.rs:2:fn Two() {}\nd/b.rs:3:fn three\nd/b.rs:6:fn 4\nd/c.txt:1:fn in text\n[5 matching lines in 3 files; 1 binary file left out]",
            ),
            (
                json!({"glob": "*.rs", "output_mode": "files"}),
                "a.rs\nd/b.rs\n[2 files]",
            ),
            (
                json!({"glob": "*.rs", "output_mode": "count"}),
                "a.rs:2\nd/b.rs:2\n[4 matching lines in 2 files]",
            ),
            (
                json!({"path": "d", "glob": "b.*", "context": 1}),
                "d/b.rs-2-y\nd/b.rs:3:fn three\nd/b.rs-4-z\nd/b.rs-5-w\nd/b.rs:6:fn 4\n[2 matching lines in 1 file]",
            ),
            (json!({"path": "a.rs", "pattern": "two"}), "[no match]"),
            (
                json!({"path": "a.rs", "pattern": "two", "case_insensitive": true}),
                "a.rs:2:fn Two() {}\n[1 matching line in 1 file]",
            ),
            (
                json!({"limit": 3}),
                "a.rs:1:fn one() {}\na.rs:2:fn Two() {}\nd/b.rs:3:fn three\n[5 matching lines in 3 files; the first 3 lines are shown, narrow the search or raise limit; 1 binary file left out]",
            ),
        ] {
            let mut arguments = arguments;
            if arguments["pattern"] == Value::Null {
                arguments["pattern"] = "fn".into();
            }
            assert_eq!(
                fixture.good("grep", arguments.clone()).await,
                expected,
                "{arguments}"
            );
        }
    }

    #[tokio::test]
    async fn fs23_patterns_cannot_hold_us_up() {
        let fixture = fixture();
        fixture.write("long", "a".repeat(1_000_000));
        let found = fixture
            .good(
                "grep",
                json!({"pattern": "(a+)+$", "path": "long", "output_mode": "count"}),
            )
            .await;
        assert_eq!(found, "long:1\n[1 matching line in 1 file]");
        for pattern in [
            "(".to_owned(),
            "x".repeat(10_000_000),
            "(?:a{1000}){1000}".to_owned(),
        ] {
            let refusal = fixture.bad("grep", json!({"pattern": pattern})).await;
            assert!(
                refusal.len() < 1000 && refusal.contains("pattern is"),
                "{refusal:.200}"
            );
        }
    }

    #[tokio::test]
    async fn fs04_fs16_links_are_not_followed_and_huge_files_do_not_hurt() {
        let fixture = Fixture::new();
        fixture.link("/etc/passwd", "out");
        fixture.sparse("sparse", 5 << 30);
        let found = fixture.good("grep", json!({"pattern": "root"})).await;
        assert_eq!(found, "[no match; 1 binary file left out]");
        let refusal = fixture
            .bad("grep", json!({"pattern": "root", "path": "out"}))
            .await;
        assert!(refusal.contains("outside"), "{refusal}");
    }
}
