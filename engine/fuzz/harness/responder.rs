//! What a peer may ask for: any requests in any order, with receives posted now and then.

use super::Input;
use super::machine::Machine;
use roce_engine::wire::Opcode;

const REQUESTS: &[Opcode] = &[
    Opcode::RC_SEND_FIRST,
    Opcode::RC_SEND_MIDDLE,
    Opcode::RC_SEND_LAST,
    Opcode::RC_SEND_LAST_IMM,
    Opcode::RC_SEND_LAST_INV,
    Opcode::RC_SEND_ONLY,
    Opcode::RC_SEND_ONLY_IMM,
    Opcode::RC_SEND_ONLY_INV,
    Opcode::RC_WRITE_FIRST,
    Opcode::RC_WRITE_MIDDLE,
    Opcode::RC_WRITE_LAST,
    Opcode::RC_WRITE_LAST_IMM,
    Opcode::RC_WRITE_ONLY,
    Opcode::RC_WRITE_ONLY_IMM,
    Opcode::RC_READ_REQUEST,
    Opcode::RC_COMPARE_SWAP,
    Opcode::RC_FETCH_ADD,
    Opcode::RC_FLUSH,
    Opcode::RC_ATOMIC_WRITE,
    Opcode::UC_SEND_FIRST,
    Opcode::UC_SEND_LAST,
    Opcode::UC_SEND_ONLY,
    Opcode::UC_WRITE_FIRST,
    Opcode::UC_WRITE_LAST,
    Opcode::UC_WRITE_ONLY,
    Opcode::UC_WRITE_ONLY_IMM,
    Opcode::CNP,
];

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut machine = Machine::new(&mut input);
    while let Some(step) = input.next() {
        match step % 16 {
            0..=9 => machine.request(&mut input, REQUESTS),
            10 | 11 => machine.post_receive(&mut input),
            12 => machine.send(1),
            13 => machine.send_all(),
            14 => machine.post_send(&mut input),
            _ => machine.wait(&mut input),
        }
    }
    machine.end();
}
