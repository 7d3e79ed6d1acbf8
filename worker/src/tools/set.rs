//! The tools of several hosts under one roof.

use std::{collections::HashMap, fmt, sync::Arc};

use toolserver::rank_by_likeness;

use super::{HostCall, HostError, HostReply, ToolHost};
use crate::llm::ToolDefinition;

/// Tools by name, each with the host it runs on.
#[derive(Clone, Default)]
pub struct ToolSet {
    definitions: Vec<ToolDefinition>,
    hosts: HashMap<String, Arc<dyn ToolHost>>,
    all: Vec<Arc<dyn ToolHost>>,
}

/// Why the tools of a host cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolSetError {
    /// The host did not list its tools.
    #[error("the tools could not be listed")]
    List(#[source] HostError),
    /// Two hosts have a tool of one name.
    #[error("two hosts have a tool {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
}

impl ToolSet {
    /// Adds all tools of a host.
    ///
    /// # Errors
    /// [`ToolSetError`]; nothing of the host is added then.
    pub async fn add(&mut self, host: Arc<dyn ToolHost>) -> Result<(), ToolSetError> {
        let definitions = host.tools().await.map_err(ToolSetError::List)?;
        if let Some(taken) = definitions
            .iter()
            .find(|tool| self.hosts.contains_key(&tool.name))
        {
            return Err(ToolSetError::Duplicate {
                name: taken.name.clone(),
            });
        }
        for tool in definitions {
            self.hosts.insert(tool.name.clone(), Arc::clone(&host));
            self.definitions.push(tool);
        }
        self.all.push(host);
        Ok(())
    }

    /// Returns the tools as a model is told of them.
    #[must_use]
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// Calls a tool on its host.
    pub(crate) async fn call(&self, call: HostCall) -> Result<HostReply, HostError> {
        match self.hosts.get(&call.name) {
            Some(host) => host.call(call).await,
            None => Err(HostError::Refused(self.unknown(&call.name))),
        }
    }

    /// Returns whether there is a tool of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.hosts.contains_key(name)
    }

    /// Says that a tool does not exist, with the names that look like it, else all of them.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let wanted: String = name.chars().take(80).collect();
        if self.definitions.is_empty() {
            return format!("there is no tool {wanted:?}; there are no tools at all");
        }
        let names = self.definitions.iter().map(|tool| tool.name.as_str());
        let near: Vec<&str> = rank_by_likeness(&wanted, names)
            .into_iter()
            .filter(|(score, _)| *score > 0.8)
            .take(3)
            .map(|(_, name)| name)
            .collect();
        if near.is_empty() {
            let all: Vec<&str> = self
                .definitions
                .iter()
                .take(40)
                .map(|tool| tool.name.as_str())
                .collect();
            format!(
                "there is no tool {wanted:?}; the tools are {}",
                all.join(", ")
            )
        } else {
            format!(
                "there is no tool {wanted:?}; did you mean {}?",
                near.join(", ")
            )
        }
    }

    /// Ends all hosts.
    pub async fn shut_down(&self) {
        for host in &self.all {
            host.shut_down().await;
        }
    }
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .definitions
            .iter()
            .map(|tool| tool.name.as_str())
            .collect();
        f.debug_struct("ToolSet")
            .field("tools", &names)
            .field("hosts", &self.all.len())
            .finish()
    }
}
