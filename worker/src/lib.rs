//! An agent that drives a model with tools.

pub mod llm;
