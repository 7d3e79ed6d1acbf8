//! Tools of an MCP server: a subprocess, or anything that can be read from and written to.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use protocol::{BLOB_META_KEY, BlobRef};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
        ClientRequest, ContentBlock, Implementation, NumberOrString, ProgressNotificationParam,
        ProtocolVersion, RequestMetaObject, ResourceContents, ServerResult,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer, PeerRequestOptions,
        RunningService, ServiceError,
    },
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    HostCall, HostError, HostReply, ProgressListener, ToolHost, ToolProcess, process::Running,
};
use crate::llm::ToolDefinition;

/// How long a server may take for its first answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a process may take to end after its input was closed.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// How often a process that ended is started again, over the whole life of the host.
const RESTARTS: u32 = 3;

/// An MCP server as a host.
///
/// A process that ends is started again at the next call, a few times; the calls it was running are lost, and each
/// says so.
pub struct McpHost {
    process: Option<ToolProcess>,
    state: tokio::sync::Mutex<State>,
}

struct State {
    connection: Option<Connection>,
    restarts_left: u32,
}

struct Connection {
    service: RunningService<RoleClient, Client>,
    process: Option<Running>,
}

/// Our end of the connection: it hears progress, and passes it to the call it belongs to.
#[derive(Clone, Default)]
struct Client {
    listeners: Arc<Mutex<HashMap<NumberOrString, ProgressListener>>>,
}

impl Client {
    fn listeners(&self) -> std::sync::MutexGuard<'_, HashMap<NumberOrString, ProgressListener>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("worker", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let listener = self.listeners().get(&progress.progress_token.0).cloned();
        if let (Some(listener), Some(message)) = (listener, progress.message) {
            listener(message);
        }
    }
}

impl McpHost {
    /// Starts a process and connects to it.
    ///
    /// # Errors
    /// [`HostError::Unreachable`] when it does not start or does not speak MCP.
    pub async fn spawn(process: ToolProcess) -> Result<Self, HostError> {
        let connection = start(&process).await?;
        let state = State {
            connection: Some(connection),
            restarts_left: RESTARTS,
        };
        Ok(Self {
            process: Some(process),
            state: tokio::sync::Mutex::new(state),
        })
    }

    /// Connects to a server that is already running, over a socket for example.
    ///
    /// # Errors
    /// [`HostError::Unreachable`] when it does not speak MCP.
    pub async fn connect<T>(stream: T) -> Result<Self, HostError>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let service = handshake(tokio::io::split(stream)).await?;
        let connection = Connection {
            service,
            process: None,
        };
        let state = State {
            connection: Some(connection),
            restarts_left: 0,
        };
        Ok(Self {
            process: None,
            state: tokio::sync::Mutex::new(state),
        })
    }

    /// Returns the living connection, starting the process again where it ended.
    async fn peer(&self) -> Result<(Peer<RoleClient>, Client), HostError> {
        let mut state = self.state.lock().await;
        if let Some(connection) = state
            .connection
            .as_ref()
            .filter(|connection| !connection.service.is_transport_closed())
        {
            return Ok((
                connection.service.peer().clone(),
                connection.service.service().clone(),
            ));
        }
        let ended = HostError::Unreachable {
            reason: "the tool process has ended".to_owned(),
        };
        let Some(process) = self.process.as_ref().filter(|_| state.restarts_left > 0) else {
            return Err(ended);
        };
        state.restarts_left -= 1;
        if let Some(old) = state.connection.take() {
            old.close().await;
        }
        tracing::warn!(
            restarts_left = state.restarts_left,
            "the tool process ended and is started again"
        );
        let connection = start(process).await?;
        let answer = (
            connection.service.peer().clone(),
            connection.service.service().clone(),
        );
        state.connection = Some(connection);
        Ok(answer)
    }
}

async fn start(process: &ToolProcess) -> Result<Connection, HostError> {
    let unreachable = |reason: String| HostError::Unreachable { reason };
    let program = process.program().display();
    let mut running = process
        .start()
        .map_err(|error| unreachable(format!("{program} does not start: {error}")))?;
    let pipes = running
        .take_pipes()
        .ok_or_else(|| unreachable(format!("{program} has no pipes")))?;
    match handshake(pipes).await {
        Ok(service) => Ok(Connection {
            service,
            process: Some(running),
        }),
        // What the process said says more than that the connection is closed.
        Err(error) => {
            let ended = running.stop(Duration::from_millis(500)).await;
            tracing::debug!(%error, "the handshake failed");
            Err(unreachable(format!("{program}: {ended}")))
        }
    }
}

async fn handshake<R, W>(pipes: (R, W)) -> Result<RunningService<RoleClient, Client>, HostError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    let connecting = Client::default().serve_with_lifecycle(pipes, lifecycle);
    match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => Err(HostError::Unreachable {
            reason: error.to_string(),
        }),
        Err(_) => Err(HostError::Unreachable {
            reason: format!("no answer in {} s", CONNECT_TIMEOUT.as_secs()),
        }),
    }
}

