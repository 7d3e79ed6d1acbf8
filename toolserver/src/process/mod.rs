//! Running a command so that nothing of it is left: the only place where processes are started.
//!
//! A command runs in a process group of its own. However its run ends, by itself, by its timeout, by a cancelled or
//! forgotten call, the whole group is ended, first politely. A signal goes out only while the leader is unreaped or the
//! group has members: as long as either is so, the system gives the group's number to nobody else.

mod capture;
mod environment;
mod group;
mod members;
mod run;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    capture::Captured,
    run::{Ending, Finished, ShellCommand, run},
};
