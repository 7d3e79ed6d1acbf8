//! What of the server's environment a command sees: only what is on a list, so that no key leaks by being forgotten.

use std::ffi::{OsStr, OsString};

const PASSED: [&str; 9] = [
    "PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL", "TZ",
];

/// Locale settings; any other name with the prefix is somebody's own.
const LOCALE: [&str; 13] = [
    "LC_ALL",
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
];

/// Keeps of `all` what a command may see.
pub(super) fn passed(
    all: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    all.filter(|(name, _)| is_passed(name))
}

fn is_passed(name: &OsStr) -> bool {
    PASSED.iter().chain(&LOCALE).any(|passed| name == *passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sh07_only_listed_names_pass() {
        for name in ["PATH", "LC_ALL", "TZ"] {
            assert!(is_passed(OsStr::new(name)), "{name}");
        }
        for name in [
            "OPENAI_API_KEY",
            "LC_API_KEY",
            "path",
            "LD_PRELOAD",
            "SSH_AUTH_SOCK",
            "",
        ] {
            assert!(!is_passed(OsStr::new(name)), "{name}");
        }
    }
}
