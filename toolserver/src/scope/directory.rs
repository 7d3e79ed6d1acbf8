//! Walking a tree from handle to handle.
//!
//! A [`Directory`] opens its children by a single name and never through a link, so whatever is renamed or replaced
//! during a walk, the walk sees only what is, or was, inside the scope.

use std::{
    cmp::Ordering,
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
};

use rustix::{
    fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::{
    error::ScopeError,
    file::{Metadata, ScopedFile},
    path::escape_name,
    resolve::SAFE,
    special::is_special,
};

/// An open directory of the scope.
#[derive(Debug)]
pub struct Directory {
    handle: OwnedFd,
    shown: String,
    device: u64,
}

/// What something in a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, to anything.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, which may be no UTF-8; [`escape_name`] shows it.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
}

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

/// By bytes of the name, so that the order does not depend on anybody's language.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.as_bytes().cmp(other.name.as_bytes())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Directory {
    /// Wraps what was opened as a directory.
    pub(super) fn of(handle: OwnedFd, shown: String) -> Result<Self, ScopeError> {
        let stat =
            fs::fstat(&handle).map_err(|errno| ScopeError::system(&shown, "looking at", errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(ScopeError::NotADirectory { path: shown });
        }
        Ok(Self {
            handle,
            shown,
            device: stat.st_dev,
        })
    }

    /// Lists the names in it, in no order, as a stream: the directory may have millions of them.
    ///
    /// # Errors
    /// [`ScopeError`] if the directory cannot be read.
    pub fn entries(
        &self,
    ) -> Result<impl Iterator<Item = Result<Entry, ScopeError>> + '_, ScopeError> {
        let failed = |errno| ScopeError::system(&self.shown, "listing", errno);
        let stream = Dir::read_from(&self.handle).map_err(failed)?;
        Ok(stream.filter_map(move |entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return Some(Err(failed(errno))),
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                return None;
            }
            let name = OsString::from_vec(name.to_vec());
            let kind = match entry.file_type() {
                // Some file systems do not tell while listing.
                FileType::Unknown => match self.stat(&name) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => return None,
                },
                kind => kind,
            };
            let kind = kind.into();
            Some(Ok(Entry { name, kind }))
        }))
    }

    /// Opens a directory in this one, which must not be a link.
    ///
    /// # Errors
    /// [`ScopeError::NotADirectory`] if it is something else by now, and what the system says.
    pub fn open_directory(&self, name: &OsStr) -> Result<Self, ScopeError> {
        let handle = self.open_child(name, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let child = Self::of(handle, self.shown_child(name))?;
        if child.device != self.device {
            refuse_special(child.handle.as_fd(), &child.shown)?;
        }
        Ok(child)
    }

    /// Opens a file in this directory, which must not be a link.
    ///
    /// # Errors
    /// [`ScopeError::NotRegularFile`] for everything but regular files, and what the system says.
    pub fn open_file(&self, name: &OsStr) -> Result<ScopedFile, ScopeError> {
        let handle = self.open_child(name, OFlags::RDONLY)?;
        let shown = self.shown_child(name);
        let stat =
            fs::fstat(&handle).map_err(|errno| ScopeError::system(&shown, "looking at", errno))?;
        if stat.st_dev != self.device {
            refuse_special(handle.as_fd(), &shown)?;
        }
        ScopedFile::of(handle, &shown)
    }

    /// Looks at a name without following a link.
    ///
    /// # Errors
    /// What the system says.
    pub fn metadata(&self, name: &OsStr) -> Result<Metadata, ScopeError> {
        let failed = |errno| ScopeError::system(&self.shown_child(name), "looking at", errno);
        self.stat(name)
            .map(|stat| Metadata::from(&stat))
            .map_err(failed)
    }

    /// Returns what a link contains.
    pub(super) fn link_text(&self, name: &OsStr) -> Option<OsString> {
        let target = fs::readlinkat(&self.handle, single(name)?, Vec::new()).ok()?;
        Some(OsString::from_vec(target.into_bytes()))
    }

    fn stat(&self, name: &OsStr) -> Result<Stat, Errno> {
        let name = single(name).ok_or(Errno::INVAL)?;
        fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn open_child(&self, name: &OsStr, flags: OFlags) -> Result<OwnedFd, ScopeError> {
        let failed = |errno| match errno {
            // The name became a link after it was listed.
            Errno::LOOP => ScopeError::NotRegularFile {
                path: self.shown_child(name),
            },
            errno => ScopeError::system(&self.shown_child(name), "opening", errno),
        };
        let single = single(name).ok_or(Errno::INVAL).map_err(failed)?;
        fs::openat(
            &self.handle,
            single,
            flags | SAFE | OFlags::NOFOLLOW,
            Mode::empty(),
        )
        .map_err(failed)
    }

    fn shown_child(&self, name: &OsStr) -> String {
        format!("{}/{}", self.shown, escape_name(name))
    }
}

/// Gives the handle to code that must work in this directory, such as the start of a process.
impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Returns the name if it is one name and cannot lead anywhere else.
fn single(name: &OsStr) -> Option<&OsStr> {
    let bytes = name.as_bytes();
    let leads_away = matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/');
    (!leads_away).then_some(name)
}

fn refuse_special(handle: BorrowedFd<'_>, shown: &str) -> Result<(), ScopeError> {
    match is_special(handle) {
        Ok(false) => Ok(()),
        Ok(true) => Err(ScopeError::NotRegularFile {
            path: shown.to_owned(),
        }),
        Err(errno) => Err(ScopeError::system(shown, "looking at", errno)),
    }
}
