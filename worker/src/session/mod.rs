//! The log of a session: what was asked, answered, called and returned, kept so that a crash loses nothing that was
//! acknowledged and the conversation can go on.

mod log;
mod recover;
mod store;

pub use self::{
    log::{SessionError, SessionLog},
    recover::{Recovered, recover},
    store::{SessionInfo, SessionStore, default_session_directory},
};
