//! The options that make a server: which directories, where results are kept.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;

use crate::{
    RegisterError, ServerOptions, ToolServer,
    blob::{BlobError, FsBlobStore},
    scope::{Access, ScopeError, ScopedFs},
    tools::{ShellOptions, builtin},
    user_state_directory,
};

/// Which directories the tools may touch, and where large results are kept.
#[derive(Args, Clone, Debug, Default)]
pub struct ServerArgs {
    /// A directory the tools may read and write; may be repeated [default: the current directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub root: Vec<PathBuf>,

    /// A directory the tools may only read; may be repeated; without --root nothing can be written
    #[arg(long, global = true, value_name = "DIR")]
    pub read_only: Vec<PathBuf>,

    /// Where large results are kept [default: toolserver/blobs in the user's state directory]
    #[arg(long, global = true, value_name = "DIR", env = "TOOLSERVER_BLOBS")]
    pub blobs: Option<PathBuf>,

    /// Keep nothing: every result is shown whole, and there is no `inspect`
    #[arg(long, global = true)]
    pub no_blobs: bool,
}

/// Why a server could not be made of its options.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A directory cannot be served.
    #[error("a directory cannot be served")]
    Scope(#[from] ScopeError),
    /// The blob store cannot be opened.
    #[error("the blob store cannot be opened")]
    Blobs(#[from] BlobError),
    /// There is no place for the blob store.
    #[error(
        "neither XDG_STATE_HOME nor HOME says where to keep large results: give --blobs DIR or --no-blobs"
    )]
    NoBlobDirectory,
    /// The built-in tools do not fit together.
    #[error("a built-in tool cannot be registered")]
    Register(#[from] RegisterError),
}

/// Returns where large results are kept when nobody says otherwise: `toolserver/blobs` in the user's state directory.
#[must_use]
pub fn default_blob_directory() -> Option<PathBuf> {
    Some(user_state_directory()?.join("toolserver/blobs"))
}

impl ServerArgs {
    /// Makes the server with its built-in tools.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn server(&self) -> Result<ToolServer, SetupError> {
        let scope = Arc::new(self.scope()?);
        let server = if self.no_blobs {
            ToolServer::new()
        } else {
            ToolServer::with_store(Arc::new(self.store()?), ServerOptions::default())
        };
        for tool in builtin(scope, ShellOptions::default()) {
            server.register_boxed(tool)?;
        }
        Ok(server)
    }

    /// Opens the directories the tools may touch.
    ///
    /// # Errors
    /// [`ScopeError`] when one of them is none.
    pub fn scope(&self) -> Result<ScopedFs, ScopeError> {
        let writable = self
            .writable_roots()
            .into_iter()
            .map(|path| (path.to_owned(), Access::ReadWrite));
        let readable = self
            .read_only
            .iter()
            .map(|path| (path.clone(), Access::ReadOnly));
        ScopedFs::new(writable.chain(readable))
    }

    /// Opens the blob store.
    ///
    /// # Errors
    /// [`SetupError::Blobs`] or [`SetupError::NoBlobDirectory`].
    pub fn store(&self) -> Result<FsBlobStore, SetupError> {
        let directory = self.blobs.clone().or_else(default_blob_directory);
        Ok(FsBlobStore::open(
            directory.ok_or(SetupError::NoBlobDirectory)?,
        )?)
    }

    fn writable_roots(&self) -> Vec<&Path> {
        match &self.root[..] {
            [] if self.read_only.is_empty() => vec![Path::new(".")],
            roots => roots.iter().map(PathBuf::as_path).collect(),
        }
    }

    /// Returns what a model is told about the server as a whole.
    #[must_use]
    pub fn instructions(&self) -> String {
        let mut text = "Paths are relative to the first root, or absolute below a root.".to_owned();
        if !self.no_blobs {
            text.push_str(
                " Results too large to show are kept whole: you see a summary that begins with [blob:NAME], and \
                 `inspect` returns any part of it. Narrow down with a selector instead of repeating the call.",
            );
        }
        text
    }
}
