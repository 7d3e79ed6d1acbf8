//! `worker run`: one task from the command line to the exit status.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};

use clap::Args;
use protocol::StopReason;
use serde_json::json;
use toolserver::cli::ServerArgs;

use super::{
    complain,
    endpoint::{EndpointArgs, EndpointError},
    exit,
    printer::{OutputFormat, Printer},
    say,
    sessions::{PlaceError, SessionPlace},
    signals,
};
use crate::{
    PromptError, TurnReport, Worker, WorkerOptions,
    llm::LlmError,
    session::{Recovered, SessionError, SessionLog},
    tools::{HostError, McpHost, ToolProcess, ToolSet, ToolSetError},
};

/// What `worker run` takes.
#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// The task; `@path` attaches a file, `-` reads the task from standard input
    prompt: String,

    #[command(flatten)]
    endpoint: EndpointArgs,

    /// How many requests the task may take
    #[arg(long, alias = "max-turns", value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    max_requests: u32,

    /// Go on with an earlier session
    #[arg(long, value_name = "ID")]
    resume: Option<String>,

    #[command(flatten)]
    place: SessionPlace,

    /// What standard output carries
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,

    /// Tell on standard error only what was not done
    #[arg(long, short)]
    quiet: bool,

    /// Give the model no tools
    #[arg(long)]
    no_tools: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Why a run did not begin.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("the model cannot be used")]
    Model(#[from] EndpointError),
    #[error("the session cannot be used")]
    Place(#[from] PlaceError),
    #[error("the session cannot be used")]
    Session(#[from] SessionError),
    #[error("the tools cannot be used")]
    Tools(#[from] ToolSetError),
    #[error("the tool server cannot be started")]
    Host(#[from] HostError),
    #[error("a directory cannot be used")]
    Scope(#[from] toolserver::ScopeError),
    #[error("the prompt cannot be read from standard input")]
    Prompt(#[source] io::Error),
    #[error("the file of this program is not known")]
    Program(#[source] io::Error),
    #[error(transparent)]
    Empty(#[from] PromptError),
}

pub(super) async fn run(arguments: RunArgs) -> ExitCode {
    // The environment of this process holds the key.
    toolserver::hide_process_memory();
    match run_task(&arguments).await {
        Ok(status) => status,
        Err(error) => complain(exit::USAGE, &error),
    }
}

async fn run_task(arguments: &RunArgs) -> Result<ExitCode, StartError> {
    let prompt = arguments.prompt()?;
    let scope = Arc::new(arguments.server.scope()?);
    let resumed = arguments.resumed()?;
    let recorded = resumed
        .as_ref()
        .and_then(|(_, recovered)| recovered.model.as_deref());
    let model = arguments.endpoint.model_name(recorded).to_owned();
    let cycle = arguments.endpoint.cycle(recorded)?;
    let tools = arguments.tools().await?;
    let (log, recovered) = match resumed {
        Some(resumed) => resumed,
        // A new session begins only when everything else is ready.
        None => (
            arguments.place.open()?.create(&model)?,
            Recovered::default(),
        ),
    };
    let session = log.id().to_owned();

    let damage = recovered.damage.clone();
    let options = WorkerOptions {
        max_requests: arguments.max_requests,
        ..WorkerOptions::default()
    };
    let mut worker = Worker::new(cycle)
        .with_options(options)
        .with_tools(tools)
        .with_files(scope)
        .with_session(log)
        .with_recovered(recovered);
    let printer = Arc::new(Mutex::new(Printer::new(arguments.output, arguments.quiet)));
    let listener = Arc::clone(&printer);
    worker.on_event(move |event| {
        listener
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .event(event)
    });
    for message in damage {
        worker.alert(protocol::AlertLevel::Warn, message);
    }

    let signals = tokio::spawn(signals::interrupt_on_signal(worker.interrupter()));
    let report = worker.run(prompt).await;
    worker.shut_down().await;
    signals.abort();
    let report = report?;
    let mut printer = printer.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(finish(arguments, &report, &session, &mut printer))
}

/// Prints the answer, says why there is none, and returns the exit status.
fn finish(
    arguments: &RunArgs,
    report: &TurnReport,
    session: &str,
    printer: &mut Printer,
) -> ExitCode {
    let printed = match arguments.output {
        OutputFormat::Json => {
            let summary = json!({
                "answer": report.answer, "stop": report.stop, "session": session, "turn": report.turn,
                "requests": report.requests, "usage": report.usage,
            });
            writeln!(io::stdout().lock(), "{summary}")
        }
        OutputFormat::Text | OutputFormat::Jsonl => printer.answer(&report.answer),
    };
    if let Err(error) = printed
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return complain(exit::FAILED, &error);
    }
    let (status, message) = outcome(&report.stop);
    if let Some(message) = message {
        say(&format!("worker: {}", message));
    }
    if matches!(
        &report.error,
        Some(LlmError::InvalidRequest {
            status: Some(404),
            ..
        })
    ) {
        say(
            "worker: is --base-url right? It ends where /chat/completions begins; --model must be known there",
        );
    }
    if !arguments.quiet {
        let (requests, usage) = (report.requests, report.usage);
        let tokens = format!(
            "{} tokens in, {} out",
            usage.input_tokens, usage.output_tokens
        );
        let plural = if requests == 1 { "" } else { "s" };
        say(&format!(
            "  {requests} request{plural}, {tokens}; session {session}"
        ));
    }
    ExitCode::from(status)
}

/// Returns the exit status of a stop reason, and what to tell the person when it is no answer.
fn outcome(stop: &StopReason) -> (u8, Option<String>) {
    let (status, message) = match stop {
        StopReason::Finished => return (0, None),
        StopReason::Length => (
            exit::LIMIT,
            "the answer was cut: it reached the token limit".to_owned(),
        ),
        StopReason::ContentFilter => (exit::LIMIT, "the provider withheld the answer".to_owned()),
        StopReason::EmptyAnswer => (
            exit::LIMIT,
            "the model gave an empty answer, twice".to_owned(),
        ),
        StopReason::RequestLimit { limit } => (
            exit::LIMIT,
            format!("no answer within {limit} requests; --max-requests allows more"),
        ),
        StopReason::RepeatedCalls { times } => (
            exit::LIMIT,
            format!("stopped: the model made the same calls with the same results {times} times"),
        ),
        StopReason::ContinuationLimit { limit } => (
            exit::LIMIT,
            format!("stopped: the answer was sent back {limit} times and still not accepted"),
        ),
        StopReason::Aborted { message } => (exit::ABORTED, format!("ended by a hook: {message}")),
        StopReason::Interrupted => (exit::INTERRUPTED, "interrupted".to_owned()),
        StopReason::Failed { message } => (exit::FAILED, message.clone()),
        other => (
            exit::FAILED,
            format!("ended for a reason this program does not know: {other:?}"),
        ),
    };
    (status, Some(message))
}

impl RunArgs {
    /// Reads the task. An empty one is refused before anything is started.
    fn prompt(&self) -> Result<String, StartError> {
        let mut prompt = self.prompt.clone();
        if prompt == "-" {
            prompt.clear();
            io::stdin()
                .lock()
                .read_to_string(&mut prompt)
                .map_err(StartError::Prompt)?;
        }
        if prompt.trim().is_empty() {
            Err(PromptError::Empty.into())
        } else {
            Ok(prompt)
        }
    }

    fn resumed(&self) -> Result<Option<(SessionLog, Recovered)>, StartError> {
        let Some(id) = &self.resume else {
            return Ok(None);
        };
        Ok(Some(self.place.open()?.resume(id)?))
    }

    async fn tools(&self) -> Result<ToolSet, StartError> {
        let mut tools = ToolSet::default();
        if !self.no_tools {
            let program = std::env::current_exe().map_err(StartError::Program)?;
            let host = McpHost::spawn(self.tool_process(&program)).await?;
            tools.add(Arc::new(host)).await?;
        }
        Ok(tools)
    }

    /// The tool server is this same program, with the same directories.
    fn tool_process(&self, program: &Path) -> ToolProcess {
        let mut arguments: Vec<OsString> = vec!["toolserver".into()];
        let mut path = |option: &str, value: &Path| {
            arguments.extend([option.into(), value.as_os_str().to_owned()])
        };
        self.server
            .root
            .iter()
            .for_each(|root| path("--root", root));
        self.server
            .read_only
            .iter()
            .for_each(|root| path("--read-only", root));
        self.server
            .blobs
            .iter()
            .for_each(|blobs| path("--blobs", blobs));
        if self.server.no_blobs {
            arguments.push("--no-blobs".into());
        }
        ToolProcess::new(program).with_arguments(arguments)
    }
}
