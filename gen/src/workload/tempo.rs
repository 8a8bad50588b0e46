//! The time that schedules follow: it stands still while a run is paused, and goes slower or faster as
//! somebody asks.
//!
//! Messages are due by this time.  A pause is cut out of it as though it had not been: a message that was
//! late by 2 ms when the run was paused is late by 2 ms when it goes on.

use roce_engine::cc::Pacer;
use roce_engine::units::{Duration, Instant};
use std::sync::Arc;

/// How somebody wants the workload to be driven from now on.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Whether nothing is posted.
    pub paused: bool,
    /// The rate of paced flows and of schedules, in per cent of what the scenario says.
    pub percent: u32,
    /// By flow of the scenario: what paces each of its queue pairs, where the scenario has them unpaced;
    /// none where they go as fast as they can.
    pub limits: Arc<[Option<Pacer>]>,
}

/// How time runs from a moment on.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The moment, by the clock.
    wall: u64,
    /// The same moment in the time of schedules.
    own: u64,
    percent: u64,
}

/// The time of the schedules, told from the clock's and back.
#[derive(Debug)]
pub(super) struct Tempo {
    /// The latest last; there is always one.
    stretches: Vec<Stretch>,
    paused: Option<Instant>,
}

impl Default for Tempo {
    /// By the clock.
    fn default() -> Tempo {
        Tempo { stretches: vec![Stretch { wall: 0, own: 0, percent: 100 }], paused: None }
    }
}

impl Tempo {
    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// The time of the schedules when the clock says `now`.
    #[inline]
    pub(super) fn at(&self, now: Instant) -> Instant {
        let now = self.paused.unwrap_or(now);
        let Some(last) = self.stretches.last() else { return now };
        Instant::from_nanos(last.own + scaled(now.as_nanos().saturating_sub(last.wall), last.percent, 100))
    }

    /// When the clock says that it is `at` in the time of the schedules.  In a pause: what it would say if the
    /// run went on without one.
    #[inline]
    pub(super) fn wall(&self, at: Instant) -> Instant {
        let own = at.as_nanos();
        let of = self.stretches.iter().rev().find(|s| s.own <= own);
        let Some(s) = of else { return at };
        let after = (own - s.own).saturating_mul(100).div_ceil(s.percent);
        Instant::from_nanos(s.wall.saturating_add(if s.percent == 100 { own - s.own } else { after }))
    }

    /// Drives as asked from `now` on; whether a pause has ended with that.
    pub(super) fn drive(&mut self, now: Instant, paused: bool, percent: u32) -> bool {
        let percent = u64::from(percent.max(1));
        let at = self.paused.unwrap_or(now);
        if self.stretches.last().is_some_and(|last| last.percent != percent) {
            let own = self.at(at).as_nanos();
            self.stretches.push(Stretch { wall: at.as_nanos(), own, percent });
        }
        match (self.paused, paused) {
            (None, true) => self.paused = Some(now),
            (Some(since), false) => {
                self.resume(now.since(since));
                return true;
            }
            _ => {}
        }
        false
    }

    /// The pause was so long, and is over.
    fn resume(&mut self, span: Duration) {
        self.paused = None;
        for stretch in &mut self.stretches {
            stretch.wall = stretch.wall.saturating_add(span.as_nanos());
        }
    }
}

/// `ns` x `part` / `of`.
#[inline]
fn scaled(ns: u64, part: u64, of: u64) -> u64 {
    if part == of { ns } else { ns.saturating_mul(part) / of }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    /// Both ways, one after the other.
    fn agree(tempo: &Tempo, walls: impl Iterator<Item = u64>) {
        for wall in walls {
            let own = tempo.at(at(wall));
            let back = tempo.wall(own).as_nanos();
            assert!(back <= wall && wall - back <= 10, "{wall} is {own:?}, which is {back}");
            assert!(tempo.at(tempo.wall(own)) >= own, "what is due at {own:?} is due when the clock says so");
        }
    }

    #[test]
    fn it_is_the_clock_until_somebody_asks() {
        let tempo = Tempo::default();
        for ns in [0, 1, 1 << 40, u64::MAX / 200] {
            assert_eq!((tempo.at(at(ns)), tempo.wall(at(ns))), (at(ns), at(ns)));
        }
    }

    #[test]
    fn a_pause_is_cut_out() {
        let mut tempo = Tempo::default();
        assert!(!tempo.drive(at(1_000), true, 100));
        assert!(tempo.is_paused());
        assert_eq!(tempo.at(at(5_000)), at(1_000), "it stands still");
        assert!(!tempo.drive(at(5_500), true, 100), "to ask again changes nothing");
        assert!(tempo.drive(at(6_000), false, 100));
        assert_eq!(tempo.at(at(6_001)), at(1_001));
        assert_eq!(tempo.wall(at(1_500)), at(6_500));
        assert_eq!(tempo.wall(at(900)), at(5_900), "what was late by 100 is late by 100");
        agree(&tempo, 6_000..6_100);
    }

    #[test]
    fn a_rate_counts_from_when_it_was_asked_for() {
        let mut tempo = Tempo::default();
        tempo.drive(at(10_000), false, 50);
        assert_eq!(tempo.at(at(12_000)), at(11_000));
        assert_eq!(tempo.wall(at(11_000)), at(12_000));
        assert_eq!(tempo.wall(at(9_000)), at(9_000), "what was due before stays so");
        tempo.drive(at(12_000), false, 200);
        assert_eq!(tempo.at(at(13_000)), at(13_000));
        assert_eq!(tempo.wall(at(10_500)), at(11_000));
        tempo.drive(at(13_000), false, 30);
        tempo.drive(at(14_000), true, 30);
        tempo.drive(at(15_000), true, 70);
        assert!(tempo.drive(at(16_000), false, 70));
        assert_eq!(tempo.at(at(17_000)).as_nanos(), 13_000 + 300 + 700);
        agree(&tempo, 16_000..17_000);
        // Time never goes back.
        let times: Vec<_> = (15_900..17_000).map(|ns| tempo.at(at(ns))).collect();
        assert!(times.is_sorted());
    }
}
