//! `[run]`, `[[port]]` and `[connect]`.

use super::error::ScenarioError;
use super::limits;
use super::model::{Connect, Device, Hugepages, IcrcCheck, Port, Roce, Role, Run};
use super::pfc;
use super::quantity::parse_bit_rate;
use super::read::Table;
use roce_engine::units::Duration;
use roce_engine::wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr};

/// What holds without a `[run]`.
pub(super) fn default_run() -> Run {
    Run {
        duration: None,
        warmup: Duration::ZERO,
        drain: Duration::from_secs(2),
        interval: Duration::from_secs(1),
        sample: None,
        window: None,
        per_qp: false,
        seed: None,
        line_rate: None,
        icrc: IcrcCheck::default(),
        hugepages: Hugepages::default(),
        memory: None,
        share_cores: false,
    }
}

pub(super) fn read_run(t: &Table<'_>) -> Result<Run, ScenarioError> {
    const ICRC: [(&str, IcrcCheck); 3] =
        [("always", IcrcCheck::Always), ("sampled", IcrcCheck::Sampled), ("off", IcrcCheck::Off)];
    const PAGES: [(&str, Hugepages); 3] =
        [("auto", Hugepages::Auto), ("never", Hugepages::Never), ("require", Hugepages::Require)];
    let default = default_run();
    let run = Run {
        duration: t.duration("duration")?,
        warmup: t.duration("warmup")?.unwrap_or(default.warmup),
        drain: t.duration("drain")?.unwrap_or(default.drain),
        interval: t.duration("interval")?.unwrap_or(default.interval),
        sample: t.duration("sample")?,
        window: t.duration("window")?,
        per_qp: t.flag("per_qp")?.unwrap_or(default.per_qp),
        seed: t.integer("seed")?,
        line_rate: t.parse("line_rate", parse_bit_rate)?,
        icrc: t.word("icrc", &ICRC)?.unwrap_or(default.icrc),
        hugepages: t.word("hugepages", &PAGES)?.unwrap_or(default.hugepages),
        memory: t.size("memory")?,
        share_cores: t.flag("share_cores")?.unwrap_or(default.share_cores),
    };
    if run.duration == Some(Duration::ZERO) {
        return Err(t.error("duration", "must be longer than zero"));
    }
    if run.interval < Duration::from_millis(10) {
        return Err(t.error("interval", "must be at least 10ms"));
    }
    if run.sample.is_some_and(|s| s < Duration::from_micros(1)) {
        return Err(t.error("sample", "must be at least 1us, and at least 1ms outside virtual time"));
    }
    match (run.window, run.sample) {
        (Some(Duration::ZERO), _) => return Err(t.error("window", "must be longer than zero")),
        (Some(window), Some(sample)) if window < sample => {
            return Err(t.clash("window", "sample", "a window holds at least one sample"));
        }
        _ => {}
    }
    if run.memory.is_some_and(|m| m < 16 << 20) {
        return Err(t.error("memory", "must be at least 16MiB"));
    }
    Ok(run)
}

pub(super) fn read_port(t: &Table<'_>) -> Result<Port, ScenarioError> {
    let name = t.need("name", t.text("name")?)?;
    check_name(name).map_err(|e| t.error("name", e))?;
    let device = t.parse("device", parse_device)?;
    let device = t.need("device", device)?;
    let cores = t.cores("cores")?;
    let pfc = match t.below("pfc", "[port.pfc]", pfc::KEYS)? {
        Some(table) => Some(pfc::read_pfc(&table, &device, cores.as_ref().map_or(1, Vec::len))?),
        None => None,
    };
    let (ip, prefix) = t.need("ip", t.parse("ip", parse_subnet)?)?;
    let port = Port {
        name: name.to_owned(),
        device,
        ip,
        prefix,
        mac: t.parse("mac", parse_mac)?,
        mtu: t.integer_in("mtu", limits::PORT_MTU)?,
        vlan: t.integer("vlan")?,
        roce: t.word("roce", &[("v1", Roce::V1), ("v2", Roce::V2)])?.unwrap_or_default(),
        cores,
        promiscuous: t.flag("promiscuous")?.unwrap_or(false),
        link_wait: t.duration("link_wait")?.unwrap_or(Duration::from_secs(10)),
        next_hop_mac: t.parse("next_hop_mac", parse_mac)?,
        gateway: t.parse("gateway", parse_ip)?,
        neighbours: read_neighbours(t)?,
        pfc,
    };
    if !port.is_local() {
        for key in
            ["cores", "promiscuous", "link_wait", "next_hop_mac", "gateway", "neighbours", "vlan", "pfc"]
        {
            if t.has(key) {
                let text = format!("has no meaning: device = \"{}\" is not driven from here", port.device);
                return Err(t.error(key, text));
            }
        }
    }
    if port.device == Device::None && port.mac.is_none() {
        return Err(
            t.fail("device \"none\" answers no one: give its \"mac\", as in mac = \"02:00:00:00:00:02\"")
        );
    }
    check_router(t, &port)?;
    if let (Some(mtu), Some((limit, why))) = (port.mtu, port.device.frame_limit())
        && mtu > limit
    {
        return Err(t.error("mtu", format_args!("must be at most {limit} with {why} in \"device\"")));
    }
    Ok(port)
}

