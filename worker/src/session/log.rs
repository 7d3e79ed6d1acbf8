//! Appending records to a session's file.
//!
//! One writer per session, held by a lock on the file. A record is written by one call and either whole or, after a
//! crash, a torn last line that the next opening cuts off. Records that must survive a power cut are synced.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use protocol::log::{LOG_SCHEMA, LogLine, LogRecord};

use crate::clock::now_ms;

/// Why a session's log cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Another process writes it.
    #[error("session {id} is in use by another process")]
    Busy {
        /// The session.
        id: String,
    },
    /// There is no such session.
    #[error("there is no session {id:?}; `worker sessions ls` lists them")]
    Unknown {
        /// The session, as it was asked for.
        id: String,
    },
    /// The name cannot be that of a session.
    #[error("{id:?} is no session id")]
    InvalidId {
        /// The name, at most 80 characters.
        id: String,
    },
    /// It was written by a newer program.
    #[error("session {id} has log version {version}, written by a newer worker")]
    Newer {
        /// The session.
        id: String,
        /// Its version.
        version: u32,
    },
    /// The file could not be read or written.
    #[error("the session log {path} failed")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A session's file, open for appending.
#[derive(Debug)]
pub struct SessionLog {
    file: File,
    path: PathBuf,
    id: String,
    next: u64,
}

impl SessionLog {
    /// Takes over a file that is open for reading and writing. `id` is the session's.
    ///
    /// Returns the lines that can be read and what is wrong with the others. A torn last line is cut off.
    pub(super) fn open(
        file: File,
        path: &Path,
        id: &str,
    ) -> Result<(Self, Vec<LogLine>, Vec<String>), SessionError> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SessionError::Busy { id: id.to_owned() }),
            Err(TryLockError::Error(source)) => {
                return Err(SessionError::Io {
                    path: path.to_owned(),
                    source,
                });
            }
        }
        let mut log = Self {
            file,
            path: path.to_owned(),
            id: id.to_owned(),
            next: 0,
        };
        let (lines, damage) = log.read()?;
        log.next = lines.last().map_or(0, |line| line.seq + 1);
        Ok((log, lines, damage))
    }

    /// Makes a log of any open file, to see what happens when it fails.
    #[cfg(test)]
    pub(crate) fn for_tests(file: File) -> Self {
        Self {
            file,
            path: PathBuf::from("test"),
            id: "test".to_owned(),
            next: 0,
        }
    }

    /// Returns the session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record. It survives a crash of this process, and a power cut once a synced record follows.
    ///
    /// # Errors
    /// [`SessionError::Io`]; the log ends with its last whole record then.
    pub fn append(&mut self, record: LogRecord) -> Result<(), SessionError> {
        let line = LogLine {
            seq: self.next,
            time_ms: now_ms(),
            record,
        };
        let mut text =
            serde_json::to_vec(&line).expect("records have string keys and plain values");
        text.push(b'\n');
        let end = self
            .file
            .stream_position()
            .map_err(|source| self.error(source))?;
        if let Err(source) = self.file.write_all(&text) {
            // Half a record would fuse with the next one.
            let _ = self.file.set_len(end);
            let _ = self.file.seek(io::SeekFrom::Start(end));
            return Err(self.error(source));
        }
        self.next += 1;
        Ok(())
    }

    /// Appends a record that survives a power cut, with everything before it.
    ///
    /// # Errors
    /// [`SessionError::Io`].
    pub fn append_synced(&mut self, record: LogRecord) -> Result<(), SessionError> {
        self.append(record)?;
        self.file.sync_data().map_err(|source| self.error(source))
    }

    /// Reads all lines, cuts off a torn end, and leaves the file at the place where the next line goes. A log of a newer
    /// program is not touched.
    fn read(&mut self) -> Result<(Vec<LogLine>, Vec<String>), SessionError> {
        let mut bytes = Vec::new();
        self.file
            .read_to_end(&mut bytes)
            .map_err(|source| self.error(source))?;
        let (lines, damage, end) = parse(&bytes);
        let newer = lines.iter().find_map(|line| match &line.record {
            LogRecord::Session { schema, .. } => {
                Some(*schema).filter(|schema| *schema > LOG_SCHEMA)
            }
            _ => None,
        });
        if let Some(version) = newer {
            return Err(SessionError::Newer {
                id: self.id.clone(),
                version,
            });
        }
        if end < bytes.len() {
            self.file
                .set_len(end as u64)
                .map_err(|source| self.error(source))?;
        }
        self.file
            .seek(io::SeekFrom::Start(end as u64))
            .map_err(|source| self.error(source))?;
        Ok((lines, damage))
    }

    fn error(&self, source: io::Error) -> SessionError {
        SessionError::Io {
            path: self.path.clone(),
            source,
        }
    }
}

