//! Who is in a process group, as the table of processes tells.

use rustix::process::Pid;

/// Returns whether a process of the group is alive. If the table cannot be read, one might be.
#[expect(
    clippy::disallowed_methods,
    reason = "the table of processes is read, and no path of a user"
)]
pub(super) fn any_living(group: Pid) -> bool {
    let Ok(table) = std::fs::read_dir("/proc") else {
        return true;
    };
    let group = group.as_raw_nonzero().get();
    // Processes that end while we look have no line, or none any more.
    let lines = table
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter_map(|entry| std::fs::read(entry.path().join("stat")).ok());
    lines
        .filter_map(|line| living_group(&line))
        .any(|living| living == group)
}

/// Returns the group of a process that is alive, from its line in the table: `pid (name) state parent group …`, where
/// the name may contain anything.
fn living_group(line: &[u8]) -> Option<i32> {
    let after_name = memchr::memrchr(b')', line)? + 1;
    let mut fields = std::str::from_utf8(&line[after_name..])
        .ok()?
        .split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
    let group = fields.nth(1)?.parse().ok()?;
    (!is_dead).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_lie() {
        assert_eq!(living_group(b"12 (sh) S 1 34 34 0"), Some(34));
        assert_eq!(living_group(b"12 (a) Z 9 9) S 1 34 34 0"), Some(34));
        assert_eq!(living_group(b"12 (sh) Z 1 34 34 0"), None);
        assert_eq!(living_group(b""), None);
    }

    #[test]
    fn we_are_alive() {
        assert!(any_living(rustix::process::getpgrp()));
    }
}
