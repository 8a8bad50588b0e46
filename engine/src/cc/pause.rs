//! Link-level flow control at an endpoint: pauses that are obeyed, and pauses that are sent.

use crate::units::{Duration, Instant, Rate};
use crate::wire::{MacAddr, PRIORITIES, Pause, pause_time};

/// Which frames a port pauses with; those of the other kind are counted and not obeyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PauseKind {
    /// 802.1Qbb: by priority.
    #[default]
    Pfc,
    /// 802.3x: the whole link.
    Link,
}

/// How flow control of a port works.
#[derive(Clone, Copy, Debug)]
pub struct PauseConfig {
    /// Its frames.
    pub kind: PauseKind,
    /// Lossless priorities: bit n is priority n.  The others are neither paused nor ask for pauses.
    pub lossless: u8,
    /// Whether pauses are obeyed.
    pub obey: bool,
    /// The speed of the port: what a quantum is.
    pub speed: Rate,
    /// The port's address.
    pub mac: MacAddr,
    /// Quanta that it asks for.
    pub quanta: u16,
    /// Falls behind on purpose.
    pub lag: Option<Lag>,
    /// Pauses its peer without reason, to see what happens.
    pub storm: Option<Storm>,
    /// What to do about pauses that do not end.
    pub watchdog: Option<Watchdog>,
}

/// A receiver that takes bytes at some rate only: what is more fills a buffer in mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The rate, for each lossless priority.
    pub drain: Rate,
    /// Bytes above which it pauses.
    pub xoff: u64,
    /// Bytes below which it lets go on; less than `xoff`.
    pub xon: u64,
}

/// Pauses without reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// Priorities that are paused.
    pub priorities: u8,
    /// When it begins, from the first turn on.
    pub from: Duration,
    /// For how long.
    pub length: Duration,
    /// Time between two frames.
    pub period: Duration,
}

/// A watchdog over pauses that are obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// A pause that lasts so long without a break is a storm.
    pub detection: Duration,
    /// After so long without a pause frame the storm is over.
    pub restoration: Duration,
    /// Whether frames go on in a storm as if there were none; else it is only counted.
    pub forward: bool,
}

/// What flow control of a port counted, by priority; 802.3x counts in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseCounters {
    /// Frames received that pause.
    pub rx_xoff: [u64; PRIORITIES],
    /// Frames received that end a pause.
    pub rx_xon: [u64; PRIORITIES],
    /// Frames sent that pause.
    pub tx_xoff: [u64; PRIORITIES],
    /// Frames sent that end a pause.
    pub tx_xon: [u64; PRIORITIES],
    /// Pauses that were obeyed, and the nanoseconds that they lasted.
    pub pauses: [u64; PRIORITIES],
    /// Nanoseconds of them.
    pub paused_ns: [u64; PRIORITIES],
    /// Storms that the watchdog saw.
    pub storms: [u64; PRIORITIES],
    /// Frames of the kind that is not this port's.
    pub rx_other_kind: u64,
}

impl PauseCounters {
    /// Adds `other` to `self`.
    pub fn add(&mut self, other: &PauseCounters) {
        for p in 0..PRIORITIES {
            self.rx_xoff[p] += other.rx_xoff[p];
            self.rx_xon[p] += other.rx_xon[p];
            self.tx_xoff[p] += other.tx_xoff[p];
            self.tx_xon[p] += other.tx_xon[p];
            self.pauses[p] += other.pauses[p];
            self.paused_ns[p] += other.paused_ns[p];
            self.storms[p] += other.storms[p];
        }
        self.rx_other_kind += other.rx_other_kind;
    }
}

/// Flow control of one port.
#[derive(Clone, Debug)]
pub struct PausePoint {
    config: PauseConfig,
    classes: [Class; PRIORITIES],
    /// When the storm of the configuration sends next, and ends.
    storm: Option<(Instant, Instant)>,
    begun: bool,
    counters: PauseCounters,
}

/// One priority.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Paused until then, since then: without a break, and as far as it is accounted for.
    until: Instant,
    since: Instant,
    counted: Instant,
    last_frame: Instant,
    in_storm: bool,
    /// Bytes in the buffer of [`Lag`], in parts such that rate x nanoseconds leaves no rest.
    level: u128,
    level_at: Instant,
    /// The peer is paused, and is told again then.
    holds: bool,
    again: Instant,
}

/// Parts of a byte in [`Class::level`]: bit/s x ns.
const BYTE: u128 = 8_000_000_000;

