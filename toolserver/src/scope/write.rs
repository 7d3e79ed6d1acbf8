//! Replacing a file's content as a whole.
//!
//! The new content goes to a file of its own in the same directory, is made durable, and takes the name of the old one
//! in one step. A reader, a crash or a full disk sees the old content or the new, never a mixture; another name of the
//! old file (a hard link, perhaps from outside) keeps the old content.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Write as _,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{self, AtFlags, Mode, OFlags, RenameFlags, Stat},
    io::Errno,
};

use super::{
    attributes,
    error::{ScopeError, shown},
    file::{FileStamp, require_regular},
    files::ScopedFs,
    path::ScopedPath,
    resolve::{Place, Refusal, SAFE},
    roots::Access,
};

/// How many names are tried for the new content's file.
const NAME_ATTEMPTS: usize = 16;

/// What must be true of the file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// It is created, or its content replaced.
    CreateOrReplace,
    /// It must not exist.
    CreateNew,
    /// It must still be in the state that was read.
    IfUnchanged(FileStamp),
}

/// What happens when the directory of a new file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// The write fails.
    MustExist,
    /// Missing directories are created.
    Create,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// What must be true of the file.
    pub mode: WriteMode,
    /// What happens when its directory does not exist.
    pub parents: Parents,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// There was no such file before.
    Created,
    /// The file had this many bytes before.
    Replaced {
        /// The size before.
        old_bytes: u64,
    },
}

/// The file that is replaced.
struct Old {
    stat: Stat,
    /// Missing if we may not read the file, which does not keep us from replacing it.
    handle: Option<OwnedFd>,
}

impl ScopedFs {
    /// Writes a file as a whole. A link that stays inside is written through. When this returns, the content is
    /// durable.
    ///
    /// # Errors
    /// [`ScopeError`], and then the old content is still there.
    pub fn write_atomic(
        &self,
        path: &str,
        bytes: &[u8],
        options: WriteOptions,
    ) -> Result<Written, ScopeError> {
        let path = ScopedPath::parse(path)?;
        let is_directory = || ScopeError::IsDirectory {
            path: shown(path.given()),
        };
        if path.wants_directory() {
            return Err(is_directory());
        }
        let Place { directory, name } = self.place_for_write(&path, options.parents)?;
        let name = name.ok_or_else(is_directory)?;
        self.require_writable(&directory, &path)?;
        let target = Target {
            path: path.given(),
            directory: directory.as_fd(),
            name: &name,
        };
        target.write(
            bytes,
            options.mode,
            Mode::from_raw_mode(0o644) & !self.umask,
        )
    }

    fn require_writable(&self, directory: &OwnedFd, path: &ScopedPath) -> Result<(), ScopeError> {
        let governing = self.resolver.roots.governing(directory);
        match governing.map_err(|errno| ScopeError::system(path.given(), "finding", errno))? {
            Some(Access::ReadWrite) => Ok(()),
            Some(Access::ReadOnly) => Err(ScopeError::ReadOnly {
                path: shown(path.given()),
            }),
            None => Err(Refusal::Outside.about(path, "finding")),
        }
    }

    fn place_for_write(&self, path: &ScopedPath, parents: Parents) -> Result<Place, ScopeError> {
        match self.resolver.place(path) {
            Err(Refusal::System(Errno::NOENT)) if parents == Parents::Create => {
                self.create_parent(path)?;
                self.resolver.place(path)
            }
            result => result,
        }
        .map_err(|refusal| refusal.about(path, "finding"))
    }

    /// Creates the directory a path is in, from the deepest one that exists, each step by handle.
    fn create_parent(&self, path: &ScopedPath) -> Result<(), ScopeError> {
        let mut missing: Vec<OsString> = Vec::new();
        let mut rest = path.clone();
        let mut here = loop {
            let Some((parent, name)) = rest.split() else {
                return Err(Refusal::System(Errno::NOENT).about(path, "finding"));
            };
            missing.push(name);
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            match self.resolver.open(parent.path(), flags) {
                Ok(handle) => break handle,
                Err(Refusal::System(Errno::NOENT)) => rest = parent,
                Err(refusal) => return Err(refusal.about(path, "finding")),
            }
        };
        self.require_writable(&here, path)?;
        // The first that was split off is the file itself.
        for name in missing.drain(1..).rev() {
            here = create_directory(here.as_fd(), &name).map_err(|errno| {
                ScopeError::system(path.given(), "creating a directory for", errno)
            })?;
        }
        Ok(())
    }
}

/// Creates a directory, or takes the one that somebody else created at the same time.
fn create_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    match fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    sync_directory(parent)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(parent, name, flags, Mode::empty())
}

