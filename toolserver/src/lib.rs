//! A tool server: tools behind one call path, every large result kept whole, only a summary shown.
//!
//! [`ToolServer`] is that path for callers in the same process and behind MCP alike: look up, check the arguments, run
//! with a deadline, catch panics, store what is large, answer. Tools are values that implement [`Tool`], most easily
//! written as methods with [`macro@tool`]. The crate never talks to a model and reads no API key.

pub mod blob;
pub mod cli;
mod error;
mod inspect;
mod likeness;
pub mod mcp;
mod memory;
mod method;
mod output;
mod process;
mod scope;
mod server;
mod state;
mod tool;
pub mod tools;

// The `#[tool]` macro writes this crate's name, also inside the crate.
extern crate self as toolserver;

pub use toolserver_macros::tool;

#[doc(hidden)]
pub use crate::method::__macro;
pub use crate::{
    blob::{BlobError, BlobFacts, BlobStore, FsBlobStore, StoreOptions},
    error::error_chain,
    likeness::rank_by_likeness,
    memory::hide_process_memory,
    method::{MethodFuture, MethodSpec, MethodTool},
    output::{Content, OutputLimits, TOOL_OUTPUT_MAX_BYTES, ToolOutput, summarize},
    scope::{
        Access, Directory, Entry, EntryKind, FileBytes, FileKey, FileStamp, LinkTarget, Metadata,
        Parents, ScopeError, ScopedFile, ScopedFs, WriteMode, WriteOptions, Written, escape_name,
    },
    server::{RegisterError, ServerOptions, ToolInfo, ToolReply, ToolServer},
    state::user_state_directory,
    tool::{Progress, ProgressSink, Tool, ToolAnnotations, ToolError, ToolExecutionContext},
};
