//! Whole scenarios: what is taken, and what each mistake is told.

use super::*;
use crate::workload::Traffic;
use roce_engine::units::{Duration, Mtu, Psn, Rate};
use roce_engine::wire::MacAddr;
use std::sync::Arc;

/// A ring pair and one flow, with these lines added to its sections.
///
/// `run` is at line 5, `a` at 10, `b` at 15 and `flow` at 23; an empty one is an empty line.
pub(super) fn pair(run: &str, a: &str, b: &str, flow: &str) -> String {
    format!(
        r#"# A pair.

[run]
duration = "1s"
{run}
[[port]]
name = "a"
device = "ring:0"
ip = "198.18.0.1"
{a}
[[port]]
name = "b"
device = "ring:0"
ip = "198.18.0.2"
{b}

[[flow]]
name = "single"
from = "a"
to = "b"
verb = "write"
size = "1MiB"
{flow}
"#
    )
}

pub(super) fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(Path::new("x.toml"), text, &[])
}

fn error(text: &str) -> String {
    let line = parse(text).unwrap_err().to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

fn run_error(run: &str) -> String {
    error(&pair(run, "", "", ""))
}

fn port_error(b: &str) -> String {
    error(&pair("", "", b, ""))
}

fn flow_error(flow: &str) -> String {
    error(&pair("", "", "", flow))
}

/// The pair with one line replaced.
fn with(line: &str, new: &str) -> String {
    let text = pair("", "", "", "");
    assert!(text.contains(line));
    text.replacen(line, new, 1)
}

fn with_error(line: &str, new: &str) -> String {
    error(&with(line, new))
}

#[test]
fn defaults() {
    let s = parse(&pair("", "", "", "")).unwrap();
    assert_eq!(s.run, Run { duration: Some(Duration::from_secs(1)), ..sections::default_run() });
    assert_eq!(s.run.drain, Duration::from_secs(2));
    assert_eq!((s.ports[0].l3_mtu(), s.ports[0].link_wait), (4200, Duration::from_secs(10)));
    let want = Flow {
        name: "single".into(),
        group: None,
        table: 0,
        steps: None,
        scripts: None,
        from: 0,
        to: 1,
        dial: None,
        verb: Verb::Write,
        traffic: Arc::new(Traffic::fixed(Verb::Write, 1 << 20)),
        arrival: Arrival::Closed { think: Duration::ZERO },
        load: None,
        per_qp: false,
        base_rtt: None,
        transport: Transport::Rc,
        size: 1 << 20,
        qps: 1,
        depth: 16,
        mtu: Mtu::B4096,
        rate: FlowRate::Unlimited,
        burst: 16,
        messages: None,
        verify: false,
        tos: 0,
        pcp: 0,
        hop_limit: 64,
        ack_timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        min_rnr_timer: 12,
        max_rd_atomic: 16,
        ack_interval: 16,
        window: 1024,
        psn: None,
        start: Duration::ZERO,
        cc: Control::None,
        srq: None,
        credits: false,
        recovery: Recovery::GoBackN,
        ack_timeout_low: 0,
    };
    assert_eq!(s.flows, [want]);
    assert!(s.warnings.is_empty() && s.expects.is_empty() && s.connect.is_none());
}

#[test]
fn selective_repeat() {
    let selective =
        |more: &str| parse(&pair("", "", "", &format!("recovery = \"selective-repeat\"\n{more}")));
    let window = |more: &str| selective(more).unwrap().flows[0].window;
    assert_eq!(window(""), 1024);
    assert_eq!(window("window = 7"), 7);
    // Four round trips of the link, where it is known: 4 x 10 us at 100 Gb/s.
    let link = "[link]\nrate = \"100Gbps\"\ndelay = \"5us\"";
    assert_eq!(window(&format!("mtu = 1024\n{link}")), 488, "40 us, at 82 ns a packet");
    assert_eq!(window(&format!("window = 70\n{link}")), 70);
    let error = |more: &str| error(&pair("", "", "", more));
    insta::assert_snapshot!(error("recovery = \"selective\""), @r#"x.toml:23: flow "single": key "recovery": "selective": must be one of "go-back-n", "selective-repeat""#);
    insta::assert_snapshot!(error("recovery = \"selective-repeat\"\nwindow = 70000"), @r#"x.toml:24: flow "single": keys "recovery" (line 23) and "window": selective repeat keeps at most 65536 packets out of order, not 70000"#);
    insta::assert_snapshot!(error("recovery = \"selective-repeat\"\ntransport = \"uc\""), @r#"x.toml:24: flow "single": keys "recovery" (line 23) and "transport": nothing is sent again but on transport = "rc""#);
    insta::assert_snapshot!(error("ack_timeout_low = 10"), @r#"x.toml:23: flow "single": key "ack_timeout_low": 10: belongs to recovery = "selective-repeat""#);
}

#[test]
fn every_key() {
    let run = r#"warmup = "1s"
drain = "500ms"
interval = "100ms"
seed = 7
line_rate = "100Gbps"
icrc = "sampled"
hugepages = "never"
memory = "256MiB"
share_cores = true"#;
    let a = "mac = \"02:00:00:00:00:01\"\nmtu = 9000\nvlan = 100\ncores = [0]\npromiscuous = true\nlink_wait = \"1s\"";
    let b = "mac = \"02-00-00-00-00-02\"\nvlan = 100\ncores = [0]\nnext_hop_mac = \"02:00:00:00:00:01\"";
    let flow = r#"transport = "rc"
qps = 4
depth = 32
mtu = 1024
rate = "10Gbps"
layer = "goodput"
burst = 1
messages = 1000
verify = true
dscp = 26
ecn = true
pcp = 3
hop_limit = 1
ack_timeout = 20
retry_cnt = 3
rnr_retry = 2
min_rnr_timer = 14
max_rd_atomic = 1
ack_interval = 4096
window = 64
psn = 0xFFFFFA
recovery = "selective-repeat"
ack_timeout_low = 10

[[expect]]
flow = "single"
line_rate_pct = ">= 98"
counters.out_of_sequence = "== 0"
messages_failed = "== 0"
[[expect]]
latency_p99 = "<= 10us""#;
    let s = parse(&pair(run, a, b, flow)).unwrap();
    assert_eq!(s.run.line_rate, Some(Rate::from_gbps(100)));
    assert_eq!((s.run.seed, s.run.memory), (Some(7), Some(256 << 20)));
    assert_eq!((s.run.icrc, s.run.hugepages), (IcrcCheck::Sampled, Hugepages::Never));
    assert_eq!(s.ports[0].mtu, Some(9000));
    assert_eq!(s.ports[1].mac.map(|m| m.to_string()), Some("02:00:00:00:00:02".into()));
    let f = &s.flows[0];
    assert_eq!(f.rate, FlowRate::Bits { rate: Rate::from_gbps(10), layer: Layer::Goodput });
    assert_eq!((f.tos, f.pcp, f.psn), (0x6A, 3, Some(Psn::new(0xFF_FFFA))));
    assert_eq!((f.mtu, f.qps, f.depth, f.messages), (Mtu::B1024, 4, 32, Some(1000)));
    let expects: Vec<_> =
        s.expects.iter().map(|e| (e.table(), e.flow, e.metric.as_str(), e.text.as_str(), e.value)).collect();
    assert_eq!(
        expects,
        [
            (0, Some(0), "line_rate_pct", ">= 98", 98.0),
            (0, Some(0), "counters.out_of_sequence", "== 0", 0.0),
            (0, Some(0), "messages_failed", "== 0", 0.0),
            (1, None, "latency_p99", "<= 10us", 10_000.0),
        ]
    );
}

#[test]
fn traffic_class() {
    let tos = |flow: &str| parse(&pair("", "", "", flow)).unwrap().flows[0].tos;
    assert_eq!(tos("dscp = 26"), 0x68);
    assert_eq!(tos("traffic_class = 104"), 0x68);
    assert_eq!(tos("dscp = 26\ntraffic_class = 104\necn = true"), 0x6A);
    insta::assert_snapshot!(flow_error("dscp = 64"), @r#"x.toml:23: flow "single": key "dscp": 64: must be a whole number from 0 to 63"#);
    insta::assert_snapshot!(flow_error("dscp = 26\ntraffic_class = 96"), @r#"x.toml:24: flow "single": keys "dscp" (line 23) and "traffic_class": traffic_class is dscp x 4: dscp 26 would be 104, not 96"#);
    insta::assert_snapshot!(flow_error("traffic_class = 106"), @r#"x.toml:23: flow "single": key "traffic_class": 106: its low two bits are ECN: leave them 0 and write ecn = true"#);
}

#[test]
fn service_level_is_the_vlan_priority() {
    let tagged = |flow: &str| pair("", "vlan = 5", "vlan = 5", flow);
    for sl in 0..=7 {
        let s = parse(&tagged(&format!("sl = {sl}"))).unwrap();
        assert_eq!((s.flows[0].pcp, s.warnings.len()), (sl, 0));
    }
    insta::assert_snapshot!(error(&tagged("sl = 8")), @r#"x.toml:23: flow "single": key "sl": 8: must be a whole number from 0 to 7"#);
    insta::assert_snapshot!(error(&tagged("sl = 3\npcp = 4")), @r#"x.toml:24: flow "single": keys "sl" (line 23) and "pcp": the service level is the priority: 4 is not 3"#);
    let untagged = parse(&pair("", "", "", "sl = 3")).unwrap();
    insta::assert_snapshot!(untagged.warnings.join("\n"), @r#"flow "single": priority 3 is not on the wire: port "a" has no "vlan", so its frames have no tag"#);
}

#[test]
fn not_toml() {
    insta::assert_snapshot!(flow_error("mac = 52:54:00:12:34:56"), @r#"x.toml:23:7: key "mac": 52:54:00:12:34:56: text needs quotes: mac = "52:54:00:12:34:56""#);
    insta::assert_snapshot!(flow_error("qps = 4x"), @r#"x.toml:23:7: key "qps": 4x: must be a whole number from 1 to 16384"#);
    insta::assert_snapshot!(flow_error("qps = "), @r#"x.toml:23:7: key "qps": no value"#);
    insta::assert_snapshot!(flow_error("verify = yes"), @r#"x.toml:23:10: key "verify": yes: must be true or false"#);
    insta::assert_snapshot!(flow_error("[flow"), @"x.toml:23:6: not TOML: unclosed table, expected `]`: [flow");
    insta::assert_snapshot!(flow_error("size = 1"), @"x.toml:23:1: not TOML: duplicate key: size = 1");
    insta::assert_snapshot!(flow_error("mtu 4096"), @"x.toml:23:5: not TOML: key with no value, expected `=`: mtu 4096");
    insta::assert_snapshot!(flow_error("tos = \"a"), @r#"x.toml:23:9: not TOML: invalid basic string, expected `"`: tos = "a"#);
}

#[test]
fn unknown_keys() {
    insta::assert_snapshot!(flow_error("depht = 3"), @r#"x.toml:23: unknown key "depht" in [[flow]]; did you mean "depth"?"#);
    insta::assert_snapshot!(flow_error("pps = 3"), @r#"x.toml:23: unknown key "pps" in [[flow]]; did you mean "rate"?"#);
    insta::assert_snapshot!(flow_error("color = 3"), @r#"x.toml:23: unknown key "color" in [[flow]]"#);
    insta::assert_snapshot!(run_error("durations = 3"), @r#"x.toml:5: unknown key "durations" in [run]; did you mean "duration"?"#);
    insta::assert_snapshot!(port_error("adress = 3"), @r#"x.toml:15: unknown key "adress" in [[port]]"#);
    insta::assert_snapshot!(flow_error("[flows]"), @r#"x.toml:23: unknown key "flows" in the scenario; did you mean "flow"?"#);
    insta::assert_snapshot!(flow_error("[[expect]]\nmessage_failed = \"== 0\""), @r#"x.toml:24: unknown metric "message_failed" in [[expect]]; did you mean "messages_failed"?"#);
    insta::assert_snapshot!(flow_error("[[expect]]\nout_of_sequence = \"== 0\""), @r#"x.toml:24: unknown metric "out_of_sequence" in [[expect]]; a counter is written counters.out_of_sequence = "== 0""#);
}

#[test]
fn numbers() {
    for value in [
        "-1",
        "0",
        "16385",
        "1e99",
        "4294967297",
        "\" 4 \"",
        "\"\"",
        "\"4\"",
        "99999999999999999999",
        "4.0",
        "true",
    ] {
        let line = flow_error(&format!("qps = {value}"));
        let want = format!(
            "x.toml:23: flow \"single\": key \"qps\": {value}: must be a whole number from 1 to 16384"
        );
        assert_eq!(line, want);
    }
    insta::assert_snapshot!(flow_error("psn = 0x1000000"), @r#"x.toml:23: flow "single": key "psn": 0x1000000: must be a whole number from 0 to 16777215"#);
    insta::assert_snapshot!(flow_error("messages = 0"), @r#"x.toml:23: flow "single": key "messages": 0: must be a whole number of at least 1"#);
    insta::assert_snapshot!(flow_error("mtu = 1500"), @r#"x.toml:23: flow "single": key "mtu": 1500: a path MTU is one of 256, 512, 1024, 2048, 4096"#);
    insta::assert_snapshot!(flow_error("ack_timeout = 32"), @r#"x.toml:23: flow "single": key "ack_timeout": 32: must be a whole number from 0 to 31"#);
    insta::assert_snapshot!(port_error("vlan = 4095"), @r#"x.toml:15: port "b": key "vlan": 4095: must be a whole number from 1 to 4094"#);
    insta::assert_snapshot!(port_error("cores = 2"), @r#"x.toml:15: port "b": key "cores": 2: must be a list of core numbers, as in [2, 3]"#);
    insta::assert_snapshot!(port_error("cores = []"), @r#"x.toml:15: port "b": key "cores": []: no core: leave the key out to have one assigned"#);
    insta::assert_snapshot!(port_error("promiscuous = 1"), @r#"x.toml:15: port "b": key "promiscuous": 1: must be true or false"#);
}

#[test]
fn rates() {
    insta::assert_snapshot!(flow_error("rate = \"98\""), @r#"x.toml:23: flow "single": key "rate": "98": a bare number is not a rate; write "98%", "10Gbps", "5Mpps" or "20kmsg/s""#);
    insta::assert_snapshot!(flow_error("rate = 98"), @r#"x.toml:23: flow "single": key "rate": 98: a bare number is not a rate; write "98%", "10Gbps", "5Mpps" or "20kmsg/s""#);
    insta::assert_snapshot!(flow_error("rate = \"10 Gb ps\""), @r#"x.toml:23: flow "single": key "rate": "10 Gb ps": not a rate; write "98%", "10Gbps", "5Mpps" or "20kmsg/s""#);
    insta::assert_snapshot!(flow_error("rate = \"50%\""), @r#"x.toml:23: flow "single": key "rate": a share of what? Port "a" (ring:0) has no speed of its own: add line_rate = "100Gbps" to [run]"#);
    insta::assert_snapshot!(flow_error("rate = \"1Mpps\"\nlayer = \"l2\""), @r#"x.toml:24: flow "single": keys "rate" (line 23) and "layer": a layer belongs to a rate in bit/s, as in "10Gbps""#);
    insta::assert_snapshot!(error(&pair("line_rate = \"10G\"", "", "", "rate = \"50%\"\nlayer = \"goodput\"")), @r#"x.toml:24: flow "single": keys "rate" (line 23) and "layer": a rate in % is a share of line rate, at "l1""#);
    insta::assert_snapshot!(flow_error("layer = \"l2\""), @r#"x.toml:23: flow "single": key "layer": "l2": there is no "rate" that it could belong to"#);
    insta::assert_snapshot!(run_error("line_rate = \"98%\""), @r#"x.toml:5: [run]: key "line_rate": "98%": not a rate in bits per second; write "100Gbps", "2.5Gbps" or "1.25GB/s""#);
    let zero = with("size = \"1MiB\"", "size = 0\nrate = \"1Gbps\"\nlayer = \"goodput\"");
    insta::assert_snapshot!(error(&zero), @r#"x.toml:24: flow "single": keys "size" (line 22) and "layer": messages of 0 bytes have no goodput to pace"#);
    let s = parse(&pair("line_rate = \"10G\"", "", "", "rate = \"50%\"")).unwrap();
    assert_eq!(s.flows[0].rate, FlowRate::Percent(50.0));
}

#[test]
fn words_and_sizes() {
    insta::assert_snapshot!(with_error("verb = \"write\"", "verb = \"wriet\""), @r#"x.toml:21: flow "single": key "verb": "wriet": must be one of "write", "write_imm", "send", "send_imm", "read"; did you mean "write"?"#);
    insta::assert_snapshot!(with_error("size = \"1MiB\"", "size = \"64K\""), @r#"x.toml:22: flow "single": key "size": "64K": 1000 or 1024 bytes? Write "kB" or "KiB""#);
    insta::assert_snapshot!(with_error("size = \"1MiB\"", "size = \"3GiB\""), @r#"x.toml:22: flow "single": key "size": "3GiB": more than 2GiB (2147483648 bytes), the most that a message can have"#);
    insta::assert_snapshot!(with_error("size = \"1MiB\"", "size = -1"), @r#"x.toml:22: flow "single": key "size": -1: not a size in bytes; write 64, "64KiB" or "1MiB""#);
    insta::assert_snapshot!(with_error("size = \"1MiB\"\n", ""), @r#"x.toml:17: flow "single": key "size" is missing"#);
    insta::assert_snapshot!(with_error("name = \"single\"\n", ""), @r#"x.toml:17: [[flow]] number 1: key "name" is missing"#);
    insta::assert_snapshot!(with_error("name = \"single\"", "name = \"a b\""), @r#"x.toml:18: flow "a b": key "name": "a b": a name is made of letters, digits, "_", "." and "-""#);
    insta::assert_snapshot!(with_error("\"1s\"", "10"), @r#"x.toml:4: [run]: key "duration": 10: a duration needs a unit; write "10s", "500ms", "20us", "100ns", "1m" or "2h""#);
    insta::assert_snapshot!(with_error("\"1s\"", "\"0s\""), @r#"x.toml:4: [run]: key "duration": "0s": must be longer than zero"#);
    insta::assert_snapshot!(run_error("interval = \"1ms\""), @r#"x.toml:5: [run]: key "interval": "1ms": must be at least 10ms"#);
    insta::assert_snapshot!(run_error("memory = 1"), @r#"x.toml:5: [run]: key "memory": 1: must be at least 16MiB"#);
    assert_eq!(parse(&with("size = \"1MiB\"", "size = \"2GiB\"")).unwrap().flows[0].size, 1 << 31);
}

#[test]
fn ports() {
    let b = "ip = \"198.18.0.2\"";
    insta::assert_snapshot!(with_error(b, "ip = \"198.18.0.1\""), @r#"x.toml:14: port "b": key "ip": port "a" has 198.18.0.1 as well (line 9)"#);
    insta::assert_snapshot!(with_error(b, "ip = \"fd00::1\""), @r#"x.toml:20: flow "single": keys "from" (line 19) and "to": ports of two address families: a has 198.18.0.1, b has fd00::1"#);
    insta::assert_snapshot!(with_error(b, "ip = \"198.18.0\""), @r#"x.toml:14: port "b": key "ip": "198.18.0": not an IP address, as in "198.18.0.1" or "fd00::1""#);
    insta::assert_snapshot!(with_error("name = \"b\"", "name = \"a\""), @r#"x.toml:20: flow "single": key "to": "b": no such port; did you mean "a"?"#);
    insta::assert_snapshot!(port_error("mac = \"01:80:c2:00:00:01\""), @r#"x.toml:15: port "b": key "mac": "01:80:c2:00:00:01": a multicast address; a port has a unicast one"#);
    insta::assert_snapshot!(port_error("mac = 41135085296"), @r#"x.toml:15: port "b": key "mac": 41135085296: not a MAC address, as in "02:00:00:00:00:01""#);
    let mac = "mac = \"02:00:00:00:00:01\"";
    insta::assert_snapshot!(error(&pair("", mac, mac, "")), @r#"x.toml:15: port "b": key "mac": port "a" has 02:00:00:00:00:01 as well (line 10)"#);
    let own = format!("{mac}\nnext_{}", "hop_mac = \"02:00:00:00:00:01\"");
    insta::assert_snapshot!(port_error(&own), @r#"x.toml:16: port "b": key "next_hop_mac": is the port's own "mac""#);
    insta::assert_snapshot!(with_error("device = \"ring:0\"", "device = \"eth0\""), @r#"x.toml:8: port "a": key "device": "eth0": no device; write "ring:0", "mesh:0", a virtual device as in "net_tap0,iface=dtap0", a PCI address as in "0000:3b:00.0", "none" or "remote""#);
    insta::assert_snapshot!(with_error("device = \"ring:0\"", "device = \"ring:1\""), @r#"x.toml:8: port "a": key "device": ring:1 joins two ports and this is the only one"#);
    let third = "[[port]]\nname = \"c\"\ndevice = \"ring:0\"\nip = \"198.18.0.3\"";
    insta::assert_snapshot!(flow_error(third), @r#"x.toml:8: port "a": key "device": ring:0 joins two ports and 3 name it: a, b, c"#);
    let null = "[[port]]\nname = \"c\"\ndevice = \"net_null0\"\nip = \"198.18.0.3\"";
    let again = format!("{null}\n{}", null.replace("\"c\"", "\"d\"").replace("0.3", "0.4"));
    insta::assert_snapshot!(flow_error(&again), @r#"x.toml:29: port "d": key "device": port "c" has net_null0 as well (line 25)"#);
    insta::assert_snapshot!(parse(&pair("", "", "", null)).unwrap().warnings.join("\n"), @r#"port "c" is used by no flow"#);
}

/// The pair with a port that can ask, and what its flow has more.
fn asking(port: &str, flow: &str) -> String {
    let text = pair("", port, "", flow);
    text.replacen("device = \"ring:0\"", "device = \"net_tap0,iface=t0\"", 1).replacen(
        "device = \"ring:0\"",
        "device = \"net_null0\"",
        1,
    )
}

#[test]
fn routers_and_neighbours() {
    let ip = |prefix: &str, more: &str| {
        asking(more, "").replacen("198.18.0.1\"", &format!("198.18.0.1{prefix}\""), 1)
    };
    let list = "neighbours = [\"198.18.0.254=02:00:00:00:00:fe\", \"198.18.0.7 = 02:00:00:00:00:07\"]";
    let table =
        "neighbours = { \"198.18.0.254\" = \"02:00:00:00:00:fe\", \"198.18.0.7\" = \"02:00:00:00:00:07\" }";
    for neighbours in [list, table] {
        let s = parse(&ip("/24", &format!("gateway = \"198.18.0.254\"\n{neighbours}"))).unwrap();
        let port = &s.ports[0];
        assert_eq!((port.prefix, port.gateway), (Some(24), Some("198.18.0.254".parse().unwrap())));
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        let want = [("198.18.0.254".parse().unwrap(), mac(0xfe)), ("198.18.0.7".parse().unwrap(), mac(7))];
        assert_eq!(port.neighbours, want);
        assert!(port.is_near("198.18.0.9".parse().unwrap()) && !port.is_near("198.18.1.9".parse().unwrap()));
        assert!(s.ports[1].is_near("198.18.1.9".parse().unwrap()), "without a prefix length");
    }
    let error = |prefix: &str, more: &str| error(&ip(prefix, more));
    insta::assert_snapshot!(error("/33", ""), @r#"x.toml:9: port "a": key "ip": "198.18.0.1/33": a prefix length is 1 to 32, as in "198.18.0.1/24""#);
    insta::assert_snapshot!(error("", "gateway = \"198.18.0.254\""), @r#"x.toml:10: port "a": keys "ip" (line 9) and "gateway": which addresses are behind it? Write ip = "198.18.0.1/24""#);
    insta::assert_snapshot!(error("/24", "gateway = \"198.18.1.254\""), @r#"x.toml:10: port "a": keys "ip" (line 9) and "gateway": the router is another address in the port's own subnet"#);
    insta::assert_snapshot!(error("/24", "gateway = \"198.18.0.254/24\""), @r#"x.toml:10: port "a": key "gateway": "198.18.0.254/24": no prefix length here: write "198.18.0.254""#);
    insta::assert_snapshot!(error("/24", "gateway = \"198.18.0.254\"\nnext_hop_mac = \"02:00:00:00:00:fe\""), @r#"x.toml:11: port "a": keys "gateway" (line 10) and "next_hop_mac": both say where frames go: take one of them out"#);
    insta::assert_snapshot!(error("", "neighbours = [\"198.18.0.2\"]"), @r#"x.toml:10: port "a": key "neighbours": ["198.18.0.2"]: "198.18.0.2" is not ADDRESS=MAC, as in "198.18.0.2=02:00:00:00:00:02""#);
    insta::assert_snapshot!(error("", "neighbours = [\"198.18.0.2=02:00:00:00:00\"]"), @r#"x.toml:10: port "a": key "neighbours": ["198.18.0.2=02:00:00:00:00"]: "198.18.0.2=02:00:00:00:00" is not ADDRESS=MAC, as in "198.18.0.2=02:00:00:00:00:02""#);
    insta::assert_snapshot!(error("", "neighbours = [\"fd00::1=02:00:00:00:00:02\"]"), @r#"x.toml:10: port "a": key "neighbours": ["fd00::1=02:00:00:00:00:02"]: fd00::1 is of another family than "ip""#);
    insta::assert_snapshot!(error("", "neighbours = \"198.18.0.2\""), @r#"x.toml:10: port "a": key "neighbours": "198.18.0.2": must be a list of texts, or a table of them"#);
    insta::assert_snapshot!(error("", "neighbors = []"), @r#"x.toml:10: unknown key "neighbors" in [[port]]; did you mean "neighbours"?"#);
    insta::assert_snapshot!(port_error("neighbours = [\"198.18.0.1=02:00:00:00:00:01\"]"), @r#"x.toml:15: port "b": key "neighbours": ["198.18.0.1=02:00:00:00:00:01"]: has no meaning: ring:0 has no neighbours to ask, as network cards, net_tap, net_af_packet, net_af_xdp and net_memif have"#);
}

#[test]
fn other_machines() {
    let to = |address: &str, more: &str| {
        asking("", more).replacen("to = \"b\"", &format!("to = \"{address}\""), 1)
    };
    let s = parse(&to("198.18.0.9", "connect = \"perftest\"\noob = \"server\"\nservice = 7000")).unwrap();
    let want = Dial { by: DialBy::Perftest, oob: Some("server".into()), service: 7000 };
    assert_eq!((s.flows[0].dial.as_ref(), s.flows[0].to), (Some(&want), 2));
    assert_eq!((s.ports[2].name.as_str(), &s.ports[2].device), ("198.18.0.9", &Device::Peer));
    let two = to(
        "198.18.0.9",
        "connect = \"cm\"\n[[flow]]\nname = \"x\"\nfrom = \"a\"\nto = \"198.18.0.9\"\nconnect = \"perftest\"\nverb = \"read\"\nsize = 8",
    );
    assert_eq!(parse(&two).unwrap().ports.len(), 3, "one machine");
    let error = |address: &str, more: &str| error(&to(address, more));
    insta::assert_snapshot!(error("198.18.0.9", ""), @r#"x.toml:20: flow "single": key "to": "198.18.0.9": an address is another machine's, and how is that met? Add connect = "perftest" or "cm", or write the name of a port"#);
    insta::assert_snapshot!(error("b", "connect = \"cm\""), @r#"x.toml:20: flow "single": key "to": "b": is a port of this scenario, which knows its queue pairs: take "connect" out, or name another machine by its address, as in to = "198.18.0.9""#);
    insta::assert_snapshot!(error("server", "connect = \"cm\""), @r#"x.toml:20: flow "single": key "to": "server": with "connect" it is the address of another machine, as in to = "198.18.0.9""#);
    insta::assert_snapshot!(error("198.18.0.2", "connect = \"cm\""), @r#"x.toml:20: flow "single": key "to": "198.18.0.2": is port "b" of this scenario: write its name, and no "connect""#);
    insta::assert_snapshot!(error("2001:2::9", "connect = \"cm\""), @r#"x.toml:20: flow "single": keys "from" (line 19) and "to": ports of two address families: a has 198.18.0.1, 2001:2::9 has 2001:2::9"#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"ssh\""), @r#"x.toml:23: flow "single": key "connect": "ssh": must be one of "perftest", "cm""#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"cm\"\noob = \"198.18.0.3\""), @r#"x.toml:24: flow "single": keys "connect" (line 23) and "oob": the connection manager is met at "to""#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"perftest\"\noob = \"server:18515\""), @r#"x.toml:24: flow "single": key "oob": "server:18515": must be the address or the name of the machine's kernel, without port and brackets"#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"perftest\"\noob = \"[2001:2::3]\""), @r#"x.toml:24: flow "single": key "oob": "[2001:2::3]": must be the address or the name of the machine's kernel, without port and brackets"#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"perftest\"\noob = 1.5"), @r#"x.toml:24: flow "single": key "oob": 1.5: must be text in quotes"#);
    insta::assert_snapshot!(error("b", "service = 18515"), @r#"x.toml:23: flow "single": key "service": 18515: belongs to connect = "perftest" or "cm", which is missing"#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"cm\"\nservice = 0"), @r#"x.toml:24: flow "single": key "service": 0: must be a whole number from 1 to 65535"#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"cm\"\nverify = true"), @r#"x.toml:24: flow "single": keys "connect" (line 23) and "verify": nobody checks there, nor knows what this side expects to read"#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"cm\"\ntransport = \"uc\""), @r#"x.toml:24: flow "single": keys "connect" (line 23) and "transport": other machines are met on transport = "rc" only"#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"cm\"\npsn = 5"), @r#"x.toml:24: flow "single": keys "connect" (line 23) and "psn": the called side says where the caller begins"#);
    insta::assert_snapshot!(error("198.18.0.9", "connect = \"cm\"\npattern = \"incast\""), @r#"x.toml:24: flow "single": keys "connect" (line 23) and "pattern": another machine is the end of one flow, not of a pattern"#);
    let cm = two.replace("\"perftest\"", "\"cm\"");
    insta::assert_snapshot!(super::tests::error(&cm), @r#"x.toml:28: flow "x": key "connect": flow "single" leaves port "a" by the connection manager as well, and one flow of a port may: give one of them more "qps", or connect = "perftest""#);
    let ring = to("198.18.0.9", "connect = \"cm\"").replace("net_tap0,iface=t0", "net_null1");
    insta::assert_snapshot!(super::tests::error(&ring), @r#"x.toml:23: flow "single": keys "from" (line 19) and "connect": port "a" (net_null1) reaches no other machine: use a network card, net_tap, net_af_packet, net_af_xdp or net_memif"#);
    let s = parse(&to("198.18.0.9", "connect = \"cm\"")).unwrap();
    insta::assert_snapshot!(no_machines(&s).unwrap_err(), @r#"x.toml:23: flow "single": key "connect": other machines do not exist in virtual time: rocegen run"#);
}

#[test]
fn path_mtu() {
    let mtu = |l3: u16| parse(&pair("", "", &format!("mtu = {l3}"), "")).unwrap().flows[0].mtu.bytes();
    assert_eq!([340, 576, 1500, 4159, 4160, 9000].map(mtu), [256, 512, 1024, 2048, 4096, 4096]);
    insta::assert_snapshot!(error(&pair("", "", "mtu = 1500", "mtu = 4096")), @r#"x.toml:23: flow "single": key "mtu": 4096: packets of up to 4160 B do not fit port "b" of MTU 1500; of 256, 512, 1024, 2048, 4096 it carries at most 1024"#);
    let v6 = pair("", "mtu = 4179", "", "mtu = 4096").replace("198.18.0.", "fd00::");
    insta::assert_snapshot!(error(&v6), @r#"x.toml:23: flow "single": key "mtu": 4096: packets of up to 4180 B do not fit port "a" of MTU 4179; of 256, 512, 1024, 2048, 4096 it carries at most 2048"#);
    let narrow = pair("", "mtu = 345", "", "").replace("198.18.0.", "fd00::");
    assert_eq!(parse(&narrow.replace("345", "340")).unwrap().flows[0].mtu, Mtu::B256);
    insta::assert_snapshot!(error(&narrow.replace("345", "339")), @r#"x.toml:10: port "a": key "mtu": 339: must be a whole number from 340 to 65535"#);
    let tap = pair("", "", "", "mtu = 4096")
        .replacen("ring:0", "net_tap0,iface=dtap0", 1)
        .replacen("ring:0", "net_tap1", 1);
    insta::assert_snapshot!(error(&tap), @r#"x.toml:23: flow "single": key "mtu": 4096: packets of up to 4160 B do not fit port "a" of MTU 1500; of 256, 512, 1024, 2048, 4096 it carries at most 1024"#);
    let framesz = "device = \"net_af_packet0,iface=e1,framesz=2048\"\nmtu = 4200";
    insta::assert_snapshot!(with_error("device = \"ring:0\"", framesz), @r#"x.toml:9: port "a": key "mtu": 4200: must be at most 1968 with framesz=2048 in "device""#);
}

#[test]
fn ends_of_flows() {
    insta::assert_snapshot!(with_error("to = \"b\"", "to = \"a\""), @r#"x.toml:20: flow "single": key "to": "a": is the port that "from" names; a flow joins two ports"#);
    let other = "[[port]]\nname = \"c\"\ndevice = \"ring:1\"\nip = \"198.18.0.3\"\n[[port]]\nname = \"d\"\ndevice = \"ring:1\"\nip = \"198.18.0.4\"\n";
    let crossed = pair("", "", "", other).replace("to = \"b\"", "to = \"c\"");
    insta::assert_snapshot!(error(&crossed), @r#"x.toml:20: flow "single": key "to": no frame gets from port "a" (ring:0) to port "c" (ring:1)"#);
    insta::assert_snapshot!(error(&pair("", "roce = \"v1\"", "", "")), @r#"x.toml:20: flow "single": key "to": ports "a" and "b" speak different versions of RoCE: give both the same "roce""#);
    insta::assert_snapshot!(port_error("roce = \"v3\""), @r#"x.toml:15: port "b": key "roce": "v3": must be one of "v1", "v2"; did you mean "v1"?"#);
    insta::assert_snapshot!(error(&pair("", "vlan = 5", "", "")), @r#"x.toml:20: flow "single": key "to": the ports do not hear each other: "a" is in VLAN 5, "b" is untagged"#);
}

#[test]
fn reads_need_rc() {
    let read = pair("", "", "", "transport = \"uc\"").replace("\"write\"", "\"read\"");
    insta::assert_snapshot!(error(&read), @r#"x.toml:23: flow "single": keys "verb" (line 21) and "transport": READ needs transport = "rc""#);
}

/// A port on net_null and a peer that is no one.
fn null(flow: &str) -> String {
    pair("", "", "", flow)
        .replacen("ring:0", "net_null0,no-rx=1", 1)
        .replacen("ring:0", "none", 1)
        .replace("ip = \"198.18.0.2\"", "ip = \"198.18.0.2\"\nmac = \"02:00:00:00:00:02\"")
}

#[test]
fn peers_that_are_no_one() {
    assert!(parse(&null("transport = \"uc\"")).is_ok());
    insta::assert_snapshot!(error(&null("")), @r#"x.toml:21: flow "single": key "to": port "b" is no one (device "none") and never acknowledges: write transport = "uc""#);
    insta::assert_snapshot!(error(&null("transport = \"uc\"\nverify = true")), @r#"x.toml:25: flow "single": key "verify": port "b" is no one: nothing is checked"#);
    insta::assert_snapshot!(error(&null("").replace("from = \"a\"", "from = \"b\"").replace("to = \"b\"", "to = \"a\"")), @r#"x.toml:20: flow "single": key "from": port "b" is no one (device "none"): it cannot send"#);
    insta::assert_snapshot!(error(&null("").replace("mac = \"02:00:00:00:00:02\"", "")), @r#"x.toml:11: port "b": device "none" answers no one: give its "mac", as in mac = "02:00:00:00:00:02""#);
    insta::assert_snapshot!(error(&null("").replace("mac = ", "cores = [1]\nmac = ")), @r#"x.toml:15: port "b": key "cores": [1]: has no meaning: device = "none" is not driven from here"#);
}

/// Single flow of another verb and transport.
fn sends(flow: &str) -> String {
    pair("", "", "", flow)
        .replace("verb = \"write\"", "verb = \"send\"")
        .replace("size = \"1MiB\"", "size = 1024")
}

#[test]
fn datagrams() {
    let s = parse(&sends("transport = \"ud\"\nmtu = 1024")).unwrap();
    assert_eq!((s.flows[0].transport, s.flows[0].transport.as_str()), (Transport::Ud, "ud"));
    assert!(!s.flows[0].transport.is_reliable());
    insta::assert_snapshot!(flow_error("transport = \"ud\""), @r#"x.toml:23: flow "single": keys "verb" (line 21) and "transport": datagrams are sent: write verb = "send" or "send_imm""#);
    insta::assert_snapshot!(error(&sends("transport = \"ud\"\nmtu = 512")), @r#"x.toml:22: flow "single": key "size": 1024: a datagram is one packet: at most 512 bytes, the path MTU"#);
    insta::assert_snapshot!(error(&sends("transport = \"ud\"\nverify = true").replace("size = 1024", "size = 7")), @r#"x.toml:24: flow "single": key "verify": true: messages of less than 8 bytes cannot be told apart where some may be lost"#);
    insta::assert_snapshot!(error(&sends("transport = \"rd\"")), @r#"x.toml:23: flow "single": key "transport": "rd": must be one of "rc", "uc", "ud"; did you mean "rc"?"#);
}

#[test]
fn receive_requests() {
    let srq = |flow: &str| parse(&sends(flow)).unwrap().flows[0].srq;
    assert_eq!(srq(""), None);
    assert_eq!(srq("srq = false"), None);
    assert_eq!(srq("srq = true\nqps = 3\ndepth = 5"), Some(15));
    assert_eq!(srq("srq = true\nqps = 3\ndepth = 5\ntransport = \"ud\""), Some(192), "room for bursts");
    assert_eq!(srq("srq = 15\nqps = 3\ndepth = 5"), Some(15));
    insta::assert_snapshot!(error(&sends("srq = 16\nqps = 3\ndepth = 5")), @r#"x.toml:23: flow "single": key "srq": 16: more than the 15 receive requests that its queue pairs would have apart"#);
    insta::assert_snapshot!(error(&sends("srq = 0")), @r#"x.toml:23: flow "single": key "srq": 0: must be true, false or a number of requests, at least 1"#);
    insta::assert_snapshot!(error(&sends("srq = \"yes\"")), @r#"x.toml:23: flow "single": key "srq": "yes": must be true, false or a number of requests, at least 1"#);
    insta::assert_snapshot!(flow_error("srq = true"), @r#"x.toml:23: flow "single": keys "verb" (line 21) and "srq": "write" takes no receive requests"#);
    assert!(parse(&sends("credits = true")).unwrap().flows[0].credits);
    assert!(!parse(&sends("credits = false\nsrq = 1")).unwrap().flows[0].credits);
    insta::assert_snapshot!(error(&sends("credits = true\nsrq = 1")), @r#"x.toml:24: flow "single": keys "credits" (line 23) and "srq": receive requests that are shared are promised to nobody"#);
    insta::assert_snapshot!(error(&sends("credits = true\ntransport = \"uc\"")), @r#"x.toml:24: flow "single": keys "credits" (line 23) and "transport": credits come with acknowledgements"#);
    insta::assert_snapshot!(flow_error("credits = true"), @r#"x.toml:23: flow "single": keys "verb" (line 21) and "credits": "write" takes no receive requests"#);
    insta::assert_snapshot!(error(&sends("credits = 3")), @r#"x.toml:23: flow "single": key "credits": 3: must be true or false"#);
}

/// Two processes: this one has port a.
fn remote(connect: &str) -> String {
    format!(
        "{}{connect}",
        pair("", "", "", "").replacen("ring:0", "0000:3b:00.0", 1).replacen("ring:0", "remote", 1)
    )
}

#[test]
fn two_processes() {
    let s = parse(&remote("[connect]\npeer = \"server:7471\"")).unwrap();
    assert_eq!(
        s.connect,
        Some(Connect { role: Role::Peer("server:7471".into()), timeout: Duration::from_secs(30) })
    );
    let s = parse(&remote("[connect]\nlisten = \"0.0.0.0:7471\"\ntimeout = \"5s\"")).unwrap();
    let listen = Role::Listen("0.0.0.0:7471".parse().unwrap());
    assert_eq!(s.connect, Some(Connect { role: listen, timeout: Duration::from_secs(5) }));
    insta::assert_snapshot!(error(&remote("")), @r#"x.toml:13: port "b": key "device": a remote port is met through [connect]: add listen = "0.0.0.0:7471" or peer = "server:7471" there"#);
    insta::assert_snapshot!(error(&remote("[connect]")), @r#"x.toml:24: [connect]: one of listen = "0.0.0.0:7471" and peer = "server:7471" is missing"#);
    insta::assert_snapshot!(error(&remote("[connect]\nlisten = \"0.0.0.0:1\"\npeer = \"x:1\"")), @r#"x.toml:26: [connect]: keys "listen" (line 25) and "peer": one side listens, the other names it as its peer"#);
    insta::assert_snapshot!(error(&remote("[connect]\npeer = \"x\"")), @r#"x.toml:25: [connect]: key "peer": "x": must be a host and a TCP port, as in "server:7471" or "[fd00::1]:7471""#);
    insta::assert_snapshot!(error(&remote("[connect]\nlisten = \"7471\"")), @r#"x.toml:25: [connect]: key "listen": "7471": must be an address and a TCP port, as in "0.0.0.0:7471""#);
    insta::assert_snapshot!(flow_error("[connect]\npeer = \"x:1\""), @r#"x.toml:23: [connect]: no port has device = "remote""#);
    let neither = remote("[connect]\npeer = \"x:1\"").replacen("0000:3b:00.0", "remote", 1);
    insta::assert_snapshot!(error(&neither), @r#"x.toml:20: flow "single": key "to": ports "a" and "b" are both not driven from here"#);
}

#[test]
fn the_run_ends() {
    let endless = pair("", "", "", "").replace("duration = \"1s\"\n", "");
    insta::assert_snapshot!(error(&endless), @r#"x.toml:3: the run has no end: give [run] a "duration", or flow "single" and all others "messages""#);
    assert!(parse(&pair("", "", "", "messages = 5").replace("duration = \"1s\"\n", "")).is_ok());
    assert!(parse(&pair("", "", "", "messages = 5")).is_ok());
}

#[test]
fn whole_files() {
    insta::assert_snapshot!(error(""), @"x.toml: there is no [[port]]: a flow needs two");
    insta::assert_snapshot!(error("[[port]]\nname = \"a\"\ndevice = \"net_null0\"\nip = \"198.18.0.1\""), @"x.toml: there is no [[flow]]: nothing to do");
    insta::assert_snapshot!(error("[flow]\nname = \"a\""), @r#"x.toml:1: there may be several of "flow": write [[flow]], with two brackets"#);
    insta::assert_snapshot!(error("[[run]]\nseed = 1"), @r#"x.toml:1: "run" is one section: write [run], once"#);
    let twice = "[[flow]]\nname = \"single\"\nfrom = \"b\"\nto = \"a\"\nverb = \"read\"\nsize = 8";
    insta::assert_snapshot!(flow_error(twice), @r#"x.toml:24: flow "single": key "name": another flow has this name (line 18)"#);
    let missing = Scenario::load(Path::new("/nonexistent/x.toml"), &[]).unwrap_err();
    insta::assert_snapshot!(missing, @"/nonexistent/x.toml: no such file");
    insta::assert_snapshot!(Scenario::load(Path::new("/"), &[]).unwrap_err(), @"/: a directory, not a scenario file");
}

#[test]
fn expectations() {
    insta::assert_snapshot!(flow_error("[[expect]]\nflow = \"singel\"\nmessages = \"> 0\""), @r#"x.toml:24: [[expect]] number 1: key "flow": "singel": no such flow; did you mean "single"?"#);
    insta::assert_snapshot!(flow_error("[[expect]]\nflow = \"single\""), @"x.toml:23: [[expect]] number 1: expects nothing: name a metric, as in messages_failed = \"== 0\"");
    insta::assert_snapshot!(flow_error("[[expect]]\nmessages_failed = 0"), @r#"x.toml:24: [[expect]] number 1: key "messages_failed": 0: a comparison is missing; write "== 0", ">= 0" or another of <= != > <"#);
    insta::assert_snapshot!(flow_error("[[expect]]\nline_rate_pct = \">= 98\""), @r#"x.toml:24: [[expect]]: key "line_rate_pct": a share of what? Port "a" (ring:0) has no speed of its own: add line_rate = "100Gbps" to [run]"#);
    insta::assert_snapshot!(flow_error("[[expect]]\ncounters.out_of_seqence = \"== 1\""), @r#"x.toml:24: unknown counter "out_of_seqence" in [[expect]]; did you mean "out_of_sequence"?"#);
    insta::assert_snapshot!(flow_error("[[expect]]\nflow = \"single\"\ncounters.malformed = \"== 1\""), @r#"x.toml:25: counter "malformed" is one of ports: leave "flow" out of this [[expect]]"#);
    assert!(parse(&pair("", "", "", "[[expect]]\ncounters.malformed = \"== 0\"")).is_ok());
    insta::assert_snapshot!(flow_error("[[expect]]\ncounters.acks_sent = \"1\""), @r#"x.toml:24: [[expect]] counters: key "acks_sent": "1": a comparison is missing; write "== 1", ">= 1" or another of <= != > <"#);
}

#[test]
fn options_are_blamed_for_what_they_set() {
    let error = |change: &str| {
        let changes = [change.parse().unwrap()];
        Scenario::parse(Path::new("x.toml"), &pair("", "", "", ""), &changes).unwrap_err().to_string()
    };
    insta::assert_snapshot!(error("flow.single.qps=4x"), @r#"--set flow.single.qps=4x: flow "single": key "qps": "4x": must be a whole number from 1 to 16384"#);
    insta::assert_snapshot!(error("flow.single.depht=4"), @r#"--set flow.single.depht=4: unknown key "depht" in [[flow]]; did you mean "depth"?"#);
    insta::assert_snapshot!(error("port.b.ip=198.18.0.1"), @r#"--set port.b.ip=198.18.0.1: port "b": key "ip": port "a" has 198.18.0.1 as well (line 9)"#);
    insta::assert_snapshot!(error("port.a.ip=198.18.0.2"), @r#"x.toml:14: port "b": key "ip": port "a" has 198.18.0.2 as well (--set port.a.ip=198.18.0.2)"#);
    insta::assert_snapshot!(error("connect.peer=x:1"), @r#"--set connect.peer=x:1: [connect]: no port has device = "remote""#);
    insta::assert_snapshot!(error("connect.pear=x:1"), @r#"--set connect.pear=x:1: unknown key "pear" in [connect]; did you mean "peer"?"#);
    insta::assert_snapshot!(error("flow.single.mtu=1500"), @r#"--set flow.single.mtu=1500: flow "single": key "mtu": 1500: a path MTU is one of 256, 512, 1024, 2048, 4096"#);
    let changes = ["run.duration=3s".parse().unwrap(), "flow.single.size=8".parse().unwrap()];
    let s = Scenario::parse(Path::new("x.toml"), &pair("", "", "", ""), &changes).unwrap();
    assert_eq!((s.run.duration, s.flows[0].size), (Some(Duration::from_secs(3)), 8));
    assert!(s.text.contains("duration = \"3s\" # --set"));
}

/// A small generator: the same damage on every machine.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

#[test]
fn damaged_files_are_one_line_or_right() {
    let good = pair(
        "line_rate = \"100Gbps\"",
        "mac = \"02:00:00:00:00:01\"",
        "cores = [1]",
        "rate = \"98%\"\n[[expect]]\nmessages = \"> 0\"",
    );
    let bits = [
        "\"",
        "[",
        "]",
        "=",
        "\n",
        "{",
        "}",
        ".",
        "-1",
        "0x",
        "1e99",
        "\u{e9}",
        "#",
        "'",
        "\u{0}",
        "[[flow]]\n",
        ", ",
    ];
    let mut random = Lcg(1);
    for _ in 0..20_000 {
        let mut text: Vec<char> = good.chars().collect();
        for _ in 0..1 + random.below(3) {
            let at = random.below(text.len());
            let until = (at + random.below(6)).min(text.len());
            let bit = bits[random.below(bits.len())].chars();
            text.splice(at..until, bit);
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = parse(&text) {
            let line = error.to_string();
            assert!(!line.contains('\n') && line.starts_with("x.toml"), "{line:?} of:\n{text}");
        }
    }
}

#[test]
fn odd_options_are_one_line_or_right() {
    let good = pair("", "cores = [0]", "", "[[expect]]\nmessages = \"> 0\"");
    let keys = [
        "run", "port", "flow", "expect", "connect", "0", "1", "a", "single", "cores", "size", "counters",
        "\"x y\"", "name", "x",
    ];
    let values =
        ["1", "[]", "{}", "{a=1}", "\"x\"", "", "[0]", "[{}]", "true", "1.5", "a\nb", "# c", "2020-01-01"];
    let mut random = Lcg(2);
    for _ in 0..20_000 {
        let path: Vec<_> = (0..1 + random.below(4)).map(|_| keys[random.below(keys.len())]).collect();
        let text = format!("{}={}", path.join("."), values[random.below(values.len())]);
        let changes = [text.parse().unwrap()];
        if let Err(error) = Scenario::parse(Path::new("x.toml"), &good, &changes) {
            let line = error.to_string();
            assert!(!line.contains('\n'), "{line:?}");
            assert!(!line.contains("not TOML"), "{line:?}");
        }
    }
}
