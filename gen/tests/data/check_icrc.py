#!/usr/bin/env python3
"""Checks the iCRC of every RoCEv2 frame in capture files with scapy's implementation.

usage: check_icrc.py FILE...     prints {"right": n, "wrong": [frame numbers], "short": n, "other": n}

A frame that was cut when it was captured is short; one that is no RoCEv2 is other.
"""
import json
import logging
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import PcapReader


def verdict(packet):
    data = bytes(packet)
    if packet.wirelen is not None and packet.wirelen > len(data):
        return "short"
    ip = packet.getlayer(IP) or packet.getlayer(IPv6)
    if ip is None or UDP not in packet or packet[UDP].dport != 4791:
        return "other"
    # Without the bytes that fill up a short Ethernet frame: they are in no iCRC.
    start = data.index(bytes(ip.original)[:20])
    length = ip.len if isinstance(ip, IP) else 40 + ip.plen
    bth = Ether(data[:start + length])[BTH]
    return "right" if bth.compute_icrc(None) == bth.icrc.to_bytes(4, "big") else "wrong"


def main():
    found = {"right": 0, "wrong": [], "short": 0, "other": 0}
    for path in sys.argv[1:]:
        for number, packet in enumerate(PcapReader(path), 1):
            what = verdict(packet)
            if what == "wrong":
                found[what].append(number)
            else:
                found[what] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main()
