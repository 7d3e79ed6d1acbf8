//! From a path to an open handle, without ever leaving the roots.
//!
//! The kernel resolves (`openat2`, beneath the root's handle, no magic links) where it can. Where it cannot, because
//! the call is missing or forbidden, a rename storm goes on, or the path really crosses a root's border, a walk in this
//! module opens name after name and follows links itself. A link or `..` that leaves a root is looked up again as an
//! absolute path, so one that leads into a root works, and every other is refused before anything outside is opened.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::{
    error::{ScopeError, shown},
    path::ScopedPath,
    roots::Roots,
    special::is_special,
};

/// What every open carries: no waiting for a pipe's other end, no terminal that becomes ours, no handle for children.
pub(super) const SAFE: OFlags = OFlags::NONBLOCK
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// How often a lookup is repeated when somebody renames under it.
const ATTEMPTS: usize = 32;
/// How many links one path may go through, as in the kernel.
const LINKS_MAX: usize = 40;
/// How deep the walk goes: each level holds a handle.
const DEPTH_MAX: usize = 256;

/// Who resolves paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// The kernel, and the walk for what the kernel refuses.
    Kernel,
    /// Only the walk, for kernels and sandboxes without `openat2`.
    Walk,
}

impl Engine {
    /// Asks the kernel once whether it can.
    pub(super) fn detect(roots: &Roots) -> Self {
        let root = roots.get(0).handle.as_fd();
        match open_beneath(root, Path::new("."), OFlags::PATH | OFlags::CLOEXEC) {
            Some(_) => Self::Kernel,
            None => Self::Walk,
        }
    }
}

/// Why a path was not resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Outside,
    Special,
    TooDeep,
    System(Errno),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl Refusal {
    /// Makes the error for the path as given.
    pub(super) fn about(self, path: &ScopedPath, action: &'static str) -> ScopeError {
        let given = path.given();
        match self {
            Self::Outside => ScopeError::OutOfScope { path: shown(given) },
            Self::Special => ScopeError::NotRegularFile { path: shown(given) },
            Self::TooDeep => ScopeError::invalid(given, "it is nested too deep"),
            Self::System(errno) => ScopeError::system(given, action, errno),
        }
    }
}

/// A name in an open directory. At the time of looking it was no link; nothing may be there at all.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    /// `None` stands for the directory itself.
    pub(super) name: Option<OsString>,
}

#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) roots: Roots,
    pub(super) engine: Engine,
}

impl Resolver {
    /// Opens what is at the path, following links that stay inside.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Refusal> {
        // The kernel refuses a mere place together with flags that are about opening.
        let always = if flags.contains(OFlags::PATH) {
            OFlags::CLOEXEC
        } else {
            SAFE
        };
        let handle = self.open_unchecked(path, flags | always)?;
        let stat = fs::fstat(&handle)?;
        if !self.roots.holds_device(&stat) && is_special(&handle)? {
            return Err(Refusal::Special);
        }
        Ok(handle)
    }

    /// Finds the directory and name a path stands for, following links also at its end.
    pub(super) fn place(&self, path: &ScopedPath) -> Result<Place, Refusal> {
        if let Some((parent, name)) = path.split() {
            let directory = self.open(parent.path(), OFlags::PATH | OFlags::DIRECTORY);
            if let Ok(directory) = directory
                && !is_link(directory.as_fd(), &name)?
            {
                let name = Some(name);
                return Ok(Place { directory, name });
            }
        }
        self.walk(path.path())
    }

    fn open_unchecked(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Refusal> {
        let (root, below) = self.roots.locate(path).ok_or(Refusal::Outside)?;
        if self.engine == Engine::Kernel {
            let root = self.roots.get(root).handle.as_fd();
            if let Some(result) = open_beneath(root, &below, flags) {
                return result.map_err(Refusal::System);
            }
        }
        for _ in 0..ATTEMPTS {
            let Place { directory, name } = self.walk(path)?;
            let opened = match name {
                None => fs::openat(&directory, ".", flags, Mode::empty()),
                Some(name) => {
                    fs::openat(&directory, &name, flags | OFlags::NOFOLLOW, Mode::empty())
                }
            };
            match opened {
                // Somebody put a link where the walk saw none: walk again, and follow it the safe way.
                Err(Errno::LOOP) => {}
                result => return result.map_err(Refusal::System),
            }
        }
        Err(Refusal::System(Errno::LOOP))
    }

    /// Resolves a path name by name.
    fn walk(&self, path: &Path) -> Result<Place, Refusal> {
        let mut walk = Walk::new(&self.roots);
        walk.restart(path)?;
        while let Some(name) = walk.pending.pop_front() {
            if name == ".." {
                walk.up()?;
            } else if let Some(name) = walk.down(name)? {
                let directory = walk.into_directory()?;
                return Ok(Place {
                    directory,
                    name: Some(name),
                });
            }
        }
        let directory = walk.into_directory()?;
        Ok(Place {
            directory,
            name: None,
        })
    }
}

