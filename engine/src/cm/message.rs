//! The messages of connection management: fields, layout, text.

use super::mad::{Attribute, Data, Mad, MadError};
use super::service::ServiceId;
use crate::units::{Mtu, Psn, Qpn};
use crate::wire::Gid;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Request for a connection.
    Req(Req),
    /// A message was received, its answer takes time.
    Mra(Mra),
    /// Refusal.
    Rej(Rej),
    /// Reply to a request.
    Rep(Rep),
    /// Ready to use.
    Rtu(Rtu),
    /// Request to disconnect.
    Dreq(Dreq),
    /// Reply to that.
    Drep(Drep),
    /// Request for the queue pair of a datagram service.
    SidrReq(SidrReq),
    /// Reply to that.
    SidrRep(SidrRep),
}

/// The transport service that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram: nobody has it.
    Rd = 2,
    /// Extended reliable connection.
    Xrc = 3,
}

/// REQ.  What concerns an alternate path is sent as zeros and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Req {
    /// The caller's name for the connection.
    pub local_id: u32,
    /// Who is called.
    pub service: ServiceId,
    /// The caller's port: with a queue pair number it is unique.
    pub ca_guid: u64,
    /// The caller's queue pair.
    pub qpn: Qpn,
    /// READs and atomics of the called side's that the caller has resources for.
    pub responder_resources: u8,
    /// READs and atomics that the caller wants to have outstanding.
    pub initiator_depth: u8,
    /// How long the called side may take to answer: 4.096 us x 2^n, 0..=31.
    pub remote_response_timeout: u8,
    /// The transport service.
    pub transport: Service,
    /// Whether the caller's responder gives end-to-end credits.
    pub flow_control: bool,
    /// The PSN at which the called side is to begin to send.
    pub psn: Psn,
    /// How long the caller may take to answer, as above.
    pub local_response_timeout: u8,
    /// Retries that the called side's queue pair is to use, 0..=7.
    pub retry_count: u8,
    /// The partition key.
    pub pkey: u16,
    /// The path MTU.
    pub mtu: Mtu,
    /// RNR retries that the called side's queue pair is to use, 0..=7.
    pub rnr_retry: u8,
    /// Times that a message of the connection manager is repeated, 0..=15.
    pub max_cm_retries: u8,
    /// Whether the caller's queue pair takes from a shared receive queue.
    pub srq: bool,
    /// The path.
    pub path: PrimaryPath,
    /// Private data: [`CmaHeader`](super::CmaHeader), then 56 bytes of the consumer's.
    pub private: [u8; 92],
}

/// The primary path of a REQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryPath {
    /// LIDs of caller and called: 0xFFFF over Ethernet.
    pub lids: [u16; 2],
    /// GID of the caller.
    pub local: Gid,
    /// GID of the called side.
    pub remote: Gid,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// Code of the packet rate; 0 over Ethernet.
    pub rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 0..=15.
    pub sl: u8,
    /// Whether both ends are in one subnet.
    pub subnet_local: bool,
    /// Ack timeout of both queue pairs: 4.096 us x 2^n, 0..=31.
    pub ack_timeout: u8,
}

/// REP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rep {
    /// The called side's name for the connection.
    pub local_id: u32,
    /// The caller's.
    pub remote_id: u32,
    /// Q_Key; 0 where there is none.
    pub qkey: u32,
    /// The called side's queue pair.
    pub qpn: Qpn,
    /// The PSN at which the caller is to begin to send.
    pub psn: Psn,
    /// READs and atomics of the caller's that it has resources for.
    pub responder_resources: u8,
    /// READs and atomics that it may have outstanding.
    pub initiator_depth: u8,
    /// How long it takes to acknowledge: 4.096 us x 2^n, 0..=31.
    pub ack_delay: u8,
    /// Whether and why an alternate path was not taken, 0..=3.
    pub failover: u8,
    /// Whether its responder gives end-to-end credits.
    pub flow_control: bool,
    /// RNR retries that the caller's queue pair is to use, 0..=7.
    pub rnr_retry: u8,
    /// Whether its queue pair takes from a shared receive queue.
    pub srq: bool,
    /// The called side's port.
    pub ca_guid: u64,
    /// The consumer's private data.
    pub private: [u8; 196],
}

/// RTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtu {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
}

/// DREQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dreq {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The receiver's queue pair.
    pub qpn: Qpn,
}

/// DREP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drep {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
}

/// MRA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mra {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// What was received.
    pub of: MraOf,
    /// How much longer the answer may take: 4.096 us x 2^n, 0..=31.
    pub service_timeout: u8,
}

/// Which message an MRA or REJ is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MraOf {
    /// A REQ.
    Req = 0,
    /// A REP.
    Rep = 1,
    /// Another one; of a REJ: none in particular.
    Other = 2,
}

/// REJ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rej {
    /// The sender's name for the connection; 0 where it has none.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// What is refused.
    pub of: MraOf,
    /// Why.
    pub reason: RejReason,
    /// The consumer's private data.
    pub private: [u8; 148],
}

/// Why a connection is refused: the number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RejReason(pub u16);

/// SIDR_REQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SidrReq {
    /// The asker's name for the request.
    pub request_id: u32,
    /// The partition key.
    pub pkey: u16,
    /// Who is asked for.
    pub service: ServiceId,
    /// Private data, laid out as in [`Req`]; the first 92 bytes of it.
    pub private: [u8; 92],
}

/// SIDR_REP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SidrRep {
    /// The asker's name for the request.
    pub request_id: u32,
    /// Whether there is such a service.
    pub status: SidrStatus,
    /// Its queue pair.
    pub qpn: Qpn,
    /// Who was asked for.
    pub service: ServiceId,
    /// Its Q_Key.
    pub qkey: u32,
}

/// The answer of a SIDR_REP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SidrStatus {
    /// Queue pair and Q_Key are valid.
    Valid = 0,
    /// No such service.
    ServiceNotSupported = 1,
    /// The service refuses.
    Rejected = 2,
    /// There is no queue pair for it.
    NoQp = 3,
}

impl RejReason {
    /// No queue pair is left.
    pub const NO_QP: RejReason = RejReason(1);
    /// No resources are left.
    pub const NO_RESOURCES: RejReason = RejReason(3);
    /// No answer came in time.
    pub const TIMEOUT: RejReason = RejReason(4);
    /// The called side knows no such request.
    pub const UNSUPPORTED: RejReason = RejReason(5);
    /// No connection has these names.
    pub const INVALID_COMM_ID: RejReason = RejReason(6);
    /// Nobody listens there.
    pub const INVALID_SERVICE_ID: RejReason = RejReason(8);
    /// The transport service is not had.
    pub const INVALID_TRANSPORT: RejReason = RejReason(9);
    /// The queue pair is in use by another connection.
    pub const STALE: RejReason = RejReason(10);
    /// The GID is not the port's.
    pub const INVALID_GID: RejReason = RejReason(12);
    /// The path MTU is not possible.
    pub const INVALID_MTU: RejReason = RejReason(26);
    /// The consumer says no.
    pub const CONSUMER: RejReason = RejReason(28);

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            RejReason::NO_QP => "no queue pair available",
            RejReason::NO_RESOURCES => "no resources available",
            RejReason::TIMEOUT => "timeout",
            RejReason::UNSUPPORTED => "unsupported request",
            RejReason::INVALID_COMM_ID => "invalid communication id",
            RejReason::INVALID_SERVICE_ID => "nobody listens on this service",
            RejReason::INVALID_TRANSPORT => "invalid transport service",
            RejReason::STALE => "stale connection",
            RejReason::INVALID_GID => "invalid GID",
            RejReason::INVALID_MTU => "invalid path MTU",
            RejReason::CONSUMER => "refused by the consumer",
            _ => "another reason",
        }
    }
}

impl core::fmt::Debug for RejReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({})", self.0, self.text())
    }
}

impl core::fmt::Display for RejReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} (reason {})", self.text(), self.0)
    }
}

