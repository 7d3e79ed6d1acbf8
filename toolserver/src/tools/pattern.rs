//! File patterns as models write them.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::shared::invalid;
use crate::tool::ToolError;

/// Longer patterns are no patterns.
const PATTERN_MAX_BYTES: usize = 4096;

/// A pattern for paths: one without `/` is for names at any depth, any other for the path below the directory searched.
#[derive(Clone, Debug)]
pub(super) struct PathPattern {
    matcher: GlobMatcher,
    is_for_names: bool,
}

impl PathPattern {
    pub(super) fn parse(pattern: &str) -> Result<Self, ToolError> {
        if pattern.len() > PATTERN_MAX_BYTES {
            return Err(invalid(format!(
                "the pattern is longer than {PATTERN_MAX_BYTES} bytes"
            )));
        }
        let pattern = pattern.trim_start_matches("./");
        if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            return Err(invalid(
                "the pattern is matched below path: give the directory in path, and no / at its start or .. in it",
            ));
        }
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| invalid(format!("the pattern is wrong: {error}")))?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            is_for_names: !pattern.contains('/'),
        })
    }

    /// Returns whether the path, which is below the directory searched, fits.
    pub(super) fn fits(&self, path: &Path) -> bool {
        if self.is_for_names {
            path.file_name()
                .is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names_or_paths() {
        for (pattern, path, fits) in [
            ("*.rs", "a/b/c.rs", true),
            ("./*.rs", "c.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/b/a.rs", false),
            ("**/*.{rs,toml}", "Cargo.toml", true),
            ("**/**/**/*", "a/b/c/d", true),
            ("src/**", "src/a/b", true),
        ] {
            let parsed = PathPattern::parse(pattern).unwrap();
            assert_eq!(parsed.fits(Path::new(path)), fits, "{pattern} {path}");
        }
        for pattern in ["/etc/*", "../*", "a/../b", "a[", &"x".repeat(5000)] {
            assert!(PathPattern::parse(pattern).is_err());
        }
    }
}
