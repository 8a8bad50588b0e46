//! Flows to machines that know nothing of this scenario: `connect`, `oob` and `service` of `[[flow]]`.

use super::error::ScenarioError;
use super::model::{Device, Dial, DialBy, Flow, Port, Recovery, Roce, Scenario, Transport};
use super::read::Table;
use super::sections::{is_host, parse_ip};
use std::net::IpAddr;

const WAYS: [(&str, DialBy); 2] = [("perftest", DialBy::Perftest), ("cm", DialBy::Cm)];
/// perftest's port.
const SERVICE: u16 = 18_515;

/// Adds a port for each machine that flows of `tables` name by its address.
pub(super) fn add_peers(tables: &[Table<'_>], ports: &mut Vec<Port>) -> Result<(), ScenarioError> {
    for t in tables.iter().filter(|t| t.has("connect")) {
        let text = t.need("to", t.text("to")?)?;
        if let Some(port) = ports.iter().find(|p| p.name == text && p.device != Device::Peer) {
            let text = format!(
                "is a port of this scenario, which knows its queue pairs: take \"connect\" out, or name another machine by \
                 its address, as in to = \"{}\"",
                if port.ip.is_ipv4() { "198.18.0.9" } else { "2001:2::9" }
            );
            return Err(t.error("to", text));
        }
        let ip = parse_ip(text).map_err(|_| {
            t.error("to", "with \"connect\" it is the address of another machine, as in to = \"198.18.0.9\"")
        })?;
        match ports.iter().find(|p| p.ip == ip) {
            None => ports.push(Port::plain(ip.to_string(), Device::Peer, ip)),
            Some(port) if port.device == Device::Peer => {}
            Some(port) => {
                let text =
                    format!("is port \"{}\" of this scenario: write its name, and no \"connect\"", port.name);
                return Err(t.error("to", text));
            }
        }
    }
    Ok(())
}

/// Reads how the far end of a flow is met, where that is another machine.
pub(super) fn read_dial(t: &Table<'_>) -> Result<Option<Dial>, ScenarioError> {
    let Some(by) = t.word("connect", &WAYS)? else {
        for key in ["oob", "service"] {
            if t.has(key) {
                return Err(t.error(key, "belongs to connect = \"perftest\" or \"cm\", which is missing"));
            }
        }
        return Ok(None);
    };
    let oob = t.text("oob")?.map(str::to_owned);
    if oob.as_ref().is_some_and(|o| o.parse::<IpAddr>().is_err() && (o.starts_with('[') || !is_host(o))) {
        let text = "must be the address or the name of the machine's kernel, without port and brackets";
        return Err(t.error("oob", text));
    }
    if oob.is_some() && by == DialBy::Cm {
        return Err(t.clash("connect", "oob", "the connection manager is met at \"to\""));
    }
    Ok(Some(Dial { by, oob, service: t.integer("service")?.unwrap_or(SERVICE) }))
}

/// That a flow to another machine asks for nothing that such a machine cannot do.
pub(super) fn check_dialed(t: &Table<'_>, ports: &[Port], flow: &Flow) -> Result<(), ScenarioError> {
    let Some(dial) = &flow.dial else { return Ok(()) };
    let from = &ports[flow.from];
    if !from.can_ask() {
        let text = format!(
            "port \"{}\" ({}) reaches no other machine: use a network card, net_tap, net_af_packet, net_af_xdp or net_memif{}",
            from.name,
            from.device,
            if from.roce == Roce::V1 { ", with roce = \"v2\"" } else { "" }
        );
        return Err(t.clash("from", "connect", text));
    }
    if from.cores.as_ref().is_some_and(|c| c.len() > 1) {
        let text = format!(
            "port \"{}\" has several cores, and one of them talks to the machine: give it one",
            from.name
        );
        return Err(t.clash("from", "connect", text));
    }
    let refusals = [
        ("transport", flow.transport != Transport::Rc, "other machines are met on transport = \"rc\" only"),
        (
            "recovery",
            flow.recovery == Recovery::SelectiveRepeat,
            "both ends of selective repeat are this program",
        ),
        ("verify", flow.verify, "nobody checks there, nor knows what this side expects to read"),
        ("credits", flow.credits, "other machines' software gives no credits"),
        ("srq", flow.srq.is_some(), "the receive requests are the other machine's own"),
        ("psn", flow.psn.is_some() && dial.by == DialBy::Cm, "the called side says where the caller begins"),
    ];
    match refusals.into_iter().find(|(_, wrong, _)| *wrong) {
        Some((key, _, text)) => Err(t.clash("connect", key, text)),
        None => Ok(()),
    }
}

/// What to say of a flow to another machine where there is none.
pub(crate) fn no_machines(s: &Scenario) -> Result<(), ScenarioError> {
    match s.flows.iter().position(|f| f.dial.is_some()) {
        Some(i) => {
            Err(s.flow_error(i, "connect", "other machines do not exist in virtual time: rocegen run"))
        }
        None => Ok(()),
    }
}

/// That no two flows of a port are connected by the connection manager: it has one for each port.
pub(super) fn check_managers(s: &Scenario) -> Result<(), ScenarioError> {
    let by_cm = |f: &Flow| f.dial.as_ref().is_some_and(|d| d.by == DialBy::Cm);
    for (i, flow) in s.flows.iter().enumerate().filter(|(_, f)| by_cm(f)) {
        if let Some(other) = s.flows[..i].iter().find(|o| by_cm(o) && o.from == flow.from) {
            let text = format!(
                "flow \"{}\" leaves port \"{}\" by the connection manager as well, and one flow of a port may: give one \
                 of them more \"qps\", or connect = \"perftest\"",
                other.name, s.ports[flow.from].name
            );
            return Err(s.flow_error(i, "connect", text));
        }
    }
    Ok(())
}
