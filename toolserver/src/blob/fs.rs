//! Blobs as files of one flat directory.
//!
//! ```text
//! {id}.txt | {id}.json   the content
//! {id}.meta.json         the record about it; a blob exists when this file does
//! {name}.name            a symbolic link whose target is the id; its creation claims the name for ever
//! .tmp-{id}…             being written
//! ```
//!
//! Content and record are synced before they get their names, and the directory after: an acknowledged blob survives
//! a power cut, an unacknowledged one is absent or whole. Everything happens through one open directory handle, never
//! through a path. Writers run in parallel: there is no lock, the file system's own exclusive creation decides.

// The store owns its directory; the scope rules for user paths do not apply to it.

use std::{
    fs::File,
    io::{self, Read, Write},
    ops::Range,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use protocol::{BlobHandle, BlobId, BlobName};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, fsync, mkdirat, openat, readlinkat, renameat,
    symlinkat, unlinkat,
};

use super::{BlobError, BlobFacts, BlobStore, StoreOptions, facts::FACTS_VERSION};
use crate::output::Content;

/// Largest record read, in bytes: that of a blob of more than 100 GB.
const FACTS_MAX_BYTES: u64 = 64 << 20;

/// Length of a first attempt at a short name, and of the longest one.
const NAME_LENGTHS: std::ops::RangeInclusive<usize> = 4..=12;

/// Blobs as files of one flat directory.
#[derive(Clone, Debug)]
pub struct FsBlobStore {
    directory: Arc<Directory>,
}

#[derive(Debug)]
struct Directory {
    handle: OwnedFd,
    path: PathBuf,
}

impl FsBlobStore {
    /// Opens a directory as a store; creates it, with its parents, when it is not there.
    ///
    /// A directory it creates is for its owner alone (0700), and so are its files (0600), whatever the umask says.
    ///
    /// # Errors
    /// [`BlobError::Open`] when it is no directory, belongs to somebody else, can be written by others, or cannot be
    /// created.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, BlobError> {
        let path = path.into();
        let handle = open_directory(&path).map_err(|source| BlobError::Open {
            path: path.display().to_string(),
            source,
        })?;
        Ok(Self {
            directory: Arc::new(Directory { handle, path }),
        })
    }

    /// Returns where the store is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    /// Runs file work where blocking is allowed.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Directory) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, BlobError> {
        let directory = Arc::clone(&self.directory);
        match tokio::task::spawn_blocking(move || work(&directory)).await {
            Ok(result) => result,
            Err(failure) => std::panic::resume_unwind(failure.into_panic()),
        }
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    create_private(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = openat(CWD, path, flags, Mode::empty())?;
    let stat = fstat(&handle)?;
    let refused = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return refused("it belongs to another user");
    }
    // A directory that was there keeps its mode: it may be one the user shares for a reason, or the project itself. The
    // files in it are private either way, but whoever may write to it could replace them.
    if stat.st_mode & 0o022 != 0 {
        return refused("other users may write to it");
    }
    Ok(handle)
}

