//! Any bytes as a frame: the parser takes them or says why not, and never looks past the end.
//!
//! The first byte says how the rest becomes a frame; see [`Form`].

use roce_engine::wire::*;

/// Bits of the first byte.
struct Form(u8);

impl Form {
    /// The EtherType is made one that is looked at: most inputs would end there.
    fn ethertype(&self) -> Option<u16> {
        [None, Some(ETHERTYPE_IPV4), Some(ETHERTYPE_IPV6), Some(ETHERTYPE_ROCEV1)][usize::from(self.0 & 3)]
    }

    /// The lengths and the checksum of the IPv4 header are made right.
    fn repairs(&self) -> bool {
        self.0 & 4 != 0
    }

    fn stripped_vlan(&self) -> Option<Vlan> {
        (self.0 & 8 != 0).then_some(Vlan { pcp: 3, dei: false, vid: 100 })
    }
}

pub fn run(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    let form = Form(*form);
    let mut frame = rest.to_vec();
    if let Some(ethertype) = form.ethertype()
        && frame.len() >= 14
    {
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    }
    if form.repairs() {
        repair(&mut frame);
    }
    let stripped = form.stripped_vlan();
    check(&frame, |f| classify_with(f, stripped));
    check(&frame, |f| classify_rocev1(f, stripped));
    check(&frame, |f| classify_checks(f, stripped, Checks::OFFLOADED));
    // Leaving out checks takes more frames, not others.
    if let Ok(strict) = classify_with(&frame, stripped) {
        assert_eq!(classify_checks(&frame, stripped, Checks::OFFLOADED).unwrap().bth, strict.bth);
    }
    // Taken to pieces and put together again.
    if let Ok(p) = classify(&frame)
        && let Some(parts) = Parts::of(&p)
    {
        assert_eq!(parts.emit(), frame);
    }
}

fn repair(frame: &mut [u8]) {
    let len = frame.len();
    if len >= 58 && frame[12..14] == ETHERTYPE_IPV4.to_be_bytes() {
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
        frame[20..22].fill(0);
        frame[23] = IP_PROTO_UDP;
        frame[24..26].fill(0);
        let mut sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        while sum > 0xFFFF {
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        frame[24..26].copy_from_slice(&(!sum as u16).to_be_bytes());
        frame[36..38].copy_from_slice(&UDP_PORT.to_be_bytes());
        frame[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
        frame[40..42].fill(0);
        frame[43] &= 0xF0;
    }
    if len >= 70 && frame[12..14] == ETHERTYPE_ROCEV1.to_be_bytes() {
        frame[14] = 0x60;
        frame[18..20].copy_from_slice(&((len - 54) as u16).to_be_bytes());
        frame[20] = GRH_NEXT_HEADER;
        frame[55] &= 0xF0;
    }
}

fn check<F>(frame: &[u8], parse: F)
where
    F: for<'a> Fn(&'a [u8]) -> Result<Packet<'a>, DropReason>,
{
    let Ok(p) = parse(frame) else { return };
    let end = p.wire_len();
    assert!(end <= frame.len());
    let headers = usize::from(p.info.header_len);
    let pieces = headers + p.payload().len() + p.pad().len();
    assert_eq!(pieces, p.body().len(), "{p:?}");
    assert_eq!(p.pad().len(), usize::from(p.bth.pad));
    assert_eq!(p.trailer(), &frame[end..]);
    // What the opcode has can be read, and nothing else.
    let info = p.info;
    assert_eq!(p.reth().is_some(), info.reth);
    assert_eq!(p.aeth().is_some(), info.aeth);
    assert_eq!(p.atomic().is_some(), info.atomic);
    assert_eq!(p.atomic_ack().is_some(), info.atomic_ack);
    assert_eq!(p.deth().is_some(), info.deth);
    assert_eq!(p.imm().is_some(), info.imm);
    assert_eq!(p.ieth().is_some(), info.ieth);
    assert_eq!(p.xrceth().is_some(), info.xrceth);
    assert_eq!(p.feth().is_some(), info.feth);
    // The trailer changes nothing, and a frame that is cut short is none.
    let bare = parse(&frame[..end]).expect("without its trailer");
    assert_eq!((bare.bth, bare.payload()), (p.bth, p.payload()));
    assert_eq!(bare.verify_icrc(), p.verify_icrc());
    assert!(parse(&frame[..end - 1]).is_err());
    // A right iCRC verifies, and one with a bit flipped does not.
    let mut sealed = frame.to_vec();
    sealed[end - 4..end].copy_from_slice(&p.icrc_computed());
    assert!(parse(&sealed).is_err() || parse(&sealed).unwrap().verify_icrc());
    sealed[end - 1] ^= 0x40;
    assert!(parse(&sealed).is_err() || !parse(&sealed).unwrap().verify_icrc());
}
