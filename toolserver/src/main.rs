//! The `toolserver` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolserver::cli::main(std::env::args_os())
}
