"""Writes docs/performance.md and its plots from the JSON lines of `quiver bench`.

  report.py [RESULTS]          a page for each processor that was measured, from its newest file of benchmarks/results; or
                               docs/performance.md from RESULTS
  report.py --check [RESULTS]  says whether the pages are what would be written
  report.py --header C DIRTY   the first line of a results file, for commit C
  report.py --to FOLDER ...    the page and its plots go there in place of docs
  report.py --lines            shortens JSON lines on the standard input to a line each, for people

Only Python's own library: the page can be written on the barest machine.
"""

import json
import math
import os
import platform
import re
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"

# The processor on which VPP was measured and goals were set: its results are docs/performance.md, those of others stand in
# a page each.
MAIN = "AMD EPYC"

# Clocks a packet there: VPP 26.10-rc0 (median), what Quiver must reach, and what is sought.
GOALS = {
    "l2xc": ("12.9", 6, 4),
    "l2bd": ("27.3", 13, 9),
    "l2bd-1m": ("146", 45, 30),
    "ip4": ("33.4", 14, 10),
    "ip4-1k": ("35-38", 15, 11),
    "ip4-100k": ("85.6", 28, 20),
    "ip4-1m": ("167", 40, 25),
    "ip4-internet": (None, 40, 25),
    "ip6": ("53", 17, 12),
    "ip6-100k": ("466", 50, 35),
    "ip6-internet": (None, 55, 35),
    "ip6-1m": ("1278", 90, 55),
    "mpls-ingress": ("43.0", 18, 13),
    "mpls-ingress2": ("43.9", 18, 13),
    "mpls-swap": ("42.1", 16, 11),
    "mpls-egress": ("52.7", 22, 15),
    "mpls-explicit-null": ("44.6", 18, 13),
    "mpls-php": ("41.3", 16, 11),
}

# Scenarios that may take a few clocks more than a plain one.
OVER = {"urpf-strict": "ip4", "urpf-strict6": "ip6", "vrf": "ip4", "ip4-recursive": "ip4", "bvi": "ip4"}
OVER_BY = 6

# What the routers of a chain of four do with a packet: its name, and their scenarios.
CHAINS = [
    ("IPv4", ["ip4", "ip4", "ip4", "ip4"]),
    ("penultimate hop popping", ["mpls-ingress", "mpls-swap", "mpls-php", "ip4"]),
    ("explicit null", ["mpls-ingress", "mpls-swap", "mpls-swap", "mpls-explicit-null"]),
    ("label switched path", ["mpls-ingress", "mpls-swap", "mpls-swap", "mpls-egress"]),
]

# What a reader must know before the first table.
HOW_TO_READ = """\
- **What is measured** is the graph: a packet generator writes packets into buffers, a sink frees them, and no device and no kernel
  takes part. It says what forwarding costs; a port adds the cost of its driver, which for AF_PACKET is many times as much.
- **Mpps** is million packets a second of one worker on one CPU, generator and sink included. **Clocks** are for each packet without
  these two: fewer is better, and they compare better than Mpps between runs on one machine. On another processor compare only ratios.
- **Packets** have 64 bytes without FCS (68 on the wire) where nothing else is said; all sizes on this page are without FCS.
- **must** and **sought** are the goals in clocks, **VPP** what VPP takes for the same. `ip4` is IPv4 with one route; names
  ending in `1k`, `100k`, `1m` have as many routes (or addresses), those with `internet` the Internet's table.
  [bench.md](bench.md#scenarios-that-forward-packets) lists them all.
"""

INK, FAINT, GRID = "#1f2430", "#6b7280", "#e5e7eb"
COLOURS = ["#2563eb", "#ea580c", "#16a34a", "#9333ea", "#0891b2", "#ca8a04", "#dc2626", "#64748b"]


# ---------------------------------------------------------------------------------------------------------- results


def first_line(path, start):
    for line in Path(path).read_text().splitlines():
        if line.startswith(start):
            return line.split(":", 1)[1].strip()
    return "unknown"


