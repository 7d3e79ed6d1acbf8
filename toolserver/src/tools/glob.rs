//! `glob`: finds files by a pattern of their path.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{
    pattern::PathPattern,
    shared::{blocking, count, text},
    walk::{shown, walk},
};
use crate::{
    output::ToolOutput,
    scope::ScopedFs,
    tool,
    tool::{ToolError, ToolExecutionContext},
};

/// How many paths are shown; all are counted.
const SHOWN_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Glob {
    scope: Arc<ScopedFs>,
}

// Described by the tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GlobArgs {
    /// Like src/**/*.rs; without / it fits names at any depth
    pattern: String,
    /// Directory to search
    #[serde(default = "super::shared::here")]
    path: String,
}

impl Glob {
    pub(super) fn new(scope: Arc<ScopedFs>) -> Self {
        Self { scope }
    }

    /// Finds files by a path pattern, sorted by path. Files ignored by .gitignore are left out.
    #[tool(read_only, closed_world)]
    pub(super) async fn glob(
        &self,
        #[arguments] args: GlobArgs,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        let scope = Arc::clone(&self.scope);
        blocking(&context, move |token| search(&scope, &args, token)).await
    }
}

fn search(
    scope: &ScopedFs,
    args: &GlobArgs,
    token: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let pattern = PathPattern::parse(&args.pattern)?;
    let mut paths = Vec::new();
    let mut total: u64 = 0;
    let left_out = walk(scope, &args.path, token, |found| {
        if pattern.fits(found.path) {
            total += 1;
            if paths.len() < SHOWN_MAX {
                paths.push(shown(&args.path, found.path));
            }
        }
        Ok(())
    })?;
    let files = count(total, "file", "files");
    let note = left_out.note();
    if paths.is_empty() {
        return Ok(ToolOutput::Inline(format!(
            "[no file fits {:?}{note}]",
            args.pattern
        )));
    }
    let kept = paths.len();
    if total > kept as u64 {
        paths.push(format!(
            "[the first {kept} of {files}; use a narrower pattern or path{note}]"
        ));
    } else {
        paths.push(format!("[{files}{note}]"));
    }
    Ok(text(paths.join("\n")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::super::testing::Fixture;
    use crate::tool::{ToolError, ToolExecutionContext};

    #[tokio::test]
    async fn ignore_files_are_honoured_from_every_level() {
        let fixture = Fixture::new();
        fixture.write(
            ".gitignore",
            "target/\n*.log\n!keep.log\n/top.rs\nsub/gone.rs\n",
        );
        fixture.write("sub/.gitignore", "!b.log\n");
        for file in [
            "a.rs",
            "top.rs",
            "target/x.rs",
            "sub/a.rs",
            "sub/top.rs",
            "sub/gone.rs",
            "a.log",
            "keep.log",
            "sub/b.log",
            "sub/c.log",
            ".git/x.rs",
            ".hidden.rs",
        ] {
            fixture.write(file, "");
        }
        let found = fixture.good("glob", json!({"pattern": "*.{rs,log}"})).await;
        let expected = ".hidden.rs\na.rs\nkeep.log\nsub/a.rs\nsub/b.log\nsub/top.rs\n[6 files]";
        assert_eq!(found, expected);
        let absolute = fixture.path("sub").to_str().unwrap().to_owned();
        for path in ["sub", "./sub/", &absolute] {
            let found = fixture
                .good("glob", json!({"pattern": "**/*.{rs,log}", "path": path}))
                .await;
            assert_eq!(found.lines().count(), 4, "{found}");
            assert!(!found.contains("gone"), "{found}");
        }
        let found = fixture
            .good("glob", json!({"pattern": "*.rs", "path": "target"}))
            .await;
        assert_eq!(found, "target/x.rs\n[1 file]");
    }

    #[tokio::test]
    async fn fs08_links_are_named_and_not_entered() {
        let fixture = Fixture::new();
        fixture.write("d/f", "");
        fixture.link("/etc", "out");
        fixture.link("d", "in");
        fixture.link("..", "d/cycle");
        let found = fixture.good("glob", json!({"pattern": "**/*"})).await;
        assert_eq!(found, "d/cycle\nd/f\nin\nout\n[4 files]");
        let refusal = fixture
            .bad("glob", json!({"pattern": "*", "path": "out"}))
            .await;
        assert!(refusal.contains("outside"), "{refusal}");
    }

    #[tokio::test]
    async fn fs22_deep_trees_are_cut_and_that_is_said() {
        let fixture = Fixture::new();
        fixture.write(format!("{}f", "d/".repeat(200)), "");
        let found = fixture.good("glob", json!({"pattern": "**/**/**/f"})).await;
        assert!(
            found.starts_with("[no file fits") && found.contains("1 directories deeper"),
            "{found}"
        );
    }

    #[tokio::test]
    async fn a_cancelled_walk_ends() {
        let fixture = Fixture::new();
        fixture.write("f", "");
        let token = CancellationToken::new();
        token.cancel();
        let identity = ToolExecutionContext::detached().identity().clone();
        let context = ToolExecutionContext::new(identity, token);
        let result = fixture
            .call_in("glob", json!({"pattern": "*"}), context)
            .await;
        assert!(matches!(result, Err(ToolError::Cancelled)));
    }
}
