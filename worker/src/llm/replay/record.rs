//! Writes a replay file while a provider answers.
//!
//! An answer is written when it is complete, before its end is handed on: whoever saw the end of an answer finds it in
//! the file. Broken answers are never written.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde_json::json;

use super::{REPLAY_VERSION, placeholder::BlobNames};
use crate::llm::{Assembler, ChatRequest, EventStream, LlmError, LlmProvider, StreamEvent};

/// A provider whose answers are recorded.
#[derive(Debug)]
pub struct RecordingProvider<P> {
    inner: P,
    log: Arc<Log>,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: Mutex<File>,
}

impl<P: LlmProvider> RecordingProvider<P> {
    /// Creates the file, replacing one of that name, and records what `inner` answers.
    ///
    /// # Errors
    /// [`LlmError::Recording`] when the file cannot be written.
    pub fn create(inner: P, path: impl AsRef<Path>) -> Result<Self, LlmError> {
        let path = path.as_ref().to_owned();
        let file = match File::create_new(&path) {
            Ok(file) => Mutex::new(file),
            Err(source) => return Err(LlmError::Recording { file: path, source }),
        };
        let log = Log { path, file };
        log.append(&json!({"replay": REPLAY_VERSION, "provider": inner.name()}).to_string())?;
        Ok(Self {
            inner,
            log: Arc::new(log),
        })
    }
}

impl Log {
    fn append(&self, line: &str) -> Result<(), LlmError> {
        // The file is whole at every moment a lock can be poisoned: it is written by one call.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| file.flush());
        written.map_err(|source| self.failed(source))
    }

    fn append_answer(&self, answer: Assembler, names: &BlobNames) -> Result<(), LlmError> {
        let mut answer = answer.finish()?;
        for block in &mut answer.message.content {
            names.abstract_from(block);
        }
        let line = serde_json::to_string(&answer).map_err(|error| self.failed(error.into()))?;
        self.append(&line)
    }

    fn failed(&self, source: io::Error) -> LlmError {
        LlmError::Recording {
            file: self.path.clone(),
            source,
        }
    }
}

#[async_trait]
impl<P: LlmProvider> LlmProvider for RecordingProvider<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn stream(&self, request: &ChatRequest) -> Result<EventStream, LlmError> {
        let events = self.inner.stream(request).await?;
        let log = Arc::clone(&self.log);
        let names = BlobNames::seen_in(request);
        let mut answer = Assembler::new();
        Ok(Box::pin(events.map(move |event| {
            let event = event?;
            answer.apply(&event)?;
            if let StreamEvent::Finish { .. } = &event {
                log.append_answer(std::mem::take(&mut answer), &names)?;
            }
            Ok(event)
        })))
    }
}
