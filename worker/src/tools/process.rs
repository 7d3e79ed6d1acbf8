//! A tool server as a subprocess, with an environment that holds no secrets.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::AsyncReadExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

/// The variables a tool process inherits. Everything else, keys above all, stays out.
const INHERITED: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "XDG_STATE_HOME",
    "TOOLSERVER_LOG",
    "TOOLSERVER_BLOBS",
];

/// How much of the end of a tool process's standard error is kept, to say why it ended.
const SAID_MAX_BYTES: usize = 1024;

/// How much of a tool process's standard error is read at a time.
const STDERR_CHUNK_BYTES: usize = 8192;

/// How to start a tool process that speaks MCP on its standard input and output.
#[derive(Clone, Debug)]
pub struct ToolProcess {
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

impl ToolProcess {
    /// Names the program.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn with_arguments(
        mut self,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Adds a variable to its environment.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &std::path::Path {
        &self.program
    }

    /// Starts the process in a group of its own, so that a Ctrl-C at the terminal reaches the worker alone, which then
    /// stops its calls in order.
    pub(super) fn start(&self) -> io::Result<Running> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear();
        command.envs(
            INHERITED
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let said = Said::default();
        let drain = tokio::spawn(drain(stderr, said.clone()));
        Ok(Running {
            child,
            pipes: Some((stdout, stdin)),
            drain,
            said,
        })
    }
}

/// Passes what a process says on its standard error to the log. It is read to its end whoever listens, or the process
/// would stop at a full pipe; memory is bounded whatever it writes.
async fn drain(mut stderr: ChildStderr, said: Said) {
    let mut buffer = [0; STDERR_CHUNK_BYTES];
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        said.add(&buffer[..length]);
        for line in String::from_utf8_lossy(&buffer[..length])
            .lines()
            .filter(|line| !line.is_empty())
        {
            tracing::info!(target: "tools", "{}", line.escape_debug());
        }
    }
}

/// The end of what a process said on its standard error.
#[derive(Clone, Debug, Default)]
struct Said(Arc<Mutex<VecDeque<u8>>>);

impl Said {
    fn add(&self, bytes: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(bytes);
        let surplus = said.len().saturating_sub(SAID_MAX_BYTES);
        said.drain(..surplus);
    }

    fn text(&self) -> String {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = said.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// A started tool process.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pipes: Option<(ChildStdout, ChildStdin)>,
    drain: JoinHandle<()>,
    said: Said,
}

impl Running {
    /// Takes what the process writes and reads.
    pub(super) fn take_pipes(&mut self) -> Option<(ChildStdout, ChildStdin)> {
        self.pipes.take()
    }

    /// Waits for the end of a process whose input was closed, and kills it after `grace`. Returns what it said last, and
    /// how it ended.
    pub(super) async fn stop(mut self, grace: Duration) -> String {
        let ended = match timeout(grace, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => {
                let _ = self.child.kill().await;
                "it was killed".to_owned()
            }
        };
        // What it wrote last may still be on its way; somebody it started may hold the pipe for longer.
        let _ = timeout(grace, &mut self.drain).await;
        self.drain.abort();
        let said = self.said.text();
        if said.is_empty() {
            ended
        } else {
            format!("{said} ({ended})")
        }
    }
}