/// Neighbours that are not asked: a list of `ADDRESS=MAC`, or a table.
fn read_neighbours(t: &Table<'_>) -> Result<Vec<(IpAddr, MacAddr)>, ScenarioError> {
    const FORM: &str = "is not ADDRESS=MAC, as in \"198.18.0.2=02:00:00:00:00:02\"";
    let Some(pairs) = t.pairs("neighbours")? else { return Ok(Vec::new()) };
    let mut known: Vec<(IpAddr, MacAddr)> = Vec::new();
    for (ip, mac) in pairs {
        let (Some(ip), Some(mac)) = (parse_ip(&ip).ok(), parse_mac(&mac).ok()) else {
            let text = if mac.is_empty() { ip } else { format!("{ip}={mac}") };
            return Err(t.error("neighbours", format_args!("\"{}\" {FORM}", text.escape_debug())));
        };
        if known.iter().any(|(other, _)| *other == ip) {
            return Err(t.error("neighbours", format_args!("{ip} is there twice")));
        }
        known.push((ip, mac));
    }
    Ok(known)
}

/// That neighbours and router of a port are such as it can have.
fn check_router(t: &Table<'_>, port: &Port) -> Result<(), ScenarioError> {
    for key in ["gateway", "neighbours"] {
        if t.has(key) && !port.can_ask() {
            let who =
                if port.roce == Roce::V1 { "roce = \"v1\"".to_owned() } else { port.device.to_string() };
            let text = format_args!(
                "has no meaning: {who} has no neighbours to ask, as network cards, net_tap, net_af_packet, net_af_xdp and \
                 net_memif have"
            );
            return Err(t.error(key, text));
        }
    }
    let stranger = |ip: &IpAddr| ip.is_ipv4() != port.ip.is_ipv4();
    if let Some((ip, _)) = port.neighbours.iter().find(|(ip, _)| stranger(ip) || *ip == port.ip) {
        let text = if *ip == port.ip { "is the port itself" } else { "is of another family than \"ip\"" };
        return Err(t.error("neighbours", format_args!("{ip} {text}")));
    }
    let Some(gateway) = port.gateway else { return Ok(()) };
    if port.next_hop_mac.is_some() {
        return Err(t.clash("gateway", "next_hop_mac", "both say where frames go: take one of them out"));
    }
    if port.prefix.is_none() {
        let longest = if port.ip.is_ipv4() { 24 } else { 64 };
        let text = format!("which addresses are behind it? Write ip = \"{}/{longest}\"", port.ip);
        return Err(t.clash("gateway", "ip", text));
    }
    if gateway == port.ip || stranger(&gateway) || !port.is_near(gateway) {
        return Err(t.clash("gateway", "ip", "the router is another address in the port's own subnet"));
    }
    Ok(())
}

pub(super) fn read_connect(t: &Table<'_>) -> Result<Connect, ScenarioError> {
    let listen = t.parse("listen", |text| {
        text.parse().map_err(|_| "must be an address and a TCP port, as in \"0.0.0.0:7471\"".to_owned())
    })?;
    let peer = t.parse("peer", |text| match text.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok_and(|p| p > 0) => {
            Ok(text.to_owned())
        }
        _ => Err("must be a host and a TCP port, as in \"server:7471\" or \"[fd00::1]:7471\"".to_owned()),
    })?;
    let role = match (listen, peer) {
        (Some(address), None) => Role::Listen(address),
        (None, Some(peer)) => Role::Peer(peer),
        (Some(_), Some(_)) => {
            return Err(t.clash("listen", "peer", "one side listens, the other names it as its peer"));
        }
        (None, None) => {
            return Err(t.fail("one of listen = \"0.0.0.0:7471\" and peer = \"server:7471\" is missing"));
        }
    };
    let timeout = t.duration("timeout")?.unwrap_or(Duration::from_secs(30));
    if timeout == Duration::ZERO {
        return Err(t.error("timeout", "must be longer than zero"));
    }
    Ok(Connect { role, timeout })
}

