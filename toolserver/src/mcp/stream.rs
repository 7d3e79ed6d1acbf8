//! MCP over a pair of byte streams, above all this process's standard input and output: what another agent starts as
//! a subprocess.

use rmcp::{RoleServer, ServiceExt, service::ServerInitializeError, transport::io::stdio_pipes};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::McpService;

/// Why serving ended badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client did not begin as the protocol says.
    #[error("the client's first messages were not understood")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The task that serves the connection died.
    #[error("serving the connection failed")]
    Connection(#[source] tokio::task::JoinError),
}

/// Serves one client over standard input and output until it closes them or `stop` is cancelled.
///
/// Nothing but protocol messages may be written to standard output meanwhile.
///
/// # Errors
/// As [`serve`].
pub async fn serve_stdio(service: McpService, stop: CancellationToken) -> Result<(), ServeError> {
    serve(service, stdio_pipes(), stop).await
}

/// Serves one client over anything that can be read and written, until it is closed or `stop` is cancelled.
///
/// When the input ends, running calls have a few seconds to finish and are cancelled then.
///
/// # Errors
/// [`ServeError`]. A client that goes away before it says anything is not one.
pub async fn serve<R, W>(
    service: McpService,
    pipes: (R, W),
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let starting = service.serve_with_ct(pipes, stop.clone());
    let running: rmcp::service::RunningService<RoleServer, McpService> = match starting.await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(_) if stop.is_cancelled() => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(Box::new(error))),
    };
    running
        .waiting()
        .await
        .map(drop)
        .map_err(ServeError::Connection)
}
