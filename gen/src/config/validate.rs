//! What must be true of a scenario as a whole, whatever the machine.

use super::cores;
use super::dial;
use super::error::{Place, ScenarioError};
use super::model::{Control, Device, Flow, FlowRate, Port, Scenario};
use roce_engine::units::Mtu;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

/// The most bytes that a packet has beside its payload, from the IP header to the iCRC: UDP 8,
/// BTH 12, RETH 16, immediate data 4 and iCRC 4 follow an IP header of 20 or 40.
pub(crate) const fn overhead(v6: bool) -> u16 {
    let ip = if v6 { 40 } else { 20 };
    ip + 8 + 12 + 16 + 4 + 4
}

/// The largest path MTU whose packets fit an L3 MTU.
pub(super) fn largest_mtu(l3_mtu: u16, v6: bool) -> Option<Mtu> {
    let fits = |m: &Mtu| m.bytes() + usize::from(overhead(v6)) <= usize::from(l3_mtu);
    Mtu::ALL.into_iter().rfind(fits)
}

/// Checks `s`; returns what is allowed but probably not meant.
pub(super) fn validate(s: &Scenario) -> Result<Vec<String>, ScenarioError> {
    let whole =
        |text: &str| ScenarioError { place: Place::File(s.source.file.clone()), text: text.to_owned() };
    if s.ports.is_empty() {
        return Err(whole("there is no [[port]]: a flow needs two"));
    }
    if s.flows.is_empty() {
        return Err(whole("there is no [[flow]]: nothing to do"));
    }
    check_unique(s)?;
    check_rings(s)?;
    cores::check_shared(s)?;
    check_connect(s)?;
    check_end(s)?;
    for (i, port) in s.ports.iter().enumerate() {
        if port.pfc.as_ref().is_some_and(|p| !p.nic) && matches!(port.device, Device::Mesh(_)) {
            let text =
                "pauses go to the other end of a cable, and a mesh has several: use rings, or `rocegen sim`";
            return Err(s.port_error(i, "pfc", text));
        }
        let virtual_port = matches!(port.device, Device::Ring(_) | Device::Mesh(_) | Device::Vdev { .. });
        if port.pfc.as_ref().is_some_and(|p| !p.nic) && virtual_port && s.run.line_rate.is_none() {
            let text = "pauses last for bit times of the port's speed, and this one has none of its own: add line_rate = \
                        \"100Gbps\" to [run]";
            return Err(s.port_error(i, "pfc", text));
        }
    }
    for i in 0..s.flows.len() {
        check_flow(s, i)?;
    }
    dial::check_managers(s)?;
    check_expects(s)?;
    Ok(warnings(s))
}

fn check_unique(s: &Scenario) -> Result<(), ScenarioError> {
    let ports = || s.ports.iter().enumerate();
    unique(s, "port", "name", ports().map(|(i, p)| (i, p.name.clone())))?;
    unique(s, "flow", "name", s.flows.iter().enumerate().map(|(i, f)| (i, f.name.clone())))?;
    unique(s, "port", "ip", ports().map(|(i, p)| (i, p.ip)))?;
    unique(s, "port", "mac", ports().filter_map(|(i, p)| Some((i, p.mac?))))?;
    let instance = |(i, p): (usize, &Port)| match &p.device {
        Device::Pci(address) => Some((i, address.clone())),
        Device::Vdev { devargs, .. } => devargs.split(',').next().map(|name| (i, name.to_owned())),
        _ => None,
    };
    unique(s, "port", "device", ports().filter_map(instance))?;
    for (i, port) in ports() {
        if port.mac.is_some() && port.mac == port.next_hop_mac {
            return Err(s.port_error(i, "next_hop_mac", "is the port's own \"mac\""));
        }
    }
    Ok(())
}

