//! Stopping a run by signal: the first asks the turn to stop, the second ends the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::worker::Interrupter;

/// Stops turns when SIGINT, SIGTERM or SIGHUP comes; never returns.
pub(super) async fn interrupt_on_signal(interrupter: Interrupter) {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let mut signals: Vec<Signal> = kinds
        .into_iter()
        .filter_map(|kind| signal(kind).ok())
        .collect();
    if signals.is_empty() {
        // Their default action stays: the process ends at once.
        return;
    }
    for asked in 0_u32.. {
        futures_util::future::select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv())))
            .await;
        if asked > 0 {
            super::say("worker: stopped at once; what ran may still be running");
            std::process::exit(i32::from(super::exit::INTERRUPTED));
        }
        super::say("worker: stopping; once more to stop at once");
        interrupter.interrupt();
    }
}
