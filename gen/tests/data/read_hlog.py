#!/usr/bin/env python3
"""Reads an HdrHistogram log with the Python port of HdrHistogram.

usage: read_hlog.py FILE     prints the start time and, by tag, the sum and its intervals
"""
import json
import math
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader


def at_rank(histogram, percent):
    """The value that at least `percent` of all values do not exceed: the nearest rank."""
    rank = max(1, math.ceil(percent / 100 * histogram.get_total_count()))
    seen = 0
    for item in histogram.get_recorded_iterator():
        seen += item.count_added_in_this_iter_step
        if seen >= rank:
            return histogram.get_highest_equivalent_value(item.value_iterated_to)
    return 0


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
    # The sum's own idea of its least value is 0 once an empty interval was added.
    percentiles = {"min": 0, "max": 100, "p50": 50, "p90": 90, "p99": 99, "p99_9": 99.9, "p99_99": 99.99}
    print(json.dumps({
        "start_s": reader.get_start_time_sec(),
        "tags": {
            tag: {
                "count": whole.get_total_count(),
                "mean": whole.get_mean_value(),
                **{name: at_rank(whole, p) for name, p in percentiles.items()},
                "intervals": intervals,
            }
            for tag, (whole, intervals) in tags.items()
        },
    }))


if __name__ == "__main__":
    main()
