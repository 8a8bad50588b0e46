//! The turn: commands, one clock reading, receive, timers, the application, transmit.

use super::endpoint::Endpoint;
use crate::io::{Clock, PacketIo};
use crate::units::{Duration, Instant, Qpn};
use crate::verbs::{Completion, CqEntry, QpEvent};
use rtrb::Consumer;

/// Packets that an endpoint may send in a turn.
const TX_BUDGET: u32 = 64;

/// So many completions ahead, the application may fetch what it will need.
const COMPLETIONS_AHEAD: usize = 8;

/// Whether the poll loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends after this turn.
    Stop,
}

/// What uses the endpoints of a worker: posts requests, takes completions.
///
/// All calls come from the worker's own thread and must neither block nor allocate.
pub trait Application<I: PacketIo> {
    /// What the control thread may ask.
    type Command;

    /// A command of the control thread.
    fn on_command(
        &mut self,
        now: Instant,
        endpoints: &mut [Endpoint<I>],
        load: &Load,
        command: Self::Command,
    ) -> Flow;

    /// A request of endpoint `index` completed.
    fn on_completion(&mut self, now: Instant, index: usize, endpoint: &mut Endpoint<I>, done: &Completion);

    /// Something happened to a queue pair of endpoint `index`.
    fn on_event(&mut self, now: Instant, index: usize, endpoint: &mut Endpoint<I>, qpn: Qpn, event: QpEvent);

    /// A completion or event of queue pair `qpn` comes soon, and there are many queue pairs: the
    /// moment to [fetch](PacketIo::fetch) what it will need.  Called twice for each, the second time
    /// when what was fetched the first time has come.
    #[inline]
    fn fetch_ahead(&self, _endpoint: &Endpoint<I>, _index: usize, _qpn: Qpn, _again: bool) {}

    /// Once a turn, before transmission: the moment to post.  Whether anything was posted.
    fn on_turn(&mut self, now: Instant, endpoints: &mut [Endpoint<I>]) -> bool;

    /// When [`Application::on_turn`] has something to post by itself.
    fn next_wake(&self) -> Option<Instant> {
        None
    }
}

/// How a worker spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Turns of the poll loop.
    pub turns: u64,
    /// Turns in which nothing came, was due, or left.
    pub idle_turns: u64,
    /// Time of the turns in which something did.
    pub busy: Duration,
    /// Time of all turns.
    pub total: Duration,
    /// The longest turn: the poll loop was away for so long.
    pub longest: Duration,
    /// Time of turns that took [`Load::AWAY`] or longer: what a turn does takes less by far, so
    /// something else had the core.
    pub away: Duration,
}

impl Load {
    /// A turn that takes so long was interrupted.
    pub const AWAY: Duration = Duration::from_nanos(200_000);

    /// The share of the time since `before` in which there was something to do, 0 to 1.
    pub fn busy_since(&self, before: &Load) -> f64 {
        let total = self.total.as_nanos().saturating_sub(before.total.as_nanos()).max(1);
        self.busy.as_nanos().saturating_sub(before.busy.as_nanos()) as f64 / total as f64
    }
}

/// A worker: endpoints, what uses them, and the loop.
#[derive(Debug)]
pub struct Worker<I: PacketIo, A> {
    endpoints: Vec<Endpoint<I>>,
    app: A,
    load: Load,
    last: Option<Instant>,
    last_worked: bool,
}

impl<I: PacketIo, A: Application<I>> Worker<I, A> {
    /// A worker over `endpoints`.
    pub fn new(endpoints: Vec<Endpoint<I>>, app: A) -> Worker<I, A> {
        Worker { endpoints, app, load: Load::default(), last: None, last_worked: false }
    }

    /// Its endpoints, which another worker may have.
    pub fn into_endpoints(self) -> Vec<Endpoint<I>> {
        self.endpoints
    }

    /// Polls until a command stops it.
    pub fn run(&mut self, clock: &mut impl Clock, mailbox: &mut Consumer<A::Command>) {
        loop {
            let now = clock.now();
            if let Ok(command) = mailbox.pop() {
                if self.command(now, command) == Flow::Stop {
                    return;
                }
            }
            self.turn(now);
        }
    }

    /// Gives the application a command.
    pub fn command(&mut self, now: Instant, command: A::Command) -> Flow {
        self.app.on_command(now, &mut self.endpoints, &self.load, command)
    }

    /// One turn at `now`; whether anything was done.
    #[inline]
    pub fn turn(&mut self, now: Instant) -> bool {
        self.account(now);
        let mut worked = false;
        for index in 0..self.endpoints.len() {
            let received = self.endpoints[index].receive(now);
            let fired = self.endpoints[index].timers(now);
            worked |= received + fired != 0;
            self.completions(now, index);
        }
        worked |= self.app.on_turn(now, &mut self.endpoints);
        for index in 0..self.endpoints.len() {
            worked |= self.endpoints[index].transmit(now, TX_BUDGET) != 0;
            // Unreliable requests complete as they leave.
            self.completions(now, index);
        }
        self.last_worked = worked;
        worked
    }

    /// When a turn is wanted if no frame comes in; see [`Endpoint::next_wake`].
    pub fn next_wake(&self) -> Option<Instant> {
        let mut next = self.app.next_wake();
        for wake in self.endpoints.iter().filter_map(Endpoint::next_wake) {
            next = Some(next.map_or(wake, |at| at.min(wake)));
        }
        next
    }

    /// The endpoints.
    pub fn endpoints(&self) -> &[Endpoint<I>] {
        &self.endpoints
    }

    /// The endpoints, to set up.
    pub fn endpoints_mut(&mut self) -> &mut [Endpoint<I>] {
        &mut self.endpoints
    }

    /// The application.
    pub fn app(&self) -> &A {
        &self.app
    }

    /// The application and the endpoints, to set up.
    pub fn parts_mut(&mut self) -> (&mut A, &mut [Endpoint<I>]) {
        (&mut self.app, &mut self.endpoints)
    }

    /// How time was spent.
    pub fn load(&self) -> &Load {
        &self.load
    }

    #[inline]
    fn completions(&mut self, now: Instant, index: usize) {
        if self.endpoints[index].has_completions() {
            self.take_completions(now, index);
        }
    }

    fn take_completions(&mut self, now: Instant, index: usize) {
        let endpoint = &mut self.endpoints[index];
        let wide = endpoint.is_wide();
        while let Some(entry) = endpoint.pop_completion() {
            if wide {
                for (after, again) in [(COMPLETIONS_AHEAD, false), (COMPLETIONS_AHEAD / 2, true)] {
                    if let Some(qpn) = endpoint.completion_ahead(after) {
                        self.app.fetch_ahead(endpoint, index, qpn, again);
                    }
                }
            }
            match entry {
                CqEntry::Completion(done) => self.app.on_completion(now, index, endpoint, &done),
                CqEntry::Event(qpn, event) => self.app.on_event(now, index, endpoint, qpn, event),
            }
        }
    }

    #[inline]
    fn account(&mut self, now: Instant) {
        if let Some(last) = self.last {
            let span = now.since(last);
            self.load.turns += 1;
            self.load.total = self.load.total + span;
            self.load.longest = self.load.longest.max(span);
            if span >= Load::AWAY {
                self.load.away = self.load.away + span;
            }
            if self.last_worked {
                self.load.busy = self.load.busy + span;
            } else {
                self.load.idle_turns += 1;
            }
        }
        self.last = Some(now);
    }
}
