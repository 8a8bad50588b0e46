//! What a peer may answer: any responses to any posted requests, with time passing in between.

use super::Input;
use super::machine::Machine;
use roce_engine::wire::Opcode;

const RESPONSES: &[Opcode] = &[
    Opcode::RC_ACKNOWLEDGE,
    Opcode::RC_ACKNOWLEDGE,
    Opcode::RC_ACKNOWLEDGE,
    Opcode::RC_READ_RESP_FIRST,
    Opcode::RC_READ_RESP_MIDDLE,
    Opcode::RC_READ_RESP_LAST,
    Opcode::RC_READ_RESP_ONLY,
    Opcode::RC_ATOMIC_ACK,
    Opcode::CNP,
];
const REQUESTS: &[Opcode] = &[Opcode::RC_SEND_ONLY, Opcode::RC_WRITE_ONLY, Opcode::RC_READ_REQUEST];

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut machine = Machine::new(&mut input);
    while let Some(step) = input.next() {
        match step % 16 {
            0..=3 => machine.post_send(&mut input),
            4..=9 => machine.response(&mut input, RESPONSES),
            10 => machine.send(1),
            11 => machine.send(4),
            12 => machine.send_all(),
            13 => machine.wait(&mut input),
            14 => machine.request(&mut input, REQUESTS),
            _ if step < 0x40 => machine.drain_or_resume(),
            _ => machine.post_receive(&mut input),
        }
    }
    machine.end();
}
