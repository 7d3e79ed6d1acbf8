//! What a file keeps when its content is replaced: mode, owner, extended attributes.

use std::{ffi::CStr, fs::File, io::Read, os::fd::BorrowedFd};

use rustix::{
    fs::{self, Gid, Mode, OFlags, Stat, Uid, XattrFlags},
    io::Errno,
};

/// What one attribute, or the list of their names, may take.
const ATTRIBUTE_MAX_BYTES: usize = 64 * 1024;

/// Gives the file that is about to replace `old` everything `old` has but its content.
///
/// The owner and attributes of the system may be out of reach; then set-user-id and set-group-id go as well, which
/// would mean something else with another owner.
pub(super) fn keep(
    old: Option<BorrowedFd<'_>>,
    stat: &Stat,
    new: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let mut mode = Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o7777);
    let fresh = fs::fstat(new)?;
    if (fresh.st_uid, fresh.st_gid) != (stat.st_uid, stat.st_gid) {
        let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        if fs::fchown(new, Some(owner.0), Some(owner.1)).is_err() {
            mode &= !(Mode::SUID | Mode::SGID);
        }
    }
    if let Some(old) = old {
        copy_attributes(old, new);
    }
    // Last, since a change of owner clears bits of the mode.
    fs::fchmod(new, mode)
}

/// Copies what can be copied: no attribute is worth losing the user's new content for.
fn copy_attributes(old: BorrowedFd<'_>, new: BorrowedFd<'_>) {
    let mut names = Vec::with_capacity(ATTRIBUTE_MAX_BYTES);
    if fs::flistxattr(old, rustix::buffer::spare_capacity(&mut names)).is_err() {
        return;
    }
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        let mut value = Vec::with_capacity(ATTRIBUTE_MAX_BYTES);
        if fs::fgetxattr(old, name, rustix::buffer::spare_capacity(&mut value)).is_ok() {
            // Refused for attributes only the system may set.
            let _refused = fs::fsetxattr(new, name, &value, XattrFlags::empty());
        }
    }
}

/// Returns the bits new files of this process do not get. Asking the usual way would set them for a moment, also for
/// other threads.
pub(super) fn umask() -> Mode {
    let status = fs::open(
        "/proc/self/status",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let mut text = String::new();
    if let Ok(status) = status {
        // What was read until an error is still looked at.
        let _partial = File::from(status).read_to_string(&mut text);
    }
    let line = text.lines().find_map(|line| line.strip_prefix("Umask:"));
    let bits = line.and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok());
    Mode::from_raw_mode(bits.unwrap_or(0o022))
}
