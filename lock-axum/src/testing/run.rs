//! One run: a schedule carried out on fresh state, with fresh instances.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::LockManager;
use tokio::runtime::Handle;
use tokio::task::yield_now;

use super::answer::{Answer, panic_message};
use super::clock::{Clock, Deadline};
use super::instance::Masters;
use super::place::Recorder;
use super::problem::Problem;
use super::question::Question;
use super::request::Request;
use super::schedule::{Facts, Told};
use super::trial::Trial;
use super::watchdog::{Doing, Watchdog};

/// After how many looks a request counts as waiting for a lock that others hold: 10 ms.
const WAITING_LOOKS: u32 = 2;
/// After how many looks all requests that wait for locks count as waiting for each other: 250 ms.
const CIRCLE_LOOKS: u32 = 50;
/// How many steps in a row one request makes before the next has its turn, if it is ready, too: one may try again without end until the other
/// has done something.
const STEPS_IN_A_ROW: u32 = 100;
/// How long tasks that were left behind are waited for in the first runs, if none of them ends: only then are those of the state known.
const LEFT_BEHIND: Duration = Duration::from_millis(500);
/// So many looks pass for work on blocking threads, which nobody counts, after its request was dropped: 20 ms.
const BLOCKING_LOOKS: u32 = 4;

/// What is to be tried.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// `None` for requests that run one after another.
    pub(super) question: Option<Question>,
    /// The request that is held.
    pub(super) first: usize,
    /// At which of its steps; beyond them, it has ended, and what it left behind has not.
    pub(super) at: usize,
    /// Another request that is held meanwhile, and at which step.
    pub(super) second: Option<(usize, usize)>,
}

/// How a run went.
pub(super) struct Ran {
    /// Whether the first request was held, and not over before.
    pub(super) was_held: bool,
    /// Whether the second one was held at its step.
    pub(super) second_was_held: bool,
    /// Whether there was anything to try: a lock to lose, for example.
    pub(super) applies: bool,
    pub(super) check: bool,
    pub(super) facts: Facts,
}

/// Why polling went no further.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Ended,
    Held,
    /// It waits for another request, or makes no step for a while.
    Waits,
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

/// One run under way.
struct Run<'r> {
    requests: Vec<Request>,
    deadline: Deadline,
    clock: Clock,
    recorder: &'r Recorder,
    watchdog: &'r Watchdog,
    /// How many tasks there were before the first step.
    tasks: usize,
    told: Told,
}

