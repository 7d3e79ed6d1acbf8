//! The tool server: the registry, and the one path every call takes.

mod call;
mod registry;
mod schema;

use std::{fmt, sync::Arc, time::Duration};

use protocol::BlobRef;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::registry::RegisterError;
use self::registry::Registry;
use crate::{
    blob::BlobStore,
    inspect::Inspect,
    output::OutputLimits,
    tool::{Tool, ToolAnnotations},
};

/// What every call on a server has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// How much of a result is shown.
    pub limits: OutputLimits,
    /// How long a call may take, unless its tool says otherwise.
    pub deadline: Duration,
    /// How long a cancelled call may take to clean up before it is dropped.
    pub cancel_grace: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            limits: OutputLimits::default(),
            deadline: Duration::from_secs(300),
            cancel_grace: Duration::from_secs(1),
        }
    }
}

/// Tools behind one call path. Cloning it is cheap and gives the same server.
///
/// ```
/// use toolserver::{ToolExecutionContext, ToolServer, tool};
///
/// #[derive(Clone)]
/// struct Dice;
///
/// impl Dice {
///     /// Adds two dice.
///     #[tool]
///     async fn add(&self, a: u8, b: u8) -> Result<u8, String> {
///         a.checked_add(b).ok_or_else(|| "these are no dice".to_owned())
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = ToolServer::new();
/// server.register(Dice.add_tool()).unwrap();
/// let reply = server.call_tool("add", r#"{"a": 2, "b": 5}"#, ToolExecutionContext::detached()).await.unwrap();
/// assert_eq!(reply.text, "7");
/// # });
/// ```
#[derive(Clone)]
pub struct ToolServer {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Registry,
    store: Option<Arc<dyn BlobStore>>,
    options: ServerOptions,
    /// The calls that run; each is counted until everything it held is dropped.
    running: TaskTracker,
    /// Cancelled when the server shuts down.
    stop: CancellationToken,
}

impl Shared {
    fn new(
        registry: Registry,
        store: Option<Arc<dyn BlobStore>>,
        options: ServerOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry,
            store,
            options,
            running: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }
}

/// What a caller is told about a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInfo {
    /// The name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// What it may change.
    pub annotations: ToolAnnotations,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolReply {
    /// What the model reads.
    pub text: String,
    /// The stored result behind it, when the text is a summary.
    pub blob: Option<BlobRef>,
}

impl ToolServer {
    /// Makes a server without a blob store: every result is shown whole.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(ServerOptions::default())
    }

    /// Makes a server without a blob store, with options.
    #[must_use]
    pub fn with_options(options: ServerOptions) -> Self {
        Self {
            shared: Shared::new(Registry::default(), None, options),
        }
    }

    /// Makes a server that keeps large results in `store`. It has the tool `inspect` from the beginning.
    #[must_use]
    pub fn with_store(store: Arc<dyn BlobStore>, options: ServerOptions) -> Self {
        let registry = Registry::default();
        let inspect = Inspect {
            store: Arc::clone(&store),
        }
        .inspect_tool();
        registry
            .add(Arc::new(inspect))
            .expect("its schema is valid and its name free");
        Self {
            shared: Shared::new(registry, Some(store), options),
        }
    }

    /// Adds a tool, also while calls are running.
    ///
    /// # Errors
    /// [`RegisterError`] when the name is taken or unusable, or the schema is none.
    pub fn register(&self, tool: impl Tool + 'static) -> Result<(), RegisterError> {
        self.shared.registry.add(Arc::new(tool))
    }

    /// Adds a tool that is already boxed.
    ///
    /// # Errors
    /// As [`ToolServer::register`].
    pub fn register_boxed(&self, tool: Box<dyn Tool>) -> Result<(), RegisterError> {
        self.shared.registry.add(Arc::from(tool))
    }

    /// Stops all calls and waits until what they started is gone, or until twice the grace of a cancelled call is over.
    /// Later calls are cancelled at once.
    pub async fn shut_down(&self) {
        self.shared.stop.cancel();
        self.shared.running.close();
        let _ = timeout(
            self.shared.options.cancel_grace * 2,
            self.shared.running.wait(),
        )
        .await;
    }

    /// Lists the tools by name.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolInfo> {
        self.shared.registry.list()
    }

    /// Returns the blob store, when there is one.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<dyn BlobStore>> {
        self.shared.store.as_ref()
    }
}

impl Default for ToolServer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ToolServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolServer")
            .field("tools", &self.shared.registry.names())
            .field("store", &self.shared.store)
            .field("options", &self.shared.options)
            .finish()
    }
}

#[cfg(test)]
mod tests;
