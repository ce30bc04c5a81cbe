#!/usr/bin/env python3
"""Writes a configuration of thousands of bridge domains, routing tables and sub-interfaces.

    benchmarks/scale.py [--bridges N] [--vrfs N] [--subs N] [--device NAME]...  > scale.yaml

Each bridge domain has two sub-interfaces, one on each of the first two devices; each routing table has one sub-interface
with an IPv4 and an IPv6 prefix, a default route of each family and an address in common with all others; what is left of
`--subs` are sub-interfaces of table 0. Every sub-interface has two tags: 100 inner ones for each outer one.
"""

import argparse


def tags(n):
    """Outer and inner tag of number `n`."""
    return 1 + n // 100, 1 + n % 100


def sub(n):
    outer, inner = tags(n)
    return f"{{encapsulation: {{dot1q: {outer}, inner-dot1q: {inner}, exact-match: true}}}}"


def routed(n):
    """IPv4 and IPv6 prefix of routed sub-interface `n`; the router is the first host."""
    four = (100 << 24 | 64 << 16) + 4 * n + 1
    return (f"{four >> 24}.{four >> 16 & 255}.{four >> 8 & 255}.{four & 255}/30", f"2001:db8:{n + 1:x}::1/64")


def neighbor(n):
    """The other host of the prefixes of routed sub-interface `n`."""
    four, six = (a.split("/")[0] for a in routed(n))
    host = four.rsplit(".", 1)
    return f"{host[0]}.{int(host[1]) + 1}", f"{six[:-1]}2"


def document(bridges, vrfs, subs, devices):
    left, right = devices[0], devices[1]
    sides = {left: [], right: []}
    out = []
    for n in range(bridges):
        for side in sides.values():
            side.append(f"      {n + 1}: {sub(n)}")
    rest = subs - 2 * bridges
    if rest < vrfs:
        raise SystemExit(f"{subs} sub-interfaces are too few for {bridges} bridge domains and {vrfs} routing tables")
    names = []
    for n in range(rest):
        side = (left, right)[n % 2]
        number = bridges + n // 2
        four, six = routed(n)
        head = sub(number)[:-1]
        sides[side].append(f'      {number + 1}: {head}, addresses: [{four}, "{six}"]}}')
        names.append(f"{side}.{number + 1}")
    out.append("interfaces:")
    for name, lines in sides.items():
        out += [f"  {name}:", "    sub-interfaces:"] + lines
    if bridges:
        out.append("bridgedomains:")
        out += [f"  bd{n + 1}: {{interfaces: [{left}.{n + 1}, {right}.{n + 1}]}}" for n in range(bridges)]
    if vrfs:
        out.append("tables:")
        out += [f"  {n + 1}: {{name: vrf-{n + 1}}}" for n in range(vrfs)]
        out += ["l3:", "  interfaces:"]
        out += [f"    {names[n]}: {{table: {n + 1}}}" for n in range(vrfs)]
        out.append("routes:")
        for n in range(vrfs):
            four, six = neighbor(n)
            out.append(f"  - 0.0.0.0/0 table {n + 1} via {four}")
            out.append(f"  - ::/0 table {n + 1} via {six}")
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bridges", type=int, default=4000)
    p.add_argument("--vrfs", type=int, default=4000)
    p.add_argument("--subs", type=int, default=12000)
    p.add_argument("--device", action="append")
    a = p.parse_args()
    devices = a.device or ["left", "right"]
    print(document(a.bridges, a.vrfs, a.subs, devices), end="")


if __name__ == "__main__":
    main()