impl Message {
    /// What a MAD says.
    ///
    /// # Errors
    /// [`MadError::Field`].
    pub fn of(mad: &Mad) -> Result<Message, MadError> {
        let d = &mad.data;
        let wrong = |field, value| MadError::Field { attribute: mad.attribute, field, value };
        Ok(match mad.attribute {
            Attribute::Req => Message::Req(req(d, &wrong)?),
            Attribute::Rep => Message::Rep(rep(d)),
            Attribute::Rtu => Message::Rtu(Rtu { local_id: d.u32(0), remote_id: d.u32(4) }),
            Attribute::Dreq => {
                Message::Dreq(Dreq { local_id: d.u32(0), remote_id: d.u32(4), qpn: Qpn::new(d.u24(8)) })
            }
            Attribute::Drep => Message::Drep(Drep { local_id: d.u32(0), remote_id: d.u32(4) }),
            Attribute::Mra => Message::Mra(Mra {
                local_id: d.u32(0),
                remote_id: d.u32(4),
                of: about(d.u8(8) >> 6, "message_mraed", &wrong)?,
                service_timeout: d.u8(9) >> 3,
            }),
            Attribute::Rej => Message::Rej(Rej {
                local_id: d.u32(0),
                remote_id: d.u32(4),
                of: about(d.u8(8) >> 6, "message_rejected", &wrong)?,
                reason: RejReason(d.u16(10)),
                private: d.bytes(84),
            }),
            Attribute::SidrReq => Message::SidrReq(SidrReq {
                request_id: d.u32(0),
                pkey: d.u16(4),
                service: ServiceId(d.u64(8)),
                private: d.bytes(16),
            }),
            Attribute::SidrRep => Message::SidrRep(SidrRep {
                request_id: d.u32(0),
                status: match d.u8(4) {
                    0 => SidrStatus::Valid,
                    1 => SidrStatus::ServiceNotSupported,
                    2 => SidrStatus::Rejected,
                    3 => SidrStatus::NoQp,
                    other => return Err(wrong("status", other.into())),
                },
                qpn: Qpn::new(d.u24(8)),
                service: ServiceId(d.u64(12)),
                qkey: d.u32(20),
            }),
        })
    }

    /// The MAD of transaction `tid` that says it.
    pub fn mad(&self, tid: u64) -> Mad {
        let mut d = Data::ZERO;
        let mut ids = |local: u32, remote: u32| {
            d.put(0, &local.to_be_bytes());
            d.put(4, &remote.to_be_bytes());
        };
        let attribute = match self {
            Message::Req(m) => {
                put_req(&mut d, m);
                Attribute::Req
            }
            Message::Rep(m) => {
                put_rep(&mut d, m);
                Attribute::Rep
            }
            Message::Rtu(m) => {
                ids(m.local_id, m.remote_id);
                Attribute::Rtu
            }
            Message::Drep(m) => {
                ids(m.local_id, m.remote_id);
                Attribute::Drep
            }
            Message::Dreq(m) => {
                ids(m.local_id, m.remote_id);
                d.put24(8, m.qpn.get());
                Attribute::Dreq
            }
            Message::Mra(m) => {
                ids(m.local_id, m.remote_id);
                d.put(8, &[(m.of as u8) << 6, m.service_timeout << 3]);
                Attribute::Mra
            }
            Message::Rej(m) => {
                ids(m.local_id, m.remote_id);
                d.put(8, &[(m.of as u8) << 6, 0]);
                d.put(10, &m.reason.0.to_be_bytes());
                d.put(84, &m.private);
                Attribute::Rej
            }
            Message::SidrReq(m) => {
                d.put(0, &m.request_id.to_be_bytes());
                d.put(4, &m.pkey.to_be_bytes());
                d.put(8, &m.service.0.to_be_bytes());
                d.put(16, &m.private);
                Attribute::SidrReq
            }
            Message::SidrRep(m) => {
                d.put(0, &m.request_id.to_be_bytes());
                d.put(4, &[m.status as u8]);
                d.put24(8, m.qpn.get());
                d.put(12, &m.service.0.to_be_bytes());
                d.put(20, &m.qkey.to_be_bytes());
                Attribute::SidrRep
            }
        };
        Mad { tid, attribute, data: d }
    }
}