/// Reads the lines of a log. Returns them, what is wrong with the others, and where the last whole line ends.
///
/// Only what lies behind the last line end is torn: half a line, or zero bytes that a file system left after a crash. A
/// whole line that cannot be read is damage, or a newer program's; it is reported, skipped and kept in the file.
fn parse(bytes: &[u8]) -> (Vec<LogLine>, Vec<String>, usize) {
    let mut lines = Vec::new();
    let mut damage = Vec::new();
    let mut end = 0;
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let Some(text) = line.strip_suffix(b"\n") else {
            break;
        };
        end += line.len();
        match serde_json::from_slice::<LogLine>(text) {
            Ok(line) => lines.push(line),
            Err(error) => damage.push(format!(
                "line {number} of the log cannot be read and is left out: {error}"
            )),
        }
    }
    (lines, damage, end)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use protocol::AlertLevel;

    use super::*;

    fn alert(message: &str) -> LogRecord {
        LogRecord::Alert {
            level: AlertLevel::Info,
            message: message.into(),
        }
    }

    fn open(path: &Path) -> Result<(SessionLog, Vec<LogLine>, Vec<String>), SessionError> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap();
        SessionLog::open(file, path, "s")
    }

    fn messages(lines: &[LogLine]) -> Vec<String> {
        let messages = lines.iter().map(|line| match &line.record {
            LogRecord::Alert { message, .. } => message.clone(),
            other => panic!("{other:?}"),
        });
        messages.collect()
    }

    #[test]
    fn wk04_a_log_cut_anywhere_opens_with_every_whole_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let (mut log, _, _) = open(&path).unwrap();
        log.append(alert("one")).unwrap();
        log.append_synced(alert("zwö 日本")).unwrap();
        drop(log);
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (mut log, lines, damage) = open(&path).unwrap();
            let kept = usize::from(length >= first) + usize::from(length == whole.len());
            assert_eq!((lines.len(), damage.len()), (kept, 0), "cut at {length}");
            log.append(alert("three")).unwrap();
            drop(log);
            let (_, lines, damage) = open(&path).unwrap();
            assert_eq!(messages(&lines).last().unwrap(), "three", "cut at {length}");
            assert_eq!(
                (lines.len(), damage.len()),
                (kept + 1, 0),
                "cut at {length}"
            );
        }
    }

    #[test]
    fn wk04_damage_in_the_middle_is_reported_and_the_rest_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let (mut log, _, _) = open(&path).unwrap();
        for message in ["one", "two", "three"] {
            log.append(alert(message)).unwrap();
        }
        drop(log);
        let text = fs::read_to_string(&path).unwrap();
        for garbage in ["garbage", "\0\0\0\0", "{\"seq\": 1"] {
            let damaged: Vec<&str> = text
                .lines()
                .enumerate()
                .map(|(n, line)| if n == 1 { garbage } else { line })
                .collect();
            fs::write(&path, damaged.join("\n") + "\n\0\0\0").unwrap();
            let (_, lines, damage) = open(&path).unwrap();
            assert_eq!(messages(&lines), ["one", "three"]);
            assert!(
                damage[0].starts_with("line 2 of the log cannot be read"),
                "{damage:?}"
            );
            assert_eq!(damage.len(), 1);
        }
    }

    #[test]
    fn wk04_whole_lines_at_the_end_are_never_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let (mut log, _, _) = open(&path).unwrap();
        log.append(alert("one")).unwrap();
        drop(log);
        let damaged = format!(
            "{}garbage\n{{\"seq\":7,\"time_ms\":0,\"record\":\"of_the_future\"}}\n",
            fs::read_to_string(&path).unwrap()
        );
        fs::write(&path, &damaged).unwrap();
        let (mut log, lines, damage) = open(&path).unwrap();
        assert_eq!((lines.len(), damage.len()), (1, 2));
        log.append(alert("two")).unwrap();
        drop(log);
        assert!(fs::read_to_string(&path).unwrap().starts_with(&damaged));
        assert_eq!(messages(&open(&path).unwrap().1), ["one", "two"]);
    }

    #[test]
    fn wk07_a_newer_log_is_refused_and_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let newer = "{\"seq\":0,\"time_ms\":0,\"record\":\"session\",\"schema\":99,\"id\":\"s\",\"model\":\"m\"}\n{\"torn";
        fs::write(&path, newer).unwrap();
        assert!(matches!(
            open(&path),
            Err(SessionError::Newer { version: 99, .. })
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), newer);
    }

    #[test]
    fn wk06_a_session_has_one_writer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let first = open(&path).unwrap();
        assert!(matches!(open(&path), Err(SessionError::Busy { .. })));
        drop(first);
        open(&path).unwrap();
    }
}
