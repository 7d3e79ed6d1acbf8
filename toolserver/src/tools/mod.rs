//! The built-in tools: files, search and the shell, all inside one scope.
//!
//! Each tool is a file with its arguments, its run and its tests; what a model reads about an argument is the doc
//! comment of its field, about the tool that of its method. What several of them need lies beside them: reading
//! for a change, walking a tree, and how a failure is told to a model.

mod edit_file;
mod excerpt;
mod glob;
mod grep;
mod hint;
mod hits;
mod list_dir;
mod locks;
mod pattern;
mod read_file;
mod replace;
mod shared;
mod shell;
mod walk;
mod write_file;

#[cfg(test)]
mod testing;

use std::sync::Arc;

pub use self::shell::ShellOptions;
use self::{
    edit_file::EditFile, glob::Glob, grep::Grep, list_dir::ListDir, locks::FileLocks,
    read_file::ReadFile, shell::Shell, write_file::WriteFile,
};
use crate::{output::TOOL_OUTPUT_MAX_BYTES, scope::ScopedFs, tool::Tool};

/// The report of an edit is made to fit in this, so that it is always seen.
const EDIT_REPORT_MAX_BYTES: usize = 4 * 1024;

/// Makes all built-in tools.
#[must_use]
pub fn builtin(scope: Arc<ScopedFs>, shell: ShellOptions) -> Vec<Box<dyn Tool>> {
    let locks = FileLocks::default();
    let read_file = ReadFile::new(Arc::clone(&scope));
    let write_file = WriteFile::new(Arc::clone(&scope), locks.clone());
    let edit_file = EditFile::new(Arc::clone(&scope), locks);
    vec![
        Box::new(
            read_file
                .read_file_tool()
                .with_inline_max_bytes(TOOL_OUTPUT_MAX_BYTES),
        ),
        Box::new(write_file.write_file_tool()),
        Box::new(
            edit_file
                .edit_file_tool()
                .with_inline_max_bytes(EDIT_REPORT_MAX_BYTES),
        ),
        Box::new(ListDir::new(Arc::clone(&scope)).list_dir_tool()),
        Box::new(Glob::new(Arc::clone(&scope)).glob_tool()),
        Box::new(Grep::new(Arc::clone(&scope)).grep_tool()),
        Box::new(
            Shell::new(scope, shell)
                .shell_tool()
                .with_deadline(shell.deadline()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::{testing::Fixture, *};

    #[test]
    fn the_list_is_short_and_true() {
        let fixture = Fixture::new();
        let tools = builtin(fixture.scope(), ShellOptions::default());
        let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
        let expected = [
            "read_file",
            "write_file",
            "edit_file",
            "list_dir",
            "glob",
            "grep",
            "shell",
        ];
        assert_eq!(names, expected);
        let mut bytes = 0;
        for tool in &tools {
            let schema = tool.input_schema();
            assert_eq!(schema["type"], "object", "{}", tool.name());
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name());
            // A doc comment on the arguments would be sent with every list of tools, and says nothing new.
            assert!(schema.get("description").is_none(), "{}", tool.name());
            for (name, property) in schema["properties"].as_object().unwrap() {
                let described = property["description"].is_string();
                assert!(described, "{}.{name}: {property}", tool.name());
            }
            bytes += tool.name().len() + tool.description().len() + schema.to_string().len();
            let reads = ["read_file", "list_dir", "glob", "grep"].contains(&tool.name());
            assert_eq!(tool.annotations().read_only, reads, "{}", tool.name());
        }
        // About four bytes make a token.
        assert!(bytes < 5500, "{bytes}");
    }

    #[test]
    fn the_shell_outlives_the_deadline_of_other_tools() {
        let fixture = Fixture::new();
        let options = ShellOptions::default();
        let tools = builtin(fixture.scope(), options);
        let deadline = tools[6].deadline(std::time::Duration::from_secs(1));
        assert!(deadline > options.max_timeout);
    }
}
