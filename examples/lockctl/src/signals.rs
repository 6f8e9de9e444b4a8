//! The signals that end the program.

use std::future::pending;

/// The exit status for the first signal, as shells report it: 128 and the number of the signal.
#[cfg(unix)]
pub(crate) async fn first() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};

    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Then they end the process at once.
        return pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => 128 + 2,
        _ = terminate.recv() => 128 + 15,
    }
}

/// The exit status for Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn first() -> u8 {
    match tokio::signal::ctrl_c().await {
        Ok(()) => 128 + 2,
        Err(_) => pending().await,
    }
}
