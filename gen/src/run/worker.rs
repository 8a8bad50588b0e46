//! The worker threads: pinned, registered with DPDK, polling.

use super::EnvironmentError;
use crate::measure::Sample;
use crate::report::Injected;
use crate::workload::{Command, Generator};
use roce_engine::io::PacketIo;
use roce_engine::io::dpdk::{DpdkIo, Eal, TscClock};
use roce_engine::io::impaired::Impaired;
use roce_engine::io::link::LinkCounters;
use roce_engine::io::pcap::{Capture, Recorded};
use roce_engine::worker::{Endpoint, Worker};
use rtrb::{Consumer, Producer};
use std::thread::JoinHandle;
use std::time::Duration;

/// The port of a worker.
///
/// Frames are recorded as they are on the wire: after what goes wrong on the way.
pub(super) type Io = Impaired<Recorded<DpdkIo, TscClock>>;

/// What a worker leaves behind.
#[derive(Debug, Default)]
pub(super) struct Legacy {
    pub(super) remains: Vec<Remains>,
    /// Endpoints that are to be used again, by port.
    pub(super) endpoints: Vec<(usize, Endpoint<Io>)>,
}

/// What is left of one of its ports.
#[derive(Debug)]
pub(super) struct Remains {
    /// Index of the port in the scenario.
    pub(super) port: usize,
    pub(super) capture: Option<Capture>,
    pub(super) injected: Option<Injected>,
    /// What the link behind it did.
    pub(super) link: Option<LinkCounters>,
}

/// A running worker, as the control thread sees it.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) core: usize,
    /// Indices of its ports in the scenario.
    pub(super) ports: Vec<usize>,
    pub(super) mailbox: Producer<Command>,
    pub(super) answers: Consumer<Box<Sample>>,
    thread: JoinHandle<Legacy>,
}

/// What a worker is started with.
#[derive(Debug)]
pub(crate) struct Plan<I: PacketIo> {
    pub(crate) core: usize,
    pub(crate) ports: Vec<usize>,
    pub(crate) endpoints: Vec<Endpoint<I>>,
    pub(crate) app: Generator,
    pub(crate) answers: Consumer<Box<Sample>>,
    /// The ports whose endpoints are to be used again after the run.
    pub(crate) kept: Vec<usize>,
}

impl Handle {
    /// Starts the thread; it polls from now on.
    pub(super) fn start(plan: Plan<Io>, eal: &Eal, clock: TscClock) -> Result<Handle, EnvironmentError> {
        let Plan { core, ports, endpoints, app, answers, kept } = plan;
        let (mailbox, mut inbox) = rtrb::RingBuffer::new(16);
        let eal = eal.clone();
        let (told, ready) = std::sync::mpsc::channel();
        let port_of = ports.clone();
        let body = move || {
            if !core_affinity::set_for_current(core_affinity::CoreId { id: core }) {
                let _ = told.send(Err(format!("cannot pin a worker to core {core}")));
                return Legacy::default();
            }
            let token = match eal.register_thread() {
                Ok(token) => token,
                Err(e) => {
                    let _ = told.send(Err(e.to_string()));
                    return Legacy::default();
                }
            };
            let _ = told.send(Ok(()));
            let mut worker = Worker::new(endpoints, app);
            let mut clock = clock;
            worker.run(&mut clock, &mut inbox);
            let legacy = worker.endpoints_mut().iter_mut().zip(&port_of);
            let remains = legacy
                .map(|(e, port)| {
                    let io = e.io_mut();
                    let injected = io.impairment().map(|i| Injected::of(*port, i, io.frames_inside()));
                    let link = io.link();
                    Remains { port: *port, capture: io.inner_mut().take_capture(), injected, link }
                })
                .collect();
            let endpoints = port_of.iter().copied().zip(worker.into_endpoints());
            // Frames go back to their pools through the caches of this thread, while it has them.
            let endpoints = endpoints.filter(|(port, _)| kept.contains(port)).collect();
            drop(token);
            Legacy { remains, endpoints }
        };
        let thread = std::thread::Builder::new()
            .name(format!("worker-{core}"))
            .spawn(body)
            .map_err(|e| EnvironmentError(format!("cannot start a worker thread: {e}")))?;
        match ready.recv() {
            Ok(Ok(())) => Ok(Handle { core, ports, mailbox, answers, thread }),
            Ok(Err(text)) => Err(EnvironmentError(text)),
            Err(_) => Err(EnvironmentError(format!("the worker on core {core} ended at once"))),
        }
    }

    /// Whether its thread has ended.
    pub(super) fn is_dead(&self) -> bool {
        self.thread.is_finished()
    }

    /// Sends a command.
    pub(super) fn tell(&mut self, command: Command) -> Result<(), EnvironmentError> {
        self.mailbox
            .push(command)
            .map_err(|_| EnvironmentError(format!("the worker on core {} takes no commands", self.core)))
    }

    /// Waits for the sample that was asked for.
    pub(super) fn answer(&mut self) -> Result<Box<Sample>, EnvironmentError> {
        const PATIENCE: Duration = Duration::from_secs(20);
        const NAP: Duration = Duration::from_micros(200);
        let mut waited = Duration::ZERO;
        loop {
            match self.answers.pop() {
                Ok(sample) => return Ok(sample),
                Err(_) if self.thread.is_finished() || waited > PATIENCE => {
                    return Err(EnvironmentError(format!(
                        "the worker on core {} does not answer",
                        self.core
                    )));
                }
                Err(_) => {
                    std::thread::sleep(NAP);
                    waited += NAP;
                }
            }
        }
    }

    /// Waits for the end of the thread.
    pub(super) fn join(self) -> Result<Legacy, EnvironmentError> {
        self.thread
            .join()
            .map_err(|_| EnvironmentError(format!("the worker on core {} has panicked", self.core)))
    }
}
