//! Making items of a prompt: the user's text, then one item for every file it refers to.
//!
//! A reference that cannot be resolved stays in the text as a placeholder the model sees, and the person is told why.
//! Nothing is dropped in silence.

use std::sync::Arc;

use protocol::{AlertLevel, Item, Reference, Segment};
use toolserver::{ScopeError, ScopedFs, TOOL_OUTPUT_MAX_BYTES};

/// How much all files of one prompt may have together, in bytes.
const FILES_MAX_BYTES: usize = 256 * 1024;

/// A prompt, ready to be submitted.
#[derive(Debug)]
pub(crate) struct Submission {
    /// The user's text as the model reads it.
    pub(crate) text: String,
    /// The user's item, then the file items in the order of the references.
    pub(crate) items: Vec<Item>,
    /// What the person should know about the references.
    pub(crate) alerts: Vec<(AlertLevel, String)>,
}

/// Why a file reference was not resolved.
#[derive(Debug, thiserror::Error)]
enum ResolveError {
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("it is binary, not UTF-8 text")]
    Binary,
    #[error(
        "the files of one prompt may have {FILES_MAX_BYTES} bytes together; let the model read this one itself"
    )]
    TooMuch,
    #[error("this worker has no directory to read files from")]
    NoScope,
    #[error("reading it failed")]
    Task(#[from] tokio::task::JoinError),
}

/// A file that was read for the model.
struct Attached {
    text: String,
    /// What the person should know about it.
    note: Option<String>,
}

impl Submission {
    /// Resolves the references of a prompt.
    pub(crate) async fn resolve(segments: Vec<Segment>, scope: Option<Arc<ScopedFs>>) -> Self {
        let mut submission = Self {
            text: String::new(),
            items: Vec::new(),
            alerts: Vec::new(),
        };
        let mut files = Vec::new();
        for segment in segments {
            let reference = match &segment {
                Segment::FileRef { path } => {
                    submission.attach(path, scope.clone(), &mut files).await
                }
                _ => Reference::AsTyped,
            };
            segment.flatten_into(&mut submission.text, reference);
        }
        submission
            .items
            .push(Item::user_message(submission.text.clone()));
        submission
            .items
            .extend(files.into_iter().map(Item::system_message));
        submission
    }

    async fn attach(
        &mut self,
        path: &str,
        scope: Option<Arc<ScopedFs>>,
        files: &mut Vec<String>,
    ) -> Reference {
        let attached: usize = files.iter().map(String::len).sum();
        let read = read(path.to_owned(), scope).await;
        let read = read.and_then(|file| match attached + file.text.len() {
            0..=FILES_MAX_BYTES => Ok(file),
            _ => Err(ResolveError::TooMuch),
        });
        match read {
            Ok(Attached { text, note }) => {
                files.push(text);
                self.alerts
                    .extend(note.map(|note| (AlertLevel::Info, note)));
                Reference::AsTyped
            }
            Err(ResolveError::Scope(error))
                if error.is_not_found() && !path.contains(['/', '.']) =>
            {
                // `@property` is more often a word of some language than a file that is missing.
                self.alerts.push((
                    AlertLevel::Info,
                    format!("@{path} is taken as text: there is no such file"),
                ));
                Reference::AsTyped
            }
            Err(error) => {
                let why = crate::error_chain(&error);
                self.alerts
                    .push((AlertLevel::Warn, format!("@{path} is not attached: {why}")));
                Reference::Unresolved
            }
        }
    }
}

async fn read(path: String, scope: Option<Arc<ScopedFs>>) -> Result<Attached, ResolveError> {
    let scope = scope.ok_or(ResolveError::NoScope)?;
    let limit = TOOL_OUTPUT_MAX_BYTES as u64;
    // One byte more than is shown tells a file of exactly the limit from a longer one.
    let reading = tokio::task::spawn_blocking({
        let path = path.clone();
        move || scope.read_prefix(&path, limit + 1)
    });
    let file = reading.await??;
    let text = render(&path, &file.bytes, file.total)?;
    let note = (file.bytes.len() > TOOL_OUTPUT_MAX_BYTES).then(|| {
        format!(
            "@{path} is attached cut: the first {limit} of {} bytes",
            file.total
        )
    });
    Ok(Attached { text, note })
}

