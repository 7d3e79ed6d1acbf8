//! `write_file`: creates a file or replaces its whole content.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{
    locks::FileLocks,
    shared::{blocking, check, count, failed, text},
};
use crate::{
    output::ToolOutput,
    scope::{Parents, ScopedFs, WriteMode, WriteOptions, Written},
    tool,
    tool::{ToolError, ToolExecutionContext},
};

#[derive(Clone, Debug)]
pub(super) struct WriteFile {
    scope: Arc<ScopedFs>,
    locks: FileLocks,
}

// Described by the tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFileArgs {
    /// File to write; missing directories are created
    path: String,
    /// The whole new content
    content: String,
}

impl WriteFile {
    pub(super) fn new(scope: Arc<ScopedFs>, locks: FileLocks) -> Self {
        Self { scope, locks }
    }

    /// Creates a file or replaces its whole content. To change a part of a file use edit_file.
    #[tool(closed_world, idempotent)]
    pub(super) async fn write_file(
        &self,
        #[arguments] args: WriteFileArgs,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        let this = self.clone();
        blocking(&context, move |token| match this.scope.key(&args.path) {
            Ok(key) => this.locks.exclusively(key, || this.write(&args, token)),
            // The directory does not exist yet, or the write will say what is wrong.
            Err(_) => this.write(&args, token),
        })
        .await
    }

    fn write(
        &self,
        args: &WriteFileArgs,
        token: &CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        check(token)?;
        let options = WriteOptions {
            mode: WriteMode::CreateOrReplace,
            parents: Parents::Create,
        };
        let written = self
            .scope
            .write_atomic(&args.path, args.content.as_bytes(), options)
            .map_err(|error| failed(&error))?;
        let bytes = count(args.content.len() as u64, "byte", "bytes");
        Ok(text(match written {
            Written::Created => format!("created {} ({bytes})", args.path),
            Written::Replaced { old_bytes } => {
                format!("replaced {} ({bytes}, {old_bytes} before)", args.path)
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::Fixture;

    #[tokio::test]
    async fn creates_parents_and_tells_what_it_did() {
        let fixture = Fixture::new();
        let arguments = json!({"path": "a/b/c.txt", "content": "one"});
        assert_eq!(
            fixture.good("write_file", arguments).await,
            "created a/b/c.txt (3 bytes)"
        );
        let arguments = json!({"path": "a/b/c.txt", "content": ""});
        let replaced = fixture.good("write_file", arguments).await;
        assert_eq!(replaced, "replaced a/b/c.txt (0 bytes, 3 before)");
        assert_eq!(fixture.bytes("a/b/c.txt"), b"");
    }

    #[tokio::test]
    async fn refusals_say_why() {
        let fixture = Fixture::new();
        fixture.write("d/x", "");
        for (path, reason) in [
            ("../out", "outside"),
            ("d", "is a directory"),
            ("", "empty"),
            ("d/x/y", "not a directory"),
        ] {
            let arguments = json!({"path": path, "content": "x"});
            let refusal = fixture.bad("write_file", arguments).await;
            assert!(refusal.contains(reason), "{refusal}");
        }
    }
}