/// What is known when the requests have ended.
struct Carried {
    was_held: bool,
    second_was_held: bool,
    applies: bool,
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
        let tasks = alive_tasks();
        let masters = Masters::new();
        let mut requests = Vec::new();
        for (index, work) in self.trial.work.iter().enumerate() {
            let own = clone_of(&state)?;
            let masters = if plan.question == Some(Question::Unlocked) { &Masters::new() } else { &masters };
            let frozen = plan.question == Some(Question::Frozen) && index == plan.first;
            let instance = masters.instance(frozen).await.map_err(|error| Problem::NoLocks(error.to_string()))?;
            let begun = work.begin(self.trial.service.as_ref(), instance.locks.clone(), own);
            let request = Request::new(begun, instance);
            self.watchdog.add(&work.label, &request);
            requests.push(request);
        }
        let told = Told::new(self.trial.work.iter().map(|work| work.label.clone()).collect());
        // The time to prepare the state and the masters is not the requests'.
        let deadline = Deadline::after(self.trial.max_time);
        let (clock, recorder, watchdog) = (self.clock, &self.recorder, self.watchdog);
        let tasks_before = alive_tasks() + self.tasks_of_state;
        let mut run = Run { requests, deadline, clock, recorder, watchdog, tasks: tasks_before, told };
        let carried = run.carry_out(plan, &masters).await;
        let Run { mut requests, told, .. } = run;
        let managers: Vec<_> = requests.iter().map(|request| request.instance.locks.clone()).collect();
        let Carried { was_held, second_was_held, applies } = match carried {
            Ok(carried) => carried,
            Err(problem) => {
                drop(requests);
                shut_down(&managers).await;
                return Err(problem);
            }
        };
        self.settle(managers, tasks, plan.question).await;
        let mut facts = told.facts(&requests, plan);
        let answers: Vec<_> = requests.iter_mut().filter_map(|request| request.answer.take()).collect();
        let check = if applies { self.check(plan, state, answers, &mut facts).await? } else { true };
        Ok(Ran { was_held, second_was_held, applies, check, facts })
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
    async fn check(&self, plan: Plan, state: S, answers: Vec<Answer>, facts: &mut Facts) -> Result<bool, Problem> {
        let mut looks = 0;
        loop {
            let holds = self.check_once(clone_of(&state)?, answers.clone(), facts).await?;
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

    /// Waits for what the requests left behind: handlers that finish without their client, releases, and tasks that they spawned.
    async fn settle(&mut self, managers: Vec<LockManager>, tasks: usize, question: Option<Question>) {
        let mut until = Deadline::after(self.trial.max_time);
        let of_state = tasks + self.tasks_of_state;
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
        // Those of connections that the state opened are only known after the first run.
        let is_first = question.is_none();
        let patience = if is_first { LEFT_BEHIND } else { self.trial.max_time };
        tasks_end(self.clock, of_state, patience, until).await;
        if is_first {
            self.tasks_of_state = self.tasks_of_state.max(alive_tasks().saturating_sub(tasks));
        }
    }
}

impl Run<'_> {
    async fn carry_out(&mut self, plan: Plan, masters: &Masters) -> Result<Carried, Problem> {
        let Plan { question, first, at, second } = plan;
        let stop = self.poll(&[first], Some(at), false).await?;
        if stop == Stop::Ended {
            self.told.ended(first, &self.requests[first]);
            if question.is_none() {
                self.tasks_end().await;
            }
            let applies = question.is_none_or(Question::is_about_interleaving);
            let second_was_held = applies && self.others(plan).await?;
            if second_was_held {
                // The first ended before the step that it had reached in an earlier run.
                self.rest_ends(first).await?;
            }
            return Ok(Carried { was_held: false, second_was_held, applies });
        }
        let request = &mut self.requests[first];
        let holds = request.instance.holds();
        let applies = match question {
            Some(Question::Lost | Question::Frozen) => holds,
            _ => true,
        };
        self.told.held(first, request, question);
        if !applies {
            self.hang_up(first);
            return Ok(Carried { was_held: true, second_was_held: false, applies });
        }
        match question {
            Some(Question::HangUp) => self.hang_up(first),
            Some(Question::Lost) if !request.instance.lose_all(masters, self.clock).await => {
                self.hang_up(first);
                return Ok(Carried { was_held: true, second_was_held: false, applies: false });
            }
            Some(Question::Frozen) => masters.expire_all(),
            _ => {}
        }
        let second_was_held = self.others(plan).await?;
        if second.is_some() {
            // The first ends before the second goes on, unless it waits for it.
            let stop = self.poll(&[first], None, true).await?;
            if stop == Stop::Ended {
                self.told.went_on(first, &self.requests[first]);
            }
        }
        self.rest_ends(first).await?;
        Ok(Carried { was_held: true, second_was_held, applies })
    }

    fn hang_up(&mut self, index: usize) {
        self.watchdog.request(index, &mut self.requests[index], |request| request.hang_up(self.recorder));
    }

    /// What still runs goes on to its end. The one that was held first goes first.
    async fn rest_ends(&mut self, first: usize) -> Result<(), Problem> {
        let mut order: Vec<usize> =
            (0..self.requests.len()).filter(|index| self.requests[*index].is_running()).collect();
        order.sort_by_key(|index| *index != first);
        self.poll(&order, None, false).await?;
        for index in order {
            self.told.went_on(index, &self.requests[index]);
        }
        Ok(())
    }

    /// The other requests run to their ends, one after another, or until they wait. Returns whether the second was held at its step.
    async fn others(&mut self, plan: Plan) -> Result<bool, Problem> {
        let mut second_was_held = false;
        for index in (0..self.requests.len()).filter(|index| *index != plan.first) {
            let at = plan.second.and_then(|(second, at)| (second == index).then_some(at));
            match self.poll(&[index], at, plan.question.is_some()).await? {
                Stop::Ended => {
                    self.told.ended(index, &self.requests[index]);
                    if plan.question.is_none() {
                        self.tasks_end().await;
                    }
                }
                Stop::Held => {
                    second_was_held = true;
                    self.told.held(index, &self.requests[index], plan.question);
                }
                Stop::Waits => self.told.waits(index, &self.requests[index]),
            }
        }
        Ok(second_was_held)
    }

    /// What a request left behind ends, so that nothing of it runs beside the next one.
    fn tasks_end(&self) -> impl Future<Output = ()> + Send + use<> {
        tasks_end(self.clock, self.tasks, LEFT_BEHIND, self.deadline)
    }

    /// Polls some requests, the earlier ones first, until all have ended; or until the first of them is at a step; or, if they may give way,
    /// until all of them wait, or a quarter of the time that is left has passed: one that tries again and again waits, too.
    async fn poll(&mut self, who: &[usize], hold_at: Option<usize>, may_give_way: bool) -> Result<Stop, Problem> {
        let mut gives_way = Deadline::after(self.deadline.left() / 4);
        let mut turns = Turns::default();
        let mut looks = 0;
        loop {
            if who.iter().all(|index| !self.requests[*index].is_running()) {
                return Ok(Stop::Ended);
            }
            if hold_at.is_some_and(|at| self.requests[who[0]].steps >= at) {
                return Ok(Stop::Held);
            }
            if self.deadline.is_over() {
                return Err(self.never_ends(who));
            }
            let (requests, recorder, watchdog) = (&mut self.requests, self.recorder, self.watchdog);
            let step = poll_fn(|cx| {
                let stepped = turns.order(who.len()).find(|turn| {
                    let index = who[*turn];
                    watchdog.request(index, &mut requests[index], |request| request.poll_step(cx, recorder))
                });
                stepped.map_or(Poll::Pending, Poll::Ready)
            });
            tokio::select! {
                biased;
                turn = step => {
                    looks = 0;
                    turns.stepped(turn);
                    // Background tasks of the service and of its locks have their turn after each step.
                    yield_now().await;
                }
                () = self.clock.pass(looks) => looks += 1,
            }
            let mut running = who.iter().map(|index| &self.requests[*index]).filter(|request| request.is_running());
            let all_wait = running.all(|request| request.instance.waits_for_a_lock());
            let waits = gives_way.is_over() || self.clock.is_idle(looks) || all_wait && looks >= WAITING_LOOKS;
            if may_give_way && waits {
                return Ok(Stop::Waits);
            }
            if !may_give_way && all_wait && looks >= CIRCLE_LOOKS && !self.another_may_release(who) {
                return Err(self.never_ends(who));
            }
        }
    }

    /// Whether another request is held, or has ended, and what it left behind holds a lock.
    fn another_may_release(&self, who: &[usize]) -> bool {
        self.requests
            .iter()
            .enumerate()
            .any(|(index, request)| if request.is_running() { !who.contains(&index) } else { request.instance.holds() })
    }

    fn never_ends(&mut self, who: &[usize]) -> Problem {
        for index in who {
            if self.requests[*index].is_running() {
                self.told.stuck(*index, &self.requests[*index]);
            }
        }
        Problem::Stuck { ran: self.told.lines(&self.requests) }
    }
}

/// Whose turn it is among requests that are ready.
#[derive(Default)]
struct Turns {
    /// The one that is asked first.
    first: usize,
    last: usize,
    in_a_row: u32,
}

impl Turns {
    fn order(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let first = self.first;
        (0..count).map(move |turn| (first + turn) % count)
    }

    fn stepped(&mut self, turn: usize) {
        self.in_a_row = if turn == self.last { self.in_a_row + 1 } else { 1 };
        self.last = turn;
        if self.in_a_row >= STEPS_IN_A_ROW {
            (self.first, self.in_a_row) = (turn + 1, 0);
        }
    }
}

async fn shut_down(managers: &[LockManager]) {
    for locks in managers {
        locks.shutdown(Duration::ZERO).await;
    }
}

/// How many tasks the runtime has.
fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Waits until there are no more tasks than `most`; or until their number has been the same for a while.
async fn tasks_end(clock: Clock, most: usize, patience: Duration, mut until: Deadline) {
    let (mut last, mut quiet, mut looks) = (usize::MAX, Deadline::after(patience), 0);
    while alive_tasks() > most && !until.is_over() && !quiet.is_over() {
        let alive = alive_tasks();
        if alive != last {
            (last, quiet) = (alive, Deadline::after(patience));
        }
        clock.pass(looks).await;
        looks += 1;
    }
}

fn clone_of<S: Clone>(state: &S) -> Result<S, Problem> {
    catch_unwind(AssertUnwindSafe(|| state.clone())).map_err(|panic| Problem::StatePanicked(panic_message(&*panic)))
}
