#!/usr/bin/env python3
"""What two CPUs of this machine can do: two workers of one router, against two routers of one worker that share nothing.

    benchmarks/side_by_side.py [--binary FILE] [--rounds N] [--seconds S] [--table FILE]... SCENARIO...

For each scenario, medians over the rounds: one worker alone (clocks a packet and Mpps), two workers of one router, and
two processes with a worker each, both as multiples of one worker's Mpps. Where two processes do not reach twice the rate
either, it is the CPUs that share something: caches, memory, power.
"""

import argparse
import json
import os
import statistics
import subprocess


def start(args, scenario, cpus, workers):
    tables = [word for table in args.table for word in ("--table", table)]
    command = [args.binary, "bench", "--json", "--seconds", str(args.seconds), "--workers", str(workers), *tables, scenario]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, cpus))


def results(processes):
    found = []
    for p in processes:
        lines = [line for line in p.communicate()[0].splitlines() if line.startswith("{")]
        if p.returncode != 0 or not lines:
            raise SystemExit(f"{' '.join(p.args)}: status {p.returncode}")
        found.append(json.loads(lines[-1]))
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default="target/release/quiver")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--table", action="append", default=[])
    arguments.add_argument("scenario", nargs="+")
    args = arguments.parse_args()
    cpus = sorted(os.sched_getaffinity(0))[-2:]
    if len(cpus) < 2:
        raise SystemExit("two CPUs are needed")
    both = set(cpus)
    print(f"{'scenario':24} {'clocks':>7} {'Mpps':>7} {'two workers':>12} {'two processes':>14}")
    for scenario in args.scenario:
        clocks, one, workers, processes = [], [], [], []
        for _ in range(args.rounds):
            alone, = results([start(args, scenario, both, 1)])
            clocks.append(alone["clocks_per_packet"])
            one.append(alone["mpps"])
            workers.append(results([start(args, scenario, both, 2)])[0]["mpps"])
            processes.append(sum(r["mpps"] for r in results([start(args, scenario, {cpu}, 1) for cpu in cpus])))
        rate = statistics.median(one)
        print(f"{scenario:24} {statistics.median(clocks):7.1f} {rate:7.1f} {statistics.median(workers) / rate:12.2f} "
              f"{statistics.median(processes) / rate:14.2f}", flush=True)


if __name__ == "__main__":
    main()
