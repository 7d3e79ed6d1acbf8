//! What needs more than one crate, in one test binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod golden;
mod llm;
mod mcp_host;
mod mcp_stdio;
mod worker_run;
