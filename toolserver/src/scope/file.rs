//! An open file of the scope, and what is known of it by its handle.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
};

use rustix::fs::{self, FileType, Stat};

use super::{directory::EntryKind, error::ScopeError, roots::Identity};

/// Beyond this, the size of a file that does not tell it is not counted further.
const COUNTED_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A regular file, open for reading.
#[derive(Debug)]
pub struct ScopedFile {
    file: File,
    path: String,
    size: u64,
    stamp: FileStamp,
}

/// The content of a file, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBytes {
    /// What was read.
    pub bytes: Vec<u8>,
    /// How many bytes the file has.
    pub total: u64,
}

/// Which state of which file was seen. Two equal stamps mean that nobody wrote in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    identity: Identity,
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes, as the file system tells.
    pub size: u64,
}

impl From<&Stat> for FileStamp {
    fn from(stat: &Stat) -> Self {
        // The types differ between platforms; none of the casts loses a bit on those where it changes the type.
        Self {
            identity: Identity::from(stat),
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }
}

impl From<&Stat> for Metadata {
    fn from(stat: &Stat) -> Self {
        Self {
            kind: EntryKind::from(FileType::from_raw_mode(stat.st_mode)),
            size: stat.st_size.try_into().unwrap_or(0),
        }
    }
}

impl ScopedFile {
    /// Looks at what was opened and takes only a regular file.
    pub(super) fn of(handle: OwnedFd, path: &str) -> Result<Self, ScopeError> {
        let stat =
            fs::fstat(&handle).map_err(|errno| ScopeError::system(path, "looking at", errno))?;
        require_regular(&stat, path)?;
        Ok(Self {
            file: File::from(handle),
            path: path.to_owned(),
            size: Metadata::from(&stat).size,
            stamp: FileStamp::from(&stat),
        })
    }

    /// Returns the size at the time of opening.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns which state of the file was opened.
    #[must_use]
    pub fn stamp(&self) -> FileStamp {
        self.stamp
    }

    /// Returns the plain file, for reading in parts.
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// [`ScopeError::TooLarge`] above `max` bytes, also if it grows while it is read.
    pub fn read_all(mut self, max: u64) -> Result<FileBytes, ScopeError> {
        let too_large = |path: &str, size| ScopeError::TooLarge {
            path: super::error::shown(path),
            size,
            max,
        };
        if self.size > max {
            return Err(too_large(&self.path, self.size));
        }
        let expected = usize::try_from(self.size).unwrap_or(0);
        let mut bytes = Vec::with_capacity(expected.saturating_add(1));
        let read = (&mut self.file)
            .take(max.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(|source| ScopeError::io(&self.path, "reading", source))?;
        let total = bytes.len() as u64;
        if total > max {
            return Err(too_large(&self.path, total));
        }
        Ok(FileBytes { bytes, total })
    }

    /// Reads the beginning of it, and tells how long it is.
    ///
    /// The length is what was read, if that was all. Otherwise it is the size the file system tells; where that is
    /// smaller than what was read, as for files made up on reading, the rest is read and counted.
    ///
    /// # Errors
    /// [`ScopeError::Io`] if reading fails.
    pub fn read_prefix(mut self, max: u64) -> Result<FileBytes, ScopeError> {
        let failed = |source| ScopeError::io(&self.path, "reading", source);
        let mut bytes = Vec::new();
        (&mut self.file)
            .take(max)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let read = bytes.len() as u64;
        if read < max {
            return Ok(FileBytes { bytes, total: read });
        }
        let stat = fs::fstat(&self.file).map_err(|errno| failed(errno.into()))?;
        let told = Metadata::from(&stat).size;
        let total = if told > read {
            told
        } else {
            let mut rest = (&mut self.file).take(COUNTED_MAX_BYTES);
            read + io::copy(&mut rest, &mut io::sink()).map_err(failed)?
        };
        Ok(FileBytes { bytes, total })
    }
}

/// Refuses everything but regular files.
pub(super) fn require_regular(stat: &Stat, path: &str) -> Result<(), ScopeError> {
    let path = || super::error::shown(path);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(ScopeError::IsDirectory { path: path() }),
        _ => Err(ScopeError::NotRegularFile { path: path() }),
    }
}
