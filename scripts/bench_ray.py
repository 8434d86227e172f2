#!/usr/bin/env python3
"""Ray's Python actors, measured as `parl bench remote` measures ours (scripts/bench_ray.sh runs both).

One actor on this machine. A small call takes two ints and gives their sum. Arrays are numpy's, made for each call and
touched once a page; "up" is from the actor to the caller. Medians of alternating rounds. The last line is one JSON
object with the keys of `parl bench remote --json`: call_us_p50, call_us_p99, calls_per_s (64 in flight),
array_mb_per_s_up, array_mb_per_s_down (4 MiB; MB are 10^6 bytes), ray (its version).
"""
import argparse
import json
import logging
import statistics
import time

import numpy as np
import ray

BYTES = 4 << 20
PAGE = 4096 // 4


class Peer:
    def sum(self, a, b):
        return a + b

    def give(self):
        return make()

    def take(self, array):
        return float(array[::PAGE].sum())


def make():
    array = np.empty(BYTES // 4, dtype=np.float32)
    array[::PAGE] = 1.0
    return array


def times_us(n, f):
    out = []
    for _ in range(n):
        start = time.perf_counter()
        f()
        out.append(1e6 * (time.perf_counter() - start))
    return out


def quantile(values, q):
    return sorted(values)[int(q * (len(values) - 1))]


def calls_per_second(peer, calls, window):
    start = time.perf_counter()
    in_flight = []
    for i in range(calls):
        if len(in_flight) == window:
            ray.get(in_flight.pop(0))
        in_flight.append(peer.sum.remote(i, 1))
    ray.get(in_flight)
    return calls / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=1000, help="in a round")
    parser.add_argument("--transfers", type=int, default=16, help="of 4 MiB in a round")
    args = parser.parse_args()
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    peer = ray.remote(Peer).remote()
    small = lambda: ray.get(peer.sum.remote(1, 2))
    up = lambda: float(ray.get(peer.give.remote())[::PAGE].sum())
    down = lambda: ray.get(peer.take.remote(make()))
    p50, p99, rates, ups, downs = [], [], [], [], []
    for round_ in range(-1, args.rounds):  # the first one warms up
        times = times_us(args.calls, small)
        rate = calls_per_second(peer, args.calls, 64)
        up_rate = BYTES / quantile(times_us(args.transfers, up), 0.5)
        down_rate = BYTES / quantile(times_us(args.transfers, down), 0.5)
        if round_ < 0:
            continue
        p50.append(quantile(times, 0.5))
        p99.append(quantile(times, 0.99))
        rates.append(rate)
        ups.append(up_rate)
        downs.append(down_rate)
    print(json.dumps({"call_us_p50": statistics.median(p50), "call_us_p99": statistics.median(p99),
                      "calls_per_s": statistics.median(rates), "array_mb_per_s_up": statistics.median(ups),
                      "array_mb_per_s_down": statistics.median(downs), "ray": ray.__version__}))
    ray.shutdown()


if __name__ == "__main__":
    main()
