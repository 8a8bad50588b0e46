//! The states of a queue pair and the attributes that each transition needs.

use crate::units::{Mtu, Psn, Qpn};
use crate::verbs::{Access, UdAttrs};
use crate::wire::Route;

/// The transport service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

/// The state of a queue pair.  The numbers are those of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QpState {
    /// Nothing works.
    Reset = 0,
    /// Receives may be posted.
    Init = 1,
    /// Requests of the peer are answered.
    Rtr = 2,
    /// All works.
    Rts = 3,
    /// The send queue drains: started requests finish, others wait.
    Sqd = 4,
    /// The send queue of an unreliable queue pair is in error.
    Sqe = 5,
    /// All is flushed.
    Err = 6,
}

/// Attributes of RESET to INIT.
#[derive(Clone, Copy, Debug)]
pub struct InitAttrs {
    /// What the peer may do through this queue pair.
    pub access: Access,
    /// The partition key.
    pub pkey: u16,
}

/// Attributes of INIT to RTR.
#[derive(Clone, Debug)]
pub struct RtrAttrs {
    /// The address vector: how packets reach the peer.
    pub route: Route,
    /// The path MTU.
    pub mtu: Mtu,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The PSN that the peer's first request will carry.
    pub rq_psn: Psn,
    /// READs and atomics of the peer's that this side keeps resources for, 0..=128.  RC only.
    pub max_dest_rd_atomic: u8,
    /// RNR timer code to ask of the peer, 0..=31.  RC only.
    pub min_rnr_timer: u8,
}

/// Attributes of RTR to RTS.
#[derive(Clone, Copy, Debug)]
pub struct RtsAttrs {
    /// The PSN of this side's first request.
    pub sq_psn: Psn,
    /// Ack timeout exponent: 4.096 us x 2^n, 0..=31, 0 is never.  RC only.
    pub timeout: u8,
    /// Retries after a timeout or sequence error, 0..=7.  RC only.
    pub retry_cnt: u8,
    /// Retries after receiver not ready, 0..=7, 7 is for ever.  RC only.
    pub rnr_retry: u8,
    /// READs and atomics outstanding at once, 0..=128.  RC only.
    pub max_rd_atomic: u8,
}

/// A change of state.
#[derive(Clone, Debug)]
pub enum Transition {
    /// To RESET, from any state.
    Reset,
    /// RESET to INIT.
    Init(InitAttrs),
    /// INIT to RTR.
    Rtr(Box<RtrAttrs>),
    /// RTR to RTS.
    Rts(RtsAttrs),
    /// RESET to INIT of a datagram queue pair.
    InitUd(UdAttrs),
    /// INIT to RTR of a datagram queue pair.
    RtrUd,
    /// RTR to RTS of a datagram queue pair, whose first datagram has this PSN.
    RtsUd(Psn),
    /// RTS to SQD.
    Sqd,
    /// SQD back to RTS.
    Resume,
    /// To ERR, from any state but RESET.
    Err,
}

/// Why a transition was refused.  The state is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModifyError {
    /// There is no such transition.
    #[error("no transition from {from:?} to {to:?}")]
    Transition {
        /// The present state.
        from: QpState,
        /// The wanted state.
        to: QpState,
    },
    /// The transition is for another type of queue pair.
    #[error("a queue pair of type {0:?} has another transition from this state")]
    Type(QpType),
    /// An attribute is out of its range.
    #[error("attribute {0} is out of range")]
    Attribute(&'static str),
}

impl Transition {
    /// The state that it leads to.
    pub const fn to(&self) -> QpState {
        match self {
            Transition::Reset => QpState::Reset,
            Transition::Init(_) | Transition::InitUd(_) => QpState::Init,
            Transition::Rtr(_) | Transition::RtrUd => QpState::Rtr,
            Transition::Rts(_) | Transition::RtsUd(_) | Transition::Resume => QpState::Rts,
            Transition::Sqd => QpState::Sqd,
            Transition::Err => QpState::Err,
        }
    }

