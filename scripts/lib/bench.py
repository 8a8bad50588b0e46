"""The measuring part of scripts/bench: the limits of one core, then rocegen's runs.

Python standard library only.  Called by scripts/bench with the project's directory and the
rocegen binary before the options.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import shutil
import signal
import subprocess
import sys
import threading
from time import sleep

BEGIN = "<!-- scripts/bench --markdown: begin -->"
END = "<!-- scripts/bench --markdown: end -->"

LOOPBACK = "configs/loopback.toml"
# Before the span of a run.
WARMUP = "150ms"
# name, what it is, scenario, changes to it, payload of the packets whose limit it is set beside
RUNS = [
    ("write-verified", "WRITE 1 MiB, MTU 4096, verified", LOOPBACK, [], 4096),
    ("write", "WRITE 1 MiB, MTU 4096", LOOPBACK, ["flow.single.verify=false"], 4096),
    (
        "write-mtu1024",
        "WRITE 1 MiB, MTU 1024",
        LOOPBACK,
        ["flow.single.verify=false", "flow.single.mtu=1024"],
        1024,
    ),
    (
        "write-64k",
        "WRITE 64 KiB, MTU 4096",
        LOOPBACK,
        ["flow.single.verify=false", "flow.single.size=64KiB"],
        4096,
    ),
    ("read", "READ 1 MiB, MTU 4096", LOOPBACK, ["flow.single.verify=false", "flow.single.verb=read"], 4096),
    ("send", "SEND 1 MiB, MTU 4096", LOOPBACK, ["flow.single.verify=false", "flow.single.verb=send"], 4096),
    (
        "write-64b",
        "WRITE 64 B, depth 128",
        LOOPBACK,
        ["flow.single.verify=false", "flow.single.size=64", "flow.single.depth=128"],
        None,
    ),
    *(
        (
            f"qps-{qps}" if depth == 16 else f"qps-{qps}-depth-{depth}",
            f"WRITE 64 B, {qps} QPs, depth {depth}",
            LOOPBACK,
            ["flow.single.verify=false", "flow.single.size=64", f"flow.single.qps={qps}", f"flow.single.depth={depth}"],
            None,
        )
        # The same queue pairs each time, only more of them; then many with little under way each.
        for qps, depth in [(16, 16), (256, 16), (4096, 16), (16384, 16), (4096, 2)]
    ),
    ("latency-8b", "WRITE 8 B, depth 1", "configs/latency.toml", [], None),
    ("null-mtu1024", "null-tx: WRITE 64 KiB, MTU 1024", "configs/null-tx.toml", [], 1024),
    ("null-mtu4096", "null-tx: WRITE 64 KiB, MTU 4096", "configs/null-tx.toml", ["flow.build.mtu=4096"], 4096),
]


def main():
    try:
        # Ahead of whatever else runs, where that is allowed.
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        pass
    root, rocegen = pathlib.Path(sys.argv[1]), sys.argv[2]
    options = parse(sys.argv[3:])
    bench = measure(root, rocegen, options)
    if options.json:
        print(json.dumps(bench, indent=2))
    elif options.markdown:
        print(markdown(bench))
    else:
        print(text(bench))
    if options.update:
        update(root / "docs/performance.md", markdown(bench))
        picture(root, rocegen)
    failed = [run for run in bench["runs"] if run["reasons"]]
    for run in failed:
        for reason in run["reasons"]:
            say(f"{run['name']}: {reason}")
    sys.exit(1 if failed else 0)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures what one core of this machine can do with the bytes of a packet at most, "
        "then what rocegen does with whole packets.  Every run is repeated, in rounds of all of them; of "
        "runs as of limits the best is shown.",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object, and nothing else on standard output")
    form.add_argument("--markdown", action="store_true", help="the tables of docs/performance.md")
    parser.add_argument("--update", action="store_true", help="also put the tables into docs/performance.md, and a new picture of a run into docs/images")
    parser.add_argument("--duration", default="250ms", metavar="TIME", help="span of a run (250ms)")
    parser.add_argument("--repeat", type=int, default=14, metavar="N", help="rounds: runs of each kind (14)")
    parser.add_argument("--only", metavar="REGEX", help="only runs whose name matches, of: " + " ".join(r[0] for r in RUNS))
    options = parser.parse_args(arguments)
    if options.repeat < 1:
        parser.error("--repeat is at least 1")
    return options


def say(line):
    print(line, file=sys.stderr, flush=True)


# --- measuring -------------------------------------------------------------------------------


def measure(root, rocegen, options):
    machine = describe(root)
    core = max(os.sched_getaffinity(0))
    say(f"limits of core {core}")
    limits = machine_limits(root, core)
    limits += frame_limits(root)
    kinds = [kind for kind in RUNS if not options.only or re.search(options.only, kind[0])]
    results = {kind[0]: [] for kind in kinds}
    # In rounds: what else the machine does for a while concerns one run of each kind, not all of one.
    for number in range(options.repeat):
        say(f"round {number + 1} of {options.repeat}")
        for name, _, scenario, changes, _ in kinds:
            results[name].append(once(root, rocegen, scenario, changes, options.duration))
    runs = []
    for name, what, scenario, changes, packet in kinds:
        runs.append(of_run(name, what, scenario, changes, packet, results[name], limits))
        say(f"{what:<34} {summary(runs[-1])}")
    # Again at the end, for a machine that was busy at the beginning: a limit is the best of it.
    for again in machine_limits(root, core):
        limit = next(l for l in limits if (l["what"], l["bytes"]) == (again["what"], again["bytes"]))
        if again.get("gbps", 0) > limit.get("gbps", 0):
            limit.update(again)
    base = next((run["message_rate"] for run in runs if run["name"] == "qps-16"), None)
    for run in runs:
        if run["name"].startswith("qps-"):
            run["rate_of_16_qps"] = base
        set_beside(run, limits)
    machine["load_average_end"] = load_average()
    if runs:
        environment = runs[0].pop("environment")
        for run in runs[1:]:
            run.pop("environment")
        machine.update(
            dpdk=environment["dpdk"].removeprefix("DPDK "),
            memory=environment["memory"],
            rocegen=environment["rocegen"],
            tsc_hz=environment["clock"]["hz"],
        )
    return {
        "schema": "rocegen-bench-1",
        "machine": machine,
        "limit_core": core,
        "limits": limits,
        "duration": options.duration,
        "repeat": options.repeat,
        "runs": runs,
    }


def machine_limits(root, core):
    """CRC and copy of one core, from engine/benches/limits.rs."""
    command = ["cargo", "bench", "-q", "--manifest-path", str(root / "Cargo.toml"), "-p", "roce-engine"]
    command += ["--bench", "limits"]
    out = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    ).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def frame_limits(root):
    """Frames that nothing is done to: through a pair of rings, and into net_null by DPDK's own program."""
    command = ["cargo", "bench", "-q", "--manifest-path", str(root / "Cargo.toml"), "-p", "dpdk-ffi", "--bench", "hop"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return found + testpmd()


def testpmd(seconds=4):
    """Frames of MTU 1024 that dpdk-testpmd sends into net_null from one core; nothing where it is missing."""
    cores = sorted(os.sched_getaffinity(0))[-2:]
    program = shutil.which("dpdk-testpmd")
    if program is None or len(cores) < 2:
        say("dpdk-testpmd: " + ("not installed (package dpdk-dev)" if program is None else "needs two cores"))
        return []
    command = [program, "-l", ",".join(map(str, cores)), "--no-huge", "-m", "256", "--no-pci", "--no-shconf"]
    command += [f"--file-prefix=rocegen-bench-{os.getpid()}", "--vdev=net_null0,no-rx=1", "--"]
    command += ["--forward-mode=txonly", "--txpkts=1082", "--total-num-mbufs=4096", "--burst=32", "--stats-period=1"]
    command += ["--auto-start"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    timer = threading.Timer(seconds, lambda: child.send_signal(signal.SIGINT))
    timer.start()
    try:
        out, _ = child.communicate(timeout=seconds + 20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        say("dpdk-testpmd: did not end, and was killed")
        return []
    finally:
        timer.cancel()
    rates = [int(n) for n in re.findall(r"Tx-pps:\s*(\d+)", out) if int(n) > 0]
    if not rates:
        say("dpdk-testpmd: sent nothing")
        return []
    rates = sorted(1e9 / rate for rate in rates)
    return [{"what": "testpmd txonly", "bytes": 1082, "ns": rates[0], "median_ns": rates[len(rates) // 2]}]


def once(root, rocegen, scenario, changes, duration):
    """One run; the result that it prints."""
    command = [rocegen, "run", "--json", "--quiet", str(root / scenario)]
    # Speed is what is asked here, not whether expectations hold.
    for change in [f"run.duration={duration}", f"run.warmup={WARMUP}", "expect=[]", *changes]:
        command += ["--set", change]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    try:
        return json.loads(ended.stdout)
    except json.JSONDecodeError:
        sys.exit(f"no result, exit code {ended.returncode}: {' '.join(command)}")


def of_run(name, what, scenario, changes, packet, results, limits):
    rates = [r["flows"][0]["l1_gbps"] for r in results]
    best = results[rates.index(max(rates))]
    flow = best["flows"][0]
    run = {
        "name": name,
        "what": what,
        "scenario": scenario,
        "set": changes,
        "l1_gbps": flow["l1_gbps"],
        "l1_gbps_all": rates,
        "goodput_gbps": flow["goodput_gbps"],
        "message_rate": flow["message_rate"],
        "packet_rate": flow["packet_rate"],
        "latency_ns": flow["latency_ns"],
        "retransmits": sum(r["flows"][0]["retransmits"] for r in results),
        "cores": [w["core"] for w in best["workers"]],
        "busy_pct": [round(w["busy_pct"], 1) for w in best["workers"]],
        "longest_turn_ns": max(w["longest_turn_ns"] for r in results for w in r["workers"]),
        "limited_by": [limit["by"] for r in results for limit in r["limits"]],
        "limit_packet_bytes": packet,
        "reasons": [reason for r in results for reason in r["reasons"]],
        "environment": best["environment"],
    }
    if len(rates) > 1 and max(rates) > 0:
        # How far two benches of half as many rounds would be apart.
        halves = sorted(max(rates[half::2]) for half in (0, 1))
        run["halves_apart_pct"] = (1 - halves[0] / halves[1]) * 100
    set_beside(run, limits)
    return run


def set_beside(run, limits):
    """The goodput as a share of what one core can copy and sum."""
    packet = run["limit_packet_bytes"]
    limit = next((l["gbps"] for l in limits if (l["what"], l["bytes"]) == ("copy+crc32", packet)), None)
    pmd = next((l["ns"] for l in limits if l["what"] == "testpmd txonly"), None)
    if pmd and run["name"] == "null-mtu1024":
        run["of_testpmd_pct"] = run["packet_rate"] * pmd / 1e9 * 100
    if base := run.get("rate_of_16_qps"):
        run["of_16_qps_pct"] = run["message_rate"] / base * 100
    run["limit_gbps"] = limit
    run["of_limit_pct"] = run["goodput_gbps"] / limit * 100 if limit else None


# --- the machine -----------------------------------------------------------------------------


def describe(root):
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": sorted(os.sched_getaffinity(0)),
        "virtual": " hypervisor" in (field("/proc/cpuinfo", "flags") or ""),
        "kernel": re.match(r"[\d.]*\d", os.uname().release).group(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "commit": output("git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"),
        "rustc": output("rustc", "--version"),
        "load_average": load_average(),
        "busy_before_pct": busy_pct(2),
    }


def busy_pct(seconds):
    """How busy this machine's processors are, by all that runs on it."""

    def times():
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, read("/proc/stat").split()[1:9])
        busy = user + nice + system + irq + softirq + steal
        return busy, busy + idle + iowait

    busy, total = times()
    sleep(seconds)
    busy_later, total_later = times()
    return round((busy_later - busy) / max(total_later - total, 1) * 100, 1)


def load_average():
    return [round(x, 2) for x in os.getloadavg()]


def read(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return None


def field(path, name):
    for line in (read(path) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def output(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


# --- printing --------------------------------------------------------------------------------


def summary(run):
    latency = run["latency_ns"] or {}
    return f"L1 {run['l1_gbps']:7.3f} Gb/s  {run['packet_rate'] / 1e6:6.3f} Mpkt/s  p50 {time(latency.get('p50'))}"


def time(ns):
    if ns is None:
        return "-"
    for unit, size in [("s", 1e9), ("ms", 1e6), ("us", 1e3)]:
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


def machine_lines(bench, commit=True):
    m = bench["machine"]
    place = "virtual machine" if m["virtual"] else "bare metal"
    load = "{} at the start, {} at the end".format(*("/".join(map(str, m[k])) for k in ("load_average", "load_average_end")))
    load += f"; processors {m['busy_before_pct']:.0f} % busy before it"
    if m["busy_before_pct"] > 10:
        load += ": other work was running, and the figures are lower than they could be"
    lines = [
        f"{m['cpu']}, {len(m['cores'])} cores ({place}), kernel {m['kernel']}"
        + (f", governor {m['governor']}" if m["governor"] else ""),
        f"DPDK {m.get('dpdk')}, {m['rustc']}, " + (f"commit {m['commit']}, " if commit else "") + m["date"],
        f"memory: {m.get('memory', '-')}; load average {load}",
        f"each run {bench['duration']} after {WARMUP} of warm-up, in {bench['repeat']} rounds of all: "
        "the fastest, and the median and the range of all",
    ]
    return lines


def limit_rows(bench):
    head = ["one core, at most", "packet", "Gb/s", "median Gb/s", "ns a packet", "M a second"]
    rows = [
        [
            l["what"].replace("+", " + "),
            f"{l['bytes']} B",
            f"{l['gbps']:.1f}" if "gbps" in l else "-",
            f"{l['median_gbps']:.1f}" if "gbps" in l else "-",
            f"{l['ns']:.1f}",
            f"{1e3 / l['ns']:.2f}",
        ]
        for l in bench["limits"]
    ]
    return head, rows


def run_rows(bench):
    head = ["run", "L1 Gb/s", "of all runs", "goodput", "of limit", "Mpkt/s", "messages/s", "p50", "p99", "busy %", "limited by"]
    rows = []
    for run in bench["runs"]:
        latency = run["latency_ns"] or {}
        share = run["of_limit_pct"]
        rows.append(
            [
                run["what"],
                f"{run['l1_gbps']:.2f}",
                f"{statistics.median(run['l1_gbps_all']):.2f}, {min(run['l1_gbps_all']):.2f}-{max(run['l1_gbps_all']):.2f}",
                f"{run['goodput_gbps']:.2f}",
                "-" if share is None else f"{share:.0f} %",
                f"{run['packet_rate'] / 1e6:.3f}",
                f"{run['message_rate']:.0f}",
                time(latency.get("p50")),
                time(latency.get("p99")),
                " / ".join(f"{b:.0f}" for b in run["busy_pct"]),
                statistics.mode(run["limited_by"]).replace("_", " ") if run["limited_by"] else "-",
            ]
        )
    return head, rows


def notes(bench):
    resent = sum(run["retransmits"] for run in bench["runs"])
    longest = max((run["longest_turn_ns"] for run in bench["runs"]), default=0)
    parts = [f"packets resent in all runs: {resent}", f"longest turn of a worker: {time(longest)}"]
    for run in bench["runs"]:
        if "of_testpmd_pct" in run:
            parts.append(f"{run['what']}: {run['of_testpmd_pct']:.0f} % of what testpmd sends without building anything")
        if re.match("qps-(4096|16384)", run["name"]) and "of_16_qps_pct" in run:
            parts.append(f"{run['what']}: {run['of_16_qps_pct']:.0f} % of the rate with 16")
    halves = [(run["halves_apart_pct"], run["what"]) for run in bench["runs"] if "halves_apart_pct" in run]
    if halves:
        apart, what = max(halves)
        parts.append(f"best of the odd and of the even rounds: {apart:.0f} % apart at most ({what})")
    return "; ".join(parts)


def text(bench):
    parts = ["\n".join(machine_lines(bench))]
    for head, rows in (limit_rows(bench), run_rows(bench)):
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = []
        for row in [head, *rows]:
            cells = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
            lines.append("  ".join(cells).rstrip())
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, notes(bench)])


def markdown(bench):
    # Tables in a commit cannot name it.
    parts = ["\n".join(f"- {line}" for line in machine_lines(bench, commit=False))]
    for head, rows in (limit_rows(bench), run_rows(bench)):
        align = ["---"] + ["---:"] * (len(head) - 1)
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in [head, align, *rows]))
    note = notes(bench)
    return "\n\n".join([*parts, note[0].upper() + note[1:] + "."])


def update(path, tables):
    before = path.read_text()
    start, end = before.find(BEGIN), before.find(END)
    if start < 0 or end < start:
        sys.exit(f"{path} has no place for the tables: {BEGIN} ... {END}")
    path.write_text(before[: start + len(BEGIN)] + "\n\n" + tables + "\n\n" + before[end:])
    say(f"{path} has the new tables")


def picture(root, rocegen):
    """The picture in the README, when the run passes."""
    path = root / "docs/images/loopback.svg"
    command = ["rocegen", "run", LOOPBACK]
    said = subprocess.run(
        [rocegen, *command[1:]], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if said.returncode != 0:
        say(f"{path} is as it was: {' '.join(command)} ended with exit code {said.returncode}")
        return
    render = [sys.executable, str(root / "scripts/render-terminal"), " ".join(command)]
    svg = subprocess.run(render, check=True, input=said.stdout, stdout=subprocess.PIPE, text=True).stdout
    path.parent.mkdir(exist_ok=True)
    path.write_text(svg)
    say(f"{path} is new")


main()