impl PausePoint {
    /// Flow control before the first frame.
    pub fn new(config: PauseConfig) -> PausePoint {
        PausePoint {
            config,
            classes: [Class::default(); PRIORITIES],
            storm: None,
            begun: false,
            counters: PauseCounters::default(),
        }
    }

    /// What it was made with.
    pub fn config(&self) -> &PauseConfig {
        &self.config
    }

    /// What it counted; pauses that go on are in up to the last call that had the time.
    pub fn counters(&self) -> &PauseCounters {
        &self.counters
    }

    /// A pause frame came; whether something that was paused may go on.
    pub fn on_frame(&mut self, now: Instant, pause: &Pause) -> bool {
        let (enable, quanta) = match (pause, self.config.kind) {
            (Pause::Pfc { enable, quanta }, PauseKind::Pfc) => (*enable, *quanta),
            (Pause::Link { quanta }, PauseKind::Link) => (u8::MAX, [*quanta; PRIORITIES]),
            _ => {
                self.counters.rx_other_kind += 1;
                return false;
            }
        };
        let mut goes_on = false;
        for p in (0..PRIORITIES).filter(|p| enable >> p & 1 == 1) {
            self.account(now, p);
            let restoration = self.config.watchdog.map(|w| w.restoration);
            let class = &mut self.classes[p];
            if restoration.is_some_and(|r| now.since(class.last_frame) >= r) {
                class.in_storm = false;
            }
            class.last_frame = now;
            let was = class.until > now;
            if quanta[p] == 0 {
                self.counters.rx_xon[p] += 1;
                class.until = now;
                goes_on |= was;
            } else {
                self.counters.rx_xoff[p] += 1;
                // The new time takes the place of what was left.
                class.until = now + pause_time(quanta[p], self.config.speed);
                if !was {
                    class.since = now;
                    class.counted = now;
                    self.counters.pauses[p] += u64::from(self.obeys(p));
                }
            }
        }
        goes_on
    }

    /// When to ask again, if frames of a priority may not leave at `now`.
    #[inline]
    pub fn paused(&mut self, now: Instant, priority: u8) -> Option<Instant> {
        let p = usize::from(priority & 7);
        if self.classes[p].until <= now || !self.obeys(p) {
            return None;
        }
        self.account(now, p);
        let class = &mut self.classes[p];
        let Some(dog) = self.config.watchdog else { return Some(class.until) };
        if !class.in_storm && now.since(class.since) >= dog.detection {
            class.in_storm = true;
            self.counters.storms[p] += 1;
        }
        match (class.in_storm, dog.forward) {
            (true, true) => None,
            (true, false) => Some(class.until),
            (false, _) => Some(class.until.min(class.since + dog.detection)),
        }
    }

    /// A frame of `bytes` came for a priority.
    #[inline]
    pub fn on_received(&mut self, now: Instant, priority: u8, bytes: usize) {
        let p = usize::from(priority & 7);
        if let Some(lag) = &self.config.lag
            && self.config.lossless >> p & 1 == 1
        {
            self.classes[p].settle(now, lag);
            self.classes[p].level += bytes as u128 * BYTE;
        }
    }

    /// What is to be sent at `now`; at most one frame each time.
    pub fn next_frame(&mut self, now: Instant) -> Option<Pause> {
        if !core::mem::replace(&mut self.begun, true) {
            let begin = |s: Storm| (now + s.from, now + s.from + s.length);
            self.storm = self.config.storm.map(begin);
        }
        let mut xoff = 0;
        let mut xon = 0;
        if let (Some((at, end)), Some(storm)) = (self.storm, self.config.storm)
            && at <= now
        {
            xoff = storm.priorities;
            let next = at + storm.period.max(Duration::from_nanos(1));
            self.storm = (next < end).then_some((next.max(now), end));
        }
        if let Some(lag) = self.config.lag {
            let half = Duration::from_nanos(pause_time(self.config.quanta, self.config.speed).as_nanos() / 2);
            for p in (0..PRIORITIES).filter(|p| self.config.lossless >> p & 1 == 1) {
                let class = &mut self.classes[p];
                class.settle(now, &lag);
                let bytes = class.level / BYTE;
                if class.holds && bytes < u128::from(lag.xon) {
                    class.holds = false;
                    xon |= 1 << p;
                } else if bytes > u128::from(lag.xoff) && !class.holds || class.holds && class.again <= now {
                    class.holds = true;
                    class.again = now + half;
                    xoff |= 1 << p;
                }
            }
        }
        self.frame(xoff, xon & !xoff)
    }

