//! Keeping this process's memory and environment to itself.

/// Hides the memory and the environment of this process, keys among them, from other processes of the same user. It
/// does not hide them from root.
pub fn hide_process_memory() {
    let hidden =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    if let Err(error) = hidden {
        tracing::warn!(%error, "the memory of this process can be read by others of the same user");
    }
}
