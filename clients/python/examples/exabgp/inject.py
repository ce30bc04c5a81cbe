"""Puts the routes that ExaBGP learns into a router: `inject.py SOCKET [NAME [PEERS]]`, as a process of ExaBGP's (exabgp.conf beside this file).

ExaBGP writes a JSON object a line to the standard input. A peer's routes go when it goes down; of several peers' routes of a
prefix each has a metric of its own, so that another takes over. Routes are sent in batches: as many as have come meanwhile.
"""

import json
import os
import select
import sys

from quiver import QuiverError, Router


class Peers:
    """Which routes each peer has told."""

    def __init__(self):
        self.routes = {}  # of peer: of prefix: next hop
        self.metrics = {}  # of peer

    def metric(self, peer):
        return self.metrics.setdefault(peer, len(self.metrics))

    def read(self, message):
        """The changes of a message: (peer, prefix, next hop), of routes that go without a next hop."""
        neighbor = message.get("neighbor", {})
        peer = neighbor.get("address", {}).get("peer", "")
        known = self.routes.setdefault(peer, {})
        if message.get("type") == "state":
            if neighbor.get("state") == "down":
                yield from ((peer, prefix, None) for prefix in known)
                known.clear()
            return
        update = neighbor.get("message", {}).get("update", {})
        for _family, routes in update.get("withdraw", {}).items():
            for route in routes:
                if known.pop(route["nlri"], None):
                    yield peer, route["nlri"], None
        for _family, by_hop in update.get("announce", {}).items():
            for hop, routes in by_hop.items():
                for route in routes if isinstance(routes, list) else ():
                    if "nlri" in route:
                        known[route["nlri"]] = hop
                        yield peer, route["nlri"], hop


def lines():
    """Lists of the lines that have come, so that many are taken at once."""
    rest = b""
    while True:
        select.select([0], [], [])
        data = os.read(0, 1 << 20)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        yield whole


def batches(changes):
    """The changes by metric and next hop; of a prefix the last one counts."""
    last = {(peer, prefix): hop for peer, prefix, hop in changes}
    out = {}
    for (peer, prefix), hop in last.items():
        out.setdefault((peer, hop), []).append(prefix)
    return out


def main():
    socket = sys.argv[1]
    name = sys.argv[2] if len(sys.argv) > 2 else "exabgp"
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    peers = Peers()
    with Router(socket) as router, router.program(name, preference=200) as routes:
        # ExaBGP tells all again after its own start; what an earlier one has left stays in use until so many peers have told their routes.
        routes.begin()
        swept, told = False, set()
        for some in lines():
            changes = []
            for line in filter(None, some):
                message = json.loads(line)
                changes += peers.read(message)
                if "eor" in message.get("neighbor", {}).get("message", {}):
                    told.add(message["neighbor"]["address"]["peer"])
            for (peer, hop), prefixes in batches(changes).items():
                if hop is None:
                    routes.delete(prefixes, metric=peers.metric(peer))
                else:
                    routes.set(prefixes, via=hop, metric=peers.metric(peer))
            if len(told) >= count and not swept:
                routes.end()
                swept = True
            try:
                routes.flush()
            except QuiverError as e:
                print(f"{name}: {e}", file=sys.stderr, flush=True)


main()