    /// When [`PausePoint::next_frame`] has something by itself.
    pub fn next_at(&self) -> Option<Instant> {
        let holding = self.classes.iter().filter(|c| c.holds);
        let lag = self.config.lag;
        let lag = holding.filter_map(|c| Some(c.again.min(c.drained_at(&lag?)))).min();
        let storm = match (self.storm, self.begun) {
            (Some((at, _)), _) => Some(at),
            (None, true) => None,
            (None, false) => self.config.storm.map(|_| Instant::ZERO),
        };
        [lag, storm].into_iter().flatten().min()
    }

    fn frame(&mut self, xoff: u8, xon: u8) -> Option<Pause> {
        let set = |mask: u8, p: usize| u64::from(mask >> p & 1);
        for p in 0..PRIORITIES {
            self.counters.tx_xoff[p] += set(xoff, p);
            self.counters.tx_xon[p] += set(xon, p);
        }
        match (xoff | xon, self.config.kind) {
            (0, _) => None,
            (_, PauseKind::Link) => {
                Some(Pause::Link { quanta: if xoff != 0 { self.config.quanta } else { 0 } })
            }
            (enable, PauseKind::Pfc) => {
                let Pause::Pfc { quanta, .. } = Pause::pfc(xoff, self.config.quanta) else { return None };
                Some(Pause::Pfc { enable, quanta })
            }
        }
    }

    #[inline]
    fn obeys(&self, p: usize) -> bool {
        self.config.obey && (self.config.kind == PauseKind::Link || self.config.lossless >> p & 1 == 1)
    }

    /// Counts the time that a priority was paused, up to `now`.
    fn account(&mut self, now: Instant, p: usize) {
        let obeys = self.obeys(p);
        let class = &mut self.classes[p];
        let end = class.until.min(now);
        if obeys && class.counted < end {
            self.counters.paused_ns[p] += end.since(class.counted).as_nanos();
            class.counted = end;
        }
    }

    /// Counts the pauses that go on.
    pub fn settle(&mut self, now: Instant) {
        for p in 0..PRIORITIES {
            self.account(now, p);
        }
    }
}

impl Class {
    /// Lets the buffer drain up to `now`.
    fn settle(&mut self, now: Instant, lag: &Lag) {
        let gone = u128::from(lag.drain.bps()) * u128::from(now.since(self.level_at).as_nanos());
        self.level = self.level.saturating_sub(gone);
        self.level_at = now;
    }

