//! What the product asks of the scope: opening, reading and looking at files by a path that a model gave.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
};

use rustix::fs::{self, FileType, Mode, OFlags};

use super::{
    attributes,
    directory::Directory,
    error::ScopeError,
    file::{FileBytes, Metadata, ScopedFile},
    path::{ScopedPath, escape_name},
    resolve::{Engine, Resolver},
    roots::{Access, Identity, Roots},
};

/// One or several directories, held open, and the only way to files.
///
/// A path is relative to the first root, or absolute below any root, as the root was given or without links. Where
/// roots lie in one another the deepest that contains a file decides about writing; it finds the file by handle, so
/// neither links nor `..` lead around a read-only root. Links and `..` work as long as they stay inside. Only regular
/// files are opened. A root that is moved is followed; in one that is deleted nothing is found any more.
///
/// All operations block; in async code they belong on a thread for blocking work.
///
/// ```no_run
/// use toolserver::{Access, ScopedFs};
///
/// let scope = ScopedFs::new([("/srv/project".into(), Access::ReadWrite)])?;
/// let readme = scope.read("README.md", 1 << 20)?;
/// assert!(scope.read("../other/secret", 1 << 20).is_err());
/// # Ok::<(), toolserver::ScopeError>(())
/// ```
#[derive(Debug)]
pub struct ScopedFs {
    pub(super) resolver: Resolver,
    pub(super) umask: Mode,
}

/// Names a file by its directory, so that it stays the same when the file is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    directory: Identity,
    name: OsString,
}

/// Where a link in a directory leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// To something inside the scope.
    Inside {
        /// The link's text, escaped.
        target: String,
        /// What it leads to.
        metadata: Metadata,
    },
    /// Inside the scope to nothing.
    Dangling {
        /// The link's text, escaped.
        target: String,
    },
    /// Outside the scope, or nowhere that may be opened.
    Refused,
}

impl ScopedFs {
    /// Opens the roots. Relative paths are taken from the current directory; the first root is where a model's
    /// relative paths begin.
    ///
    /// # Errors
    /// [`ScopeError`] if there is no root, or one of them is no directory that can be opened.
    pub fn new(roots: impl IntoIterator<Item = (PathBuf, Access)>) -> Result<Self, ScopeError> {
        let roots = Roots::open(roots)?;
        let engine = Engine::detect(&roots);
        Ok(Self {
            resolver: Resolver { roots, engine },
            umask: attributes::umask(),
        })
    }

    /// Returns a display of the roots, one on a line, for telling models about them.
    #[must_use]
    pub fn roots(&self) -> impl fmt::Display + '_ {
        &self.resolver.roots
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// [`ScopeError::TooLarge`] above `max` bytes, or why the file cannot be read.
    pub fn read(&self, path: &str, max: u64) -> Result<FileBytes, ScopeError> {
        self.open_file(path)?.read_all(max)
    }

    /// Reads up to `max` bytes of the beginning of a file, and tells its size; see [`ScopedFile::read_prefix`].
    ///
    /// # Errors
    /// Why the file cannot be read.
    pub fn read_prefix(&self, path: &str, max: u64) -> Result<FileBytes, ScopeError> {
        self.open_file(path)?.read_prefix(max)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn open_file(&self, path: &str) -> Result<ScopedFile, ScopeError> {
        let path = ScopedPath::parse(path)?;
        let opened = self.resolver.open(path.path(), OFlags::RDONLY);
        let handle = opened.map_err(|refusal| refusal.about(&path, "opening"))?;
        let file = ScopedFile::of(handle, path.given())?;
        if path.wants_directory() {
            return Err(ScopeError::NotADirectory {
                path: super::error::shown(path.given()),
            });
        }
        Ok(file)
    }

    /// Opens a directory for listing and walking.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn directory(&self, path: &str) -> Result<Directory, ScopeError> {
        let path = ScopedPath::parse(path)?;
        let opened = self
            .resolver
            .open(path.path(), OFlags::RDONLY | OFlags::DIRECTORY);
        let handle = opened.map_err(|refusal| refusal.about(&path, "opening"))?;
        Directory::of(handle, super::error::shown(path.given()))
    }

    /// Opens the directory a path is in, for telling what else is there.
    ///
    /// # Errors
    /// Why it cannot be opened, [`ScopeError::InvalidPath`] if the path ends in no name.
    pub fn parent_directory(&self, path: &str) -> Result<(Directory, OsString), ScopeError> {
        let path = ScopedPath::parse(path)?;
        let (parent, name) = path
            .split()
            .ok_or_else(|| ScopeError::invalid(path.given(), "it ends in no name"))?;
        let opened = self
            .resolver
            .open(parent.path(), OFlags::RDONLY | OFlags::DIRECTORY);
        let handle = opened.map_err(|refusal| refusal.about(&path, "opening"))?;
        Ok((
            Directory::of(handle, super::error::shown(path.given()))?,
            name,
        ))
    }

    /// Looks at what a path leads to, without opening it for reading.
    ///
    /// # Errors
    /// Why it cannot be looked at.
    pub fn metadata(&self, path: &str) -> Result<Metadata, ScopeError> {
        let path = ScopedPath::parse(path)?;
        let opened = self.resolver.open(path.path(), OFlags::PATH);
        let handle = opened.map_err(|refusal| refusal.about(&path, "looking at"))?;
        let stat = fs::fstat(&handle)
            .map_err(|errno| ScopeError::system(path.given(), "looking at", errno))?;
        let metadata = Metadata::from(&stat);
        if path.wants_directory() && FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(ScopeError::NotADirectory {
                path: super::error::shown(path.given()),
            });
        }
        Ok(metadata)
    }

    /// Names the file a path leads to, links followed, whether it exists or not: equal for all paths to one name.
    ///
    /// # Errors
    /// Why the path leads nowhere.
    pub fn key(&self, path: &str) -> Result<FileKey, ScopeError> {
        let path = ScopedPath::parse(path)?;
        let place = self.resolver.place(&path);
        let place = place.map_err(|refusal| refusal.about(&path, "finding"))?;
        let stat = fs::fstat(&place.directory)
            .map_err(|errno| ScopeError::system(path.given(), "looking at", errno))?;
        Ok(FileKey {
            directory: Identity::from(&stat),
            name: place.name.unwrap_or_default(),
        })
    }

    /// Tells where the link `name` in `directory` leads; `directory_path` is the path the directory was opened by.
    #[must_use]
    pub fn link_target(
        &self,
        directory: &Directory,
        directory_path: &str,
        name: &OsStr,
    ) -> LinkTarget {
        let Some(text) = directory.link_text(name) else {
            return LinkTarget::Refused;
        };
        let target = escape_name(&text);
        match self.metadata(&format!("{directory_path}/{}", escape_name(name))) {
            Ok(metadata) => LinkTarget::Inside { target, metadata },
            Err(error) if error.is_not_found() => LinkTarget::Dangling { target },
            Err(_) => LinkTarget::Refused,
        }
    }
}