/// Where the content goes.
struct Target<'a> {
    path: &'a str,
    directory: BorrowedFd<'a>,
    name: &'a OsStr,
}

impl Target<'_> {
    fn write(&self, bytes: &[u8], mode: WriteMode, new_mode: Mode) -> Result<Written, ScopeError> {
        let old = self.look()?;
        self.check(old.as_ref(), mode)?;
        let (draft, file) = Draft::create(self.directory)
            .map_err(|errno| self.failed("creating a file beside", errno))?;
        let attributes = match &old {
            Some(old) => attributes::keep(
                old.handle.as_ref().map(AsFd::as_fd),
                &old.stat,
                file.as_fd(),
            ),
            None => fs::fchmod(&file, new_mode),
        };
        attributes.map_err(|errno| self.failed("setting the mode of", errno))?;
        let mut file = File::from(file);
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .map_err(|source| ScopeError::io(self.path, "writing", source))?;
        if matches!(mode, WriteMode::IfUnchanged(_)) {
            // Looked at again as late as can be: no system call replaces a file only if it is still the same.
            self.check(self.look()?.as_ref(), mode)?;
        }
        draft
            .publish(self.name, mode)
            .map_err(|errno| self.failed("replacing", errno))?;
        sync_directory(self.directory).map_err(|errno| self.failed("making durable", errno))?;
        Ok(match old {
            None => Written::Created,
            Some(old) => Written::Replaced {
                old_bytes: old.stat.st_size.try_into().unwrap_or(0),
            },
        })
    }

    fn look(&self) -> Result<Option<Old>, ScopeError> {
        let stat = match fs::statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.failed("looking at", errno)),
        };
        require_regular(&stat, self.path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE;
        let handle = match fs::openat(self.directory, self.name, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::ACCESS | Errno::PERM) => return Ok(Some(Old { stat, handle: None })),
            Err(errno) => return Err(self.failed("opening", errno)),
        };
        let stat = fs::fstat(&handle).map_err(|errno| self.failed("looking at", errno))?;
        require_regular(&stat, self.path)?;
        Ok(Some(Old {
            stat,
            handle: Some(handle),
        }))
    }

    fn check(&self, old: Option<&Old>, mode: WriteMode) -> Result<(), ScopeError> {
        let path = || shown(self.path);
        match (mode, old) {
            (WriteMode::CreateNew, Some(_)) => Err(ScopeError::Exists { path: path() }),
            (WriteMode::IfUnchanged(stamp), Some(old)) if FileStamp::from(&old.stat) == stamp => {
                Ok(())
            }
            (WriteMode::IfUnchanged(_), _) => Err(ScopeError::Changed { path: path() }),
            (WriteMode::CreateOrReplace, _) | (WriteMode::CreateNew, None) => Ok(()),
        }
    }

    fn failed(&self, action: &'static str, errno: Errno) -> ScopeError {
        ScopeError::system(self.path, action, errno)
    }
}

/// The file that holds the new content until it takes the old one's name; removed if that does not happen.
struct Draft<'a> {
    directory: BorrowedFd<'a>,
    name: String,
    published: bool,
}

impl<'a> Draft<'a> {
    fn create(directory: BorrowedFd<'a>) -> Result<(Self, OwnedFd), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | SAFE;
        for _ in 0..NAME_ATTEMPTS {
            let name = format!(".{:016x}.tmp", fastrand::u64(..));
            match fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => {
                    let draft = Self {
                        directory,
                        name,
                        published: false,
                    };
                    return Ok((draft, file));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    fn publish(mut self, name: &OsStr, mode: WriteMode) -> Result<(), Errno> {
        let directory = self.directory;
        if mode == WriteMode::CreateNew {
            let flags = RenameFlags::NOREPLACE;
            match fs::renameat_with(directory, &self.name, directory, name, flags) {
                // Not every file system knows the flag; a second name is refused like it, and the draft's name goes.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    return fs::linkat(directory, &self.name, directory, name, AtFlags::empty());
                }
                result => result?,
            }
        } else {
            fs::renameat(directory, &self.name, directory, name)?;
        }
        self.published = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.published {
            // If even this fails there is nobody left to tell, and the write's own error says why.
            let _gone = fs::unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

/// Makes names durable. A handle for reading is needed; the one we have may only be a place.
fn sync_directory(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = fs::openat(directory, ".", flags, Mode::empty())?;
    match fs::fsync(readable) {
        // Some file systems cannot, and then nothing is lost by it.
        Err(Errno::INVAL) => Ok(()),
        result => result,
    }
}
