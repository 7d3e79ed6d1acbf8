//! What needs more than one crate, in one test binary.

mod llm;
