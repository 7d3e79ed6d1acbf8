//! The tool server as an MCP server.
//!
//! rmcp speaks the protocol: the handshake revisions and the stateless one on the same connection. Here its requests
//! become calls on [`ToolServer`](crate::ToolServer) and its replies are made of what they return. What rmcp leaves to
//! its user (answers to unknown names, methods we do not have, progress, cancellation) is in `service`.

mod convert;
mod service;
mod stream;

pub use self::{
    service::McpService,
    stream::{ServeError, serve, serve_stdio},
};