/// That no two of a section have the same value of `key`.
fn unique<T: Eq + Hash + fmt::Display>(
    s: &Scenario,
    section: &str,
    key: &str,
    values: impl Iterator<Item = (usize, T)>,
) -> Result<(), ScenarioError> {
    let name = |i: usize| if section == "port" { &s.ports[i].name } else { &s.flows[i].name };
    let mut seen = HashMap::new();
    for (i, value) in values {
        if let Some(&first) = seen.get(&value) {
            let there = s.place(section, Some(first), Some(key)).short();
            let owner = match key {
                "name" => format!("another {section} has this name"),
                _ => format!("{section} \"{}\" has {value} as well", name(first)),
            };
            let text = format!("{section} \"{}\": key \"{key}\": {owner} ({there})", name(i));
            return Err(ScenarioError { place: s.place(section, Some(i), Some(key)), text });
        }
        seen.insert(value, i);
    }
    Ok(())
}

/// The most ports of a mesh.
const MESH: usize = 16;

fn check_rings(s: &Scenario) -> Result<(), ScenarioError> {
    for (i, port) in s.ports.iter().enumerate() {
        let ends: Vec<_> =
            s.ports.iter().filter(|p| p.device == port.device).map(|p| p.name.as_str()).collect();
        if matches!(port.device, Device::Mesh(_)) {
            if !(2..=MESH).contains(&ends.len()) {
                let n = ends.len();
                let text = format!("{} joins 2 to {MESH} ports, not {n}", port.device);
                return Err(s.port_error(i, "device", text));
            }
            if port.cores.as_ref().is_some_and(|c| c.len() > 1) {
                return Err(s.port_error(i, "cores", "a port of a mesh has one core"));
            }
        }
        if !matches!(port.device, Device::Ring(_)) {
            continue;
        }
        if ends.len() != 2 {
            let text = match ends.len() {
                1 => format!("{} joins two ports and this is the only one", port.device),
                n => format!("{} joins two ports and {n} name it: {}", port.device, ends.join(", ")),
            };
            return Err(s.port_error(i, "device", text));
        }
    }
    Ok(())
}

