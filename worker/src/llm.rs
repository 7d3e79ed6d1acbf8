//! Everything between the worker and a model: what is asked, what is answered, how it travels and when it is tried
//! again.
//!
//! This layer sends one conversation and reads one answer. It runs no tool, keeps no session and knows no prompt; the
//! turn loop above does. Its invariant: an answer is handed on as a whole or not at all. A stream that broke off
//! before its end marker is an error, never a short answer.

mod arguments;
mod assembler;
mod call_ids;
pub mod cycle;
mod error;
pub mod provider;
mod replay;
mod sse;
mod surrogate;
mod types;

pub use self::{
    assembler::Assembler,
    cycle::{
        AttemptBudget, CostTracker, CycleConfig, CycleObserver, LlmCycle, RetryConfig, Silent,
    },
    error::{ErrorReply, LlmError, Redaction, RetryAdvice, Waiting, classify},
    provider::{
        LlmProvider,
        openai::{OpenAiConfig, OpenAiProvider, TokenLimitField},
    },
    replay::{RecordingProvider, ReplayProvider},
    types::{
        ChatRequest, ChatResponse, ContentBlock, EventStream, Message, Role, StopReason,
        StreamEvent, ToolDefinition, Usage,
    },
};
