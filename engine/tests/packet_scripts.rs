//! What happens on the wire, one line for each happening: two queue pairs, 1 us apart, and one fault.
//!
//! `->` leaves the requester, `<-` the responder; before it the time in ns, behind it the PSN, `A` for
//! a packet that asks for an acknowledgement, the AETH, the RETH, and what the line did to the frame.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::*;
use insta::assert_snapshot;
use roce_engine::units::Duration;
use roce_engine::verbs::*;
use roce_engine::wire::*;

/// The `pass`th frame with this PSN that `from` sends meets `fate`.
struct Fault {
    from: usize,
    psn: u32,
    pass: u32,
    fate: Fate,
}

const fn forth(psn: u32, pass: u32, fate: Fate) -> Fault {
    Fault { from: 0, psn, pass, fate }
}

const fn back(psn: u32, pass: u32, fate: Fate) -> Fault {
    Fault { from: 1, psn, pass, fate }
}

/// A window of four packets, and what the requester posts.
struct Scene {
    pair: Pair,
}

impl Scene {
    fn new() -> Scene {
        let mut pair = Pair::new(&Setup { window: 4, timeout: 8, min_rnr_timer: 1, ..Setup::default() });
        pair.logging = true;
        for side in 0..2 {
            pair.sides[side].fill(0, &pattern(side as u32, 16 * 1024));
        }
        Scene { pair }
    }

    fn write(&mut self, wr_id: u64, len: u32) {
        let rkey = self.pair.sides[1].mr.key;
        self.pair.sides[0].post(wr_id, SendOp::Write { raddr: VA, rkey }, 0, len);
    }

    fn read(&mut self, wr_id: u64, len: u32) {
        let rkey = self.pair.sides[1].mr.key;
        self.pair.sides[0].post(wr_id, SendOp::Read { raddr: VA, rkey }, 32 * 1024, len);
    }

    fn fetch_add(&mut self, wr_id: u64) {
        let rkey = self.pair.sides[1].mr.key;
        self.pair.sides[0].post(wr_id, SendOp::FetchAdd { raddr: VA + 512 * 1024, rkey, add: 1 }, 0, 8);
    }

    /// Runs to the end.
    fn play(&mut self, faults: &[Fault]) -> String {
        let mut seen = std::collections::HashMap::new();
        let mut fate = |from: usize, frame: &[u8]| {
            let psn = classify(frame).unwrap().bth.psn.get();
            let pass = seen.entry((from, psn)).or_insert(0);
            *pass += 1;
            let hit = faults.iter().find(|f| (f.from, f.psn, f.pass) == (from, psn, *pass));
            hit.map_or(Fate::Pass, |f| f.fate)
        };
        assert!(self.pair.run(Duration::from_secs(1), &mut fate, &mut |_| {}), "ends by itself");
        self.script()
    }

    /// The log so far, then the completions.
    fn script(&self) -> String {
        let lines = self.pair.logged_at.iter().zip(&self.pair.log);
        let mut text: String = lines.map(|(at, line)| format!("{at:7} {line}\n")).collect();
        for (side, name) in self.pair.sides.iter().zip(["requester", "responder"]) {
            for c in &side.done.completions {
                text += &format!("{name}: {} {}\n", c.wr_id, c.status.name());
            }
        }
        text
    }
}

