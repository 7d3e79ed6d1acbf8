//! The files the tools may touch: one or several directories, held open, and nothing else.
//!
//! [`ScopedFs`] is the only thing in the product that opens a path a model gave. It keeps a handle of every root and
//! resolves each path from such a handle, inside the kernel where that is possible, so that no rename or link made
//! between a check and an open can lead outside: there is no check before an open, only a look at what was opened.
//! Whoever walks a tree goes from handle to handle with [`Directory`] and never joins paths.

mod attributes;
mod directory;
mod error;
mod file;
mod files;
mod path;
mod resolve;
mod roots;
mod special;
mod write;

#[cfg(test)]
mod tests;

pub use self::{
    directory::{Directory, Entry, EntryKind},
    error::ScopeError,
    file::{FileBytes, FileStamp, Metadata, ScopedFile},
    files::{FileKey, LinkTarget, ScopedFs},
    path::escape_name,
    roots::Access,
    write::{Parents, WriteMode, WriteOptions, Written},
};
