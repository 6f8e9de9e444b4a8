//! Which schedules each question has.

use super::answer::Answer;
use super::clock::Clock;
use super::outcome::{Outcome, Unlocked};
use super::place::Recorder;
use super::problem::Problem;
use super::question::Question;
use super::run::Plan;
use super::runner::{Ran, Runner};
use super::schedule::Schedule;
use super::trial::Trial;
use super::watchdog::Watchdog;

/// How many schedules with two switches are tried for each pair of requests, the shortest first.
const TWO_SWITCHES: usize = 24;
/// How many runs are made for a step that the request did not come to, although it did in another run. What it awaits of a database is a step
/// only if the answer is not there at once.
const RUNS_OF_A_STEP: u32 = 4;

impl<S: Clone + Send + 'static> Trial<S> {
    /// Carries out all schedules. What could not be tried is in the [outcome](Outcome), too.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the requests of the present run are dropped with it, and nothing else is tried.
    pub async fn run(self) -> Outcome {
        let mut outcome = Outcome::new(self.work.iter().map(|work| work.label.clone()).collect());
        if let Some(problem) = self.invalid() {
            outcome.problems.push(problem);
            return outcome;
        }
        let clock = Clock::detect().await;
        let watchdog = Watchdog::start(self.max_time);
        let runner = Runner { trial: &self, clock, recorder: Recorder::new(), watchdog: &watchdog, tasks_of_state: 0 };
        let mut asking = Asking { runner, outcome, most_steps: vec![0; self.work.len()] };
        match watchdog.watch(asking.ask_all()).await {
            Ok(()) => asking.tell_who_was_never_held(),
            Err(problem) => asking.outcome.problems.push(problem),
        }
        asking.outcome.shortest_first();
        asking.outcome
    }
}

struct Asking<'a, S> {
    runner: Runner<'a, S>,
    outcome: Outcome,
    /// How many steps each request made in the run in which it made most.
    most_steps: Vec<usize>,
}

impl<S: Clone + Send + 'static> Asking<'_, S> {
    async fn ask_all(&mut self) -> Result<(), Problem> {
        let steps = self.one_after_another().await?;
        let asked = &self.runner.trial.questions;
        if !self.outcome.takes_locks && asked.iter().all(|question| question.is_about_locks()) {
            return Err(Problem::NoLock);
        }
        for question in Question::ALL.into_iter().filter(|question| asked.contains(question)) {
            // Without a lock, there is none to lose, and the race says all.
            if question.is_about_locks() && !self.outcome.takes_locks {
                continue;
            }
            let asked = match question {
                // The second switch finds a claim after the read: the next holder has only read when the frozen one goes on.
                Question::Race | Question::Frozen | Question::Unlocked => {
                    self.with_two_switches(question, &steps).await
                }
                _ => self.at_each_step(question).await.map(drop),
            };
            match asked {
                Ok(()) => {}
                // The other questions may have an answer.
                Err(problem @ Problem::Stuck { .. }) => self.outcome.problems.push(problem),
                Err(problem) => return Err(problem),
            }
        }
        Ok(())
    }

    /// The requests one after another, each of them first once: the check has to hold. Returns how many steps each of them makes.
    async fn one_after_another(&mut self) -> Result<Vec<usize>, Problem> {
        let (mut steps, mut runs) = (Vec::new(), Vec::new());
        for first in 0..self.runner.trial.work.len() {
            let ran = self.run(Plan { question: None, first, at: usize::MAX, second: None }).await?;
            if let Some(message) = ran.answers.iter().find_map(Answer::why_no_service) {
                return Err(Problem::ServicePanicked(message.to_owned()));
            }
            self.outcome.takes_locks |= ran.facts.took_a_lock;
            if !ran.check {
                return Err(Problem::NeverHolds { ran: ran.facts.lines });
            }
            steps.push(ran.facts.steps[first]);
            if ran.answers.get(first).is_some_and(Answer::asks_for_an_upgrade) {
                self.outcome.problems.push(Problem::Upgrade { request: first });
            }
            runs.push((ran.answers, ran.facts.lines));
        }
        for request in 0..steps.len() {
            let fails = |(answers, _): &(Vec<Answer>, _)| answers.get(request).is_some_and(Answer::is_failure);
            if let Some((answers, ran)) = runs.last().filter(|_| runs.iter().all(fails)) {
                let (answer, ran) = (answers[request].to_string(), ran.clone());
                self.outcome.problems.push(Problem::Fails { request, answer, ran });
            }
        }
        Ok(steps)
    }