def header(commit, dirty):
    """What a results file begins with."""
    import datetime

    return {
        "results": 1,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit,
        "dirty": dirty == "true",
        "cpu": first_line("/proc/cpuinfo", "model name"),
        "cpus": os.cpu_count(),
        "memory": first_line("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
    }


def head_of(path):
    """The first line of a results file."""
    with open(path) as file:
        line = file.readline()
    head = json.loads(line) if line.strip() else {}
    if head.get("results") != 1:
        sys.exit(f"{path}: the first line does not say what machine this is: not a results file")
    return head


class Results:
    def __init__(self, path):
        self.name, self.head = Path(path).name, head_of(path)
        self.all = [json.loads(line) for line in Path(path).read_text().splitlines()[1:] if line.strip()]
        levels = [o["level"] for o in self.all if "nodes" in o and o["workers"] == 1]
        self.level = max(levels, default="v4")

    def forwarding(self, workers=1, level=None):
        level = level or self.level
        return [o for o in self.all if "nodes" in o and o["workers"] == workers and o["level"] == level]

    def of(self, scenario):
        return [o for o in self.all if o["scenario"] == scenario]

    def series(self, name):
        return sorted((o for o in self.of("growth") if o["series"] == name), key=lambda o: o["x"])


def newest(docs, check):
    """For each processor its page's name and its results of the last day; of several those written last, or for a check,
    as a clone knows no times, those that the page names."""
    found = {}
    for file in (HERE / "results").glob("*.jsonl"):
        cpu = head_of(file)["cpu"].replace("(R)", "")
        slug = "" if cpu.startswith(MAIN) else "-" + "-".join(re.findall(r"[a-z0-9]+", cpu.lower()))
        page = docs / f"performance{slug}.md"
        named = page.read_text() if check and page.exists() else ""
        rank = (file.name[:10], file.name in named, file.stat().st_mtime)
        found[page.stem] = max(found.get(page.stem, ((), None)), (rank, file))
    return {name: file for name, (_, file) in sorted(found.items())}


# -------------------------------------------------------------------------------------------------------------- SVG


class Svg:
    def __init__(self, width, height, title):
        self.width, self.height = width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def rect(self, x, y, w, h, fill, title=None):
        inside = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}">{inside}</rect>')

    def line(self, x1, y1, x2, y2, stroke, width=1.0):
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" stroke-width="{width}"/>'
        )

    def text(self, x, y, text, anchor="start", fill=INK, size=12):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">{escape(text)}</text>'
        )

    def path(self, points, stroke):
        d = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f},{y:.1f}" for i, (x, y) in enumerate(points))
        self.parts.append(f'<path d="{d}" fill="none" stroke="{stroke}" stroke-width="2"/>')

    def dot(self, x, y, fill, title):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{fill}"><title>{escape(title)}</title></circle>')

    def done(self):
        return "\n".join(self.parts + ["</svg>"]) + "\n"


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def ticks(top):
    """Round numbers from 0 to at least `top`, about five."""
    step = 10 ** math.floor(math.log10(max(top, 1e-9) / 4))
    step = next(step * m for m in (1, 2, 5, 10) if top / (step * m) <= 6)
    n = math.ceil(top / step)
    return [step * i for i in range(n + 1)]


def number(x):
    """1024 as 1 Ki where it is a power of two, 1000 as 1 k."""
    if x >= 1 << 20 and x % (1 << 20) == 0:
        return f"{x >> 20}M"
    if x >= 1 << 10 and x % (1 << 10) == 0:
        return f"{x >> 10}k"
    if x >= 1000 and x % 1000 == 0:
        return f"{x // 1000}k"
    return f"{x:g}"


