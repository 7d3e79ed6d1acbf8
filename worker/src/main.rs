//! The `worker` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::cli::main(std::env::args_os())
}