fn check_connect(s: &Scenario) -> Result<(), ScenarioError> {
    let remote = s.ports.iter().position(|p| p.device == Device::Remote);
    match (remote, &s.connect) {
        (Some(i), None) => Err(s.port_error(
            i,
            "device",
            "a remote port is met through [connect]: add listen = \"0.0.0.0:7471\" or peer = \"server:7471\" there",
        )),
        (None, Some(_)) => Err(ScenarioError {
            place: s.place("connect", None, None),
            text: "[connect]: no port has device = \"remote\"".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// That the run ends.
fn check_end(s: &Scenario) -> Result<(), ScenarioError> {
    if s.run.duration.is_some() {
        return Ok(());
    }
    match s.flows.iter().find(|f| f.messages.is_none()) {
        None => Ok(()),
        Some(flow) => Err(ScenarioError {
            place: s.place("run", None, None),
            text: format!(
                "the run has no end: give [run] a \"duration\", or flow \"{}\" and all others \"messages\"",
                flow.name
            ),
        }),
    }
}

fn check_flow(s: &Scenario, i: usize) -> Result<(), ScenarioError> {
    let flow = &s.flows[i];
    let (from, to) = (&s.ports[flow.from], &s.ports[flow.to]);
    if !from.is_local() && !to.is_local() {
        let text = format!("ports \"{}\" and \"{}\" are both not driven from here", from.name, to.name);
        return Err(s.flow_error(i, "to", text));
    }
    if from.device == Device::None {
        return Err(s.flow_error(
            i,
            "from",
            format!("port \"{}\" is no one (device \"none\"): it cannot send", from.name),
        ));
    }
    if to.device == Device::None {
        if flow.transport.is_reliable() {
            let text = format!(
                "port \"{}\" is no one (device \"none\") and never acknowledges: write transport = \"uc\"",
                to.name
            );
            return Err(s.flow_error(i, "to", text));
        }
        if flow.verify {
            return Err(s.flow_error(
                i,
                "verify",
                format!("port \"{}\" is no one: nothing is checked", to.name),
            ));
        }
    }
    check_joined(s, i, flow)?;
    match share_of_nothing(s, flow) {
        Some(text) if matches!(flow.rate, FlowRate::Percent(_)) => Err(s.flow_error(i, "rate", text)),
        Some(text) if matches!(flow.load, Some(FlowRate::Percent(_))) => Err(s.flow_error(i, "load", text)),
        Some(_) if flow.cc != Control::None => {
            let port = &s.ports[flow.data_from()];
            let text = format!(
                "congestion control begins at the line rate, and port \"{}\" ({}) has none of its own: add line_rate = \"100Gbps\" \
                 to [run]",
                port.name, port.device
            );
            Err(s.flow_error(i, "cc", text))
        }
        _ => Ok(()),
    }
}

/// That frames of one end can get to the other.
fn check_joined(s: &Scenario, i: usize, flow: &Flow) -> Result<(), ScenarioError> {
    let (from, to) = (&s.ports[flow.from], &s.ports[flow.to]);
    if from.roce != to.roce {
        let text = format!(
            "ports \"{}\" and \"{}\" speak different versions of RoCE: give both the same \"roce\"",
            from.name, to.name
        );
        return Err(s.flow_error(i, "to", text));
    }
    let ring = |p: &Port| matches!(p.device, Device::Ring(_) | Device::Mesh(_));
    if !ring(from) && !ring(to) {
        return Ok(());
    }
    // A ring may carry frames to no one: its other end drops them, which is a test as well.
    if from.device != to.device && to.device != Device::None {
        let text = format!(
            "no frame gets from port \"{}\" ({}) to port \"{}\" ({})",
            from.name, from.device, to.name, to.device
        );
        return Err(s.flow_error(i, "to", text));
    }
    if from.device == to.device && from.vlan != to.vlan {
        let vlan = |p: &Port| p.vlan.map_or("untagged".to_owned(), |v| format!("in VLAN {v}"));
        let text = format!(
            "the ports do not hear each other: \"{}\" is {}, \"{}\" is {}",
            from.name,
            vlan(from),
            to.name,
            vlan(to)
        );
        return Err(s.flow_error(i, "to", text));
    }
    Ok(())
}

fn check_expects(s: &Scenario) -> Result<(), ScenarioError> {
    for (i, e) in s.expects.iter().enumerate() {
        if e.metric != "line_rate_pct" {
            continue;
        }
        let about = |f: usize| e.flow.is_none_or(|first| (first..first + e.flows).contains(&f));
        let mut about = s.flows.iter().enumerate().filter(|(f, _)| about(*f));
        if let Some(text) = about.find_map(|(_, flow)| share_of_nothing(s, flow)) {
            return Err(s.expect_error(i, text));
        }
    }
    Ok(())
}

/// What to say of a share of line rate where the port that sends a flow's payload will never know
/// one.
fn share_of_nothing(s: &Scenario, flow: &Flow) -> Option<String> {
    let port = &s.ports[flow.data_from()];
    let virtual_port = matches!(port.device, Device::Ring(_) | Device::Mesh(_) | Device::Vdev { .. });
    let unknown = s.run.line_rate.is_none() && virtual_port;
    unknown.then(|| {
        format!(
            "a share of what? Port \"{}\" ({}) has no speed of its own: add line_rate = \"100Gbps\" to [run]",
            port.name, port.device
        )
    })
}

fn warnings(s: &Scenario) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, port) in s.ports.iter().enumerate() {
        if port.device != Device::Fabric && !s.flows.iter().any(|f| f.from == i || f.to == i) {
            warnings.push(format!("port \"{}\" is used by no flow", port.name));
        }
    }
    for flow in &s.flows {
        let port = &s.ports[flow.from];
        if flow.pcp != 0 && port.is_local() && port.vlan.is_none() {
            warnings.push(format!(
                "flow \"{}\": priority {} is not on the wire: port \"{}\" has no \"vlan\", so its frames have no tag",
                flow.name, flow.pcp, port.name
            ));
        }
    }
    warnings
}