/// Writes a file as the model reads it. `bytes` are its beginning, `total` is its size.
fn render(path: &str, bytes: &[u8], total: u64) -> Result<String, ResolveError> {
    let shown = &bytes[..bytes.len().min(TOOL_OUTPUT_MAX_BYTES)];
    let is_cut = bytes.len() > TOOL_OUTPUT_MAX_BYTES;
    let text = match std::str::from_utf8(shown) {
        Ok(text) => text,
        // A cut may fall into a character; that character is left out.
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&shown[..error.valid_up_to()]).map_err(|_| ResolveError::Binary)?
        }
        Err(_) => return Err(ResolveError::Binary),
    };
    if text.contains('\0') {
        return Err(ResolveError::Binary);
    }
    let mut body = format!("[File: {path}]\n{text}");
    if is_cut {
        let total = total.max(bytes.len() as u64);
        let separator = if body.ends_with('\n') { "" } else { "\n" };
        body.push_str(&format!(
            "{separator}[...truncated, {total} bytes total — use read_file for the rest]"
        ));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use protocol::parse_prompt;
    use toolserver::Access;

    use super::*;

    async fn submit(root: &std::path::Path, prompt: &str) -> Submission {
        let scope = ScopedFs::new([(root.to_owned(), Access::ReadOnly)]).unwrap();
        Submission::resolve(parse_prompt(prompt), Some(Arc::new(scope))).await
    }

    fn texts(submission: &Submission) -> Vec<String> {
        let texts = submission.items.iter().map(|item| match item {
            Item::Message(message) => message.text(),
            other => panic!("{other:?}"),
        });
        texts.collect()
    }

    #[tokio::test]
    async fn files_follow_the_prompt_in_order() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("b.txt"), "bee\n").unwrap();
        fs::write(root.path().join("a b.txt"), "").unwrap();
        let submission = submit(root.path(), "see @b.txt, @\"a b.txt\" and @b.txt!").await;
        assert_eq!(
            texts(&submission),
            [
                "see @b.txt, @\"a b.txt\" and @b.txt!",
                "[File: b.txt]\nbee\n",
                "[File: a b.txt]\n",
                "[File: b.txt]\nbee\n"
            ]
        );
        assert!(submission.alerts.is_empty());
    }

    /// Faults FR01 and FR03.
    #[tokio::test]
    async fn fr01_fr03_what_cannot_be_attached_is_told_and_stays_as_a_placeholder() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "canary").unwrap();
        let root = tempfile::tempdir().unwrap();
        symlink(outside.path().join("secret"), root.path().join("link")).unwrap();
        fs::create_dir(root.path().join("dir")).unwrap();
        fs::write(root.path().join("binary"), [0x7f, b'E', b'L', b'F', 0, 1]).unwrap();
        fs::write(root.path().join("latin1"), b"caf\xe9").unwrap();
        for path in [
            "../secret",
            "/etc/passwd",
            "link",
            "dir",
            "missing.txt",
            "binary",
            "latin1",
        ] {
            let submission = submit(root.path(), &format!("read @{path} now")).await;
            assert_eq!(
                texts(&submission),
                [format!("read [unresolved file ref: {path}] now")],
                "{path}"
            );
            let (level, alert) = &submission.alerts[0];
            assert_eq!(*level, AlertLevel::Warn);
            assert!(
                alert.starts_with(&format!("@{path} is not attached: "))
                    && !alert.contains("canary"),
                "{alert}"
            );
        }
    }

    #[tokio::test]
    async fn fr04_many_files_are_capped_together() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("f.txt"), "x".repeat(16_000)).unwrap();
        let submission = submit(root.path(), &"@f.txt ".repeat(1000)).await;
        assert_eq!(submission.items.len(), 1 + 16);
        assert_eq!(submission.alerts.len(), 1000 - 16);
    }

    #[tokio::test]
    async fn fr04_a_word_that_is_no_file_stays_a_word() {
        let root = tempfile::tempdir().unwrap();
        let prompt = "look at @property and @tokio::main, ask @alice";
        let submission = submit(root.path(), prompt).await;
        assert_eq!(texts(&submission), [prompt]);
        assert!(
            submission
                .alerts
                .iter()
                .all(|(level, _)| *level == AlertLevel::Info)
        );
        assert_eq!(submission.alerts.len(), 3);
    }

    /// Fault FR02.
    #[tokio::test]
    async fn fr02_long_files_are_cut_on_a_character_and_say_so() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("long");
        for (size, cut) in [(16_384, false), (16_385, true)] {
            fs::write(&file, "x".repeat(size)).unwrap();
            let text = texts(&submit(root.path(), "@long").await).pop().unwrap();
            let notice =
                format!("\n[...truncated, {size} bytes total — use read_file for the rest]");
            assert_eq!(text.ends_with(&notice), cut, "{size}");
            assert_eq!(text.matches('x').count(), 16_384, "{size}");
            let told = submit(root.path(), "@long").await.alerts;
            assert_eq!(told.len(), usize::from(cut), "{told:?}");
        }
        // The four bytes of the last character straddle the limit.
        fs::write(&file, format!("{}🙂tail", "x".repeat(16_382))).unwrap();
        let text = texts(&submit(root.path(), "@long").await).pop().unwrap();
        assert!(
            text.contains("xx\n[...truncated, 16390 bytes total"),
            "{}",
            &text[16_370..]
        );
    }
}