    /// One switch at each step of each request; and if that finds nothing, two switches, until one schedule breaks the check.
    async fn with_two_switches(&mut self, question: Question, steps: &[usize]) -> Result<(), Problem> {
        if self.at_each_step(question).await? {
            return Ok(());
        }
        let pairs = (0..steps.len()).flat_map(|first| (0..steps.len()).map(move |second| (first, second)));
        for (first, second) in pairs.filter(|(first, second)| first != second) {
            let (of_first, of_second) = (steps[first].min(TWO_SWITCHES), steps[second].min(TWO_SWITCHES));
            let mut pairs: Vec<_> =
                (1..=of_first).flat_map(|at| (1..=of_second).map(move |other| (at, other))).collect();
            pairs.sort_by_key(|(at, other)| at + other);
            // While the first request is held at a step, the second one comes no further than this.
            let mut furthest = vec![usize::MAX; of_first + 1];
            let (mut tried, mut pairs) = (0, pairs.into_iter());
            while tried < TWO_SWITCHES
                && let Some((at, other)) = pairs.next()
            {
                if other >= furthest[at] {
                    continue;
                }
                let ran = self.run(Plan { question: Some(question), first, at, second: Some((second, other)) }).await?;
                if !ran.carried.second_was_held {
                    furthest[at] = other;
                }
                if ran.carried.applies {
                    tried += 1;
                    if self.count(question, first, ran) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Each request at each of its steps. Returns whether a check was false.
    async fn at_each_step(&mut self, question: Question) -> Result<bool, Problem> {
        let bound = self.runner.trial.max_steps;
        let mut found = false;
        for first in 0..self.runner.trial.work.len() {
            let (mut at, mut runs) = (1, 0);
            loop {
                let ran = self.run(Plan { question: Some(question), first, at, second: None }).await?;
                let was_held = ran.carried.was_held;
                if was_held && at > bound {
                    self.outcome.more_steps(first, bound);
                    break;
                }
                if ran.carried.applies {
                    found |= self.count(question, first, ran);
                }
                runs += 1;
                if was_held {
                    (at, runs) = (at + 1, 0);
                } else if at > self.most_steps[first] || runs == RUNS_OF_A_STEP {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// A request without a step can only run as a whole, before the others or after them.
    fn tell_who_was_never_held(&mut self) {
        let never_held = |request: &usize| self.most_steps[*request] == 0;
        self.outcome.never_held = (0..self.most_steps.len()).filter(never_held).collect();
        if self.outcome.problems.is_empty() && self.outcome.never_held.len() == self.most_steps.len() {
            self.outcome.problems.push(Problem::NoStep);
        }
    }

    async fn run(&mut self, plan: Plan) -> Result<Ran, Problem> {
        self.outcome.runs += 1;
        let ran = self.runner.run(plan).await?;
        for (most, steps) in self.most_steps.iter_mut().zip(&ran.facts.steps) {
            *most = (*most).max(*steps);
        }
        Ok(ran)
    }

    /// Counts a schedule. Returns whether the check was false.
    fn count(&mut self, question: Question, first: usize, Ran { check, facts, .. }: Ran) -> bool {
        let broken = (!check).then(|| Schedule::new(question, first, facts));
        if question == Question::Unlocked {
            let unlocked = self.outcome.unlocked.get_or_insert_with(Unlocked::default);
            unlocked.schedules += 1;
            unlocked.broken.extend(broken);
            return !check;
        }
        let tried = &mut self.outcome.tried;
        match tried.iter_mut().find(|(tried, _)| *tried == question) {
            Some((_, schedules)) => *schedules += 1,
            None => tried.push((question, 1)),
        }
        self.outcome.broken.extend(broken);
        !check
    }
}

impl Outcome {
    /// Within each question, the schedules in which the request was held early come first; where it is the same step, the earlier request.
    fn shortest_first(&mut self) {
        let step = |schedule: &Schedule| schedule.step.unwrap_or(usize::MAX);
        let question = |schedule: &Schedule| Question::ALL.iter().position(|question| *question == schedule.question);
        self.broken.sort_by_key(|schedule| (question(schedule), step(schedule)));
        if let Some(unlocked) = &mut self.unlocked {
            unlocked.broken.sort_by_key(step);
        }
    }

    /// Says once that a request was not held at all of its steps.
    fn more_steps(&mut self, request: usize, bound: usize) {
        let is_it = |problem: &Problem| matches!(problem, Problem::MoreSteps { request: told, .. } if *told == request);
        if !self.problems.iter().any(is_it) {
            self.problems.push(Problem::MoreSteps { request, bound });
        }
    }
}