/// Creates a directory and its missing parents, each for its owner alone.
fn create_private(path: &Path) -> io::Result<()> {
    let missing = |error: &rustix::io::Errno| *error == rustix::io::Errno::NOENT;
    let created = match mkdirat(CWD, path, Mode::RWXU) {
        Err(error) if missing(&error) => {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            create_private(parent.ok_or(error)?)?;
            // Once: a parent that is there and leads nowhere, a dangling link for example, stays an error.
            mkdirat(CWD, path, Mode::RWXU)
        }
        created => created,
    };
    match created {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[async_trait]
impl BlobStore for FsBlobStore {
    async fn store(
        &self,
        content: &Content,
        options: StoreOptions,
    ) -> Result<BlobFacts, BlobError> {
        let content = content.clone();
        let written = self.run(move |directory| {
            directory
                .store(&content, options)
                .map_err(|source| BlobError::Write { source })
        });
        written.await
    }

    async fn load(&self, id: BlobId) -> Result<Content, BlobError> {
        let load = move |directory: &Directory| {
            let facts = directory.facts(id)?;
            let bytes = directory.content(&facts, 0..facts.bytes)?;
            let text = String::from_utf8(bytes).map_err(|_| corrupt(id, "it is not UTF-8"))?;
            if facts.extension() == "txt" {
                return Ok(Content::Text(text));
            }
            let value =
                serde_json::from_str(&text).map_err(|error| corrupt(id, error.to_string()))?;
            Ok(Content::Structured(value))
        };
        self.run(load).await
    }

    async fn load_range(&self, id: BlobId, range: Range<u64>) -> Result<Vec<u8>, BlobError> {
        let load = move |directory: &Directory| {
            let facts = directory.facts(id)?;
            directory.content(&facts, range)
        };
        self.run(load).await
    }

    async fn facts(&self, id: BlobId) -> Result<BlobFacts, BlobError> {
        self.run(move |directory| directory.facts(id)).await
    }

    async fn find(&self, name: &BlobName) -> Result<BlobId, BlobError> {
        let name = name.clone();
        self.run(move |directory| directory.find(&name)).await
    }

    async fn list(&self) -> Result<Vec<BlobFacts>, BlobError> {
        self.run(Directory::list).await
    }
}

impl Directory {
    fn store(&self, content: &Content, options: StoreOptions) -> io::Result<BlobFacts> {
        let id = BlobId::from_uuid(uuid::Uuid::now_v7()).expect("a new UUID is of version 7");
        let serialised;
        let text = match content {
            Content::Text(text) => text,
            Content::Structured(value) => {
                serialised = value.to_string();
                &serialised
            }
        };
        let name = self.claim_name(id)?;
        let facts = BlobFacts::of(content, text, id, name.clone(), options);
        let record = serde_json::to_vec(&facts)?;
        let content_file = format!("{id}.{}", facts.extension());
        let written = self
            .write(&content_file, text.as_bytes())
            .and_then(|()| self.write(&facts_file(id), &record))
            .and_then(|()| Ok(fsync(&self.handle)?));
        if let Err(error) = written {
            // The record goes first: without it there is no blob. Nothing more can be done where this fails too.
            for file in [facts_file(id), content_file, name_file(&name)] {
                let _ = unlinkat(&self.handle, file, AtFlags::empty());
            }
            return Err(error);
        }
        Ok(facts)
    }

    /// Finds a free short name and claims it. Names grow when many are taken.
    fn claim_name(&self, id: BlobId) -> io::Result<BlobName> {
        let alphabet = BlobName::ALPHABET.as_bytes();
        for length in NAME_LENGTHS {
            for _ in 0..4 {
                let text: String = (0..length)
                    .map(|_| char::from(alphabet[fastrand::usize(..alphabet.len())]))
                    .collect();
                let name: BlobName = text.parse().expect("it is made of the alphabet");
                match symlinkat(id.to_string(), &self.handle, name_file(&name)) {
                    Ok(()) => return Ok(name),
                    Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(io::Error::other("no free short name was found"))
    }

    /// Writes a synced file under its final name, which must be free.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = format!(".tmp-{name}");
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(
            &self.handle,
            temporary.as_str(),
            flags,
            Mode::RUSR | Mode::WUSR,
        )?;
        let written = write_synced(handle, bytes).and_then(|()| {
            Ok(renameat(
                &self.handle,
                temporary.as_str(),
                &self.handle,
                name,
            )?)
        });
        if written.is_err() {
            let _ = unlinkat(&self.handle, temporary.as_str(), AtFlags::empty());
        }
        written
    }

    fn facts(&self, id: BlobId) -> Result<BlobFacts, BlobError> {
        let file = match self.open(&facts_file(id)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BlobError::Unknown {
                    handle: BlobHandle::Id(id),
                });
            }
            Err(source) => return Err(BlobError::Read { source }),
        };
        let mut record = Vec::new();
        file.take(FACTS_MAX_BYTES)
            .read_to_end(&mut record)
            .map_err(|source| BlobError::Read { source })?;
        let facts: BlobFacts = serde_json::from_slice(&record)
            .map_err(|error| corrupt(id, format!("its record: {error}")))?;
        if facts.version > FACTS_VERSION {
            return Err(corrupt(
                id,
                format!(
                    "its record has version {}, written by a newer program",
                    facts.version
                ),
            ));
        }
        if facts.id == id {
            Ok(facts)
        } else {
            Err(corrupt(id, "its record is that of another blob"))
        }
    }

    /// Reads and checks a part of the content; a range beyond the end is cut there.
    fn content(&self, facts: &BlobFacts, range: Range<u64>) -> Result<Vec<u8>, BlobError> {
        let range = range.start.min(facts.bytes)..range.end.min(facts.bytes);
        let pieces = facts.piece_range(&range);
        let missing = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => corrupt(facts.id, "its content is missing"),
            io::ErrorKind::UnexpectedEof => corrupt(facts.id, "its content is cut short"),
            _ => BlobError::Read { source: error },
        };
        let file = self
            .open(&format!("{}.{}", facts.id, facts.extension()))
            .map_err(missing)?;
        let length = file.metadata().map_err(missing)?.len();
        if length != facts.bytes {
            return Err(corrupt(
                facts.id,
                format!("it has {length} bytes instead of {}", facts.bytes),
            ));
        }
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let size = |bytes: u64| {
            usize::try_from(bytes).map_err(|_| corrupt(facts.id, "it does not fit memory"))
        };
        let mut bytes = vec![0; size(pieces.end - pieces.start)?];
        file.read_exact_at(&mut bytes, pieces.start)
            .map_err(missing)?;
        facts
            .check_pieces(pieces.start, &bytes)
            .map_err(|detail| corrupt(facts.id, detail))?;
        bytes.truncate(size(range.end - pieces.start)?);
        bytes.drain(..size(range.start - pieces.start)?);
        Ok(bytes)
    }

    fn find(&self, name: &BlobName) -> Result<BlobId, BlobError> {
        let unknown = || BlobError::Unknown {
            handle: BlobHandle::Name(name.clone()),
        };
        match readlinkat(&self.handle, name_file(name), Vec::new()) {
            Ok(target) => target
                .to_str()
                .ok()
                .and_then(|id| id.parse().ok())
                .ok_or_else(unknown),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::INVAL) => Err(unknown()),
            Err(error) => Err(BlobError::Read {
                source: error.into(),
            }),
        }
    }

    fn list(&self) -> Result<Vec<BlobFacts>, BlobError> {
        let read = |error: rustix::io::Errno| BlobError::Read {
            source: error.into(),
        };
        let mut ids: Vec<BlobId> = Vec::new();
        for entry in Dir::read_from(&self.handle).map_err(read)? {
            let entry = entry.map_err(read)?;
            let id = entry
                .file_name()
                .to_str()
                .ok()
                .and_then(|name| name.strip_suffix(".meta.json"));
            ids.extend(id.and_then(|id| id.parse::<BlobId>().ok()));
        }
        ids.sort_unstable();
        let facts = ids.into_iter().map(|id| self.facts(id));
        Ok(facts
            .filter_map(|facts| {
                facts
                    .inspect_err(|error| tracing::warn!(%error, "left out of the list"))
                    .ok()
            })
            .collect())
    }

    /// Opens a regular file of the store. Anything else is refused at once, without waiting for a FIFO's writer.
    fn open(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let handle = openat(&self.handle, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&handle)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is not a regular file",
            ));
        }
        Ok(File::from(handle))
    }
}

fn write_synced(handle: OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::from(handle);
    file.write_all(bytes)?;
    file.sync_all()
}

fn facts_file(id: BlobId) -> String {
    format!("{id}.meta.json")
}

fn name_file(name: &BlobName) -> String {
    format!("{name}.name")
}

fn corrupt(id: BlobId, detail: impl Into<String>) -> BlobError {
    BlobError::Corrupt {
        id,
        detail: detail.into(),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests play the disk's enemy")]
mod tests;
