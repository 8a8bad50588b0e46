//! `[fabric]`: hosts and switches, given by numbers.

use super::error::ScenarioError;
use super::limits::Range;
use super::model::{Device, Fabric, Port, Storm};
use super::pattern::find;
use super::quantity::{parse_bit_rate, parse_share};
use super::read::Table;
use roce_engine::fabric::{BufferSpec, Marking, Priority, Service, Topology, Watchdog};
use roce_engine::sim::FrameSizes;
use roce_engine::units::{Duration, Rate};
use std::net::{IpAddr, Ipv4Addr};

/// The first address; the others follow it.  198.18.0.0/15 is for measurements.
const FIRST_IP: u32 = 0xC612_0001;
/// More would leave that network.
const MOST_STATIONS: u64 = 65_536;
const SHAPES: [&str; 4] = ["direct", "single", "dumbbell", "leaf-spine"];

pub(super) fn read_fabric(t: &Table<'_>) -> Result<Fabric, ScenarioError> {
    let topology = read_topology(t)?;
    let rate = t.parse("rate", parse_bit_rate)?.unwrap_or(Rate::from_gbps(100));
    let delay = t.duration("delay")?.unwrap_or(Duration::from_micros(1));
    let lossless = priorities(t, "pfc")?.unwrap_or(0);
    let fabric = Fabric {
        topology,
        rate,
        delay,
        trunk_rate: t.parse("trunk_rate", parse_bit_rate)?.unwrap_or(rate),
        trunk_delay: t.duration("trunk_delay")?.unwrap_or(delay),
        lossless,
        buffer: read_buffer(t)?,
        headroom: t.size("headroom")?,
        marking: read_marking(t)?,
        service: read_service(t)?,
        hash_queue_pairs: t.word("ecmp", &[("five-tuple", false), ("queue-pair", true)])?.unwrap_or(false),
        same_seed: t.word("ecmp_seed", &[("switch", false), ("same", true)])?.unwrap_or(false),
        watchdog: read_watchdog(t)?,
        sample: t.duration("sample")?,
        frames: read_frames(t)?,
        whole_ns: t.flag("whole_ns")?.unwrap_or(false),
    };
    for (key, rate) in [("rate", fabric.rate), ("trunk_rate", fabric.trunk_rate)] {
        if rate < Rate::from_bps(1_000_000) {
            return Err(t.error(key, "must be at least 1Mbps"));
        }
    }
    if fabric.sample.is_some_and(|s| s < Duration::from_nanos(100)) {
        return Err(t.error("sample", "must be at least 100ns"));
    }
    if lossless == 0
        && !t.has("pfc")
        && let Some(key) = ["headroom", "alpha", "watchdog_detect"].into_iter().find(|k| t.has(k))
    {
        return Err(t.error(key, "belongs to lossless priorities: name them, as in pfc = [3]"));
    }
    Ok(fabric)
}

/// The ports that a fabric has: `h0`, or `h0.n0` where hosts have several NICs.
pub(super) fn ports_of(fabric: &Fabric) -> Vec<Port> {
    let nics = match fabric.topology {
        Topology::LeafSpine { nics, .. } => nics,
        _ => 1,
    };
    let port = |station: u32| {
        let name = match nics {
            1 => format!("h{station}"),
            n => format!("h{}.n{}", station / n, station % n),
        };
        Port::plain(name, Device::Fabric, IpAddr::V4(Ipv4Addr::from(FIRST_IP + station)))
    };
    (0..fabric.topology.stations()).map(port).collect()
}

pub(super) fn read_storm(
    t: &Table<'_>,
    ports: &[Port],
    fabric: Option<&Fabric>,
) -> Result<Storm, ScenarioError> {
    if fabric.is_none() {
        return Err(t.fail("stops a switch: there is no [fabric]"));
    }
    let name = t.need("port", t.text("port")?)?;
    let port = find(ports, name).map_err(|e| t.error("port", e))?;
    let priority: u8 = t.integer_in("priority", Range { min: 0, max: 7 })?.unwrap_or(3);
    Ok(Storm {
        port,
        priority: Priority::ALL[usize::from(priority)],
        at: t.duration("at")?.unwrap_or(Duration::ZERO),
        span: t.need("for", t.duration("for")?)?,
    })
}

fn read_topology(t: &Table<'_>) -> Result<Topology, ScenarioError> {
    const COUNT: Range = Range { min: 1, max: 4096 };
    let shape = t.need("topology", t.word("topology", &SHAPES.map(|s| (s, s)))?)?;
    let mine: &[&str] = match shape {
        "single" => &["hosts"],
        "dumbbell" => &["left", "right"],
        "leaf-spine" => &["leaves", "spines", "hosts_per_leaf", "nics"],
        _ => &[],
    };
    for key in ["hosts", "left", "right", "leaves", "spines", "hosts_per_leaf", "nics"] {
        if t.has(key) && !mine.contains(&key) {
            return Err(t.clash("topology", key, format_args!("\"{shape}\" has no such number")));
        }
    }
    let number = |key: &str| t.need(key, t.integer_in::<u32>(key, COUNT)?);
    let topology = match shape {
        "direct" => Topology::Direct,
        "single" => Topology::Single { hosts: number("hosts")? },
        "dumbbell" => Topology::Dumbbell { left: number("left")?, right: number("right")? },
        _ => Topology::LeafSpine {
            leaves: number("leaves")?,
            spines: number("spines")?,
            hosts_per_leaf: number("hosts_per_leaf")?,
            nics: t.integer_in("nics", Range { min: 1, max: 64 })?.unwrap_or(1),
        },
    };
    if let Topology::LeafSpine { leaves, hosts_per_leaf, nics, .. } = topology {
        if leaves % nics != 0 {
            let text =
                format!("the NICs of a host are on {nics} leaves: {leaves} leaves are no multiple of that");
            return Err(t.clash("leaves", "nics", text));
        }
        if u64::from(leaves) * u64::from(hosts_per_leaf) > MOST_STATIONS {
            let text = format!("more than {MOST_STATIONS} ports of hosts");
            return Err(t.clash("leaves", "hosts_per_leaf", text));
        }
    }
    Ok(topology)
}

