//! Why a path was refused or a file operation failed.
//!
//! A path in an error is the one the caller gave: what a link or `..` led to is never shown, so that an error tells
//! nothing about the world outside the roots.

use std::io;

use rustix::io::Errno;

/// How much of a path an error repeats.
const SHOWN_MAX_BYTES: usize = 300;

/// Why a file operation was refused or failed. The text says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// The path leads outside the roots.
    #[error(
        "{path:?} is outside the directories this server may touch; use a path relative to the first root, or below one of the roots"
    )]
    OutOfScope {
        /// The path as given.
        path: String,
    },
    /// There is nothing at the path.
    #[error("{path:?} does not exist; list its directory to see what is there")]
    NotFound {
        /// The path as given.
        path: String,
    },
    /// A directory where a file was asked for.
    #[error("{path:?} is a directory; use list_dir to see what it holds")]
    IsDirectory {
        /// The path as given.
        path: String,
    },
    /// A file where a directory was asked for, also in the middle of a path.
    #[error("{path:?} is not a directory, or goes through something that is none")]
    NotADirectory {
        /// The path as given.
        path: String,
    },
    /// A pipe, socket, device or file of a special file system.
    #[error(
        "{path:?} is not a regular file (it is a pipe, socket, device or special file); only regular files are opened"
    )]
    NotRegularFile {
        /// The path as given.
        path: String,
    },
    /// A change below a read-only root.
    #[error("{path:?} is below a read-only root; write below another root")]
    ReadOnly {
        /// The path as given.
        path: String,
    },
    /// The file has more bytes than the caller takes.
    #[error(
        "{path:?} has {size} bytes, more than the {max} that are read at once; ask for a part of it"
    )]
    TooLarge {
        /// The path as given.
        path: String,
        /// The size of the file, as far as it was seen.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// The file must not exist, but does.
    #[error("{path:?} already exists; choose another name, or edit it")]
    Exists {
        /// The path as given.
        path: String,
    },
    /// The file was changed by somebody else between reading and writing it.
    #[error(
        "{path:?} was changed by somebody else meanwhile, nothing was written; read it again and repeat the change"
    )]
    Changed {
        /// The path as given.
        path: String,
    },
    /// No file can have this path.
    #[error("{path:?} is no usable path: {reason}")]
    InvalidPath {
        /// The path as given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The operating system failed.
    #[error("{action} {path:?} failed")]
    Io {
        /// The path as given.
        path: String,
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl ScopeError {
    /// Makes the error for what the system said about `path`.
    pub(super) fn system(path: &str, action: &'static str, errno: Errno) -> Self {
        let path = shown(path);
        match errno {
            Errno::NOENT => Self::NotFound { path },
            Errno::NOTDIR => Self::NotADirectory { path },
            Errno::ISDIR => Self::IsDirectory { path },
            Errno::EXIST => Self::Exists { path },
            // Opening a socket, or a device without a driver.
            Errno::NXIO | Errno::NODEV => Self::NotRegularFile { path },
            Errno::NAMETOOLONG => Self::InvalidPath {
                path,
                reason: "it, or one of its names, is too long",
            },
            Errno::LOOP => Self::InvalidPath {
                path,
                reason: "it goes through a loop of symbolic links, or a special link",
            },
            errno => Self::Io {
                path,
                action,
                source: errno.into(),
            },
        }
    }

    /// Makes the error for a failed read or write of an open file.
    pub(super) fn io(path: &str, action: &'static str, source: io::Error) -> Self {
        Self::Io {
            path: shown(path),
            action,
            source,
        }
    }

    pub(super) fn invalid(path: &str, reason: &'static str) -> Self {
        Self::InvalidPath {
            path: shown(path),
            reason,
        }
    }

    /// Returns whether there is nothing at the path.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// Returns as much of a path as an error repeats.
pub(super) fn shown(path: &str) -> String {
    crate::output::fit_start(path, SHOWN_MAX_BYTES).into_owned()
}
