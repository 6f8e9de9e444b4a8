//! One run under way: the requests of a plan are polled step by step, held, and let go on.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::yield_now;

use super::clock::{Clock, Deadline};
use super::instance::Masters;
use super::place::Recorder;
use super::problem::Problem;
use super::question::Question;
use super::request::Request;
use super::schedule::Told;
use super::watchdog::Watchdog;

/// After how many looks a request counts as waiting for a lock that others hold: 10 ms.
const WAITING_LOOKS: u32 = 2;
/// After how many looks all requests that wait for locks count as waiting for each other: 250 ms.
const CIRCLE_LOOKS: u32 = 50;
/// How many steps in a row one request makes before the next has its turn, if it is ready, too: one may try again without end until the other
/// has done something.
const STEPS_IN_A_ROW: u32 = 100;
/// How long tasks that were left behind are waited for in the first runs, if none of them ends: only then are those of the state known.
pub(super) const LEFT_BEHIND: Duration = Duration::from_millis(500);

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

/// Why polling went no further.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Ended,
    Held,
    /// It waits for another request, or makes no step for a while.
    Waits,
}

/// One run under way.
pub(super) struct Run<'r> {
    pub(super) requests: Vec<Request>,
    pub(super) masters: &'r Masters,
    pub(super) deadline: Deadline,
    pub(super) clock: Clock,
    pub(super) recorder: &'r Recorder,
    pub(super) watchdog: &'r Watchdog,
    /// How many tasks there were before the first step.
    pub(super) tasks: usize,
    pub(super) told: Told,
}

/// What is known when the requests have ended.
pub(super) struct Carried {
    /// Whether the first request was held, and not over before.
    pub(super) was_held: bool,
    /// Whether the second one was held at its step.
    pub(super) second_was_held: bool,
    /// Whether there was anything to try: a lock to lose, for example.
    pub(super) applies: bool,
}

impl Carried {
    /// The first request was held, and there was nothing to try.
    const FOR_NOTHING: Self = Self { was_held: true, second_was_held: false, applies: false };
}

impl Run<'_> {
    /// Carries out a plan.
    pub(super) async fn carry_out(&mut self, plan: Plan) -> Result<Carried, Problem> {
        let Plan { question, first, at, second } = plan;
        let stop = self.poll(&[first], Some(at), false).await?;
        if stop == Stop::Ended {
            self.told.ended(first, &self.requests[first], "ran to its end");
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
        let has_nothing_to_lose =
            matches!(question, Some(Question::Lost | Question::Frozen)) && !request.instance.holds();
        self.told.held(first, request, question);
        if has_nothing_to_lose {
            self.hang_up(first);
            return Ok(Carried::FOR_NOTHING);
        }
        match question {
            Some(Question::HangUp) => self.hang_up(first),
            Some(Question::Lost) if !request.instance.lose_all(self.masters, self.clock).await => {
                self.hang_up(first);
                return Ok(Carried::FOR_NOTHING);
            }
            Some(Question::Frozen) => self.masters.expire_all(),
            _ => {}
        }
        let second_was_held = self.others(plan).await?;
        if second.is_some() {
            // The first ends before the second goes on, unless it waits for it.
            let stop = self.poll(&[first], None, true).await?;
            if stop == Stop::Ended {
                self.told.ended(first, &self.requests[first], "went on");
            }
        }
        self.rest_ends(first).await?;
        Ok(Carried { was_held: true, second_was_held, applies: true })
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
            self.told.ended(index, &self.requests[index], "went on");
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
                    self.told.ended(index, &self.requests[index], "ran to its end");
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
        let mut gives_way = Deadline::after(self.deadline.left / 4);
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
            if !may_give_way && all_wait && looks >= CIRCLE_LOOKS {
                let is_held = self.requests.iter().any(|request| request.instance.holds());
                if is_held && !self.another_may_release(who) {
                    return Err(self.never_ends(who));
                }
                // Nobody has what they wait for: it is left to expire, as after a delegation without an answer.
                if !is_held && looks == CIRCLE_LOOKS {
                    self.masters.expire_all();
                }
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

/// How many tasks the runtime has.
pub(super) fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Waits until there are no more tasks than `most`; or until their number has been the same for a while.
pub(super) async fn tasks_end(clock: Clock, most: usize, patience: Duration, mut until: Deadline) {
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
