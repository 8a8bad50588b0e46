//! How packets move.

use super::port::HOST;
use super::{Network, PortId, Switch};
use crate::fabric::buffer::NoRoom;
use crate::fabric::packet::{Label, NONE, Priority, Station};
use crate::units::Instant;
use crate::wire::MIN_FRAME;
use prefetch_index::prefetch_index;

/// How often [`Network::next_foreseen`] tells of what is to come.
const STEPS: usize = 4;

/// Something that a host has to know.
#[derive(Debug)]
pub enum Occurrence<F> {
    /// A packet has come.
    Arrived {
        /// Where.
        station: Station,
        /// What was known of it; the mark may be new.
        label: Label,
        /// What it carries.
        freight: F,
    },
    /// A packet is at the end of a cable that is watched, see [`Network::watch_crossings`]; it goes
    /// on by [`Network::go_on`] or not at all.
    Crossing {
        /// The port that it left by.
        port: PortId,
        /// What is known of it.
        label: Label,
        /// What it carries.
        freight: F,
    },
    /// A host's port has sent a packet and has none that it may send now.
    Sent {
        /// Which.
        station: Station,
    },
    /// What [`Network::wake`] was asked for.
    Woken(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A packet is at the end of the cable, at the port that its slot names.
    Arrive { packet: u32 },
    /// A port has sent what it was sending.
    Free { port: u32 },
    /// A pause frame is there: priorities to stop, and to go on with.
    Pause { port: u32, on: u8, off: u8 },
    /// The peer's pause has to be renewed.
    Refresh { port: u32 },
    /// A pause may have run out.
    Expire { port: u32 },
    /// The watchdog looks at a queue.
    Watch { port: u32, priority: u8 },
    /// For the hosts.
    Wake { token: u32 },
}

impl Switch {
    /// The port by which a packet leaves it; nobody's number where there is none.
    #[inline]
    fn way(&self, label: &Label) -> u32 {
        match self.routes.get(label.to.0 as usize) {
            None | Some((_, 0)) => NONE,
            Some((first, 1)) => self.ways[*first as usize],
            Some((first, n)) => self.ways[(first + label.hash.pick(self.spec.seed, *n)) as usize],
        }
    }
}

impl<F> Network<F> {
    /// The time, in picoseconds.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.now
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now / 1000)
    }

    /// Whether nothing will happen any more unless something is sent.
    pub fn is_asleep(&self) -> bool {
        self.calendar.is_empty()
    }

    /// Has [`Network::next`] say `token` at `at_ps`.
    #[inline]
    pub fn wake(&mut self, at_ps: u64, token: u32) {
        self.calendar.push(at_ps.max(self.now), Event::Wake { token });
    }

    /// Queues a packet at a host's port.
    #[inline]
    pub fn send(&mut self, from: Station, label: Label, freight: F) {
        self.totals.sent += 1;
        let port = self.stations[from.0 as usize];
        let packet = self.arena.put(label, freight);
        self.enqueue(port, packet, label.priority, label.len);
    }

    /// Lets a packet go on that has crossed a watched cable after `port`; also one that was not there
    /// before, as a copy.
    pub fn go_on(&mut self, port: PortId, label: Label, freight: F) -> Option<Occurrence<F>> {
        self.totals.sent += 1;
        let at = self.ports[port.0 as usize].peer;
        if self.ports[at as usize].owner == HOST {
            self.totals.delivered += 1;
            let station = Station(self.ports[at as usize].local);
            return Some(Occurrence::Arrived { station, label, freight });
        }
        let packet = self.arena.put(label, freight);
        self.forward(at, packet);
        None
    }

    /// Has a host's port pause its peer for good, or lets the peer go on.
    pub fn assert_pause(&mut self, station: Station, priority: Priority, on: bool) {
        let port = self.stations[station.0 as usize];
        let p = &mut self.ports[port as usize];
        if on == (p.asserted & priority.bit() != 0) {
            return;
        }
        p.asserted ^= priority.bit();
        p.due |= priority.bit();
        p.rare(priority).counters.pauses_sent += u64::from(on);
        self.kick(port);
    }

    /// What a dropped packet carried, to be used again.
    #[inline]
    pub fn reclaim(&mut self) -> Option<F> {
        self.scrap.pop()
    }

    /// The next thing that a host has to know, if it is before or at `end_ps`; otherwise it is
    /// `end_ps` afterwards.
    #[inline]
    pub fn next(&mut self, end_ps: u64) -> Option<Occurrence<F>> {
        self.next_foreseen(end_ps, |_, _, _| ())
    }

    /// The same; `foresee` is told ahead of time whom something will be said to, and what will come to
    /// it: a chance to fetch into the cache what it will touch.  It is told four times, each time
    /// of everyone: what one step has fetched leads the next one on.
    #[inline]
    pub fn next_foreseen(
        &mut self,
        end_ps: u64,
        mut foresee: impl FnMut(usize, Station, Option<&F>),
    ) -> Option<Occurrence<F>> {
        loop {
            if self.calendar.is_through() {
                if !self.calendar.advance(end_ps) {
                    break;
                }
                self.look_ahead(&mut foresee);
            }
            let Some((at, event)) = self.calendar.pop_until(end_ps) else { break };
            self.now = at;
            match event {
                Event::Arrive { packet } => {
                    if let Some(told) = self.arrive(packet) {
                        return Some(told);
                    }
                }
                Event::Free { port } => {
                    self.ports[port as usize].free_pending = false;
                    self.start(port);
                    let p = &self.ports[port as usize];
                    if p.owner == HOST && p.busy_until <= at {
                        return Some(Occurrence::Sent { station: Station(p.local) });
                    }
                }
                Event::Pause { port, on, off } => self.on_pause(port, on, off),
                Event::Refresh { port } => self.refresh(port),
                Event::Expire { port } => self.expire(port),
                Event::Watch { port, priority } => self.watch(port, Priority::ALL[usize::from(priority)]),
                Event::Wake { token } => return Some(Occurrence::Woken(token)),
            }
        }
        if end_ps != u64::MAX {
            self.now = self.now.max(end_ps);
        }
        None
    }

    /// Fetches into the cache what the events of a slot will need, step by step: the waits for memory of
    /// all events overlap.
    fn look_ahead(&mut self, foresee: &mut impl FnMut(usize, Station, Option<&F>)) {
        for event in self.calendar.present() {
            match event {
                Event::Arrive { packet } => self.arena.fetch(packet),
                Event::Free { port } => prefetch_index(&self.ports, port as usize),
                _ => {}
            }
        }
        for event in self.calendar.present() {
            match event {
                Event::Arrive { packet } => prefetch_index(&self.ports, self.arena.get(packet).at as usize),
                Event::Free { port } => self.ports[port as usize].fetch_waiting(),
                _ => {}
            }
        }
        self.soon.clear();
        for event in self.calendar.present() {
            match event {
                Event::Arrive { packet } => {
                    let slot = self.arena.get_mut(packet);
                    let p = &self.ports[slot.at as usize];
                    if p.owner == HOST {
                        self.soon.push((Station(p.local), packet));
                    } else if !p.judged {
                        let switch = &self.switches[p.owner as usize];
                        slot.next = switch.way(&slot.label);
                        switch.buffer.fetch(p.local as usize, slot.label.priority);
                        if let Some(egress) = self.ports.get(slot.next as usize) {
                            egress.fetch(slot.label.priority);
                        }
                    }
                }
                Event::Free { port } => {
                    let p = &self.ports[port as usize];
                    if let Some(priority) = p.first_waiting() {
                        self.arena.fetch(p.lanes[priority].queue.head());
                    } else if p.owner == HOST {
                        self.soon.push((Station(p.local), NONE));
                    }
                }
                _ => {}
            }
        }
        for step in 0..STEPS {
            for (station, packet) in &self.soon {
                foresee(step, *station, self.arena.freight(*packet));
            }
        }
    }

    #[inline]
    fn arrive(&mut self, packet: u32) -> Option<Occurrence<F>> {
        let port = self.arena.get(packet).at;
        let p = &self.ports[port as usize];
        if p.judged {
            let from = PortId(p.peer);
            let (label, freight) = self.arena.take(packet)?;
            self.totals.crossed += 1;
            return Some(Occurrence::Crossing { port: from, label, freight });
        }
        if p.owner == HOST {
            let station = Station(p.local);
            let (label, freight) = self.arena.take(packet)?;
            self.totals.delivered += 1;
            return Some(Occurrence::Arrived { station, label, freight });
        }
        self.forward(port, packet);
        None
    }

    /// A packet has come into a switch by `port`.
    #[inline]
    fn forward(&mut self, port: u32, packet: u32) {
        let slot = self.arena.get_mut(packet);
        slot.at = port;
        let ingress = &self.ports[port as usize];
        let (local, owner) = (ingress.local as usize, ingress.owner);
        let switch = &mut self.switches[owner as usize];
        let egress = if slot.next == NONE { switch.way(&slot.label) } else { slot.next };
        let (len, priority) = (slot.label.len, slot.label.priority);
        let Some(queue) = self.ports.get(egress as usize) else {
            self.ports[port as usize].no_route += 1;
            return self.drop_packet(packet);
        };
        let (queued, dropping) = (queue.lanes[priority.index()].queue.bytes, queue.dropping);
        if dropping & priority.bit() != 0 {
            self.ports[egress as usize].rare(priority).counters.watchdog_dropped += 1;
            return self.drop_packet(packet);
        }
        match switch.buffer.admit(local, priority, u64::from(len), queued) {
            Ok(()) => {}
            Err(NoRoom::Tail) => {
                self.ports[egress as usize].rare(priority).counters.tail_dropped += 1;
                return self.drop_packet(packet);
            }
            Err(NoRoom::Headroom) => {
                self.ports[port as usize].rare(priority).counters.headroom_dropped += 1;
                return self.drop_packet(packet);
            }
        }
        if switch.buffer.is_lossless(priority)
            && self.ports[port as usize].asserted & priority.bit() == 0
            && switch.buffer.is_congested(local, priority)
        {
            let p = &mut self.ports[port as usize];
            p.asserted |= priority.bit();
            p.due |= priority.bit();
            p.rare(priority).counters.pauses_sent += 1;
            self.kick(port);
        }
        self.enqueue(egress, packet, priority, len);
    }

    #[inline]
    fn enqueue(&mut self, port: u32, packet: u32, priority: Priority, len: u32) {
        let p = &mut self.ports[port as usize];
        let lane = &mut p.lanes[priority.index()];
        lane.queue.push(&mut self.arena, packet, len);
        lane.peak = lane.peak.max(lane.queue.bytes);
        p.waiting |= priority.bit();
        p.frames += 1;
        self.kick(port);
    }

    /// A port may have something to send.
    #[inline]
    fn kick(&mut self, port: u32) {
        let p = &mut self.ports[port as usize];
        if p.busy_until <= self.now && !p.free_pending {
            self.start(port);
        } else if !p.free_pending {
            p.free_pending = true;
            self.calendar.push(p.busy_until, Event::Free { port });
        }
    }

    /// Sends the next frame of a port that sends nothing.
    #[inline]
    fn start(&mut self, port: u32) {
        let p = &mut self.ports[port as usize];
        if p.due != 0 {
            return self.send_pause(port);
        }
        let ready = p.waiting & !p.paused;
        if ready == 0 {
            return;
        }
        let arena = &mut self.arena;
        let q = p.pick(ready, arena);
        let lane = &mut p.lanes[q];
        let Some(packet) = lane.queue.pop(arena) else { return };
        let left = lane.queue.bytes;
        if lane.queue.frames == 0 {
            p.waiting &= !(1 << q);
        }
        lane.tx_packets += 1;
        p.frames -= 1;
        let slot = arena.get_mut(packet);
        let label = &mut slot.label;
        if p.marked & 1 << q != 0 && label.ect && !label.ce && p.dice.takes(p.red.probability(left)) {
            label.ce = true;
            lane.marked += 1;
        }
        let len = label.len;
        let ingress = core::mem::replace(&mut slot.at, p.peer);
        slot.next = NONE;
        let time = p.time_of(len);
        p.tx_bytes += u64::from(len);
        p.tx_ps += time;
        self.totals.events += 1;
        p.busy_until = self.now + time;
        self.calendar.push(p.busy_until + p.delay_ps, Event::Arrive { packet });
        let is_host = p.owner == HOST;
        if is_host || p.waiting & !p.paused != 0 {
            p.free_pending = true;
            self.calendar.push(p.busy_until, Event::Free { port });
        }
        if !is_host {
            let owner = p.owner;
            self.leave_buffer(owner, ingress, Priority::ALL[q], len);
        }
    }

    /// A packet that came by `ingress` has left the buffer of its switch.
    #[inline]
    fn leave_buffer(&mut self, switch: u32, ingress: u32, priority: Priority, len: u32) {
        let from = &mut self.ports[ingress as usize];
        let local = from.local as usize;
        let buffer = &mut self.switches[switch as usize].buffer;
        buffer.release(local, priority, u64::from(len));
        if from.asserted & priority.bit() != 0 && buffer.may_resume(local, priority) {
            from.asserted &= !priority.bit();
            from.due |= priority.bit();
            self.kick(ingress);
        }
    }

    fn drop_packet(&mut self, packet: u32) {
        if let Some((_, freight)) = self.arena.take(packet) {
            self.totals.dropped += 1;
            self.scrap.push(freight);
        }
    }

    /// Tells the peer of a port what to stop and what to go on with.
    fn send_pause(&mut self, port: u32) {
        let p = &mut self.ports[port as usize];
        let due = core::mem::take(&mut p.due);
        let (on, off) = (due & p.asserted, due & !p.asserted);
        for priority in Priority::ALL.into_iter().filter(|x| due & x.bit() != 0) {
            p.rare(priority).counters.pause_frames_sent += 1;
        }
        let time = p.time_of(MIN_FRAME as u32);
        p.tx_ps += time;
        p.busy_until = self.now + time;
        self.calendar.push(p.busy_until + p.delay_ps, Event::Pause { port: p.peer, on, off });
        if on != 0 && !p.refresh_pending {
            p.refresh_pending = true;
            self.calendar.push(self.now + p.pause_ps / 2, Event::Refresh { port });
        }
        if p.owner == HOST || p.waiting & !p.paused != 0 {
            p.free_pending = true;
            self.calendar.push(p.busy_until, Event::Free { port });
        }
    }

    fn refresh(&mut self, port: u32) {
        let p = &mut self.ports[port as usize];
        p.refresh_pending = p.asserted != 0;
        if p.refresh_pending {
            p.due |= p.asserted;
            self.calendar.push(self.now + p.pause_ps / 2, Event::Refresh { port });
            self.kick(port);
        }
    }

    fn on_pause(&mut self, port: u32, on: u8, off: u8) {
        for priority in Priority::ALL.into_iter().filter(|x| on & x.bit() != 0) {
            let p = &mut self.ports[port as usize];
            let until = self.now + p.pause_ps;
            p.rare(priority).paused_until = until;
            if !p.expire_pending {
                p.expire_pending = true;
                self.calendar.push(until, Event::Expire { port });
            }
            if p.paused & priority.bit() == 0 {
                p.paused |= priority.bit();
                let rare = p.rare(priority);
                rare.paused_since = self.now;
                rare.counters.pauses_received += 1;
                self.watch_later(port, priority);
            }
        }
        self.end_pauses(port, off);
    }

    fn expire(&mut self, port: u32) {
        let p = &mut self.ports[port as usize];
        let now = self.now;
        let over = |x: &Priority| p.paused & x.bit() != 0 && p.rare[x.index()].paused_until <= now;
        let off = Priority::ALL.into_iter().filter(over).fold(0, |set, x| set | x.bit());
        let left = p.paused & !off;
        let rest = Priority::ALL.into_iter().filter(|x| left & x.bit() != 0);
        let next = rest.map(|x| p.rare[x.index()].paused_until).min();
        p.expire_pending = next.is_some();
        if let Some(at) = next {
            self.calendar.push(at, Event::Expire { port });
        }
        self.end_pauses(port, off);
    }

    fn end_pauses(&mut self, port: u32, off: u8) {
        let p = &mut self.ports[port as usize];
        let off = off & p.paused;
        if off == 0 {
            return;
        }
        p.paused &= !off;
        for priority in Priority::ALL.into_iter().filter(|x| off & x.bit() != 0) {
            let p = &mut self.ports[port as usize];
            let rare = p.rare(priority);
            rare.paused_ps += self.now - rare.paused_since;
            rare.paused_since = self.now;
            if p.dropping & priority.bit() != 0 {
                self.watch_later(port, priority);
            }
        }
        self.kick(port);
    }

    /// Has the watchdog look again when the present state of a queue has lasted long enough.
    fn watch_later(&mut self, port: u32, priority: Priority) {
        let p = &self.ports[port as usize];
        let Some(dog) = self.switches.get(p.owner as usize).and_then(|s| s.spec.watchdog) else { return };
        let wait = if p.paused & priority.bit() != 0 { dog.detect } else { dog.restore };
        let at = self.now + wait.as_nanos().saturating_mul(1000);
        self.calendar.push(at, Event::Watch { port, priority: priority.get() });
    }

    fn watch(&mut self, port: u32, priority: Priority) {
        let p = &mut self.ports[port as usize];
        let Some(dog) = self.switches.get(p.owner as usize).and_then(|s| s.spec.watchdog) else { return };
        let (bit, i) = (priority.bit(), priority.index());
        let lasted = (self.now - p.rare[i].paused_since) / 1000;
        let (paused, dropping) = (p.paused & bit != 0, p.dropping & bit != 0);
        if paused && !dropping && lasted >= dog.detect.as_nanos() {
            if p.lanes[i].queue.frames == 0 {
                // Nobody suffers from it yet.
                return self.watch_later(port, priority);
            }
            p.dropping |= bit;
            self.empty_queue(port, priority);
        } else if !paused && dropping && lasted >= dog.restore.as_nanos() {
            p.dropping &= !bit;
        }
    }

    fn empty_queue(&mut self, port: u32, priority: Priority) {
        loop {
            let p = &mut self.ports[port as usize];
            let Some(packet) = p.lanes[priority.index()].queue.pop(&self.arena) else { break };
            p.frames -= 1;
            p.rare(priority).counters.watchdog_dropped += 1;
            let owner = p.owner;
            let slot = self.arena.get(packet);
            let (ingress, len) = (slot.at, slot.label.len);
            self.drop_packet(packet);
            self.leave_buffer(owner, ingress, priority, len);
        }
        self.ports[port as usize].waiting &= !priority.bit();
    }
}
