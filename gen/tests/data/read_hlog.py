#!/usr/bin/env python3
"""Reads an HdrHistogram log with the Python port of HdrHistogram.

usage: read_hlog.py FILE     prints the start time and, by tag, the sum and its intervals
"""
import json
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader


def main():
    total = lambda: HdrHistogram(1, 60_000_000_000, 3)
    reader = HistogramLogReader(sys.argv[1], total())
    tags = {}
    while (one := reader.get_next_interval_histogram()) is not None:
        start = reader.get_start_time_sec()
        whole, intervals = tags.setdefault(one.get_tag(), (total(), []))
        whole.add(one)
        times = [one.get_start_time_stamp() / 1000 - start, one.get_end_time_stamp() / 1000 - start]
        intervals.append(times + [one.get_total_count()])
    reader.close()
    percentiles = {"p50": 50, "p90": 90, "p99": 99, "p99_9": 99.9, "p99_99": 99.99}
    print(json.dumps({
        "start_s": reader.get_start_time_sec(),
        "tags": {
            tag: {
                "count": whole.get_total_count(),
                "min": whole.get_min_value(),
                "max": whole.get_max_value(),
                "mean": whole.get_mean_value(),
                **{name: whole.get_value_at_percentile(p) for name, p in percentiles.items()},
                "intervals": intervals,
            }
            for tag, (whole, intervals) in tags.items()
        },
    }))


if __name__ == "__main__":
    main()
