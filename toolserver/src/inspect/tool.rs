//! `inspect` as a tool. The server registers it by itself when it has a blob store.

use std::sync::Arc;

use protocol::{BlobHandle, Selector};

use super::{InspectError, inspect};
use crate::{blob::BlobStore, error_chain, output::ToolOutput, tool, tool::ToolError};

/// The state of the tool: the store it reads.
#[derive(Clone, Debug)]
pub(crate) struct Inspect {
    pub(crate) store: Arc<dyn BlobStore>,
}

impl Inspect {
    /// Read a part of a stored result. Results too large to show are stored; you see a summary that begins with
    /// `[blob:NAME]`. Without selector: facts and the beginning.
    #[tool(read_only, closed_world)]
    pub(crate) async fn inspect(
        &self,
        #[description = "The NAME in [blob:NAME], or the full id"] blob_id: String,
        #[description = "lines:20-50 (text), slice:3..8 (JSON array), key:results (JSON object), bytes:0-4096 (any)"]
        selector: Option<String>,
    ) -> Result<ToolOutput, ToolError> {
        self.reply(&blob_id, selector.as_deref())
            .await
            .map(ToolOutput::Inline)
            .map_err(|error| match error {
                InspectError::Handle(_) | InspectError::Selector(_) => {
                    ToolError::InvalidArgument(error_chain(&error))
                }
                error => ToolError::ExecutionFailed(error_chain(&error)),
            })
    }

    async fn reply(&self, blob_id: &str, selector: Option<&str>) -> Result<String, InspectError> {
        let handle: BlobHandle = blob_id.parse()?;
        let selector: Option<Selector> = selector.map(str::parse).transpose()?;
        let facts = self.store.resolve(&handle).await?;
        inspect(&*self.store, &facts, selector.as_ref()).await
    }
}