def bars(rows, title):
    """Horizontal bars: (label, Quiver, VPP or None, goal or None)."""
    left, right, row = 140, 60, 30
    top = max([max(q, v or 0, g or 0) for _, q, v, g in rows] + [1])
    # One slow scenario of VPP must not flatten all others.
    limit = min(top, 4 * max(max(q, g or 0) for _, q, _, g in rows))
    svg = Svg(760, 56 + row * len(rows), title)
    scale = (760 - left - right) / limit
    svg.rect(left, 12, 10, 10, COLOURS[0])
    svg.text(left + 14, 21, "Quiver")
    if any(v or g for _, _, v, g in rows):
        svg.rect(left + 70, 12, 10, 10, "#c7d2e5")
        svg.text(left + 84, 21, "VPP")
        svg.line(left + 130, 10, left + 130, 24, COLOURS[6], 2)
        svg.text(left + 136, 21, "must reach")
    svg.text(752, 21, title, "end", FAINT)
    for i, (label, quiver, vpp, goal) in enumerate(rows):
        y = 36 + row * i
        svg.text(left - 8, y + 15, label, "end")
        svg.rect(left, y + 1, quiver * scale, 12, COLOURS[0], f"{label}: {quiver}")
        svg.text(left + quiver * scale + 4, y + 11, f"{quiver:.1f}", size=11)
        if vpp:
            cut = min(vpp, limit)
            svg.rect(left, y + 14, cut * scale, 8, "#c7d2e5", f"VPP: {vpp}")
            svg.text(left + cut * scale + 4, y + 22, f"{vpp:g}" + (" →" if vpp > limit else ""), fill=FAINT, size=10)
        if goal:
            svg.line(left + goal * scale, y - 2, left + goal * scale, y + 24, COLOURS[6], 2)
    return svg.done()


