//! The tools by name, each with its schema compiled once.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use super::{ToolInfo, schema::ArgumentSchema};
use crate::{
    rank_by_likeness,
    tool::{Tool, ToolError},
};

/// Why a tool cannot be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Models could not call it.
    #[error("{name:?} is no tool name: use 1 to 64 of the characters A-Z a-z 0-9 _ -")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// There is one already.
    #[error("there is already a tool {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// Its schema cannot be used to check arguments.
    #[error("the schema of {name:?} cannot be used: {reason}")]
    InvalidSchema {
        /// The name.
        name: String,
        /// What is wrong with the schema.
        reason: String,
    },
}

/// A tool and what was worked out about it when it was registered.
pub(super) struct Registered {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) schema: ArgumentSchema,
    info: ToolInfo,
}

#[derive(Default)]
pub(super) struct Registry {
    tools: RwLock<BTreeMap<String, Arc<Registered>>>,
}

impl Registry {
    pub(super) fn add(&self, tool: Arc<dyn Tool>) -> Result<(), RegisterError> {
        let info = ToolInfo {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            input_schema: tool.input_schema(),
            annotations: tool.annotations(),
        };
        let name = info.name.clone();
        if !is_tool_name(&name) {
            return Err(RegisterError::InvalidName { name });
        }
        let schema = ArgumentSchema::compile(&info.input_schema).map_err(|reason| {
            RegisterError::InvalidSchema {
                name: name.clone(),
                reason,
            }
        })?;
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        if tools.contains_key(&name) {
            return Err(RegisterError::Duplicate { name });
        }
        tools.insert(name, Arc::new(Registered { tool, schema, info }));
        Ok(())
    }

    pub(super) fn list(&self) -> Vec<ToolInfo> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        tools
            .values()
            .map(|registered| registered.info.clone())
            .collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        tools.keys().cloned().collect()
    }

    pub(super) fn get(&self, name: &str) -> Result<Arc<Registered>, ToolError> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        tools
            .get(name)
            .cloned()
            .ok_or_else(|| ToolError::UnknownTool {
                name: name.chars().take(80).collect(),
                nearest: nearest(name, tools.keys()),
            })
    }
}

fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Returns up to three names that look like `name`, best first.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let name: String = name.chars().take(80).collect();
    let scored = rank_by_likeness(&name, names);
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    let near = scored
        .into_iter()
        .filter(|(score, _)| *score > 0.7 && *score > best - 0.1);
    near.take(3).map(|(_, known)| known.clone()).collect()
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}