/// The state of a walk: the handles from the root to where it is, and the names still to go.
struct Walk<'a> {
    roots: &'a Roots,
    root: usize,
    handles: Vec<OwnedFd>,
    pending: VecDeque<OsString>,
    links: usize,
}

impl<'a> Walk<'a> {
    fn new(roots: &'a Roots) -> Self {
        Self {
            roots,
            root: 0,
            handles: Vec::new(),
            pending: VecDeque::new(),
            links: 0,
        }
    }

    /// Goes on from a root.
    fn restart(&mut self, path: &Path) -> Result<(), Refusal> {
        let (root, below) = self.roots.locate(path).ok_or(Refusal::Outside)?;
        self.root = root;
        self.handles.clear();
        self.pending.clear();
        self.prepend(&below);
        Ok(())
    }

    fn prepend(&mut self, path: &Path) {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.pending.push_front(name.to_owned()),
                Component::ParentDir => self.pending.push_front("..".into()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
    }

    fn here(&self) -> BorrowedFd<'_> {
        let root = &self.roots.get(self.root).handle;
        self.handles.last().unwrap_or(root).as_fd()
    }

    fn into_directory(mut self) -> Result<OwnedFd, Refusal> {
        match self.handles.pop() {
            Some(handle) => Ok(handle),
            None => Ok(self
                .roots
                .get(self.root)
                .handle
                .try_clone()
                .map_err(|_| Errno::MFILE)?),
        }
    }

    /// Goes to the directory above, which is the one the walk came from, even if somebody moved this one meanwhile.
    fn up(&mut self) -> Result<(), Refusal> {
        if self.handles.pop().is_some() {
            return Ok(());
        }
        let mut rest = PathBuf::from("..");
        rest.extend(self.pending.drain(..));
        let absolute = self.roots.absolute(self.root, &rest);
        self.count_link()?;
        self.restart(&absolute)
    }

    /// Goes to what has this name. Returns the name if it is the last one and no directory to go into.
    fn down(&mut self, name: OsString) -> Result<Option<OsString>, Refusal> {
        let last = self.pending.is_empty();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = match fs::openat(self.here(), &name, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT) if last => return Ok(Some(name)),
            Err(errno) => return Err(errno.into()),
        };
        let stat = fs::fstat(&handle)?;
        if !self.roots.holds_device(&stat) && is_special(&handle)? {
            return Err(Refusal::Special);
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                self.follow(&handle)?;
                Ok(None)
            }
            _ if last => Ok(Some(name)),
            FileType::Directory if self.handles.len() < DEPTH_MAX => {
                self.handles.push(handle);
                Ok(None)
            }
            FileType::Directory => Err(Refusal::TooDeep),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn follow(&mut self, link: &OwnedFd) -> Result<(), Refusal> {
        self.count_link()?;
        let target = fs::readlinkat(link, "", Vec::new())?.into_bytes();
        let target = PathBuf::from(OsString::from_vec(target));
        if target.is_relative() {
            self.prepend(&target);
            return Ok(());
        }
        let mut absolute = target;
        absolute.extend(self.pending.drain(..));
        self.restart(&absolute)
    }

    fn count_link(&mut self) -> Result<(), Refusal> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        Ok(())
    }
}

/// Lets the kernel resolve. `None` means that the walk must decide.
fn open_beneath(
    root: BorrowedFd<'_>,
    below: &Path,
    flags: OFlags,
) -> Option<Result<OwnedFd, Errno>> {
    let below = if below.as_os_str().is_empty() {
        Path::new(".")
    } else {
        below
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS {
        match fs::openat2(root, below, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The path crosses the border, or a filter of system calls refuses this one.
            Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => return None,
            result => return Some(result),
        }
    }
    None
}

fn is_link(directory: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Errno> {
    match fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}
