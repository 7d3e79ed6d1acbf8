//! The root directories: opened once, then only used by handle.

use std::{
    fmt,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, Mode, OFlags, Stat},
    io::Errno,
};

use super::{
    error::ScopeError,
    path::{escape_name, normalize},
    special::is_special,
};

/// What may be done below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Files are read and written.
    ReadWrite,
    /// Files are only read.
    ReadOnly,
}

/// Which file a handle refers to, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

#[derive(Debug)]
pub(super) struct Root {
    pub(super) handle: OwnedFd,
    access: Access,
    identity: Identity,
    /// The path the user configured, made absolute: what models are told.
    given: PathBuf,
    /// The path at the time of opening without links: what other programs print.
    canonical: PathBuf,
}

/// All roots, in the order given.
#[derive(Debug)]
pub(super) struct Roots(Vec<Root>);

/// Where a path begins: the place of a root in the list, and the rest of the path below it.
pub(super) type Located = (usize, PathBuf);

impl Roots {
    /// Opens every root. One directory given twice is one root, read-only if one of the two is.
    pub(super) fn open(
        specs: impl IntoIterator<Item = (PathBuf, Access)>,
    ) -> Result<Self, ScopeError> {
        let mut roots: Vec<Root> = Vec::new();
        for (path, access) in specs {
            let root = Root::open(&path, access)?;
            match roots
                .iter_mut()
                .find(|known| known.identity == root.identity)
            {
                Some(known) if access == Access::ReadOnly => known.access = access,
                Some(_) => {}
                None => roots.push(root),
            }
        }
        if roots.is_empty() {
            return Err(ScopeError::invalid(
                "",
                "at least one root directory is needed",
            ));
        }
        Ok(Self(roots))
    }

    pub(super) fn get(&self, index: usize) -> &Root {
        &self.0[index]
    }

    /// Finds the root a path begins at. Of several roots that contain it, the deepest is taken.
    pub(super) fn locate(&self, path: &Path) -> Option<Located> {
        if path.is_relative() {
            return Some((0, path.to_owned()));
        }
        self.locate_below(path)
            .or_else(|| self.locate_below(&normalize(path)))
    }

    fn locate_below(&self, path: &Path) -> Option<Located> {
        let candidates = self.0.iter().enumerate().flat_map(|(index, root)| {
            [&root.given, &root.canonical]
                .into_iter()
                .filter_map(move |prefix| {
                    let rest = path.strip_prefix(prefix).ok()?;
                    Some((prefix.components().count(), index, rest))
                })
        });
        let (_, index, rest) = candidates.max_by_key(|(depth, ..)| *depth)?;
        Some((index, rest.to_owned()))
    }

    /// Returns the absolute path of what is `below` a root, for paths that leave one root and may enter another.
    pub(super) fn absolute(&self, index: usize, below: &Path) -> PathBuf {
        normalize(&self.0[index].canonical.join(below))
    }

    /// Returns whether a device is one that holds a root, so that nothing on it needs a second look.
    pub(super) fn holds_device(&self, stat: &Stat) -> bool {
        self.0
            .iter()
            .any(|root| root.identity.device == stat.st_dev)
    }

    /// Finds what may be done in a directory by climbing from its handle to the nearest root, so that neither a link
    /// nor `..` leads around a read-only root. `None` if the directory is below no root, because it was moved away.
    pub(super) fn governing(&self, directory: impl AsFd) -> Result<Option<Access>, Errno> {
        let mut identity = Identity::from(&fs::fstat(&directory)?);
        let mut here: Option<OwnedFd> = None;
        loop {
            if let Some(root) = self.0.iter().find(|root| root.identity == identity) {
                return Ok(Some(root.access));
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let below = here.as_ref().map_or(directory.as_fd(), AsFd::as_fd);
            let parent = fs::openat(below, "..", flags, Mode::empty())?;
            let above = Identity::from(&fs::fstat(&parent)?);
            if above == identity {
                return Ok(None);
            }
            identity = above;
            here = Some(parent);
        }
    }
}

impl Root {
    fn open(path: &Path, access: Access) -> Result<Self, ScopeError> {
        let shown = escape_name(path.as_os_str());
        let failed = |errno| ScopeError::system(&shown, "opening root", errno);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = fs::open(path, flags, Mode::empty()).map_err(failed)?;
        if is_special(&handle).map_err(failed)? {
            return Err(ScopeError::NotRegularFile { path: shown });
        }
        let given = std::path::absolute(path)
            .map_err(|source| ScopeError::io(&shown, "opening root", source))?;
        let given: PathBuf = given.components().collect();
        Ok(Self {
            identity: Identity::from(&fs::fstat(&handle).map_err(failed)?),
            canonical: path_of(&handle).unwrap_or_else(|| normalize(&given)),
            given,
            handle,
            access,
        })
    }
}

/// Asks the kernel for the path of a handle, which no rename can make the path of something else.
fn path_of(handle: &OwnedFd) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let target = fs::readlink(link, Vec::new()).ok()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes()));
    path.is_absolute().then_some(path)
}

/// Shows each root on a line of its own, as models are told about them.
impl fmt::Display for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, root) in self.0.iter().enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            let access = match root.access {
                Access::ReadWrite => "",
                Access::ReadOnly => " (read-only)",
            };
            write!(
                f,
                "{line_end}{}{access}",
                escape_name(root.given.as_os_str())
            )?;
        }
        Ok(())
    }
}
