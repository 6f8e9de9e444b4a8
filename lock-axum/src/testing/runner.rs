//! Carries out runs: each on fresh state, with fresh instances.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::LockManager;

use super::answer::{Answer, panic_message};
use super::clock::{Clock, Deadline};
use super::instance::Masters;
use super::place::Recorder;
use super::problem::Problem;
use super::question::Question;
use super::request::Request;
use super::run::{Carried, LEFT_BEHIND, Plan, Run, alive_tasks, tasks_end};
use super::schedule::{Facts, Told};
use super::trial::Trial;
use super::watchdog::{Doing, Watchdog};

/// How many looks pass for work on blocking threads, which nobody counts, after its request was dropped: 20 ms.
const BLOCKING_LOOKS: u32 = 4;

/// How a run went.
pub(super) struct Ran {
    pub(super) carried: Carried,
    pub(super) check: bool,
    pub(super) facts: Facts,
    /// In the order of the requests.
    pub(super) answers: Vec<Answer>,
}

/// What all runs of a trial share.
pub(super) struct Runner<'a, S> {
    pub(super) trial: &'a Trial<S>,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    pub(super) watchdog: &'a Watchdog,
    /// How many tasks the state of a run has more than when it was made: those of connections that were opened later.
    pub(super) tasks_of_state: usize,
}

impl<S: Clone + Send + 'static> Runner<'_, S> {
    /// Carries out a plan.
    pub(super) async fn run(&mut self, plan: Plan) -> Result<Ran, Problem> {
        let before = alive_tasks();
        let ran = self.run_on_fresh_state(plan).await;
        // What the state left behind must not be taken for a part of the next run.
        let mut until = Deadline::after(Duration::from_millis(20));
        while alive_tasks() > before && !until.is_over() {
            self.clock.pass(0).await;
        }
        ran
    }

    async fn run_on_fresh_state(&mut self, plan: Plan) -> Result<Ran, Problem> {
        self.watchdog.begin(plan.question);
        let making = self.caught(Doing::State, async { (self.trial.state)().await });
        let made = self.clock.limit(self.trial.max_time, making).await;
        let state = match made {
            Some(made) => made.map_err(Problem::StatePanicked)?,
            None => return Err(Problem::StateNeverReady { limit: self.trial.max_time }),
        };
        let tasks = self.settled_tasks().await;
        let masters = Masters::new();
        let mut requests = Vec::new();
        for (index, work) in self.trial.work.iter().enumerate() {
            let own = clone_of(&state)?;
            let masters = if plan.question == Some(Question::Unlocked) { &Masters::new() } else { &masters };
            let frozen = plan.question == Some(Question::Frozen) && index == plan.first;
            let instance = masters.instance(frozen).await.map_err(|error| Problem::NoLocks(error.to_string()))?;
            let begun = (work.begin)(self.trial.service.as_ref(), instance.locks.clone(), own);
            let request = Request::new(begun, instance);
            self.watchdog.add(&work.label, &request);
            requests.push(request);
        }
        let told = Told::new(self.trial.work.iter().map(|work| work.label.clone()).collect());
        // The time to prepare the state and the masters is not the requests'.
        let deadline = Deadline::after(self.trial.max_time);
        let (clock, recorder, watchdog) = (self.clock, &self.recorder, self.watchdog);
        let begun = alive_tasks();
        let tasks_before = begun + self.tasks_of_state;
        let mut run =
            Run { requests, masters: &masters, deadline, clock, recorder, watchdog, tasks: tasks_before, told };
        let carried = run.carry_out(plan).await;
        let Run { mut requests, told, .. } = run;
        let managers: Vec<_> = requests.iter().map(|request| request.instance.locks.clone()).collect();
        let carried = match carried {
            Ok(carried) => carried,
            Err(problem) => {
                drop(requests);
                shut_down(&managers).await;
                return Err(problem);
            }
        };
        self.settle(managers, tasks, begun, plan.question).await;
        let mut facts = told.facts(&requests, plan.first);
        let answers: Vec<_> = requests.iter_mut().filter_map(|request| request.answer.take()).collect();
        let check = if carried.applies { self.check(plan, state, &answers, &mut facts).await? } else { true };
        Ok(Ran { carried, check, facts, answers })
    }

