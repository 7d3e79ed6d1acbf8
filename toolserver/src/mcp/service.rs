//! MCP requests to calls on the tool server, and back.

use protocol::{BLOB_URI_PREFIX, BlobId, ExecutionContext};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
        CompleteRequestParams, CompleteResult, ContentBlock, CustomRequest, CustomResult,
        ErrorCode, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse,
        Implementation, ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ProgressToken, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig,
    },
    service::{Peer, RequestContext},
};
use tokio::sync::mpsc;

use super::convert;
use crate::{
    error_chain,
    server::{ToolReply, ToolServer},
    tool::{Progress, ProgressSink, ToolError, ToolExecutionContext},
};

/// Largest blob returned by `resources/read`, in bytes. Clients cap a message at a few MiB.
const RESOURCE_MAX_BYTES: u64 = 1 << 20;

/// How many blobs `resources/list` shows, the newest first.
const RESOURCES_LISTED: usize = 100;

/// How many progress reports may wait for a slow client before the newest are dropped.
const PROGRESS_QUEUE: usize = 16;

/// One MCP connection's view of a tool server. It keeps no state of its own.
#[derive(Clone, Debug)]
pub struct McpService {
    server: ToolServer,
    instructions: String,
}

impl McpService {
    /// Serves `server`. The instructions tell a model how to use it as a whole.
    #[must_use]
    pub fn new(server: ToolServer, instructions: impl Into<String>) -> Self {
        Self {
            server,
            instructions: instructions.into(),
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let identity = ExecutionContext::from_meta(&context.meta.0.0, uuid::Uuid::now_v7)
            .map_err(|error| ErrorData::invalid_params(error_chain(&error), None))?;
        let input_json = match &request.arguments {
            Some(arguments) => {
                serde_json::to_string(arguments).expect("a JSON object always serialises")
            }
            None => String::new(),
        };
        let mut execution = ToolExecutionContext::new(identity, context.ct.clone());
        let reports = context.meta.get_progress_token().map(|token| {
            let (sender, receiver) = mpsc::channel(PROGRESS_QUEUE);
            (token, sender, receiver)
        });
        let outcome = match reports {
            None => {
                self.server
                    .call_tool(&request.name, &input_json, execution)
                    .await
            }
            Some((token, sender, receiver)) => {
                execution = execution.with_progress(ProgressSink::new(move |progress| {
                    // A full queue means a slow client; it will hear of the next report.
                    let _ = sender.try_send(progress);
                }));
                let call = self.server.call_tool(&request.name, &input_json, execution);
                with_progress(call, receiver, token, &context.peer).await
            }
        };
        answer(outcome)
    }

    fn blob_store(&self) -> Result<&dyn crate::blob::BlobStore, ErrorData> {
        let missing = || {
            ErrorData::invalid_params(
                "this server stores no results, so it has no resources",
                None,
            )
        };
        self.server
            .store()
            .map(|store| &**store)
            .ok_or_else(missing)
    }
}

/// Runs a call while passing its progress on. Reports that do not rise are dropped, as the protocol wants them to.
async fn with_progress(
    call: impl Future<Output = Result<ToolReply, ToolError>>,
    mut reports: mpsc::Receiver<Progress>,
    token: ProgressToken,
    peer: &Peer<RoleServer>,
) -> Result<ToolReply, ToolError> {
    tokio::pin!(call);
    let mut highest = f64::NEG_INFINITY;
    loop {
        tokio::select! {
            biased;
            outcome = &mut call => return outcome,
            Some(report) = reports.recv() => {
                if report.done <= highest {
                    continue;
                }
                highest = report.done;
                let mut notification = ProgressNotificationParam::new(token.clone(), report.done);
                notification.total = report.total;
                notification.message = Some(report.message);
                // A client that is gone cancels the call by itself.
                let _ = peer.notify_progress(notification).await;
            }
        }
    }
}

/// A failed tool is a result the model reads; only a name that does not exist is an error of the protocol.
fn answer(outcome: Result<ToolReply, ToolError>) -> Result<CallToolResponse, ErrorData> {
    match outcome {
        Ok(reply) => Ok(convert::result(reply).into()),
        Err(error @ ToolError::UnknownTool { .. }) => {
            Err(ErrorData::invalid_params(error.for_caller(), None))
        }
        Err(error) => {
            tracing::debug!(%error, "a tool call failed");
            Ok(CallToolResult::error(vec![ContentBlock::text(error.for_caller())]).into())
        }
    }
}

impl ServerHandler for McpService {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools();
        let capabilities = if self.server.store().is_some() {
            capabilities.enable_resources().build()
        } else {
            capabilities.build()
        };
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("toolserver", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.instructions.clone())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.server.tools().into_iter().map(convert::tool).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = self.blob_store()?.list().await;
        let blobs = listed.map_err(|error| ErrorData::internal_error(error_chain(&error), None))?;
        let newest = blobs.iter().rev().take(RESOURCES_LISTED);
        Ok(ListResourcesResult::with_all_items(
            newest
                .map(|facts| convert::resource(&facts.to_ref(0)))
                .collect(),
        ))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.blob_store()?;
        let template = ResourceTemplate::new(format!("{BLOB_URI_PREFIX}{{id}}"), "blob")
            .with_description(
                "A stored tool result. Read parts of large ones with the tool `inspect`.",
            );
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let refused = |message: String| ErrorData::invalid_params(message, None);
        let id = BlobId::from_uri(&request.uri).map_err(|error| refused(error_chain(&error)))?;
        let store = self.blob_store()?;
        let facts = store
            .facts(id)
            .await
            .map_err(|error| refused(error_chain(&error)))?;
        if facts.bytes > RESOURCE_MAX_BYTES {
            return Err(refused(format!(
                "this blob has {} bytes, and a resource is returned up to {RESOURCE_MAX_BYTES}; read parts of it with \
                 the tool `inspect` (blob_id {})",
                facts.bytes, facts.name
            )));
        }
        let content = store
            .load(id)
            .await
            .map_err(|error| refused(error_chain(&error)))?;
        let contents = ResourceContents::text(content.into_text(), request.uri)
            .with_mime_type(convert::mime_type(facts.kind));
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    /// Answers what rmcp could not read as any request it knows: unknown methods, and known ones with wrong parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let form = match request.method.as_str() {
            "tools/call" => "name (a string) and arguments (an object)",
            "resources/read" => "uri (a string)",
            "tools/list" | "resources/list" | "resources/templates/list" => {
                "at most a cursor (a string)"
            }
            _ => {
                return Err(ErrorData::new(
                    ErrorCode::METHOD_NOT_FOUND,
                    request.method,
                    None,
                ));
            }
        };
        let told = format!(
            "the parameters of {} cannot be read: it takes {form}",
            request.method
        );
        Err(ErrorData::invalid_params(told, None))
    }

    // rmcp answers these with an empty success by default, which tells clients that we have what we have not.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn get_prompt(
        &self,
        _request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Err(ErrorData::method_not_found::<GetPromptRequestMethod>())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}
