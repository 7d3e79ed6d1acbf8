//! Messages of the tool server and the worker.
//!
//! Everything that crosses a process boundary or is written to a log is defined here, and nothing else: this crate
//! opens no file, reads no clock and knows no runtime. Identifiers that need a clock or randomness are made by the
//! caller and only checked here. The `control` feature adds the worker's control API as an RPC trait.

mod blob;
mod context;
#[cfg(feature = "control")]
pub mod control;
mod event;
mod item;
pub mod log;
mod segment;
mod selector;

pub use crate::{
    blob::{
        BLOB_META_KEY, BLOB_URI_PREFIX, BlobHandle, BlobId, BlobKind, BlobName, BlobRef,
        InvalidBlobHandle,
    },
    context::{
        BatchId, CONTEXT_META_KEY, CallId, ExecutionContext, InvalidContext, InvalidIdentifier,
    },
    event::{AlertLevel, BlockKind, EVENT_SCHEMA, Event, EventBody, StopReason, TokenUsage},
    item::{
        ContentPart, Item, MessageItem, ReasoningItem, Role, ToolCallItem, ToolOutcome,
        ToolResultItem,
    },
    segment::{Reference, Segment, parse_prompt},
    selector::{InvalidSelector, SELECTOR_MAX_BYTES, Selector, SelectorProblem},
};
