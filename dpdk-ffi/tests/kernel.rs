//! Ports that end in the kernel's network, within a network namespace of
//! their own, and ports that end in files.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use arrayvec::ArrayVec;
use common::{ROLE, finish, spawn};
use dpdk_ffi::{Eal, EalConfig, Hugepages, Mbuf, Mempool, Port, PortConfig, PortError, RxQueue, TxQueue};

/// Longer than any MTU that net_af_packet lets be set.
const JUMBO: usize = 4178;
const PATTERN: u8 = 0xC3;

/// The process that the other tests start.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let cfg = EalConfig { hugepages: Hugepages::Never, memory_mib: 64, ..EalConfig::default() };
    let eal = Eal::init(&cfg).expect("EAL");
    match role.as_str() {
        "veth" => veth(&eal),
        "tap" => tap(&eal),
        "segments" => segments(&eal),
        other => panic!("role {other}"),
    }
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().expect("ip");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

fn open(eal: &Eal, devargs: &str, pool: &Mempool) -> (Port, RxQueue, TxQueue) {
    let id = eal.attach(devargs).expect(devargs);
    let mut port =
        Port::configure(eal, id, &PortConfig::default(), std::slice::from_ref(pool)).expect(devargs);
    port.start().expect(devargs);
    let (rx, tx) = port.take_queue(0).expect("queue");
    (port, rx, tx)
}

