//! Waiting for the signals that ask a program to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGINT, SIGTERM or SIGHUP and returns its number.
///
/// Where a signal cannot be listened for, its default action stays: the process ends at once.
pub(super) async fn stop_requested() -> u8 {
    let one = |kind: SignalKind, number: u8| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
                number
            }
            Err(error) => {
                tracing::warn!(%error, number, "cannot listen for a signal");
                std::future::pending().await
            }
        }
    };
    tokio::select! {
        number = one(SignalKind::interrupt(), 2) => number,
        number = one(SignalKind::terminate(), 15) => number,
        number = one(SignalKind::hangup(), 1) => number,
    }
}