pub(super) fn is_host(host: &str) -> bool {
    let v6 = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    match v6 {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)),
    }
}

/// Names end up in file names, paths of `--set` and tables.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    match name {
        "" => Err("a name cannot be empty".to_owned()),
        _ if name.len() > 64 => Err("a name has at most 64 characters".to_owned()),
        _ if !name.chars().all(plain) => {
            Err("a name is made of letters, digits, \"_\", \".\" and \"-\"".to_owned())
        }
        _ => Ok(()),
    }
}

/// An address, with the length of its subnet's prefix where that is given.
fn parse_subnet(text: &str) -> Result<(IpAddr, Option<u8>), String> {
    let Some((ip, prefix)) = text.split_once('/') else { return Ok((parse_ip(text)?, None)) };
    let ip = parse_ip(ip)?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    match prefix.parse().ok().filter(|prefix| (1..=longest).contains(prefix)) {
        Some(prefix) => Ok((ip, Some(prefix))),
        None => Err(format!("a prefix length is 1 to {longest}, as in \"{ip}/{}\"", longest / 4 * 3)),
    }
}

pub(super) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let ip: IpAddr = text.parse().map_err(|_| match text.split_once('/') {
        Some((ip, _)) if ip.parse::<IpAddr>().is_ok() => format!("no prefix length here: write \"{ip}\""),
        _ => "not an IP address, as in \"198.18.0.1\" or \"fd00::1\"".to_owned(),
    })?;
    let broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || broadcast {
        return Err("not the address of one host on a network".to_owned());
    }
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err("write it as an IPv4 address".to_owned()),
        _ => Ok(ip),
    }
}

fn parse_mac(text: &str) -> Result<MacAddr, String> {
    let mac: MacAddr =
        text.parse().map_err(|_| "not a MAC address, as in \"02:00:00:00:00:01\"".to_owned())?;
    if mac.is_multicast() {
        Err("a multicast address; a port has a unicast one".to_owned())
    } else if mac.is_zero() {
        Err("the zero address is no one's".to_owned())
    } else {
        Ok(mac)
    }
}

fn parse_device(text: &str) -> Result<Device, String> {
    const FORMS: &str = "write \"ring:0\", \"mesh:0\", a virtual device as in \"net_tap0,iface=dtap0\", a PCI address as \
                         in \"0000:3b:00.0\", \"none\" or \"remote\"";
    match text {
        "none" => return Ok(Device::None),
        "remote" => return Ok(Device::Remote),
        _ => {}
    }
    if let Some(number) = text.strip_prefix("ring:") {
        return match number.parse::<u16>() {
            Ok(n) if number.chars().all(|c| c.is_ascii_digit()) => Ok(Device::Ring(u32::from(n))),
            _ => Err("a ring is a number from 0 to 65535, as in \"ring:0\"".to_owned()),
        };
    }
    if let Some(number) = text.strip_prefix("mesh:") {
        return match number.parse::<u16>() {
            Ok(n) if number.chars().all(|c| c.is_ascii_digit()) => Ok(Device::Mesh(u32::from(n))),
            _ => Err("a mesh is a number from 0 to 65535, as in \"mesh:0\"".to_owned()),
        };
    }
    if text.starts_with("net_") {
        return parse_vdev(text);
    }
    parse_pci(text).ok_or_else(|| format!("no device; {FORMS}"))
}

fn parse_vdev(text: &str) -> Result<Device, String> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("the arguments of a virtual device have no spaces".to_owned());
    }
    let name = text.split(',').next().unwrap_or(text);
    let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if driver == name {
        return Err(format!("a virtual device ends in a number, as in \"{name}0\""));
    }
    let device = Device::Vdev { driver: driver.to_owned(), devargs: text.to_owned() };
    if let Some(iface) = device.devarg("iface").filter(|_| matches!(driver, "net_tap" | "net_af_packet")) {
        // IFNAMSIZ; a longer name would be cut without a word.
        if iface.is_empty() || iface.len() > 15 || iface.contains('/') {
            return Err("iface must have 1 to 15 characters and no \"/\"".to_owned());
        }
    }
    Ok(device)
}

