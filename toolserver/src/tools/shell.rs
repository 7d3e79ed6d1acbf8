//! `shell`: runs a command in a directory of the scope.

use std::{os::unix::process::ExitStatusExt, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;

use super::shared::{blocking, failed, invalid, text};
use crate::{
    output::ToolOutput,
    process::{Captured, Ending, Finished, ShellCommand, run},
    scope::ScopedFs,
    tool,
    tool::{ToolError, ToolExecutionContext},
};

/// How often a running command says how far it is.
const REPORT_EVERY: Duration = Duration::from_secs(2);
/// What ending a command and storing its output may take after its own timeout.
const ENDING_MAX: Duration = Duration::from_secs(30);

/// How commands are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellOptions {
    /// The timeout of a command that names none.
    pub default_timeout: Duration,
    /// The longest timeout a command may ask for.
    pub max_timeout: Duration,
    /// How much output is kept; beyond it is only counted.
    pub max_output_bytes: usize,
}

impl Default for ShellOptions {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(120),
            max_timeout: Duration::from_secs(600),
            max_output_bytes: 64 * 1024 * 1024,
        }
    }
}

impl ShellOptions {
    /// Returns the deadline of a call, which is after the command's own timeout, so that its output is never lost.
    pub(super) fn deadline(&self) -> Duration {
        self.max_timeout + ENDING_MAX
    }
}

#[derive(Clone, Debug)]
pub(super) struct Shell {
    scope: Arc<ScopedFs>,
    options: ShellOptions,
}

// Described by the tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShellArgs {
    /// Command for sh -c
    command: String,
    /// Default 120000, at most 600000
    timeout_ms: Option<u64>,
    /// Directory to run in
    #[serde(default = "super::shared::here")]
    cwd: String,
}

impl Shell {
    pub(super) fn new(scope: Arc<ScopedFs>, options: ShellOptions) -> Self {
        Self { scope, options }
    }

    /// Runs a shell command without input or terminal and returns its output (stdout and stderr together). Processes
    /// left in the background are stopped when it ends.
    #[tool]
    pub(super) async fn shell(
        &self,
        #[arguments] args: ShellArgs,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        if args.command.contains('\0') {
            return Err(invalid("the command contains a NUL character"));
        }
        let scope = Arc::clone(&self.scope);
        let cwd = args.cwd;
        let directory = blocking(&context, move |_| {
            scope.directory(&cwd).map_err(|error| failed(&error))
        });
        let timeout = args.timeout_ms.map(Duration::from_millis);
        let timeout = timeout.unwrap_or(self.options.default_timeout);
        let timeout = timeout.clamp(Duration::from_millis(1), self.options.max_timeout);
        let command = ShellCommand {
            text: args.command,
            directory: directory.await?,
            timeout,
            max_output_bytes: self.options.max_output_bytes,
            report_every: REPORT_EVERY,
        };
        let finished = run(command, context.cancellation(), context.progress().clone())
            .await
            .map_err(|error| not_started(&error))?;
        if finished.ending == Ending::Cancelled {
            return Err(ToolError::Cancelled);
        }
        Ok(text(show(finished, timeout)))
    }
}

fn not_started(error: &std::io::Error) -> ToolError {
    ToolError::ExecutionFailed(match error.kind() {
        std::io::ErrorKind::ArgumentListTooLong => {
            "the command is too long for the system; write it to a file with write_file and run that".to_owned()
        }
        _ => format!("the command could not be started: {error}"),
    })
}

/// Writes the result: how it ended unless that was well, the output, and what else there is to know.
fn show(finished: Finished, timeout: Duration) -> String {
    let is_cut = finished.output.is_cut();
    let Captured { bytes, total } = finished.output;
    let kept = bytes.len();
    let mut notes = Vec::new();
    if is_cut {
        notes.push(format!(
            "[the first {kept} of {total} bytes of output were kept]"
        ));
    }
    if finished.ended_background && matches!(finished.ending, Ending::Exited(_)) {
        notes.push("[processes left in the background were stopped]".to_owned());
    }
    let output = String::from_utf8(bytes).unwrap_or_else(|error| {
        notes
            .push("[the output was not valid UTF-8; wrong bytes are shown as \u{fffd}]".to_owned());
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    });
    let status = status(finished.ending, timeout);
    if status.is_none() && notes.is_empty() && !output.is_empty() {
        return output;
    }
    let mut shown = status.map_or_else(String::new, |status| status + "\n");
    shown.push_str(if output.is_empty() {
        "(no output)"
    } else {
        &output
    });
    for note in notes {
        if !shown.ends_with('\n') {
            shown.push('\n');
        }
        shown.push_str(&note);
    }
    shown
}

fn status(ending: Ending, timeout: Duration) -> Option<String> {
    match ending {
        Ending::Exited(status) if status.success() => None,
        Ending::Exited(status) => Some(match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("killed by signal {signal}"),
            (None, None) => status.to_string(),
        }),
        Ending::TimedOut | Ending::Cancelled => Some(format!(
            "timed out after {} ms and was stopped; the output so far:",
            timeout.as_millis()
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::Fixture;

    #[tokio::test]
    async fn results_say_how_it_ended_only_if_not_well() {
        let fixture = Fixture::new();
        for (command, expected) in [
            ("echo hi", "hi\n"),
            ("true", "(no output)"),
            ("echo no >&2; exit 3", "exit code 3\nno\n"),
            ("exit 1", "exit code 1\n(no output)"),
            ("kill -9 $$", "killed by signal 9\n(no output)"),
            (
                "printf 'a\\377b'",
                "a\u{fffd}b\n[the output was not valid UTF-8; wrong bytes are shown as \u{fffd}]",
            ),
        ] {
            assert_eq!(
                fixture.good("shell", json!({"command": command})).await,
                expected
            );
        }
    }

    #[tokio::test]
    async fn sh01_a_timeout_shows_the_output_so_far() {
        let fixture = Fixture::new();
        let arguments = json!({"command": "echo start; while :; do :; done", "timeout_ms": 100});
        let result = fixture.good("shell", arguments).await;
        assert_eq!(
            result,
            "timed out after 100 ms and was stopped; the output so far:\nstart\n"
        );
    }

    #[tokio::test]
    async fn sh08_commands_run_only_inside() {
        let fixture = Fixture::new();
        fixture.write("d/f", "");
        fixture.link("/etc", "out");
        assert_eq!(
            fixture
                .good("shell", json!({"command": "ls", "cwd": "d"}))
                .await,
            "f\n"
        );
        for cwd in ["..", "/", "out", "none", "d/f", ""] {
            fixture
                .bad("shell", json!({"command": "ls", "cwd": cwd}))
                .await;
        }
        let inside = fixture.path("d").to_str().unwrap().to_owned();
        assert_eq!(
            fixture
                .good("shell", json!({"command": "pwd", "cwd": "d"}))
                .await,
            format!("{inside}\n")
        );
    }

    #[tokio::test]
    async fn sh15_a_command_too_long_is_told_what_to_do() {
        let fixture = Fixture::new();
        let refusal = fixture
            .bad("shell", json!({"command": "x".repeat(200_000)}))
            .await;
        assert!(refusal.contains("write_file"), "{refusal}");
        let refusal = fixture.bad("shell", json!({"command": "a\0b"})).await;
        assert!(refusal.contains("NUL"), "{refusal}");
    }
}
