//! An agent that drives a model with tools: a library first, a command on top of it.
//!
//! [`Worker`] is the whole of it: it sends the conversation to a model through [`llm`], runs the calls the model makes
//! on the hosts of [`tools`], and keeps the [`session`] log. Who wants to watch registers on its [`timeline`]; who
//! wants a say implements [`Interceptor`] or [`Hook`].

pub mod cli;
mod clock;
mod history;
mod interceptor;
pub mod llm;
pub mod session;
pub mod timeline;
pub mod tools;
mod turn;
mod worker;

pub use crate::{
    history::{History, InvalidHistory},
    interceptor::{
        ControlFlow, FinishedCall, Hook, HookDecision, HookError, Interceptor, PendingCall,
        PromptAction, TurnEndAction,
    },
    worker::{Interrupter, Prompt, PromptError, TurnReport, Worker, WorkerOptions},
};

pub(crate) use toolserver::error_chain;