#[test]
fn a_write_in_two_windows() {
    let mut s = Scene::new();
    s.write(1, 6 * 1024);
    assert_snapshot!(s.play(&[]), @r"
          0 -> WRITE_FIRST 100 A va+0x0 len 6144
        100 -> WRITE_MIDDLE 101 A
        200 -> WRITE_MIDDLE 102 A
        300 -> WRITE_MIDDLE 103 A
       1000 <- ACKNOWLEDGE 100 0x1f msn 0
       1100 <- ACKNOWLEDGE 101 0x1f msn 0
       1200 <- ACKNOWLEDGE 102 0x1f msn 0
       1300 <- ACKNOWLEDGE 103 0x1f msn 0
       2000 -> WRITE_MIDDLE 104 A
       2100 -> WRITE_LAST 105 A
       3000 <- ACKNOWLEDGE 104 0x1f msn 0
       3100 <- ACKNOWLEDGE 105 0x1f msn 1
    requester: 1 SUCCESS
    ");
}

#[test]
fn the_third_packet_is_lost() {
    let mut s = Scene::new();
    s.write(1, 6 * 1024);
    assert_snapshot!(s.play(&[forth(102, 1, Fate::Drop)]), @r"
          0 -> WRITE_FIRST 100 A va+0x0 len 6144
        100 -> WRITE_MIDDLE 101 A
        200 -> WRITE_MIDDLE 102 A  [Drop]
        300 -> WRITE_MIDDLE 103 A
       1000 <- ACKNOWLEDGE 100 0x1f msn 0
       1100 <- ACKNOWLEDGE 101 0x1f msn 0
       1300 <- ACKNOWLEDGE 102 0x60 msn 0
       2000 -> WRITE_MIDDLE 104 A
       2100 -> WRITE_LAST 105 A
       2300 -> WRITE_MIDDLE 102 A
       2400 -> WRITE_MIDDLE 103 A
       2500 -> WRITE_MIDDLE 104 A
       2600 -> WRITE_LAST 105 A
       3300 <- ACKNOWLEDGE 102 0x1f msn 0
       3400 <- ACKNOWLEDGE 103 0x1f msn 0
       3500 <- ACKNOWLEDGE 104 0x1f msn 0
       3600 <- ACKNOWLEDGE 105 0x1f msn 1
    requester: 1 SUCCESS
    ");
}

#[test]
fn the_third_packet_is_lost_twice() {
    let mut s = Scene::new();
    s.write(1, 5 * 1024);
    assert_snapshot!(s.play(&[forth(102, 1, Fate::Drop), forth(102, 2, Fate::Drop)]), @r"
          0 -> WRITE_FIRST 100 A va+0x0 len 5120
        100 -> WRITE_MIDDLE 101 A
        200 -> WRITE_MIDDLE 102 A  [Drop]
        300 -> WRITE_MIDDLE 103 A
       1000 <- ACKNOWLEDGE 100 0x1f msn 0
       1100 <- ACKNOWLEDGE 101 0x1f msn 0
       1300 <- ACKNOWLEDGE 102 0x60 msn 0
       2000 -> WRITE_LAST 104 A
       2300 -> WRITE_MIDDLE 102 A  [Drop]
       2400 -> WRITE_MIDDLE 103 A
       2500 -> WRITE_LAST 104 A
    1050876 -> WRITE_MIDDLE 102 A
    1050976 -> WRITE_MIDDLE 103 A
    1051076 -> WRITE_LAST 104 A
    1051876 <- ACKNOWLEDGE 102 0x1f msn 0
    1051976 <- ACKNOWLEDGE 103 0x1f msn 0
    1052076 <- ACKNOWLEDGE 104 0x1f msn 1
    requester: 1 SUCCESS
    ");
}

#[test]
fn the_last_packet_is_lost() {
    let mut s = Scene::new();
    s.write(1, 3 * 1024);
    assert_snapshot!(s.play(&[forth(102, 1, Fate::Drop)]), @r"
          0 -> WRITE_FIRST 100 A va+0x0 len 3072
        100 -> WRITE_MIDDLE 101 A
        200 -> WRITE_LAST 102 A  [Drop]
       1000 <- ACKNOWLEDGE 100 0x1f msn 0
       1100 <- ACKNOWLEDGE 101 0x1f msn 0
    1050676 -> WRITE_LAST 102 A
    1051676 <- ACKNOWLEDGE 102 0x1f msn 1
    requester: 1 SUCCESS
    ");
}

#[test]
fn the_acknowledgement_is_lost() {
    let mut s = Scene::new();
    s.write(1, 2 * 1024);
    assert_snapshot!(s.play(&[back(101, 1, Fate::Drop)]), @r"
          0 -> WRITE_FIRST 100 A va+0x0 len 2048
        100 -> WRITE_LAST 101 A
       1000 <- ACKNOWLEDGE 100 0x1f msn 0
       1100 <- ACKNOWLEDGE 101 0x1f msn 1  [Drop]
    1050576 -> WRITE_LAST 101 A
    1051576 <- ACKNOWLEDGE 101 0x1f msn 1
    requester: 1 SUCCESS
    ");
}

#[test]
fn the_sequence_nak_is_lost() {
    let mut s = Scene::new();
    s.write(1, 4 * 1024);
    assert_snapshot!(s.play(&[forth(101, 1, Fate::Drop), back(101, 1, Fate::Drop)]), @r"
          0 -> WRITE_FIRST 100 A va+0x0 len 4096
        100 -> WRITE_MIDDLE 101 A  [Drop]
        200 -> WRITE_MIDDLE 102 A
        300 -> WRITE_LAST 103 A
       1000 <- ACKNOWLEDGE 100 0x1f msn 0
       1200 <- ACKNOWLEDGE 101 0x60 msn 0  [Drop]
    1050576 -> WRITE_MIDDLE 101 A
    1050676 -> WRITE_MIDDLE 102 A
    1050776 -> WRITE_LAST 103 A
    1051576 <- ACKNOWLEDGE 101 0x1f msn 0
    1051676 <- ACKNOWLEDGE 102 0x1f msn 0
    1051776 <- ACKNOWLEDGE 103 0x1f msn 1
    requester: 1 SUCCESS
    ");
}

#[test]
fn two_packets_change_places() {
    let mut s = Scene::new();
    s.write(1, 4 * 1024);
    assert_snapshot!(s.play(&[forth(101, 1, Fate::Delay(150))]), @r"
          0 -> WRITE_FIRST 100 A va+0x0 len 4096
        100 -> WRITE_MIDDLE 101 A  [Delay(150)]
        200 -> WRITE_MIDDLE 102 A
        300 -> WRITE_LAST 103 A
       1000 <- ACKNOWLEDGE 100 0x1f msn 0
       1200 <- ACKNOWLEDGE 101 0x60 msn 0
       1300 <- ACKNOWLEDGE 102 0x60 msn 0
       2200 -> WRITE_MIDDLE 101 A
       2300 -> WRITE_MIDDLE 102 A
       2400 -> WRITE_LAST 103 A
       3200 <- ACKNOWLEDGE 101 0x1f msn 0
       3300 <- ACKNOWLEDGE 102 0x1f msn 0
       3400 <- ACKNOWLEDGE 103 0x1f msn 1
    requester: 1 SUCCESS
    ");
}

#[test]
fn a_packet_comes_twice() {
    let mut s = Scene::new();
    s.write(1, 2 * 1024);
    assert_snapshot!(s.play(&[forth(101, 1, Fate::Duplicate)]), @r"
          0 -> WRITE_FIRST 100 A va+0x0 len 2048
        100 -> WRITE_LAST 101 A  [Duplicate]
       1000 <- ACKNOWLEDGE 100 0x1f msn 0
       1100 <- ACKNOWLEDGE 101 0x1f msn 1
    requester: 1 SUCCESS
    ");
}

#[test]
fn a_read_response_in_the_middle_is_lost() {
    let mut s = Scene::new();
    s.read(1, 4 * 1024);
    assert_snapshot!(s.play(&[back(102, 1, Fate::Drop)]), @r"
          0 -> READ_REQUEST 100 A va+0x0 len 4096
       1000 <- READ_RESP_FIRST 100 0x1f msn 1
       1100 <- READ_RESP_MIDDLE 101
       1200 <- READ_RESP_MIDDLE 102  [Drop]
       1300 <- READ_RESP_LAST 103 0x1f msn 1
       2300 -> READ_REQUEST 102 A va+0x800 len 2048
       3300 <- READ_RESP_FIRST 102 0x1f msn 1
       3400 <- READ_RESP_LAST 103 0x1f msn 1
    requester: 1 SUCCESS
    ");
}

#[test]
fn a_read_request_is_lost_and_a_write_follows() {
    let mut s = Scene::new();
    s.read(1, 1024);
    s.write(2, 512);
    assert_snapshot!(s.play(&[forth(100, 1, Fate::Drop)]), @r"
          0 -> READ_REQUEST 100 A va+0x0 len 1024  [Drop]
        100 -> WRITE_ONLY 101 A va+0x0 len 512
       1100 <- ACKNOWLEDGE 100 0x60 msn 0
       2100 -> READ_REQUEST 100 A va+0x0 len 1024
       2200 -> WRITE_ONLY 101 A va+0x0 len 512
       3100 <- READ_RESP_ONLY 100 0x1f msn 1
       3200 <- ACKNOWLEDGE 101 0x1f msn 2
    requester: 1 SUCCESS
    requester: 2 SUCCESS
    ");
}

#[test]
fn the_answer_of_an_atomic_is_lost() {
    let mut s = Scene::new();
    s.fetch_add(1);
    s.fetch_add(2);
    let log = s.play(&[back(100, 1, Fate::Drop)]);
    assert_eq!(s.pair.sides[1].bytes(512 * 1024, 8), 2u64.to_ne_bytes(), "added once each");
    assert_snapshot!(log, @r"
          0 -> FETCH_ADD 100 A
        100 -> FETCH_ADD 101 A
       1000 <- ATOMIC_ACK 100 0x1f msn 1  [Drop]
       1100 <- ATOMIC_ACK 101 0x1f msn 2
       2100 -> FETCH_ADD 100 A
       2200 -> FETCH_ADD 101 A
       3100 <- ATOMIC_ACK 100 0x1f msn 1
       3200 <- ATOMIC_ACK 101 0x1f msn 2
    requester: 1 SUCCESS
    requester: 2 SUCCESS
    ");
}

#[test]
fn a_send_meets_no_receive() {
    let mut s = Scene::new();
    s.pair.sides[0].post(1, SendOp::Send, 0, 1500);
    // The receive is posted once the responder has refused.
    let mut posted = false;
    let mut app = |sides: &mut [Side; 2]| {
        if !posted && sides[1].qp.counters().rnr_naks_sent == 1 {
            sides[1].recv(7, 64 * 1024, 2048);
            posted = true;
        }
    };
    assert!(s.pair.run(Duration::from_secs(1), &mut |_, _| Fate::Pass, &mut app));
    assert_snapshot!(s.script(), @r"
          0 -> SEND_FIRST 100 A
        100 -> SEND_LAST 101 A
       1000 <- ACKNOWLEDGE 100 0x21 msn 0
      12000 -> SEND_FIRST 100 A
      12100 -> SEND_LAST 101 A
      13000 <- ACKNOWLEDGE 100 0x1f msn 0
      13100 <- ACKNOWLEDGE 101 0x1f msn 1
    requester: 1 SUCCESS
    responder: 7 SUCCESS
    ");
}

#[test]
fn a_wrong_key_ends_both() {
    let mut s = Scene::new();
    s.write(1, 1024);
    let wrong = SendOp::Write { raddr: VA, rkey: MrKey(s.pair.sides[1].mr.key.0 ^ 1) };
    s.pair.sides[0].post(2, wrong, 0, 64);
    s.write(3, 64);
    assert_snapshot!(s.play(&[]), @r"
          0 -> WRITE_ONLY 100 A va+0x0 len 1024
        100 -> WRITE_ONLY 101 A va+0x0 len 64
        200 -> WRITE_ONLY 102 A va+0x0 len 64
       1000 <- ACKNOWLEDGE 100 0x1f msn 1
       1100 <- ACKNOWLEDGE 101 0x62 msn 1
    requester: 1 SUCCESS
    requester: 2 REM_ACCESS_ERR
    requester: 3 WR_FLUSH_ERR
    ");
}