impl Connection {
    async fn close(self) {
        // Ending the service closes the process's input, which tells it to stop.
        let _ = self.service.cancel().await;
        if let Some(process) = self.process {
            process.stop(STOP_GRACE).await;
        }
    }
}

#[async_trait]
impl ToolHost for McpHost {
    async fn tools(&self) -> Result<Vec<ToolDefinition>, HostError> {
        let (peer, _) = self.peer().await?;
        let listing = tokio::time::timeout(CONNECT_TIMEOUT, peer.list_all_tools()).await;
        let unreachable = |reason: String| HostError::Unreachable { reason };
        let tools = listing
            .map_err(|_| unreachable("the list of tools did not come in time".to_owned()))?
            .map_err(|error| unreachable(error.to_string()))?;
        let definitions = tools.into_iter().map(|tool| ToolDefinition {
            name: tool.name.into_owned(),
            description: tool.description.unwrap_or_default().into_owned(),
            input_schema: serde_json::Value::Object((*tool.input_schema).clone()),
        });
        Ok(definitions.collect())
    }

    async fn call(&self, call: HostCall) -> Result<HostReply, HostError> {
        let arguments = serde_json::from_str(&call.input).map_err(|error| {
            HostError::Refused(format!("the arguments are no JSON object: {error}"))
        })?;
        let (peer, client) = self.peer().await?;
        let mut meta = RequestMetaObject::default();
        call.context.write_meta(&mut meta.0.0);
        let params = CallToolRequestParams::new(call.name).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let mut handle = match peer.send_cancellable_request(request, options).await {
            Ok(handle) => handle,
            Err(error) => {
                return Err(HostError::Unreachable {
                    reason: error.to_string(),
                });
            }
        };
        let token = handle.progress_token.0.clone();
        if let Some(listener) = call.progress {
            client.listeners().insert(token.clone(), listener);
        }
        let answered = tokio::select! {
            biased;
            answered = &mut handle.rx => Some(answered),
            () = call.cancellation.cancelled() => None,
        };
        client.listeners().remove(&token);
        match answered {
            Some(Ok(result)) => reply(result),
            Some(Err(_)) => Err(HostError::Lost),
            None => {
                let _ = handle.cancel(Some("the turn was stopped".to_owned())).await;
                Err(HostError::Cancelled)
            }
        }
    }

    async fn shut_down(&self) {
        let connection = self.state.lock().await.connection.take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }
}

fn reply(result: Result<ServerResult, ServiceError>) -> Result<HostReply, HostError> {
    match result {
        Ok(ServerResult::CallToolResult(result)) => Ok(read(result)),
        Ok(_) => Err(HostError::Refused(
            "the server answered with something that is no tool result".to_owned(),
        )),
        Err(ServiceError::McpError(error)) => Err(HostError::Refused(error.message.into_owned())),
        Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => Err(HostError::Lost),
        Err(ServiceError::Cancelled { .. }) => Err(HostError::Cancelled),
        Err(error) => Err(HostError::Refused(error.to_string())),
    }
}

/// Reads a result. The facts about a stored one come from `_meta`, never from the text.
fn read(result: CallToolResult) -> HostReply {
    let blob = result
        .meta
        .as_ref()
        .and_then(|meta| meta.0.get(BLOB_META_KEY));
    let blob: Option<BlobRef> = blob.and_then(|facts| serde_json::from_value(facts.clone()).ok());
    let mut text = String::new();
    for block in &result.content {
        let part = match block {
            ContentBlock::Text(part) => part.text.clone(),
            // The link to a stored result repeats what the summary says.
            ContentBlock::ResourceLink(link)
                if blob.as_ref().is_some_and(|blob| blob.id.uri() == link.uri) =>
            {
                continue;
            }
            ContentBlock::ResourceLink(link) => format!("[resource: {} {}]", link.name, link.uri),
            ContentBlock::Image(image) => format!("[an image, {}]", image.mime_type),
            ContentBlock::Audio(audio) => format!("[audio, {}]", audio.mime_type),
            ContentBlock::Resource(embedded) => match &embedded.resource {
                ResourceContents::TextResourceContents { text, .. } => text.clone(),
                ResourceContents::BlobResourceContents { uri, .. } => {
                    format!("[binary resource: {uri}]")
                }
                _ => "[a resource of a kind this worker does not know]".to_owned(),
            },
            _ => "[content of a kind this worker does not know]".to_owned(),
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&part);
    }
    if text.is_empty() {
        text = result
            .structured_content
            .map(|value| value.to_string())
            .unwrap_or_default();
    }
    HostReply {
        text,
        is_error: result.is_error.unwrap_or(false),
        blob,
    }
}

impl fmt::Debug for McpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHost")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}
