use std::{io, process, sync::OnceLock};

use tokio_util::sync::CancellationToken;

/// What asked the process to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, what service managers send.
    Terminate,
}

impl Signal {
    /// The exit status by which shells tell that a signal ended a process: 128 + its number.
    pub(crate) fn exit_status(self) -> u8 {
        match self {
            Self::Interrupt => 128 + 2,
            Self::Terminate => 128 + 15,
        }
    }
}

/// The signal that was received first, if any.
#[derive(Debug, Default)]
pub(crate) struct Received(OnceLock<Signal>);

impl Received {
    pub(crate) fn first(&self) -> Option<Signal> {
        self.0.get().copied()
    }

    /// Cancels `stop` at the first signal; ends the process at once at the second. Must be polled
    /// as long as the process runs.
    pub(crate) async fn watch(&self, stop: CancellationToken) -> io::Result<()> {
        let mut signals = Signals::listen()?;
        let first = signals.next().await;
        self.0.get_or_init(|| first);
        eprintln!("stopping; once more to stop at once");
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
