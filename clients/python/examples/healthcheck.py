"""Sends routes over a first next hop while it is healthy, and over a second one while it is not.

    healthcheck.py SOCKET PREFIX... --primary 10.0.1.2 --backup 10.0.2.2 [--check ping|tcp:PORT] [--every 1] [--rise 2] [--fall 3]

With `ping` the router itself asks, so that the way is checked which packets take; with `tcp:PORT` this program connects. The routes are
those of a source of their own, which stay for the grace time when this program ends: it may be started anew without a packet lost.
"""

import argparse
import signal
import socket
import sys
import threading

from quiver import QuiverError, Router


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("socket")
    parser.add_argument("prefix", nargs="+")
    parser.add_argument("--primary", required=True)
    parser.add_argument("--backup", required=True)
    parser.add_argument("--check", default="ping")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between checks")
    parser.add_argument("--rise", type=int, default=2, help="good checks until it is healthy")
    parser.add_argument("--fall", type=int, default=3, help="bad checks until it is not")
    parser.add_argument("--grace", type=int, default=60, help="seconds that the routes stay after the end")
    return parser.parse_args()


def healthy(router, args):
    """Whether the first next hop answers."""
    address = args.primary.split()[0]
    if args.check == "ping":
        return not router.command(f"ping {address} repeat 1 interval 0.5", timeout=10).failed
    try:
        socket.create_connection((address, int(args.check.removeprefix("tcp:"))), timeout=1).close()
    except OSError:
        return False
    return True


def main():
    args = arguments()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with Router(args.socket) as router, router.program("healthcheck", grace_seconds=args.grace) as routes:
        up, run = True, 0
        # Also what an earlier run of this program has left is put right.
        routes.begin()
        routes.set(args.prefix, via=args.primary)
        routes.end()
        print(f"{len(args.prefix)} routes over {args.primary}", flush=True)
        while not ended.wait(args.every):
            try:
                good = healthy(router, args)
            except QuiverError as e:
                print(f"no check: {e}", file=sys.stderr, flush=True)
                continue
            run = 0 if good == up else run + 1
            if run >= (args.fall if up else args.rise):
                up, run = not up, 0
                routes.set(args.prefix, via=args.primary if up else args.backup)
                routes.flush()
                print(f"{args.primary} is {'up' if up else 'down'}: over {args.primary if up else args.backup}", flush=True)


main()
