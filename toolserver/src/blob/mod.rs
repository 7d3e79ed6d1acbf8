//! Where large results are kept: the store's contract, what it records about a blob, and how it fails.
//!
//! A blob is a handle, not a session: it is found by id or short name after a restart and from any process that shares
//! the store. Acknowledged means durable, and a blob either loads byte for byte or is reported as damaged.

mod facts;
mod fs;

use std::{fmt, io, ops::Range};

use async_trait::async_trait;
use protocol::{BlobHandle, BlobId, BlobName};

pub use self::{
    facts::{BlobFacts, LINE_INDEX_STEP},
    fs::FsBlobStore,
};
use crate::output::Content;

/// What a store is told about new content besides the content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// The tool that made it.
    pub tool: Option<String>,
}

/// A place for blobs.
///
/// All methods may run at the same time, in several processes on one store. Dropping the future of `store` leaves
/// either no blob or a whole one that nobody knows of.
#[async_trait]
pub trait BlobStore: Send + Sync + fmt::Debug {
    /// Stores content and gives it an id and a short name. When it returns, the blob survives a power cut.
    ///
    /// # Errors
    /// [`BlobError::Write`]; nothing is stored then.
    async fn store(&self, content: &Content, options: StoreOptions)
    -> Result<BlobFacts, BlobError>;

    /// Loads all of a blob.
    ///
    /// # Errors
    /// [`BlobError::Unknown`], [`BlobError::Corrupt`] or [`BlobError::Read`].
    async fn load(&self, id: BlobId) -> Result<Content, BlobError>;

    /// Loads bytes of a blob's text. A range that reaches beyond the end is cut there.
    ///
    /// # Errors
    /// As [`BlobStore::load`]; only the pieces that are read are checked.
    async fn load_range(&self, id: BlobId, range: Range<u64>) -> Result<Vec<u8>, BlobError>;

    /// Returns what is recorded about a blob.
    ///
    /// # Errors
    /// As [`BlobStore::load`].
    async fn facts(&self, id: BlobId) -> Result<BlobFacts, BlobError>;

    /// Finds the id behind a short name.
    ///
    /// # Errors
    /// [`BlobError::Unknown`] or [`BlobError::Read`].
    async fn find(&self, name: &BlobName) -> Result<BlobId, BlobError>;

    /// Lists all blobs, oldest first. Damaged ones are left out.
    ///
    /// # Errors
    /// [`BlobError::Read`].
    async fn list(&self) -> Result<Vec<BlobFacts>, BlobError>;

    /// Returns whether a blob is there.
    ///
    /// # Errors
    /// [`BlobError::Read`] or [`BlobError::Corrupt`].
    async fn exists(&self, id: BlobId) -> Result<bool, BlobError> {
        match self.facts(id).await {
            Ok(_) => Ok(true),
            Err(BlobError::Unknown { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns what is recorded about a blob named either way.
    ///
    /// # Errors
    /// As [`BlobStore::load`].
    async fn resolve(&self, handle: &BlobHandle) -> Result<BlobFacts, BlobError> {
        match handle {
            BlobHandle::Id(id) => self.facts(*id).await,
            BlobHandle::Name(name) => self.facts(self.find(name).await?).await,
        }
    }
}

/// Why a blob could not be stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// There is no such blob, or no longer.
    #[error("there is no blob {handle} in this store")]
    Unknown {
        /// As it was asked for.
        handle: BlobHandle,
    },
    /// What is stored is not what was acknowledged.
    #[error("blob {id} is damaged: {detail}")]
    Corrupt {
        /// The blob.
        id: BlobId,
        /// What does not fit.
        detail: String,
    },
    /// The store could not be read.
    #[error("reading the blob store failed")]
    Read {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The blob could not be written.
    #[error("writing to the blob store failed")]
    Write {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The directory cannot be used as a store.
    #[error("{path} cannot be used as a blob store")]
    Open {
        /// The directory.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