    /// Whether the transition exists from `from` for a queue pair of type `ty`, and its attributes
    /// are in range.
    pub fn check(&self, from: QpState, ty: QpType) -> Result<(), ModifyError> {
        use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
        let legal = match self {
            Transition::Reset => true,
            Transition::Init(_) | Transition::InitUd(_) => from == Reset,
            Transition::Rtr(_) | Transition::RtrUd => from == Init,
            Transition::Rts(_) | Transition::RtsUd(_) => from == Rtr,
            Transition::Sqd => from == Rts,
            Transition::Resume => matches!(from, Sqd | Sqe),
            Transition::Err => !matches!(from, Reset) || from == Err,
        };
        if !legal {
            return Result::Err(ModifyError::Transition { from, to: self.to() });
        }
        let fits = match self {
            Transition::Init(_) | Transition::Rtr(_) | Transition::Rts(_) => ty != QpType::Ud,
            Transition::InitUd(_) | Transition::RtrUd | Transition::RtsUd(_) => ty == QpType::Ud,
            _ => true,
        };
        if !fits {
            return Result::Err(ModifyError::Type(ty));
        }
        let in_range = |ok: bool, name| if ok { Ok(()) } else { Result::Err(ModifyError::Attribute(name)) };
        match self {
            Transition::Init(InitAttrs { pkey, .. }) | Transition::InitUd(UdAttrs { pkey, .. }) => {
                in_range(pkey & 0x7FFF != 0, "pkey")
            }
            Transition::Rtr(a) => {
                in_range(a.max_dest_rd_atomic <= 128, "max_dest_rd_atomic")?;
                in_range(a.min_rnr_timer <= 31, "min_rnr_timer")
            }
            Transition::Rts(a) => {
                in_range(a.timeout <= 31, "timeout")?;
                in_range(a.retry_cnt <= 7, "retry_cnt")?;
                in_range(a.rnr_retry <= 7, "rnr_retry")?;
                in_range(a.max_rd_atomic <= 128, "max_rd_atomic")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_transitions_of_the_table() {
        let rts = RtsAttrs { sq_psn: Psn::new(0), timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 1 };
        let init = InitAttrs { access: Access::NONE, pkey: 0xFFFF };
        let all = [
            QpState::Reset,
            QpState::Init,
            QpState::Rtr,
            QpState::Rts,
            QpState::Sqd,
            QpState::Sqe,
            QpState::Err,
        ];
        let from =
            |t: Transition| all.into_iter().filter(|s| t.check(*s, QpType::Rc).is_ok()).collect::<Vec<_>>();
        assert_eq!(from(Transition::Init(init)), [QpState::Reset]);
        assert_eq!(from(Transition::Rts(rts)), [QpState::Rtr]);
        assert_eq!(from(Transition::Sqd), [QpState::Rts]);
        assert_eq!(from(Transition::Resume), [QpState::Sqd, QpState::Sqe]);
        assert_eq!(from(Transition::Reset), all);
        assert_eq!(from(Transition::Err), all[1..]);
    }

    #[test]
    fn attributes_have_ranges() {
        let rts = RtsAttrs { sq_psn: Psn::new(0), timeout: 32, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 1 };
        assert_eq!(
            Transition::Rts(rts).check(QpState::Rtr, QpType::Rc),
            Result::Err(ModifyError::Attribute("timeout"))
        );
        let rts = RtsAttrs { timeout: 0, retry_cnt: 8, ..rts };
        assert_eq!(
            Transition::Rts(rts).check(QpState::Rtr, QpType::Rc),
            Result::Err(ModifyError::Attribute("retry_cnt"))
        );
        let init = InitAttrs { access: Access::NONE, pkey: 0x8000 };
        assert_eq!(
            Transition::Init(init).check(QpState::Reset, QpType::Uc),
            Result::Err(ModifyError::Attribute("pkey"))
        );
    }

    #[test]
    fn datagrams_have_transitions_of_their_own() {
        let own = crate::wire::Gid::default();
        let init = UdAttrs { pkey: 0xFFFF, qkey: 5, own, mtu: Mtu::B1024 };
        let rts = RtsAttrs { sq_psn: Psn::new(0), timeout: 0, retry_cnt: 0, rnr_retry: 0, max_rd_atomic: 0 };
        let steps = [
            (Transition::InitUd(init), QpState::Reset),
            (Transition::RtrUd, QpState::Init),
            (Transition::RtsUd(Psn::new(1)), QpState::Rtr),
        ];
        for (step, from) in steps {
            assert_eq!(step.check(from, QpType::Ud), Ok(()));
            assert_eq!(step.check(from, QpType::Rc), Result::Err(ModifyError::Type(QpType::Rc)));
            let to = step.to();
            assert_eq!(
                step.check(QpState::Rts, QpType::Ud),
                Result::Err(ModifyError::Transition { from: QpState::Rts, to })
            );
        }
        let connected = Transition::Rts(rts).check(QpState::Rtr, QpType::Ud);
        assert_eq!(connected, Result::Err(ModifyError::Type(QpType::Ud)));
        let nobody = Transition::InitUd(UdAttrs { pkey: 0x8000, ..init });
        assert_eq!(nobody.check(QpState::Reset, QpType::Ud), Result::Err(ModifyError::Attribute("pkey")));
        for step in [Transition::Sqd, Transition::Err, Transition::Reset] {
            assert_eq!(step.check(QpState::Rts, QpType::Ud), Ok(()));
        }
    }
}
