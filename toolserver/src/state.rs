//! Where a user's programs keep what must survive them: results, logs.

use std::{env, path::PathBuf};

/// Returns the user's state directory: `XDG_STATE_HOME`, else `~/.local/state`. `None` where neither variable holds an
/// absolute path.
#[must_use]
pub fn user_state_directory() -> Option<PathBuf> {
    let absolute = |variable: &str| {
        env::var_os(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))
}
