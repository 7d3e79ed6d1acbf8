//! Running a command so that nothing of it is left: the only place where processes are started.
//!
//! A command runs in a process group of its own. However its run ends, by itself, by its timeout, by a cancelled or
//! forgotten call, the whole group is ended, first politely. The leader is reaped only after the group was signalled,
//! so that a signal never reaches a stranger with the same number.

mod capture;
mod environment;
mod group;
mod run;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    capture::Captured,
    run::{Ending, Finished, ShellCommand, run},
};