fn frame(pool: &Mempool, len: usize, tagged: Option<u16>) -> ArrayVec<Mbuf, 1> {
    let mut batch = ArrayVec::new();
    assert_eq!(pool.alloc_bulk(&mut batch, 1), 1);
    let room = &mut batch[0].room_mut()[..len];
    room.fill(PATTERN);
    room[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    match tagged {
        Some(tci) => {
            room[12..14].copy_from_slice(&[0x81, 0x00]);
            room[14..16].copy_from_slice(&tci.to_be_bytes());
            room[16..18].copy_from_slice(&[0x88, 0xB5]);
        }
        None => room[12..14].copy_from_slice(&[0x88, 0xB5]),
    }
    batch[0].set_len(len);
    batch
}

/// Waits for the next frame that `wanted` accepts.
fn wait_for(rx: &mut RxQueue, wanted: impl Fn(&Mbuf) -> bool) -> Mbuf {
    for _ in 0..5000 {
        let mut batch = ArrayVec::<Mbuf, 1>::new();
        if rx.recv(&mut batch) == 1 && wanted(&batch[0]) {
            return batch.remove(0);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no frame after 5 s");
}

/// Waits for the next frame of the tests; the kernel sends some of its own.
fn next(rx: &mut RxQueue) -> Mbuf {
    wait_for(rx, |frame| frame.data()[..6] == [2, 0, 0, 0, 0, 2])
}

fn veth(eal: &Eal) {
    ip("link add va type veth peer name vb");
    for end in ["va", "vb"] {
        ip(&format!("link set {end} mtu 9000 up"));
    }
    let pool = Mempool::create(eal, "veth", 2047, 64, 8192, None, None).expect("pool");
    let args = "blocksz=65536,framesz=8192,framecnt=256,qpairs=1";
    let (a, _, mut tx) = open(eal, &format!("net_af_packet0,iface=va,{args}"), &pool);
    let (b, mut rx, _) = open(eal, &format!("net_af_packet1,iface=vb,{args}"), &pool);
    assert_eq!(a.info().driver, "net_af_packet");
    assert!(a.wait_link(Duration::from_secs(2)).expect("link").up);
    for len in [60, 1514, JUMBO] {
        let mut batch = frame(&pool, len, None);
        assert_eq!(tx.send(&mut batch), 1);
        let got = next(&mut rx);
        assert!(got.is_contiguous());
        assert_eq!((got.pkt_len(), got.data()[len - 1]), (len, PATTERN));
        assert_eq!(got.vlan_stripped(), None);
    }
    // The kernel takes the tag off, whatever is asked for.
    let mut batch = frame(&pool, 100, Some(0x6005));
    assert_eq!(tx.send(&mut batch), 1);
    let got = next(&mut rx);
    assert_eq!((got.pkt_len(), got.vlan_stripped()), (96, Some(0x6005)));
    assert_eq!(got.data()[12..14], [0x88, 0xB5]);
    drop((got, a, b, rx, tx));
    assert_eq!(pool.available(), pool.count());

    // Such frames pass although their MTU cannot be set.
    let id = eal.attach(&format!("net_af_packet0,iface=va,{args}")).expect("again");
    let cfg = PortConfig { mtu: Some(4200), ..PortConfig::default() };
    let error = Port::configure(eal, id, &cfg, std::slice::from_ref(&pool)).expect_err("MTU");
    assert!(matches!(error, PortError::MtuUnsupported { wanted: 4200, .. }), "{error}");
    println!("af_packet says: {error}");
}

fn tap(eal: &Eal) {
    let pool = Mempool::create(eal, "tap", 4095, 64, 2048, None, None).expect("pool");
    let devargs = "net_tap0,iface=rgtap0,mac=02:00:00:00:00:01";
    let mut id = eal.attach(devargs).expect("tap");
    let with = |mtu| PortConfig { mtu: Some(mtu), ..PortConfig::default() };
    match Port::configure(eal, id, &with(4200), std::slice::from_ref(&pool)) {
        // DPDK 22.11; the port is as it was.
        Err(error) => {
            assert!(matches!(error, PortError::MtuUnsupported { wanted: 4200, .. }), "{error}");
            println!("tap says: {error}");
        }
        // DPDK 24.11.
        Ok(port) => {
            assert_eq!(port.mtu(), 4200);
            drop(port);
            id = eal.attach(devargs).expect("tap again");
        }
    }
    let mut port = Port::configure(eal, id, &with(1400), std::slice::from_ref(&pool)).expect("tap");
    assert_eq!((port.mtu(), port.mac()), (1400, [2, 0, 0, 0, 0, 1]));
    port.set_mac([2, 0, 0, 0, 0, 9]).expect("address");
    assert_eq!(port.mac(), [2, 0, 0, 0, 0, 9]);
    port.start().expect("start");
    assert!(port.wait_link(Duration::from_secs(2)).expect("link").up);
    let there = || std::fs::read_to_string("/proc/net/dev").expect("devices").contains("rgtap0");
    assert!(there());
    // The kernel answers for the address at its end.
    ip("addr add 198.18.0.1/24 dev rgtap0");
    let (mut rx, mut tx) = port.take_queue(0).expect("queue");
    let mut batch = frame(&pool, 60, None);
    batch[0].data_mut()[..42].copy_from_slice(&[
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0,
        0, 2, 198, 18, 0, 2, 0, 0, 0, 0, 0, 0, 198, 18, 0, 1,
    ]);
    assert_eq!(tx.send(&mut batch), 1);
    let answer = next(&mut rx);
    assert_eq!(answer.data()[12..14], [0x08, 0x06]);
    assert_eq!(answer.data()[22..32], [2, 0, 0, 0, 0, 9, 198, 18, 0, 1]);
    drop((answer, rx, tx, port));
    assert_eq!(pool.available(), pool.count());
    assert!(!there(), "gone with its port");
}

/// A captured frame that is longer than a buffer arrives as a chain.
fn segments(eal: &Eal) {
    let dir = std::env::temp_dir().join(format!("dpdk-ffi-pcap-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("directory");
    let file = dir.join("in.pcap");
    let content: Vec<u8> = (0..3000u32).map(|i| (i % 251) as u8).collect();
    let mut capture = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1, 0, 0, 3000, 3000] {
        capture.extend(word.to_le_bytes());
    }
    capture.extend(&content);
    std::fs::write(&file, capture).expect("file");
    let pool = Mempool::create(eal, "segments", 2047, 64, 1024, None, None).expect("pool");
    let devargs = format!("net_pcap0,rx_pcap={},tx_pcap={}", file.display(), dir.join("out.pcap").display());
    let (port, mut rx, tx) = open(eal, &devargs, &pool);
    let mut frame = wait_for(&mut rx, |_| true);
    assert!(!frame.is_contiguous());
    assert_eq!((frame.pkt_len(), frame.data()), (3000, &content[..1024]));
    let mut copy = [0; 4000];
    assert_eq!(frame.copy_to(&mut copy), 3000);
    assert_eq!(copy[..3000], content);
    assert_eq!(frame.copy_to(&mut copy[..1500]), 1500);
    assert!(frame.linearize().is_err(), "3000 B do not fit in one buffer");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| frame.set_len(5))).is_err());
    assert_eq!(frame.pkt_len(), 3000);
    drop((frame, port, rx, tx));
    assert_eq!(pool.available(), pool.count(), "chains go back whole");
    std::fs::remove_dir_all(&dir).expect("remove");
}

/// The command that gives a role a network of its own, if that is allowed here.
fn in_a_namespace(role: &str) {
    let exe = std::env::current_exe().expect("path");
    let ways: [&[&str]; 2] = [&["unshare", "--net"], &["unshare", "--user", "--map-root-user", "--net"]];
    let works = |way: &&[&str]| {
        let probe = "ip link add probe0 type veth peer name probe1 && test -w /dev/net/tun";
        Command::new(way[0])
            .args(&way[1..])
            .args(["sh", "-c", probe])
            .output()
            .is_ok_and(|o| o.status.success())
    };
    let Some(way) = ways.iter().find(|way| works(way)) else {
        println!("skipped: no right to make network namespaces and devices");
        return;
    };
    let output = finish(spawn(&exe, role, way));
    for line in String::from_utf8_lossy(&output.stdout).lines().filter(|l| l.contains("says")) {
        println!("{line}");
    }
}

#[test]
fn frames_pass_a_veth_pair() {
    in_a_namespace("veth");
}

#[test]
fn a_tap_talks_with_the_kernel() {
    in_a_namespace("tap");
}

#[test]
fn long_frames_arrive_in_segments() {
    let exe = std::env::current_exe().expect("path");
    finish(spawn(Path::new(&exe), "segments", &[]));
}