    /// How many tasks there are without those that end with their next poll, such as one that the state has just left.
    async fn settled_tasks(&self) -> usize {
        let mut tasks = alive_tasks();
        loop {
            self.clock.pass(0).await;
            let left = alive_tasks();
            if left >= tasks {
                return tasks;
            }
            tasks = left;
        }
    }

    /// The output of a future of the program, or what it said when it panicked.
    async fn caught<T>(&self, doing: Doing, work: impl Future<Output = T>) -> Result<T, String> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            let poll = || catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
            match self.watchdog.during(doing, poll) {
                Ok(polled) => polled.map(Ok),
                Err(panic) => Poll::Ready(Err(panic_message(&*panic))),
            }
        })
        .await
    }

    /// Work on a blocking thread goes on when its request is dropped, and a busy machine may not have come to its end: what is false then is looked
    /// at again.
    async fn check(&self, plan: Plan, state: S, answers: &[Answer], facts: &mut Facts) -> Result<bool, Problem> {
        let mut looks = 0;
        loop {
            let holds = self.check_once(clone_of(&state)?, answers.to_vec(), facts).await?;
            if holds || !plan.question.is_some_and(Question::drops_requests) || self.clock.is_idle(looks) {
                return Ok(holds);
            }
            self.clock.pass(looks).await;
            looks += 1;
        }
    }

    async fn check_once(&self, state: S, answers: Vec<Answer>, facts: &mut Facts) -> Result<bool, Problem> {
        let Some(check) = &self.trial.check else { return Err(Problem::NoCheck) };
        let checked = self.caught(Doing::Check, async { check(state, answers).await });
        match self.clock.limit(self.trial.max_time, checked).await {
            Some(Ok(check)) => Ok(check),
            Some(Err(message)) => Err(Problem::CheckPanicked { message, ran: std::mem::take(&mut facts.lines) }),
            None => Err(Problem::CheckNeverEnds { limit: self.trial.max_time }),
        }
    }

    /// Waits for what the requests left behind: tasks that they spawned, handlers that finish without their client, and releases. There were
    /// `begun` tasks before the first step, of which `made` were there before the managers were.
    async fn settle(&mut self, managers: Vec<LockManager>, made: usize, begun: usize, question: Option<Question>) {
        let mut until = Deadline::after(self.trial.max_time);
        // The tasks of connections that the state opened are only known after the first run.
        let is_first = question.is_none();
        let patience = if is_first { LEFT_BEHIND } else { self.trial.max_time };
        // The managers are there meanwhile: a task may only now ask for its lock.
        tasks_end(self.clock, begun + self.tasks_of_state, patience, until).await;
        if is_first {
            self.tasks_of_state = self.tasks_of_state.max(alive_tasks().saturating_sub(begun));
        }
        let held = || managers.iter().any(|locks| !locks.held().is_empty());
        let mut looks = 0;
        // A frozen holder that never ends keeps its lock: it has been reported.
        while held() && !until.is_over() {
            self.clock.pass(looks).await;
            looks += 1;
        }
        shut_down(&managers).await;
        if question.is_some_and(Question::drops_requests) {
            for looks in 0..BLOCKING_LOOKS {
                self.clock.pass(looks).await;
            }
        }
        tasks_end(self.clock, made + self.tasks_of_state, patience, until).await;
    }
}

async fn shut_down(managers: &[LockManager]) {
    for locks in managers {
        locks.shutdown(Duration::ZERO).await;
    }
}

fn clone_of<S: Clone>(state: &S) -> Result<S, Problem> {
    catch_unwind(AssertUnwindSafe(|| state.clone())).map_err(|panic| Problem::StatePanicked(panic_message(&*panic)))
}
