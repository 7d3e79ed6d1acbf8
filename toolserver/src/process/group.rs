//! A process group: its leader is the shell, its members all it started and did not send away.

use std::{
    io::{self, PipeReader},
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
    },
};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use super::{environment, members, run::ShellCommand};

/// A started group. Dropping it ends every member at once.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    id: Pid,
    /// Wakes whenever any child of ours changes; looking which one it was does not reap it.
    changes: Signals,
    status: Option<ExitStatus>,
}

impl Group {
    /// Starts the command, and returns what reads its output.
    ///
    /// Both output streams are one pipe, so what arrives is in the order it was written.
    pub(super) fn start(command: &ShellCommand) -> io::Result<(Self, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        // The shell goes to the directory by its handle: no name is looked up again.
        let directory = format!("/proc/self/fd/{}", command.directory.as_fd().as_raw_fd());
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place where processes are started"
        )]
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", "--", &command.text])
            .current_dir(directory)
            .env_clear()
            .envs(environment::passed(std::env::vars_os()))
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0);
        // Listening before there is anything to hear, so that not even the shortest command is missed.
        let changes = signal(SignalKind::child())?;
        let leader = shell.spawn()?;
        let id = i32::try_from(leader.id()).ok().and_then(Pid::from_raw);
        let group = Self {
            leader,
            id: id.ok_or(Errno::SRCH)?,
            changes,
            status: None,
        };
        Ok((group, reader))
    }

    /// Waits until the leader has exited.
    ///
    /// # Cancel safety
    /// Nothing is lost: it stays exited, and unreaped.
    pub(super) async fn exited(&mut self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that there is nothing to wait for.
        while let Ok(None) = waitid(WaitId::Pid(self.id), options) {
            if self.changes.recv().await.is_none() {
                return;
            }
        }
    }

    /// Sends a signal to every member.
    pub(super) fn signal(&self, signal: Signal) {
        if self.status.is_none() || self.has_members() {
            // Fails only if nobody is left.
            let _nobody = kill_process_group(self.id, signal);
        }
    }

    /// Reaps the leader if it has exited. Only after this can [`Self::has_members`] tell.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.leader.try_wait().ok().flatten();
        }
        self.status
    }

    /// Returns whether anybody is in the group; a leader that was not reaped counts.
    pub(super) fn has_members(&self) -> bool {
        test_kill_process_group(self.id).is_ok()
    }

    /// Returns whether anybody in the group is still alive. The dead stay in it until their parent looks at them,
    /// which for the children of an ended shell is somebody else's duty, and may never happen.
    pub(super) fn has_living_members(&self) -> bool {
        self.has_members() && members::any_living(self.id)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        if self.status.is_none() {
            // Short, since it was just killed; without it a zombie would stay.
            let _status = self.leader.wait();
        }
    }
}
