//! Showing a turn to a person: the answer on standard output, what happens on the way on standard error.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
};

use protocol::{AlertLevel, BlockKind, CallId, Event, EventBody, ToolOutcome};

use toolserver::cli::{sanitize, terminal::say};

/// Longest form of a call's arguments on its line, in characters.
const ARGUMENTS_SHOWN: usize = 80;

/// How standard output is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OutputFormat {
    /// The answer, streamed when a person is watching
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// Every event as it happens, one JSON object a line
    Jsonl,
}

/// Prints events.
#[derive(Debug)]
pub(super) struct Printer {
    format: OutputFormat,
    /// Whether text goes to standard output while it is streamed. A program gets the answer alone.
    streams: bool,
    quiet: bool,
    /// Name and arguments of the calls that have no result yet.
    calls: HashMap<CallId, (String, String)>,
    text_block: Option<u32>,
    wrote_text: bool,
    failure: Option<io::Error>,
}

impl Printer {
    pub(super) fn new(format: OutputFormat, quiet: bool) -> Self {
        Self {
            format,
            streams: format == OutputFormat::Text && io::stdout().is_terminal(),
            quiet,
            calls: HashMap::new(),
            text_block: None,
            wrote_text: false,
            failure: None,
        }
    }

    /// Prints one event.
    pub(super) fn event(&mut self, event: &Event) {
        if self.format == OutputFormat::Jsonl {
            let mut line =
                serde_json::to_vec(event).expect("events have string keys and plain values");
            line.push(b'\n');
            // A reader that is gone does not stop the work; what could not be written is told at the end.
            if let Err(error) = io::stdout().lock().write_all(&line) {
                self.failure.get_or_insert(error);
            }
        }
        if self.streams {
            self.stream(&event.body);
        }
        let is_warning = matches!(
            &event.body,
            EventBody::Alert {
                level: AlertLevel::Warn,
                ..
            }
        );
        if !self.quiet || is_warning {
            self.narrate(&event.body);
        }
    }

    /// Prints the answer at the end of the turn, unless it was streamed. Returns what went wrong so far.
    pub(super) fn answer(&mut self, answer: &str) -> io::Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if self.streams || self.format != OutputFormat::Text || answer.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(answer.as_bytes())?;
        if !answer.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    fn stream(&mut self, body: &EventBody) {
        let mut out = io::stdout().lock();
        match body {
            EventBody::BlockStart {
                block,
                kind: BlockKind::Text,
                ..
            } => self.text_block = Some(*block),
            EventBody::BlockDelta { block, delta } if self.text_block == Some(*block) => {
                self.wrote_text = true;
                let _ = write!(out, "{}", sanitize::text(delta));
                let _ = out.flush();
            }
            EventBody::BlockStop { block } if self.text_block == Some(*block) => {
                self.end_text(&mut out)
            }
            EventBody::AnswerVoided => self.end_text(&mut out),
            _ => {}
        }
    }

    fn end_text(&mut self, out: &mut impl Write) {
        self.text_block = None;
        if std::mem::take(&mut self.wrote_text) {
            let _ = writeln!(out);
        }
    }

    fn narrate(&mut self, body: &EventBody) {
        match body {
            EventBody::ToolCallComplete {
                call_id,
                name,
                arguments,
            } => {
                self.calls
                    .insert(call_id.clone(), (name.clone(), shorten(arguments)));
            }
            EventBody::ToolProgress { call_id, message } => {
                let name = self.calls.get(call_id).map_or("", |(name, _)| name);
                say(&format!("  … {name}: {message}"));
            }
            EventBody::ToolEnd { .. } => self.narrate_end(body),
            EventBody::Retry {
                attempt,
                delay_ms,
                error,
            } => {
                say(&format!(
                    "! attempt {attempt} failed, the next in {}: {error}",
                    duration(*delay_ms)
                ));
            }
            EventBody::AnswerVoided => say("! the answer broke off; what was shown of it is void"),
            EventBody::Alert { level, message } => {
                let mark = if *level == AlertLevel::Warn { '!' } else { ' ' };
                say(&format!("{mark} {}", message));
            }
            _ => {}
        }
    }

    /// Tells how a call ended, on one line, and why where it did not complete.
    fn narrate_end(&mut self, body: &EventBody) {
        let EventBody::ToolEnd {
            call_id,
            name,
            outcome,
            duration_ms,
            shown_bytes,
            problem,
            blob,
            ..
        } = body
        else {
            return;
        };
        let (_, arguments) = self.calls.remove(call_id).unwrap_or_default();
        let sizes = match blob {
            Some(blob) => format!(
                "{}, {} shown, blob {}",
                size(blob.bytes),
                size(*shown_bytes),
                blob.name
            ),
            None => size(*shown_bytes),
        };
        let (mark, ending) = outcome_words(*outcome);
        let line = format!(
            "{mark} {name} {arguments}  {}, {sizes}{ending}",
            duration(*duration_ms)
        );
        say(&line);
        if let Some(problem) = problem {
            say(&format!("    {}", problem));
        }
    }
}

/// Returns the mark before a call and the words behind it.
fn outcome_words(outcome: ToolOutcome) -> (char, &'static str) {
    match outcome {
        ToolOutcome::Completed => ('✓', ""),
        ToolOutcome::Failed => ('✗', ", failed"),
        ToolOutcome::Denied => ('–', ", refused"),
        ToolOutcome::Skipped => ('–', ", skipped"),
        ToolOutcome::NotStarted => ('–', ", not started"),
        ToolOutcome::Interrupted => ('?', ", interrupted"),
    }
}

fn shorten(arguments: &str) -> String {
    let mut short: String = arguments.chars().take(ARGUMENTS_SHOWN).collect();
    if short.len() < arguments.len() {
        short.push('…');
    }
    short
}

fn duration(milliseconds: u64) -> String {
    if milliseconds < 10_000 {
        format!("{milliseconds} ms")
    } else {
        format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / (1024 * 1024)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [size(390), size(20_480), size(50 << 20)],
            ["390 B", "20 KiB", "50 MiB"]
        );
        assert_eq!([duration(12), duration(12_345)], ["12 ms", "12.3 s"]);
        assert_eq!(shorten(&"é".repeat(100)), format!("{}…", "é".repeat(80)));
    }
}
