//! Talking to the person at the terminal, for the commands of this crate and of the worker: always on standard error,
//! and never with characters a terminal would act on.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;

use super::sanitize;

/// What is logged unless a variable says otherwise. rmcp warns of every error a client is answered with.
const DEFAULT_LOG: &str = "warn,rmcp=error";

/// Writes a line to standard error, made safe. Where that is closed there is nobody to tell.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", sanitize::line(line));
}

/// Sends log records to standard error. The environment variable of that name chooses them.
pub fn log_to_stderr(variable: &str) {
    let filter = EnvFilter::try_from_env(variable).unwrap_or_else(|_| EnvFilter::new(DEFAULT_LOG));
    // A program that embeds a command may have a subscriber already; then it stays.
    let _ = tracing_subscriber::fmt()
        .with_ansi(io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .try_init();
}
