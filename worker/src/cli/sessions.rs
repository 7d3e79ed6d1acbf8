//! `worker sessions`: the logs of earlier runs.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand};

use toolserver::cli::sanitize;

use super::{complain, exit};
use crate::session::{SessionError, SessionStore, default_session_directory};

#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// List them, oldest first
    Ls {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: SessionPlace,
    },
    /// Print the log of one, a JSON object a line
    Show {
        /// The session's id
        id: String,
        #[command(flatten)]
        place: SessionPlace,
    },
    /// Delete one
    Rm {
        /// The session's id
        id: String,
        #[command(flatten)]
        place: SessionPlace,
    },
}

/// Where sessions are kept.
#[derive(Args, Clone, Debug)]
pub(super) struct SessionPlace {
    /// Where the logs are kept [default: worker/sessions in the user's state directory]
    #[arg(long, value_name = "DIR", env = "WORKER_SESSIONS")]
    sessions: Option<PathBuf>,
}

/// Why sessions cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("neither XDG_STATE_HOME nor HOME says where sessions are kept: give --sessions DIR")]
    NoDirectory,
    #[error("writing the output failed")]
    Output(#[from] io::Error),
}

impl SessionPlace {
    pub(super) fn open(&self) -> Result<SessionStore, PlaceError> {
        let directory = self.sessions.clone().or_else(default_session_directory);
        Ok(SessionStore::open(
            directory.ok_or(PlaceError::NoDirectory)?,
        )?)
    }
}

pub(super) fn run(command: &SessionsCommand) -> ExitCode {
    let result = match command {
        SessionsCommand::Ls { json, place } => list(place, *json),
        SessionsCommand::Show { id, place } => show(place, id),
        SessionsCommand::Rm { id, place } => remove(place, id),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output is gone: there is nobody to tell.
        Err(PlaceError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error @ PlaceError::NoDirectory) => complain(exit::USAGE, &error),
        Err(error) => complain(exit::FAILED, &error),
    }
}

fn list(place: &SessionPlace, json: bool) -> Result<(), PlaceError> {
    let mut out = io::stdout().lock();
    for session in place.open()?.list()? {
        if json {
            serde_json::to_writer(&mut out, &session).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            let prompt: String = session
                .prompt
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(60)
                .collect();
            writeln!(
                out,
                "{}  {:>3} turns  {}",
                session.id,
                session.turns,
                sanitize::line(&prompt)
            )?;
        }
    }
    Ok(())
}

fn show(place: &SessionPlace, id: &str) -> Result<(), PlaceError> {
    let mut file = std::fs::File::open(place.open()?.file(id)?)?;
    io::copy(&mut file, &mut io::stdout().lock())?;
    Ok(())
}

fn remove(place: &SessionPlace, id: &str) -> Result<(), PlaceError> {
    std::fs::remove_file(place.open()?.file(id)?)?;
    Ok(())
}
