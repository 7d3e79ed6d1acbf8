//! The `worker` command line: run a task, look at sessions, or be the tool server.
//!
//! Standard output carries the answer, or with `--output jsonl` the events, and nothing else. What happens meanwhile
//! goes to standard error.

mod endpoint;
mod printer;
mod run;
mod sessions;
mod signals;

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand};
use toolserver::cli::terminal::{log_to_stderr, say};

/// Exit statuses, as the help text and the README state them.
mod exit {
    /// The model could not be asked, or the log could not be written.
    pub(super) const FAILED: u8 = 1;
    /// Wrong usage or setup, an empty prompt among it. clap uses it too.
    pub(super) const USAGE: u8 = 2;
    /// A limit was reached, or the answer was cut, withheld or empty.
    pub(super) const LIMIT: u8 = 3;
    /// A hook or interceptor ended the turn.
    pub(super) const ABORTED: u8 = 4;
    /// Stopped by Ctrl-C.
    pub(super) const INTERRUPTED: u8 = 130;
}

/// Drives a model with tools.
#[derive(Debug, Parser)]
#[command(name = "worker", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 answered, 1 the model could not be asked or the log not written, 2 wrong usage \
    or setup, 3 a limit was reached or the answer was cut, withheld or empty, 4 ended by a hook, 130 stopped by Ctrl-C."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one task and print the answer
    Run(Box<run::RunArgs>),
    /// Look at the logs of earlier runs
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    /// Be the tool server (what `run` starts as a subprocess); see `worker toolserver --help`
    #[command(disable_help_flag = true)]
    Toolserver {
        /// What `toolserver` takes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Runs the command with its arguments, the program's name first, and returns its exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers on standard output; the rest is usage on standard error.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
        }
    };
    match cli.command {
        Command::Toolserver { arguments } => {
            let name = OsString::from("worker toolserver");
            toolserver::cli::main(std::iter::once(name).chain(arguments))
        }
        Command::Run(arguments) => with_runtime(run::run(*arguments)),
        Command::Sessions(command) => sessions::run(&command),
    }
}

fn with_runtime(work: impl Future<Output = ExitCode>) -> ExitCode {
    log_to_stderr("WORKER_LOG");
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return complain(exit::FAILED, &error),
    };
    let status = runtime.block_on(work);
    runtime.shutdown_background();
    status
}

/// Tells the person an error with its causes, and returns the exit status.
fn complain(status: u8, error: &dyn std::error::Error) -> ExitCode {
    say(&format!("worker: {}", crate::error_chain(error)));
    ExitCode::from(status)
}
