//! Where tools run: in this process, or in another one behind MCP. The turn loop cannot tell which.

mod host;
mod local;
mod process;
mod remote;
mod set;

pub use self::{
    host::{HostCall, HostError, HostReply, ProgressListener, ToolHost},
    local::LocalHost,
    process::ToolProcess,
    remote::McpHost,
    set::{ToolSet, ToolSetError},
};
