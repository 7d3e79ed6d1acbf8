//! The `toolserver` command line: serve MCP over stdio, or use tools and blobs by hand.
//!
//! It lives in the library because the worker carries the same server inside its own binary. Standard output carries
//! only the protocol or the answer; everything else goes to standard error.

mod blobs;
mod options;
pub mod sanitize;
mod signals;
pub mod terminal;

use std::{
    error::Error,
    ffi::OsString,
    io::{self, Read, Write},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;

pub use self::options::{ServerArgs, SetupError, default_blob_directory};
use self::terminal::{log_to_stderr, say};
use crate::{
    ProgressSink, ToolExecutionContext, ToolServer, error_chain, hide_process_memory,
    mcp::{McpService, serve_stdio},
};

/// Exit status when a tool, or the lookup of a blob, failed.
const EXIT_FAILED: u8 = 1;

/// Exit status when the server could not be set up. Wrong usage has it too, as clap gives it.
const EXIT_SETUP: u8 = 2;

/// Serves tools over MCP. Without a command it speaks MCP on standard input and output, which is what an MCP client
/// starts.
#[derive(Debug, Parser)]
#[command(name = "toolserver", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 done, 1 the tool failed, 2 wrong usage or setup, 128+N stopped by signal N."
)]
struct Cli {
    #[command(flatten)]
    server: ServerArgs,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the tools
    Tools {
        /// As JSON, with schemas
        #[arg(long)]
        json: bool,
    },
    /// Call one tool and print its result
    Call {
        /// The tool's name
        name: String,
        /// Its arguments as JSON; `-` reads them from standard input
        #[arg(default_value = "{}")]
        arguments: String,
    },
    /// Look at stored results
    #[command(subcommand)]
    Blobs(blobs::BlobsCommand),
}

/// Runs the command with its arguments, the program's name first, and returns its exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers on standard output; the rest is usage on standard error.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_SETUP));
        }
    };
    log_to_stderr("TOOLSERVER_LOG");
    // A client may have passed on an environment with keys; commands run as the same user.
    hide_process_memory();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return complain(EXIT_SETUP, &error),
    };
    let status = runtime.block_on(run(cli));
    // A thread may still be waiting for standard input; it is not waited for.
    runtime.shutdown_background();
    status
}

async fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        None => return serve(&cli.server).await,
        Some(Command::Blobs(command)) => blobs::run(&cli.server, command).await,
        Some(Command::Tools { json }) => tools(&cli.server, json),
        Some(Command::Call { name, arguments }) => call(&cli.server, &name, arguments).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Setup(error)) => complain(EXIT_SETUP, &error),
        Err(error @ Failure::Stopped(signal)) => complain(128_u8.saturating_add(signal), &error),
        Err(error @ Failure::Told(_)) => complain(EXIT_FAILED, &error),
        // The reader of our output is gone, `| head` for example: there is nobody to tell.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => complain(EXIT_FAILED, &error),
    }
}

/// Why a command gave no result.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Output(#[from] io::Error),
    #[error("{0}")]
    Told(String),
    #[error("stopped by signal {0}")]
    Stopped(u8),
}

async fn serve(arguments: &ServerArgs) -> ExitCode {
    let server = match arguments.server() {
        Ok(server) => server,
        Err(error) => return complain(EXIT_SETUP, &error),
    };
    let service = McpService::new(server.clone(), arguments.instructions());
    let stop = CancellationToken::new();
    let serving = serve_stdio(service, stop.clone());
    tokio::pin!(serving);
    let (served, signal) = tokio::select! {
        served = &mut serving => (served, None),
        signal = signals::stop_requested() => {
            stop.cancel();
            (serving.await, Some(signal))
        }
    };
    // Commands that still run are ended before this process is, or nobody would end them.
    server.shut_down().await;
    match (served, signal) {
        (_, Some(signal)) => ExitCode::from(128_u8.saturating_add(signal)),
        (Ok(()), None) => ExitCode::SUCCESS,
        (Err(error), None) => complain(EXIT_FAILED, &error),
    }
}

fn tools(arguments: &ServerArgs, json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let tools = arguments.server()?.tools();
    if json {
        let tools: Vec<_> = tools
            .iter()
            .map(|tool| {
                serde_json::json!({
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": tool.input_schema,
                    "readOnly": tool.annotations.read_only,
                })
            })
            .collect();
        serde_json::to_writer_pretty(&mut out, &tools).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        for tool in tools {
            writeln!(
                out,
                "{:<12} {}",
                tool.name,
                tool.description.lines().next().unwrap_or_default()
            )?;
        }
    }
    Ok(())
}

async fn call(arguments: &ServerArgs, name: &str, mut input: String) -> Result<(), Failure> {
    if input == "-" {
        input.clear();
        io::stdin().lock().read_to_string(&mut input)?;
    }
    let server: ToolServer = arguments.server()?;
    let context = ToolExecutionContext::detached().with_progress(ProgressSink::new(|progress| {
        say(&progress.message);
    }));
    let stop = context.cancellation().clone();
    let calling = server.call_tool(name, &input, context);
    tokio::pin!(calling);
    let reply = tokio::select! {
        reply = &mut calling => reply,
        signal = signals::stop_requested() => {
            stop.cancel();
            let _ = calling.await;
            return Err(Failure::Stopped(signal));
        }
    };
    let reply = reply.map_err(|error| Failure::Told(error.for_caller()))?;
    let mut out = io::stdout().lock();
    out.write_all(reply.text.as_bytes())?;
    if !reply.text.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(())
}

/// Tells the person an error with its causes, and returns the exit status.
fn complain(status: u8, error: &dyn Error) -> ExitCode {
    say(&format!("toolserver: {}", error_chain(error)));
    ExitCode::from(status)
}
