use std::{io, process, sync::OnceLock};

use tokio_util::sync::CancellationToken;

/// A request to stop the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// SIGINT, which Ctrl-C sends.
    Interrupt,
    /// SIGTERM, which service managers send.
    Terminate,
}

impl Signal {
    /// The exit status of a process that this signal ended, as shells report it: 128 plus the
    /// signal's number.
    #[must_use]
    pub fn exit_status(self) -> u8 {
        match self {
            Self::Interrupt => 128 + 2,
            Self::Terminate => 128 + 15,
        }
    }
}

/// Waits for signals and remembers the first one.
#[derive(Debug, Default)]
pub struct SignalWatcher {
    first: OnceLock<Signal>,
}

impl SignalWatcher {
    /// The first signal that was received, if any.
    #[must_use]
    pub fn first(&self) -> Option<Signal> {
        self.first.get().copied()
    }

    /// Cancels `stop` at the first signal and exits the process at the second. Returns only on error.
    ///
    /// # Errors
    ///
    /// An [`io::Error`] if the signal handlers cannot be installed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, later signals are ignored. Poll it for as long as the process runs.
    pub async fn watch(&self, stop: CancellationToken) -> io::Result<()> {
        let mut signals = Signals::listen()?;
        let first = signals.next().await;
        self.first.get_or_init(|| first);
        eprintln!("stopping; press Ctrl-C or send SIGTERM again to exit immediately");
        stop.cancel();
        let second = signals.next().await;
        process::exit(second.exit_status().into());
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}
