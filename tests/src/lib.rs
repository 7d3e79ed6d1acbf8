//! Test doubles and helpers shared by the tests of the whole workspace. Nothing but tests uses this crate.

pub mod binaries;
pub mod model_server;
