use std::cell::Cell;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// The machine of a client: a runtime of its own, on whose clock the client runs. While the machine is suspended, nothing runs
/// on it and its clock stands still, and everyone else's goes on. A host of turmoil cannot stand still, so the machine reaches
/// the simulated network through one (see `uplink`).
pub(super) struct Machine {
    /// `None` while it is down.
    runtime: Option<Runtime>,
    software: Option<JoinHandle<Result<(), String>>>,
    is_suspended: bool,
}

thread_local! {
    /// The true time at which the present tick of a machine began, and what its own clock showed then.
    static TICK: Cell<Option<(Duration, Instant)>> = const { Cell::new(None) };
}

impl Machine {
    /// A machine that has just started.
    pub(super) fn start(software: impl Future<Output = Result<(), String>> + Send + 'static) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        // Timers have a resolution of a millisecond: the clock has to begin with a whole one.
        runtime.block_on(async { sleep(Duration::from_millis(1)).await });
        let software = Some(runtime.spawn(software));
        Self { runtime: Some(runtime), software, is_suspended: false }
    }

    /// Runs it for a tick that begins at `now` of true time, unless it is suspended or down.
    ///
    /// # Errors
    ///
    /// That of its software.
    pub(super) fn tick(&mut self, now: Duration, tick: Duration) -> Result<(), String> {
        let Some(runtime) = self.runtime.as_ref().filter(|_| !self.is_suspended) else { return Ok(()) };
        runtime.block_on(async {
            TICK.set(Some((now, Instant::now())));
            sleep(tick).await;
        });
        TICK.set(None);
        let Some(software) = self.software.take_if(|software| software.is_finished()) else { return Ok(()) };
        runtime.block_on(software).map_err(|error| error.to_string())?
    }

    /// Ends everything that runs on it.
    pub(super) fn crash(&mut self) {
        (self.runtime, self.software) = (None, None);
    }

    pub(super) fn suspend(&mut self) {
        self.is_suspended = true;
    }

    pub(super) fn resume(&mut self) {
        self.is_suspended = false;
    }
}

/// The true time, for what runs on a machine.
pub(super) fn now() -> Option<Duration> {
    TICK.get().map(|(began, clock)| began + clock.elapsed())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn the_clock_of_a_suspended_machine_stands_still() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&seen);
        let mut machine = Machine::start(async move {
            let began = Instant::now();
            for _ in 0..2 {
                sleep(Duration::from_millis(700)).await;
                times.lock().unwrap().push((began.elapsed().as_millis(), now().unwrap().as_millis()));
            }
            Err("done".to_owned())
        });
        let mut ended = None;
        for second in 0..20 {
            match second {
                1 => machine.suspend(),
                11 => machine.resume(),
                _ => {}
            }
            if let Err(error) = machine.tick(Duration::from_secs(second), Duration::from_secs(1)) {
                ended = Some((second, error));
            }
        }
        assert_eq!(*seen.lock().unwrap(), [(700, 700), (1_400, 11_400)]);
        assert_eq!(ended, Some((11, "done".to_owned())));
    }
}