fn read_buffer(t: &Table<'_>) -> Result<BufferSpec, ScenarioError> {
    let alpha = |key: &str, usual: i8| -> Result<i8, ScenarioError> {
        Ok(t.parse(key, parse_alpha)?.unwrap_or(usual))
    };
    let total = t.size("buffer")?.unwrap_or(32 << 20);
    if !(1 << 16..=1 << 40).contains(&total) {
        return Err(t.error("buffer", "must be from 64KiB to 1TiB"));
    }
    Ok(BufferSpec {
        total,
        reserve: 4096,
        resume_offset: 3 << 10,
        alpha_log2: alpha("alpha", -3)?,
        lossy_alpha_log2: alpha("lossy_alpha", 0)?,
        queue_limit: t.size("queue")?,
    })
}

/// The sizes of frames, as another simulator has them.
fn read_frames(t: &Table<'_>) -> Result<Option<FrameSizes>, ScenarioError> {
    const BYTES: Range = Range { min: 1, max: 1000 };
    let Some(headers) = t.integer_in("frame_headers", BYTES)? else {
        return match t.has("frame_bare") {
            true => Err(t.error("frame_bare", "belongs to \"frame_headers\"")),
            false => Ok(None),
        };
    };
    Ok(Some(FrameSizes { headers, bare: t.integer_in("frame_bare", BYTES)?.unwrap_or(headers) }))
}

/// A power of two, as in `"1/8"` or `"4"`: its logarithm.
fn parse_alpha(text: &str) -> Result<i8, String> {
    let (number, sign) = match text.strip_prefix("1/") {
        Some(number) => (number, -1),
        None => (text, 1),
    };
    match number.parse::<u32>() {
        Ok(n) if n.is_power_of_two() && n <= 128 => Ok(sign * n.trailing_zeros() as i8),
        _ => Err("must be a power of two from \"1/128\" to \"128\"".to_owned()),
    }
}

pub(super) fn read_marking(t: &Table<'_>) -> Result<Option<Marking>, ScenarioError> {
    let keys = ["ecn_kmax", "ecn_pmax", "ecn_per", "ecn_priorities"];
    let Some(kmin) = t.size("ecn_kmin")? else {
        return match keys.into_iter().find(|k| t.has(k)) {
            Some(key) => Err(t.error(key, "belongs to marking, which begins at ecn_kmin = \"400kB\"")),
            None => Ok(None),
        };
    };
    let kmax = t.size("ecn_kmax")?.unwrap_or(kmin);
    if kmax < kmin {
        return Err(t.clash("ecn_kmin", "ecn_kmax", "everything is marked above the second, which is lower"));
    }
    if kmax >= 1 << 32 {
        return Err(t.error("ecn_kmax", "must be less than 4GiB"));
    }
    Ok(Some(Marking {
        kmin,
        kmax,
        pmax: t.parse("ecn_pmax", parse_share)?.unwrap_or(1.0),
        reference: t.parse("ecn_per", parse_bit_rate)?,
        priorities: priorities(t, "ecn_priorities")?.unwrap_or(u8::MAX),
    }))
}

fn read_service(t: &Table<'_>) -> Result<Service, ScenarioError> {
    let weight = |text: &str| match text.parse::<u16>() {
        Ok(n) if n <= 1000 => Ok(n),
        _ => Err("a weight is a whole number from 0, which is strict, to 1000".to_owned()),
    };
    match t.list("weights", weight)? {
        None => Ok(Service::default()),
        Some(list) => match <[u16; Priority::COUNT]>::try_from(list) {
            Ok(weights) => Ok(Service { weights }),
            Err(_) => Err(t.error("weights", "must have eight elements, one for each priority")),
        },
    }
}

fn read_watchdog(t: &Table<'_>) -> Result<Option<Watchdog>, ScenarioError> {
    let Some(detect) = t.duration("watchdog_detect")? else {
        return match t.has("watchdog_restore") {
            true => Err(t.error("watchdog_restore", "belongs to \"watchdog_detect\"")),
            false => Ok(None),
        };
    };
    if detect == Duration::ZERO {
        return Err(t.error("watchdog_detect", "must be longer than zero"));
    }
    Ok(Some(Watchdog { detect, restore: t.duration("watchdog_restore")?.unwrap_or(detect) }))
}

/// A set of priorities.
fn priorities(t: &Table<'_>, key: &str) -> Result<Option<u8>, ScenarioError> {
    let priority = |text: &str| {
        let number = text.parse().ok().and_then(Priority::new);
        number.ok_or_else(|| "a priority is a whole number from 0 to 7".to_owned())
    };
    if t.get(key).is_some_and(|v| v.get_ref().as_array().is_some_and(|list| list.is_empty())) {
        return Ok(Some(0));
    }
    Ok(t.list(key, priority)?.map(|list| list.into_iter().fold(0, |set, p| set | p.bit())))
}
