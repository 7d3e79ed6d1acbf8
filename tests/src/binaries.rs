//! The real binaries, built once, each run in a place of its own.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use tempfile::TempDir;

/// Returns the path of a binary of this workspace, built with the profile of the tests.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        // Cargo builds the binaries of other packages for no test; asking again costs nothing when they are fresh.
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "--offline",
            "--bins",
            "-p",
            "worker",
            "-p",
            "toolserver",
        ]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let status = build.current_dir(workspace).status().expect("cargo runs");
        assert!(status.success(), "the binaries are built");
        // Tests run from target/PROFILE/deps.
        let test = std::env::current_exe().expect("a test knows its file");
        test.ancestors()
            .nth(2)
            .expect("it is two levels below the profile")
            .to_owned()
    });
    directory.join(name)
}

/// A directory to work in, with a state directory and a home of its own, empty at first.
#[derive(Debug)]
pub struct Place {
    directory: TempDir,
}

impl Place {
    /// Makes a place with files in its root.
    ///
    /// # Panics
    /// When the disk does not take them.
    #[must_use]
    pub fn with(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        for name in ["root", "home"] {
            std::fs::create_dir(directory.path().join(name)).expect("it is empty");
        }
        let place = Self { directory };
        for (name, content) in files {
            std::fs::write(place.root().join(name), content).expect("the disk takes it");
        }
        place
    }

    /// Returns the directory the tools may touch.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// Returns the user's home, where logs and blobs go.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// Prepares a binary: in the root, with nothing of this process's environment but the path.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(binary(name));
        command
            .env_clear()
            .current_dir(self.root())
            .env("HOME", self.home());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    /// Runs a binary to its end.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn run(&self, name: &str, arguments: &[&str]) -> Ran {
        Ran::of(
            self.command(name)
                .args(arguments)
                .output()
                .expect("the binary starts"),
        )
    }

    /// Returns the only session log there is.
    ///
    /// # Panics
    /// When there is none or more than one.
    #[must_use]
    pub fn session_log(&self) -> PathBuf {
        let sessions = self.home().join(".local/state/worker/sessions");
        let mut logs: Vec<PathBuf> = std::fs::read_dir(sessions)
            .expect("there are sessions")
            .map(|entry| entry.expect("it is read").path())
            .collect();
        assert_eq!(logs.len(), 1, "{logs:?}");
        logs.remove(0)
    }
}

/// What a binary did.
#[derive(Debug)]
pub struct Ran {
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ran {
    /// Reads what a process left.
    #[must_use]
    pub fn of(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
