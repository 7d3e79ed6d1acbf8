//! Where sessions are kept: one file each, named by the session's id.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use protocol::log::{LOG_SCHEMA, LogRecord};

use super::{Recovered, SessionError, SessionLog, recover};

/// A directory of sessions.
#[derive(Clone, Debug)]
pub struct SessionStore {
    directory: PathBuf,
}

/// What a list says about a session.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SessionInfo {
    /// The id.
    pub id: String,
    /// How many turns it has had.
    pub turns: u64,
    /// The first prompt.
    pub prompt: String,
    /// The size of its log in bytes.
    pub bytes: u64,
}

/// Returns where sessions are kept when nobody says otherwise: `worker/sessions` in the user's state directory.
#[must_use]
pub fn default_session_directory() -> Option<PathBuf> {
    Some(toolserver::user_state_directory()?.join("worker/sessions"))
}

impl SessionStore {
    /// Opens a directory of sessions and creates it where it is missing, for its owner alone.
    ///
    /// # Errors
    /// [`SessionError::Io`].
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, SessionError> {
        let directory = directory.into();
        // One that was there keeps its mode; the logs in it are private either way.
        let created = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory);
        created.map_err(|source| SessionError::Io {
            path: directory.clone(),
            source,
        })?;
        Ok(Self { directory })
    }

    /// Starts a new session.
    ///
    /// # Errors
    /// [`SessionError::Io`].
    pub fn create(&self, model: &str) -> Result<SessionLog, SessionError> {
        let id = uuid::Uuid::now_v7().to_string();
        let path = self.path(&id);
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let file = file.map_err(|source| SessionError::Io {
            path: path.clone(),
            source,
        })?;
        let (mut log, _, _) = SessionLog::open(file, &path, &id)?;
        log.append_synced(LogRecord::Session {
            schema: LOG_SCHEMA,
            id: id.clone(),
            model: model.to_owned(),
        })?;
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(|source| SessionError::Io {
            path: self.directory.clone(),
            source,
        })?;
        Ok(log)
    }

    /// Opens a session to go on with it.
    ///
    /// # Errors
    /// [`SessionError`]: the id is none, there is no such session, it is in use, too new or unreadable.
    pub fn resume(&self, id: &str) -> Result<(SessionLog, Recovered), SessionError> {
        let path = self.checked_path(id)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => SessionError::Unknown { id: id.to_owned() },
                _ => SessionError::Io {
                    path: path.clone(),
                    source,
                },
            })?;
        let (log, lines, damage) = SessionLog::open(file, &path, id)?;
        let mut recovered = recover(lines.into_iter().map(|line| line.record));
        recovered.damage.splice(0..0, damage);
        Ok((log, recovered))
    }

    /// Returns the file of a session that exists.
    ///
    /// # Errors
    /// [`SessionError::InvalidId`] or [`SessionError::Unknown`].
    pub fn file(&self, id: &str) -> Result<PathBuf, SessionError> {
        let path = self.checked_path(id)?;
        if path.is_file() {
            Ok(path)
        } else {
            Err(SessionError::Unknown { id: id.to_owned() })
        }
    }

    /// Lists the sessions, oldest first.
    ///
    /// # Errors
    /// [`SessionError::Io`].
    pub fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        let read = |source| SessionError::Io {
            path: self.directory.clone(),
            source,
        };
        let mut ids: Vec<String> = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            ids.extend(id.filter(|id| is_id(id)).map(str::to_owned));
        }
        ids.sort_unstable();
        Ok(ids.iter().map(|id| self.info(id)).collect())
    }

    /// Looks at a session without taking it over. What cannot be read counts as absent.
    fn info(&self, id: &str) -> SessionInfo {
        let text = fs::read_to_string(self.path(id)).unwrap_or_default();
        let records = text
            .lines()
            .filter_map(|line| serde_json::from_str::<protocol::log::LogLine>(line).ok());
        let recovered = recover(records.map(|line| line.record));
        let prompt = recovered
            .history
            .items()
            .iter()
            .find_map(|item| match item {
                protocol::Item::Message(message) => Some(message.text()),
                _ => None,
            });
        SessionInfo {
            id: id.to_owned(),
            turns: recovered.turns,
            prompt: prompt.unwrap_or_default(),
            bytes: text.len() as u64,
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.jsonl"))
    }

    fn checked_path(&self, id: &str) -> Result<PathBuf, SessionError> {
        if is_id(id) {
            Ok(self.path(id))
        } else {
            Err(SessionError::InvalidId {
                id: id.chars().take(80).collect(),
            })
        }
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Ids are UUIDs as this store writes them; nothing else ever becomes part of a path.
fn is_id(id: &str) -> bool {
    id.len() == 36 && uuid::Uuid::try_parse(id).is_ok_and(|parsed| parsed.to_string() == id)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn wk16_only_ids_become_paths() {
        let directory = tempfile::tempdir().unwrap();
        let store = SessionStore::open(directory.path().join("a/b")).unwrap();
        let long = "x".repeat(300);
        for id in [
            "",
            "../x",
            "a/b",
            "x",
            &long,
            "019AA5D2-7C00-7ABC-8DEF-0123456789AB",
        ] {
            assert!(
                matches!(store.resume(id), Err(SessionError::InvalidId { .. })),
                "{id}"
            );
        }
        let unknown = "019aa5d2-7c00-7abc-8def-0123456789ab";
        assert!(matches!(
            store.resume(unknown),
            Err(SessionError::Unknown { .. })
        ));
        let log = store.create("m").unwrap();
        let id = log.id().to_owned();
        assert!(matches!(store.resume(&id), Err(SessionError::Busy { .. })));
        drop(log);
        store.resume(&id).unwrap();
        assert_eq!(store.list().unwrap().len(), 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(store.directory()), mode(&store.file(&id).unwrap())),
            (0o700, 0o600)
        );
    }
}