def stacked(rows, title):
    """Horizontal bars of parts: (label, [(part, value)...])."""
    left, right, row = 140, 60, 24
    names = []
    for _, parts in rows:
        names += [n for n, _ in parts if n not in names]
    colour = {n: COLOURS[i % len(COLOURS)] for i, n in enumerate(names)}
    legend = math.ceil(len(names) / 5)
    svg = Svg(760, 44 + 18 * legend + row * len(rows), title)
    svg.text(752, 18, title, "end", FAINT)
    for i, n in enumerate(names):
        x, y = 16 + 148 * (i % 5), 30 + 18 * (i // 5)
        svg.rect(x, y, 10, 10, colour[n])
        svg.text(x + 14, y + 9, n, size=11)
    scale = (760 - left - right) / max([sum(v for _, v in p) for _, p in rows] + [1])
    for i, (label, parts) in enumerate(rows):
        y, x = 38 + 18 * legend + row * i, float(left)
        svg.text(left - 8, y + 12, label, "end")
        for name, value in parts:
            svg.rect(x, y, value * scale, 16, colour[name], f"{label}, {name}: {value:.1f}")
            x += value * scale
        svg.text(x + 4, y + 12, f"{sum(v for _, v in parts):.1f}", size=11)
    return svg.done()


def lines(curves, title, xlabel):
    """Curves over a logarithmic axis: {name: [(x, y)...]}."""
    left, right, top, bottom, width, height = 56, 20, 40, 44, 760, 320
    points = [p for c in curves.values() for p in c]
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    marks = ticks(max(y for _, y in points))
    svg = Svg(width, height, title)
    span = max(math.log2(high) - math.log2(low), 1e-9)

    def at(x, y):
        return (
            left + (math.log2(x) - math.log2(low)) / span * (width - left - right),
            height - bottom - y / marks[-1] * (height - top - bottom),
        )

    for m in marks:
        y = at(low, m)[1]
        svg.line(left, y, width - right, y, GRID)
        svg.text(left - 6, y + 4, f"{m:g}", "end", FAINT, 11)
    xs = sorted({x for x, _ in points})
    last = -100.0
    for x in xs:
        at_x = at(x, 0)[0]
        if at_x - last >= 34:
            svg.text(at_x, height - bottom + 16, number(x), "middle", FAINT, 11)
            last = at_x
    svg.text((left + width - right) / 2, height - 8, xlabel, "middle", FAINT)
    svg.text(width - right, 18, title, "end", FAINT)
    for i, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        svg.rect(left + 170 * i, 10, 10, 10, colour)
        svg.text(left + 170 * i + 14, 19, name)
        svg.path([at(x, y) for x, y in curve], colour)
        for x, y in curve:
            svg.dot(*at(x, y), colour, f"{name}, {number(x)}: {y}")
    return svg.done()


# ------------------------------------------------------------------------------------------------------------- page


def table(head, rows, right=1):
    """A Markdown table; the first `right` columns are text."""
    rule = ["---"] * right + ["---:"] * (len(head) - right)
    return "\n".join("| " + " | ".join(str(c) for c in r) + " |" for r in [head, rule, *rows]) + "\n"


def notes():
    """What people wrote about the figures: sections of benchmarks/notes.md by their headings."""
    found, name = {}, None
    path = HERE / "notes.md"
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith("## "):
            name = line[3:].strip()
            found[name] = ""
        elif name:
            found[name] += line + "\n"
    return {k: v.strip() + "\n" for k, v in found.items()}


GROWTH = [
    ("routes", "IPv4 and IPv6 routes", "routes", {"IPv4": "routes4", "IPv6": "routes6"}),
    ("flows", "Different destinations, in the large IPv4 table", "destinations", {"IPv4": "flows"}),
    ("size", "Frame size, one route", "bytes", {"IPv4": "size"}),
    ("vector", "Packets of a vector", "packets", {"one route": "vector", "large table": "vector-large"}),
    ("subs", "Sub-interfaces on which packets come", "sub-interfaces", {"IPv4, 802.1Q": "subs"}),
]


def middle(objects, field):
    return median(o[field] for o in objects)


def per_second(x):
    return f"{x / 1e6:.2f} M" if x >= 1e6 else f"{x / 1e3:.0f} k"


def page(folder, r):
    """The page and its plots, which stand in `folder`: {name: text}."""
    h = r.head
    goals = GOALS if h["cpu"].startswith(MAIN) else {}
    # What people say of the figures is about those of one machine.
    files, say, note = {}, [], notes() if goals else {}
    say.append("# Performance\n" if goals else f"# Performance on {h['cpu']}\n")
    say.append(
        f"Written by `scripts/bench` from [`benchmarks/results/{r.name}`](../benchmarks/results/{r.name}); "
        "[bench.md](bench.md) says what is measured, and how.\n"
    )
    dirty = ", with changes that were not committed" if h["dirty"] else ""
    say.append(
        table(
            ["measured", h["date"]],
            [
                ["commit", h["commit"] + dirty],
                ["processor", f"{h['cpu']}, {h['cpus']} CPUs, instructions {r.level}"],
                ["memory", h["memory"]],
                ["kernel", h["kernel"]],
            ],
            2,
        )
    )
    say.append("## How to read it\n")
    say.append(HOW_TO_READ)
    say.append(
        "Clocks are those of the TSC, for each packet that came in, of all nodes but generator and sink. *Median* and *best* are "
        "of windows of 0.5 s, *2 ms* is the median of windows of 2 ms, which a machine that others use disturbs less. *CPU* is "
        "the share of its CPU that the worker got."
        + (" VPP is 26.10-rc0, measured the same way on this kind of machine.\n" if goals else
           " VPP was not measured on this processor, and goals are those of [another](performance.md): only ratios compare.\n")
    )
    say.append(note.get("machine", ""))

    one = r.forwarding()
    if one:
        say.append("## Forwarding\n")
        rows = []
        plain = {o["scenario"]: o["clocks_per_packet"] for o in one}
        for o in one:
            vpp, must, sought = goals.get(o["scenario"], (None, None, None))
            if OVER.get(o["scenario"]) in plain:
                must = f"{plain[OVER[o['scenario']]] + OVER_BY:.1f} ({OVER[o['scenario']]} + {OVER_BY})"
            rows.append(
                [
                    f"`{o['scenario']}`",
                    f"{o['routes']:,}",
                    f"{o['mpps']:.1f}",
                    f"{o['clocks_per_packet']:.1f}",
                    f"{o['clocks_per_packet_best']:.1f}",
                    f"{o['clocks_per_packet_2ms']:.1f}",
                    vpp or "",
                    must or "",
                    sought or "",
                    f"{o['cpu_share'] * 100:.0f} %",
                ]
            )
        head = ["scenario", "routes", "Mpps", "median", "best", "2 ms", "VPP", "must", "sought", "CPU"]
        say.append(table(head, rows))
        goal = []
        for o in one:
            if o["scenario"] in GOALS:
                vpp, must, _ = goals.get(o["scenario"], (None, None, None))
                goal.append((o["scenario"], o["clocks_per_packet_2ms"], float(vpp.split("-")[0]) if vpp else None, must))
        if goal:
            files["forwarding.svg"] = bars(goal, "clocks a packet, 2 ms windows")
            say.append(f"![clocks a packet by scenario]({folder}/forwarding.svg)\n")
        parts = [
            (
                o["scenario"],
                [(n["name"], n["clocks_2ms"] * n["share"]) for n in o["nodes"] if n["name"] not in ("pg-input", "interface-tx")],
            )
            for o in one
        ]
        files["nodes.svg"] = stacked(parts, "clocks a packet by node, 2 ms windows")
        say.append(f"![clocks a packet by node]({folder}/nodes.svg)\n")
        say.append(note.get("forwarding", ""))

    clocks = {o["scenario"]: o["clocks_per_packet_2ms"] for o in one}
    chains = [(name, [clocks[s] for s in hops]) for name, hops in CHAINS if all(s in clocks for s in hops)]
    if len(chains) == len(CHAINS):
        say.append("## Label switching from end to end\n")
        say.append("Four routers in a chain: clocks a packet of each, in 2 ms windows, and of all.\n")
        rows = [[name, *(f"{c:.1f}" for c in hops), f"{sum(hops):.1f}"] for name, hops in chains]
        say.append(table(["path", "first", "second", "third", "fourth", "sum"], rows))
        say.append(note.get("labels", ""))

    two = r.forwarding(workers=2)
    if two:
        say.append("## Two workers\n")
        say.append(
            "Clocks a packet of each worker say whether they are in each other's way; packets a second also whether others "
            "took their CPUs. "
            + (
                "The ratio is the median over pairs of turns, in which one worker forwards and then both.\n"
                if all("times_one" in o for o in two)
                else "The ratio is that of two runs, minutes apart.\n"
            )
        )
        by = {o["scenario"]: o for o in one}
        rows = [
            [
                f"`{o['scenario']}`",
                f"{by[o['scenario']]['mpps']:.1f}",
                f"{o['mpps']:.1f}",
                f"{o.get('times_one') or o['mpps'] / max(by[o['scenario']]['mpps'], 1e-9):.2f}",
                f"{by[o['scenario']]['clocks_per_packet_2ms']:.1f}",
                f"{o['clocks_per_packet_2ms']:.1f}",
                f"{o['cpu_share'] * 100:.0f} %",
            ]
            for o in two
            if o["scenario"] in by
        ]
        say.append(table(["scenario", "Mpps, one", "Mpps, two", "ratio", "2 ms, one", "2 ms, two", "CPU"], rows))
        say.append(note.get("workers", ""))

    levels = [level for level in ("v2", "v3", "v4") if r.forwarding(level=level)]
    if len(levels) > 1:
        say.append("## Instructions\n")
        say.append("The same binary with `QUIVER_CPU`; clocks a packet in 2 ms windows.\n")
        by = {level: {o["scenario"]: o for o in r.forwarding(level=level)} for level in levels}
        names = [s for s in by[levels[0]] if all(s in by[level] for level in levels)]
        say.append(
            table(
                ["scenario", *levels],
                [[f"`{s}`", *(f"{by[level][s]['clocks_per_packet_2ms']:.1f}" for level in levels)] for s in names],
            )
        )
        say.append(note.get("levels", ""))

    if r.of("tables"):
        say.append("## Tables alone\n")
        rows = []
        for o in r.of("tables"):
            look = {(x["keys"], x["level"]): x for x in o["lookups"]}
            best = {k: min((x["clocks"] for (kk, _), x in look.items() if kk == k), default=None) for k in ("random", "skewed")}
            used = {k: look.get((k, r.level)) or next((x for (kk, _), x in look.items() if kk == k), None) for k in best}
            cell = {k: f"{used[k]['clocks']:.1f} ({best[k]:.1f})" if used[k] else "" for k in best}
            rows.append(
                [
                    o["table"],
                    o["content"],
                    f"{o['routes']:,}",
                    cell["random"],
                    cell["skewed"],
                    per_second(o["inserts_per_second"]),
                    per_second(o["replaces_per_second"]),
                    per_second(o["deletes_per_second"]),
                    f"{o['bytes_per_route']:.0f}",
                    f"{o['mb']:.0f}",
                    "" if o["worst_change_ms"] is None else f"{o['worst_change_ms']:.1f}",
                ]
            )
        say.append(
            f"Clocks a lookup in batches of 256 with {r.level}, and in brackets with the best of all levels; changes a second; "
            "`router4` and `router6` are changes through transaction, RIB and FIB.\n"
        )
        head = ["table", "content", "routes", "random", "skewed", "inserts", "replaces", "deletes", "bytes a route", "MB"]
        say.append(table([*head, "worst change, ms"], rows, 2))
        say.append(note.get("tables", ""))

    if r.of("churn"):
        say.append("## Routes that change\n")
        rows = []
        for family in (4, 6):
            c = [o for o in r.of("churn") if o["family"] == family]
            if c:
                rows.append(
                    [
                        f"IPv{family}",
                        f"{c[0]['routes']:,}",
                        per_second(middle(c, "updates_per_second")),
                        f"{middle(c, 'mpps_undisturbed'):.1f}",
                        f"{middle(c, 'mpps'):.1f}",
                        f"{middle(c, 'throughput_ratio'):.3f}",
                        f"{middle(c, 'gap_us_undisturbed'):.0f}",
                        f"{middle(c, 'gap_us'):.0f}",
                        sum(o["dropped"] + max(o["lost"], 0) for o in c),
                    ]
                )
        say.append(f"The Internet's own updates, as fast as they go; medians of {max(len([o for o in r.of('churn') if o['family'] == f]) for f in (4, 6))} runs.\n")
        head = ["", "routes", "updates/s", "Mpps before", "Mpps", "ratio", "gap before, µs", "gap, µs", "packets lost"]
        say.append(table(head, rows))
        say.append(note.get("churn", ""))

    if r.of("lines"):
        say.append("## Memory alone\n")
        say.append("Clocks for a cache line, in random order from so much memory.\n")
        rows = [
            [f"{o['kib']:,} KiB", f"{o['clocks']:.1f}", f"{o['clocks_best']:.1f}", f"{o['clocks_chained']:.0f}"]
            for o in r.of("lines")
        ]
        say.append(table(["of", "side by side", "best", "one after the other"], rows))
        say.append(note.get("lines", ""))

    if r.of("objects"):
        say.append("What packets of one of thousands of objects read, without a router: clocks a packet.\n")
        rows = [
            [f"`{o['like']}`", f"{o['objects']:,}", o["lines"], f"{o['clocks_one']:.1f}", f"{o['clocks_many']:.1f}"]
            for o in r.of("objects")
        ]
        say.append(table(["as in", "objects", "lines", "of one", "of random ones"], rows))
        say.append(note.get("objects", ""))

    if r.of("converge"):
        say.append("## A next hop goes\n")
        rows = [
            [
                f"{o['routes']:,}",
                o["event"],
                o["rounds"],
                f"{o['converge_us']:.0f}",
                f"{o['converge_us_max']:.0f}",
                f"{o['last_packet_us']:.0f}",
                f"{o['dropped']:g}",
            ]
            for o in r.of("converge")
        ]
        head = ["routes", "event", "rounds", "all over the other, µs", "longest, µs", "last over the lost, µs", "dropped"]
        say.append(table(head, rows))
        say.append(note.get("converge", ""))

    if r.of("latency"):
        say.append("## Latency\n")
        rows = []
        for o in r.of("latency"):
            times = [f"{o[w][q]:.1f}" for w in ("graph_us", "due_us") for q in ("p50", "p99", "p999", "max")]
            rows.append([f"{o['load'] * 100:.0f} %", f"{o['mpps']:.2f}", *times, o["missed"]])
        say.append("Microseconds in the graph, and since the packet was due.\n")
        q = ["p50", "p99", "p99.9", "max"]
        say.append(table(["load", "Mpps", *q, *(f"due {x}" for x in q), "missed"], rows))
        say.append(note.get("latency", ""))

    if r.of("binary"):
        say.append("## The binary\n")
        say.append("Without its symbols, as the package installs it:\n")
        rows = [[o["commit"], f"{o['stripped_bytes'] / 1e6:.1f}"] for o in r.of("binary")]
        say.append(table(["commit", "MB"], rows))

    if note.get("devices"):
        say.append("## Over devices\n")
        say.append(note["devices"])

    if note.get("documents"):
        say.append("## Large documents\n")
        say.append(note["documents"])

    if r.of("idle"):
        say.append("## Without traffic\n")
        for o in r.of("idle"):
            w = o["wake_us"]
            say.append(
                f"{o['workers']} worker{'s' if o['workers'] != 1 else ''}: {o['cpu_percent']:.3f} % of one CPU, "
                f"{o['wakeups_per_second']:.1f} wake-ups a second, {o['rss_mb']:.0f} MB. From a packet at a sleeping worker to "
                f"its forwarding: median {w['p50']:.1f} µs, p99 {w['p99']:.1f} µs.\n"
            )
        say.append(note.get("idle", ""))

    if r.of("growth"):
        say.append("## Growth\n")
        say.append("Clocks a packet, median of 2 ms windows.\n")
        for key, title, xlabel, names in GROWTH:
            curves = {label: [(o["x"], o["clocks_per_packet_2ms"]) for o in r.series(s)] for label, s in names.items()}
            curves = {label: c for label, c in curves.items() if c}
            if curves:
                files[f"growth-{key}.svg"] = lines(curves, "clocks a packet", xlabel)
                say.append(f"### {title}\n")
                say.append(f"![clocks a packet against {xlabel}]({folder}/growth-{key}.svg)\n")
                say.append(note.get(f"growth-{key}", ""))
    return "\n".join(s for s in say if s), files


def write(name, r, check, docs):
    text, files = page(name, r)
    wanted = {docs / f"{name}.md": text}
    wanted.update({docs / name / plot: body for plot, body in files.items()})
    stale = [p for p, body in wanted.items() if not p.exists() or p.read_text() != body]
    extra = [p for p in (docs / name).glob("*.svg") if p not in wanted]
    if check:
        for p in stale + extra:
            print(f"{p} is not what benchmarks/report.py writes: run scripts/bench report")
        return 1 if stale or extra else 0
    (docs / name).mkdir(parents=True, exist_ok=True)
    for p, body in wanted.items():
        p.write_text(body)
    for p in extra:
        p.unlink()
    return 0


def shorten():
    for line in sys.stdin:
        o = json.loads(line)
        known = ("family", "event", "load", "series", "x", "table", "content", "routes", "workers", "level", "like")
        what = " ".join(str(o[k]) for k in known if k in o)
        figures = ("mpps", "clocks_per_packet", "clocks_per_packet_2ms", "throughput_ratio", "updates_per_second", "gap_us")
        more = ("converge_us", "cpu_percent", "cpu_share", "inserts_per_second", "clocks_one", "clocks_many")
        print(f"    {o['scenario']} {what}:", ", ".join(f"{k} {o[k]}" for k in figures + more if k in o), flush=True)


def main(words):
    if words[:1] == ["--header"]:
        print(json.dumps(header(*words[1:3])))
    elif words[:1] == ["--lines"]:
        shorten()
    else:
        docs, check = DOCS, False
        while words[:1] in (["--to"], ["--check"]):
            if words.pop(0) == "--check":
                check = True
            else:
                docs = Path(words.pop(0))
        pages = {"performance": words[0]} if words else newest(docs, check)
        if not pages and not check:
            sys.exit("there are no results in benchmarks/results: run scripts/bench")
        return max([write(name, Results(path), check, docs) for name, path in pages.items()], default=0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