/// `0000:3b:00.0` or `3b:00.0`.
fn parse_pci(text: &str) -> Option<Device> {
    let hex = |s: &str, len: usize| s.len() == len && s.chars().all(|c| c.is_ascii_hexdigit());
    let (bus, function) = text.rsplit_once('.')?;
    let parts: Vec<_> = bus.split(':').collect();
    let (domain, bus, slot) = match parts[..] {
        [bus, slot] => ("0000", bus, slot),
        [domain, bus, slot] => (domain, bus, slot),
        _ => return None,
    };
    let right = hex(domain, 4) && hex(bus, 2) && hex(slot, 2) && matches!(function.as_bytes(), [b'0'..=b'7']);
    right.then(|| Device::Pci(format!("{domain}:{bus}:{slot}.{function}").to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices() {
        let vdev =
            |driver: &str, devargs: &str| Device::Vdev { driver: driver.into(), devargs: devargs.into() };
        for (text, want) in [
            ("ring:0", Device::Ring(0)),
            ("mesh:7", Device::Mesh(7)),
            ("none", Device::None),
            ("remote", Device::Remote),
            ("net_tap0,iface=dtap0", vdev("net_tap", "net_tap0,iface=dtap0")),
            ("net_null12", vdev("net_null", "net_null12")),
            (
                "net_tap0,iface=t0,mac=02:00:00:00:00:01",
                vdev("net_tap", "net_tap0,iface=t0,mac=02:00:00:00:00:01"),
            ),
            ("0000:3b:00.0", Device::Pci("0000:3b:00.0".into())),
            ("3B:00.1", Device::Pci("0000:3b:00.1".into())),
            ("net_tap0,iface=abcdefghijklmno", vdev("net_tap", "net_tap0,iface=abcdefghijklmno")),
        ] {
            assert_eq!(parse_device(text), Ok(want), "{text}");
        }
        for text in [
            "",
            "ring",
            "ring:",
            "ring:x",
            "ring:+1",
            "eth0",
            "3b:00.8",
            "3b:0.0",
            "net_tap",
            "net_tap0,iface=a b",
            "net_tap0,iface=abcdefghijklmnop",
            "net_tap0,iface=a/b",
            "net_tap0,iface=",
        ] {
            assert!(parse_device(text).is_err(), "{text}");
        }
    }

    #[test]
    fn macs() {
        for text in ["52:54:00:12:34:56", "52-54-00-12-34-56"] {
            assert_eq!(parse_mac(text).map(|m| m.to_string()), Ok("52:54:00:12:34:56".into()));
        }
        for text in
            ["52:54:00:12:34", "52:54:00:12:34:5g", "41135085296", "01:80:c2:00:00:01", "00:00:00:00:00:00"]
        {
            assert!(parse_mac(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses() {
        assert!(parse_ip("198.18.0.1").is_ok() && parse_ip("fe80::1").is_ok());
        for text in
            ["198.18.0", "198.18.0.1/24", "0.0.0.0", "224.0.0.1", "127.0.0.1", "255.255.255.255", "ff02::1"]
        {
            assert!(parse_ip(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(parse_ip("198.18.0.1/24").unwrap_err(), @r#"no prefix length here: write "198.18.0.1""#);
    }

    #[test]
    fn hosts() {
        assert!(is_host("server-1.lan") && is_host("198.18.0.1") && is_host("[fd00::1]"));
        assert!(!is_host("") && !is_host("fd00::1") && !is_host("[x]") && !is_host("a b"));
    }

    #[test]
    fn af_packet_slots() {
        let Ok(device) = parse_device("net_af_packet0,iface=eth1,framesz=2048") else { panic!() };
        assert_eq!(device.frame_limit(), Some((1968, "framesz=2048".into())));
        assert_eq!(device.default_mtu(), 1968);
        let Ok(device) = parse_device("net_af_packet0,iface=eth1") else { panic!() };
        assert_eq!(device.default_mtu(), 1500);
    }
}
