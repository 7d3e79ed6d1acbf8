//! `toolserver blobs`: stored results by hand.

use std::io::{self, Write};

use clap::Subcommand;
use protocol::{BlobHandle, Selector};

use super::{Failure, ServerArgs};
use crate::{blob::BlobStore, error_chain, inspect::inspect};

#[derive(Debug, Subcommand)]
pub(super) enum BlobsCommand {
    /// List them, oldest first
    Ls {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Print one, or a part of it
    Show {
        /// The short name or the full id
        blob: String,
        /// A part: `lines:20-50`, `slice:3..8`, `key:results` or `bytes:0-4096`; all of it without one
        selector: Option<String>,
    },
}

pub(super) async fn run(arguments: &ServerArgs, command: BlobsCommand) -> Result<(), Failure> {
    let store = arguments.store()?;
    match command {
        BlobsCommand::Ls { json } => list(&store, json).await,
        BlobsCommand::Show { blob, selector } => show(&store, &blob, selector.as_deref()).await,
    }
}

fn told(error: impl std::error::Error) -> Failure {
    Failure::Told(error_chain(&error))
}

async fn list(store: &dyn BlobStore, json: bool) -> Result<(), Failure> {
    let blobs = store.list().await.map_err(told)?;
    let mut out = io::stdout().lock();
    for blob in blobs {
        if json {
            serde_json::to_writer(&mut out, &blob.to_ref(0)).map_err(io::Error::from)?;
            writeln!(out)?;
            continue;
        }
        let count = match (blob.lines, blob.entries) {
            (Some(lines), _) => format!("{lines} lines"),
            (None, Some(entries)) => format!("{entries} entries"),
            (None, None) => String::new(),
        };
        let tool = blob.tool.as_deref().unwrap_or("-");
        writeln!(
            out,
            "{:<6} {}  {:<11} {:>11} bytes  {count:<14} {tool}",
            blob.name.as_str(),
            blob.id,
            blob.kind.as_str(),
            blob.bytes
        )?;
    }
    Ok(())
}

async fn show(store: &dyn BlobStore, blob: &str, selector: Option<&str>) -> Result<(), Failure> {
    let handle: BlobHandle = blob.parse().map_err(told)?;
    let selector: Option<Selector> = selector.map(str::parse).transpose().map_err(told)?;
    let facts = store.resolve(&handle).await.map_err(told)?;
    let text = match &selector {
        Some(selector) => inspect(store, &facts, Some(selector)).await.map_err(told)? + "\n",
        None => store.load(facts.id).await.map_err(told)?.into_text(),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
