//! What the tests of the tools share: a directory to work in, and calls as a server makes them.

#![expect(
    clippy::disallowed_methods,
    reason = "tests build and inspect files by other means than the scope"
)]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use tempfile::TempDir;

use super::{ShellOptions, builtin};
use crate::{
    output::{Content, ToolOutput},
    scope::{Access, ScopedFs},
    tool::{Tool, ToolError, ToolExecutionContext},
};

/// A directory with tools on it.
pub(super) struct Fixture {
    directory: TempDir,
    scope: Arc<ScopedFs>,
    tools: Vec<Box<dyn Tool>>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let roots = [(directory.path().to_owned(), Access::ReadWrite)];
        let scope = Arc::new(ScopedFs::new(roots).unwrap());
        let tools = builtin(Arc::clone(&scope), ShellOptions::default());
        Self {
            directory,
            scope,
            tools,
        }
    }

    pub(super) fn scope(&self) -> Arc<ScopedFs> {
        Arc::clone(&self.scope)
    }

    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file, and the directories it is in.
    pub(super) fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(super) fn link(&self, target: &str, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
    }

    pub(super) fn sparse(&self, name: &str, bytes: u64) {
        let file = std::fs::File::create(self.path(name)).unwrap();
        file.set_len(bytes).unwrap();
    }

    pub(super) async fn call_in(
        &self,
        tool: &str,
        arguments: Value,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        let found = self.tools.iter().find(|known| known.name() == tool);
        found
            .unwrap()
            .execute(&arguments.to_string(), context)
            .await
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<String, ToolError> {
        let context = ToolExecutionContext::detached();
        Ok(match self.call_in(tool, arguments, context).await? {
            ToolOutput::Inline(text) | ToolOutput::Auto(Content::Text(text)) => text,
            other => panic!("no text: {other:?}"),
        })
    }

    /// Makes a call that must work.
    pub(super) async fn good(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.unwrap()
    }

    /// Makes a call that must fail, and returns what the model is told.
    pub(super) async fn bad(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.unwrap_err().for_caller()
    }
}
