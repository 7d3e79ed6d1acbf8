//! MCP over a pair of byte streams, above all this process's standard input and output: what another agent starts as
//! a subprocess.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use rmcp::{RoleServer, ServiceExt, service::ServerInitializeError, transport::io::stdio_pipes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::McpService;

/// How long running calls may take to finish after the input ended.
const DRAIN_GRACE: Duration = Duration::from_millis(1000);

/// How long the connection may take to end after it was told to.
const STOP_GRACE: Duration = Duration::from_millis(500);

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
/// When the input ends, running calls have a moment to finish and are cancelled then. A client that does not read its
/// answers cannot put off the end.
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
    let ended = CancellationToken::new();
    let reader = NoticesEnd {
        inner: pipes.0,
        ended: ended.clone(),
    };
    let starting = service.serve_with_ct((reader, pipes.1), stop.clone());
    let running: rmcp::service::RunningService<RoleServer, McpService> = match starting.await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(_) if stop.is_cancelled() => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(Box::new(error))),
    };
    let end = running.cancellation_token();
    let waiting = running.waiting();
    tokio::pin!(waiting);
    tokio::select! {
        over = &mut waiting => return over.map(drop).map_err(ServeError::Connection),
        () = stop.cancelled() => {}
        () = ended.cancelled() => {
            if let Ok(over) = timeout(DRAIN_GRACE, &mut waiting).await {
                return over.map(drop).map_err(ServeError::Connection);
            }
        }
    }
    end.cancel();
    match timeout(STOP_GRACE, waiting).await {
        Ok(over) => over.map(drop).map_err(ServeError::Connection),
        // What is left is an answer nobody reads.
        Err(_) => Ok(()),
    }
}

/// Passes bytes on and notices their end.
struct NoticesEnd<R> {
    inner: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for NoticesEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let room = buffer.remaining();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let got_nothing = buffer.filled().len() == before && room > 0;
        if matches!(&polled, Poll::Ready(read) if read.is_err() || got_nothing) {
            self.ended.cancel();
        }
        polled
    }
}