    /// When it has drained below `xon`.
    fn drained_at(&self, lag: &Lag) -> Instant {
        let more = self.level.saturating_sub(u128::from(lag.xon) * BYTE) + 1;
        let ns = more.div_ceil(u128::from(lag.drain.bps().max(1)));
        self.level_at + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> PauseConfig {
        PauseConfig {
            kind: PauseKind::Pfc,
            lossless: 1 << 3,
            obey: true,
            speed: Rate::from_gbps(10),
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            quanta: u16::MAX,
            lag: None,
            storm: None,
            watchdog: None,
        }
    }

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn c13_pause_expiry_refresh_and_xon() {
        let mut point = PausePoint::new(config());
        // An empty vector means nothing, whatever the times are.
        let empty = Pause::Pfc { enable: 0, quanta: [u16::MAX; 8] };
        assert!(!point.on_frame(us(1), &empty));
        assert_eq!(point.paused(us(1), 3), None);
        assert_eq!(*point.counters(), PauseCounters::default());
        // 1000 quanta at 10 Gb/s are 51.2 us, for priority 3 only.
        point.on_frame(us(100), &Pause::pfc(1 << 3, 1000));
        let end = Instant::from_nanos(151_200);
        assert_eq!((point.paused(us(151), 3), point.paused(us(151), 2)), (Some(end), None));
        assert_eq!(point.paused(end, 3), None);
        // A second one takes the place of what is left, it does not add to it.
        point.on_frame(us(200), &Pause::pfc(1 << 3, 1000));
        point.on_frame(us(210), &Pause::pfc(1 << 3, 500));
        assert_eq!(point.paused(us(220), 3), Some(Instant::from_nanos(235_600)));
        assert!(point.on_frame(us(230), &Pause::pfc(1 << 3, 0)), "goes on");
        assert_eq!(point.paused(us(230), 3), None);
        let c = point.counters();
        assert_eq!((c.rx_xoff[3], c.rx_xon[3], c.pauses[3], c.paused_ns[3]), (3, 1, 2, 81_200));
    }

    #[test]
    fn other_priorities_and_kinds_are_counted_only() {
        let mut point = PausePoint::new(config());
        point.on_frame(us(1), &Pause::pfc(0xFF, 1000));
        assert!((0..8).all(|p| point.paused(us(2), p).is_some() == (p == 3)));
        point.on_frame(us(1), &Pause::Link { quanta: 1000 });
        assert_eq!((point.counters().rx_other_kind, point.counters().rx_xoff), (1, [1; 8]));
        let mut point = PausePoint::new(PauseConfig { kind: PauseKind::Link, ..config() });
        point.on_frame(us(1), &Pause::Link { quanta: 1000 });
        assert!((0..8).all(|p| point.paused(us(2), p).is_some()));
        let mut point = PausePoint::new(PauseConfig { obey: false, ..config() });
        point.on_frame(us(1), &Pause::pfc(1 << 3, 1000));
        assert_eq!((point.paused(us(2), 3), point.counters().rx_xoff[3]), (None, 1));
    }

    #[test]
    fn who_falls_behind_pauses_refreshes_and_lets_go() {
        // 10 Gb/s come, 5 Gb/s drain: 625 bytes more each microsecond.
        let lag = Lag { drain: Rate::from_gbps(5), xoff: 100_000, xon: 50_000 };
        let mut point = PausePoint::new(PauseConfig { lag: Some(lag), quanta: 1000, ..config() });
        let mut frames = Vec::new();
        for t in 0..400 {
            if frames.len() < 3 {
                point.on_received(us(t), 3, 1250);
                point.on_received(us(t), 2, 1250);
            }
            frames.extend(point.next_frame(us(t)).map(|f| (t, f)));
        }
        // Paused above 100 kB, again after half of 51.2 us, and the end below 50 kB.
        assert_eq!(frames[0], (159, Pause::pfc(8, 1000)), "{frames:?}");
        assert!(frames[1].0 - frames[0].0 == 26 && frames[1].1 == frames[0].1, "{frames:?}");
        let last = frames.last().unwrap();
        assert_eq!(last.1, Pause::pfc(8, 0));
        assert_eq!(frames.iter().filter(|f| f.1 == last.1).count(), 1);
        assert_eq!(point.next_at(), None);
        assert_eq!((point.counters().tx_xon[3], point.counters().tx_xoff[2]), (1, 0));
    }

    #[test]
    fn the_wake_is_when_the_buffer_has_drained() {
        let lag = Lag { drain: Rate::from_gbps(8), xoff: 1000, xon: 500 };
        let mut point = PausePoint::new(PauseConfig { lag: Some(lag), ..config() });
        point.on_received(us(1), 3, 2000);
        assert_eq!(point.next_frame(us(1)), Some(Pause::pfc(8, u16::MAX)));
        // A byte each nanosecond.
        let at = point.next_at().unwrap();
        assert_eq!(at, Instant::from_nanos(2501));
        assert_eq!(point.next_frame(Instant::from_nanos(2500)), None);
        assert_eq!(point.next_frame(at), Some(Pause::pfc(8, 0)));
    }

    #[test]
    fn a_storm_sends_on_time_and_ends() {
        let storm = Storm {
            priorities: 1 << 3,
            from: Duration::from_micros(10),
            length: Duration::from_micros(100),
            period: Duration::from_micros(20),
        };
        let mut point = PausePoint::new(PauseConfig { storm: Some(storm), ..config() });
        let sent: Vec<u64> = (50..300).filter(|t| point.next_frame(us(*t)).is_some()).collect();
        assert_eq!(sent, [60, 80, 100, 120, 140]);
        assert_eq!(point.next_at(), None);
    }

    #[test]
    fn a_watchdog_ends_a_storm_and_stands_down_after_it() {
        let dog = |forward| Watchdog {
            detection: Duration::from_millis(100),
            restoration: Duration::from_millis(200),
            forward,
        };
        for forward in [false, true] {
            let mut point = PausePoint::new(PauseConfig { watchdog: Some(dog(forward)), ..config() });
            let mut free = Vec::new();
            for ms in 0..300 {
                point.on_frame(us(ms * 1000), &Pause::pfc(1 << 3, u16::MAX));
                if point.paused(us(ms * 1000), 3).is_none() {
                    free.push(ms);
                }
            }
            assert_eq!(free, if forward { (100..300).collect() } else { Vec::new() });
            assert_eq!(point.counters().storms[3], 1);
            // A frame within the restoration time is still the storm; a later one is a pause.
            point.on_frame(us(400_000), &Pause::pfc(1 << 3, u16::MAX));
            assert_eq!(point.paused(us(400_000), 3).is_none(), forward);
            point.on_frame(us(700_000), &Pause::pfc(1 << 3, u16::MAX));
            assert!(point.paused(us(700_000), 3).is_some());
        }
    }
}
