//! Collectives: ranks whose messages wait for one another, step by step.

use super::lane::Lane;
use crate::measure::CollectiveSample;
use roce_engine::units::Instant;

/// A lane that has nothing to do with a collective.
const NONE: u32 = u32::MAX;

/// The ranks of a worker.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    ranks: Vec<Rank>,
    /// By lane: the rank that it sends from or receives at.
    rank_of: Vec<u32>,
    /// By lane that sends: when it may.
    gates: Vec<Option<Gate>>,
    /// By lane that receives: those that send and wait for it.
    followers: Vec<Vec<u32>>,
    /// What was measured, by collective that it has ranks of.
    pub(super) samples: Vec<CollectiveSample>,
}

/// One port's part in a collective.
#[derive(Debug)]
struct Rank {
    /// Index of its sample.
    sample: usize,
    /// Its receiving lanes, each with the messages of an iteration.
    incoming: Vec<(u32, u64)>,
    outgoing: Vec<u32>,
    /// Iterations that have ended here.
    ended: u64,
    began: Instant,
    /// Receiving lanes that have not all messages of this iteration.
    pending: usize,
}

/// When a lane may send its next step.
#[derive(Debug)]
struct Gate {
    pieces: u64,
    /// Steps that are open.
    open: u64,
    /// By step of an iteration.
    waits: Vec<Vec<Wait>>,
}

/// Messages that must have come to a lane.
#[derive(Clone, Copy, Debug)]
struct Wait {
    lane: u32,
    /// In the iteration.
    need: u64,
    /// Of each iteration before.
    all: u64,
}

impl Ranks {
    /// Finds out which lanes wait for which; latencies are measured in copies of `empty`.
    pub(super) fn new(lanes: &[Lane], empty: &crate::measure::Latency) -> Ranks {
        let mut all = Ranks {
            rank_of: vec![NONE; lanes.len()],
            gates: (0..lanes.len()).map(|_| None).collect(),
            followers: vec![Vec::new(); lanes.len()],
            ..Ranks::default()
        };
        let mut known: Vec<(usize, usize)> = Vec::new();
        for (index, lane) in lanes.iter().enumerate() {
            let Some(steps) = lane.spec().steps.clone() else { continue };
            let at = (steps.collective, lane.endpoint());
            let rank = known.iter().position(|k| *k == at).unwrap_or_else(|| {
                known.push(at);
                let sample = all.samples.iter().position(|s| s.collective == steps.collective);
                let sample = sample.unwrap_or_else(|| {
                    all.samples.push(CollectiveSample::new(steps.collective, empty.clone()));
                    all.samples.len() - 1
                });
                all.ranks.push(Rank {
                    sample,
                    incoming: Vec::new(),
                    outgoing: Vec::new(),
                    ended: 0,
                    began: Instant::ZERO,
                    pending: 0,
                });
                all.ranks.len() - 1
            });
            all.rank_of[index] = rank as u32;
            if !lane.is_sender() {
                all.ranks[rank].incoming.push((index as u32, steps.messages()));
                continue;
            }
            all.ranks[rank].outgoing.push(index as u32);
            let source = |flow: usize| {
                lanes
                    .iter()
                    .position(|l| !l.is_sender() && l.flow_of_scenario() == flow && l.index() == lane.index())
            };
            let wait = |&(flow, need): &(usize, u64)| {
                let from = source(flow)?;
                let steps = lanes[from].spec().steps.as_ref()?;
                Some(Wait { lane: from as u32, need: need * steps.pieces, all: steps.messages() })
            };
            let waits: Vec<Vec<Wait>> =
                steps.waits.iter().map(|step| step.iter().filter_map(wait).collect()).collect();
            for from in waits.iter().flatten().map(|w| w.lane as usize) {
                if !all.followers[from].contains(&(index as u32)) {
                    all.followers[from].push(index as u32);
                }
            }
            all.gates[index] = Some(Gate { pieces: steps.pieces, open: 0, waits });
        }
        all
    }

    /// Everybody begins.
    pub(super) fn begin(&mut self, now: Instant, lanes: &mut [Lane]) {
        for rank in &mut self.ranks {
            rank.began = now;
            rank.pending = rank.incoming.len();
        }
        for index in 0..lanes.len() as u32 {
            self.open(index, lanes);
        }
    }

    /// Something has come to lane `index`: calls `post` for each lane that may send more for it.
    #[inline]
    pub(super) fn received(
        &mut self,
        now: Instant,
        index: u32,
        lanes: &mut [Lane],
        post: impl FnMut(&mut Lane),
    ) {
        if self.rank_of[index as usize] != NONE {
            self.advance(now, index, lanes, post);
        }
    }

    fn advance(&mut self, now: Instant, index: u32, lanes: &mut [Lane], mut post: impl FnMut(&mut Lane)) {
        let number = self.rank_of[index as usize] as usize;
        let rank = &mut self.ranks[number];
        let received = lanes[index as usize].received();
        let before = rank.ended;
        let target = |rank: &Rank, all: u64| (rank.ended + 1) * all;
        if rank.incoming.iter().any(|(lane, all)| *lane == index && received == target(rank, *all)) {
            rank.pending -= 1;
            while rank.pending == 0 {
                rank.ended += 1;
                let sample = &mut self.samples[rank.sample];
                sample.time.record_at(now.since(rank.began), now);
                rank.began = now;
                let missing =
                    |(lane, all): &&(u32, u64)| lanes[*lane as usize].received() < target(rank, *all);
                rank.pending = rank.incoming.iter().filter(missing).count();
            }
        }
        if self.ranks[number].ended != before {
            for i in 0..self.ranks[number].outgoing.len() {
                let follower = self.ranks[number].outgoing[i];
                if self.open(follower, lanes) {
                    post(&mut lanes[follower as usize]);
                }
            }
        }
        for i in 0..self.followers[index as usize].len() {
            let follower = self.followers[index as usize][i];
            if self.open(follower, lanes) {
                post(&mut lanes[follower as usize]);
            }
        }
    }

    /// Opens the steps of a lane for which all has come that they wait for; whether there are any.
    fn open(&mut self, index: u32, lanes: &mut [Lane]) -> bool {
        let Some(gate) = &mut self.gates[index as usize] else { return false };
        let ended = self.ranks[self.rank_of[index as usize] as usize].ended;
        let per = gate.waits.len() as u64;
        let before = gate.open;
        loop {
            let (iteration, step) = (gate.open / per, (gate.open % per) as usize);
            let has = |w: &Wait| lanes[w.lane as usize].received() >= iteration * w.all + w.need;
            if iteration > ended || !gate.waits[step].iter().all(has) {
                break;
            }
            gate.open += 1;
        }
        lanes[index as usize].allow(gate.open * gate.pieces);
        gate.open != before
    }
}