fn about(
    bits: u8,
    field: &'static str,
    wrong: &dyn Fn(&'static str, u32) -> MadError,
) -> Result<MraOf, MadError> {
    match bits {
        0 => Ok(MraOf::Req),
        1 => Ok(MraOf::Rep),
        2 => Ok(MraOf::Other),
        other => Err(wrong(field, other.into())),
    }
}

fn req(d: &Data, wrong: &dyn Fn(&'static str, u32) -> MadError) -> Result<Req, MadError> {
    let mtu = d.u8(50) >> 4;
    let label_and_rate = d.u32(88);
    Ok(Req {
        local_id: d.u32(0),
        service: ServiceId(d.u64(8)),
        ca_guid: d.u64(16),
        qpn: Qpn::new(d.u24(32)),
        responder_resources: d.u8(35),
        initiator_depth: d.u8(39),
        remote_response_timeout: d.u8(43) >> 3,
        transport: [Service::Rc, Service::Uc, Service::Rd, Service::Xrc][usize::from(d.u8(43) >> 1 & 3)],
        flow_control: d.u8(43) & 1 != 0,
        psn: Psn::new(d.u24(44)),
        local_response_timeout: d.u8(47) >> 3,
        retry_count: d.u8(47) & 7,
        pkey: d.u16(48),
        mtu: Mtu::ALL.into_iter().find(|m| m.code() == mtu).ok_or_else(|| wrong("path_mtu", mtu.into()))?,
        rnr_retry: d.u8(50) & 7,
        max_cm_retries: d.u8(51) >> 4,
        srq: d.u8(51) & 8 != 0,
        path: PrimaryPath {
            lids: [d.u16(52), d.u16(54)],
            local: Gid::new(d.bytes(56)),
            remote: Gid::new(d.bytes(72)),
            flow_label: label_and_rate >> 12,
            rate: (label_and_rate & 0x3F) as u8,
            traffic_class: d.u8(92),
            hop_limit: d.u8(93),
            sl: d.u8(94) >> 4,
            subnet_local: d.u8(94) & 8 != 0,
            ack_timeout: d.u8(95) >> 3,
        },
        private: d.bytes(140),
    })
}

fn put_req(d: &mut Data, m: &Req) {
    d.put(0, &m.local_id.to_be_bytes());
    d.put(8, &m.service.0.to_be_bytes());
    d.put(16, &m.ca_guid.to_be_bytes());
    d.put24(32, m.qpn.get());
    d.put(35, &[m.responder_resources]);
    d.put(39, &[m.initiator_depth]);
    let service = (m.transport as u8) << 1 | u8::from(m.flow_control);
    d.put(43, &[m.remote_response_timeout << 3 | service]);
    d.put24(44, m.psn.get());
    d.put(47, &[m.local_response_timeout << 3 | m.retry_count & 7]);
    d.put(48, &m.pkey.to_be_bytes());
    d.put(50, &[m.mtu.code() << 4 | m.rnr_retry & 7, m.max_cm_retries << 4 | u8::from(m.srq) << 3]);
    let path = &m.path;
    d.put(52, &path.lids[0].to_be_bytes());
    d.put(54, &path.lids[1].to_be_bytes());
    d.put(56, &path.local.bytes());
    d.put(72, &path.remote.bytes());
    d.put(88, &(path.flow_label << 12 | u32::from(path.rate & 0x3F)).to_be_bytes());
    let sl = path.sl << 4 | u8::from(path.subnet_local) << 3;
    d.put(92, &[path.traffic_class, path.hop_limit, sl, path.ack_timeout << 3]);
    d.put(140, &m.private);
}

fn rep(d: &Data) -> Rep {
    Rep {
        local_id: d.u32(0),
        remote_id: d.u32(4),
        qkey: d.u32(8),
        qpn: Qpn::new(d.u24(12)),
        psn: Psn::new(d.u24(20)),
        responder_resources: d.u8(24),
        initiator_depth: d.u8(25),
        ack_delay: d.u8(26) >> 3,
        failover: d.u8(26) >> 1 & 3,
        flow_control: d.u8(26) & 1 != 0,
        rnr_retry: d.u8(27) >> 5,
        srq: d.u8(27) & 0x10 != 0,
        ca_guid: d.u64(28),
        private: d.bytes(36),
    }
}

fn put_rep(d: &mut Data, m: &Rep) {
    d.put(0, &m.local_id.to_be_bytes());
    d.put(4, &m.remote_id.to_be_bytes());
    d.put(8, &m.qkey.to_be_bytes());
    d.put24(12, m.qpn.get());
    d.put24(20, m.psn.get());
    let delay = m.ack_delay << 3 | (m.failover & 3) << 1 | u8::from(m.flow_control);
    d.put(24, &[m.responder_resources, m.initiator_depth, delay, m.rnr_retry << 5 | u8::from(m.srq) << 4]);
    d.put(28, &m.ca_guid.to_be_bytes());
    d.put(36, &m.private);
}
