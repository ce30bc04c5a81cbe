"""Looks at a router, and sets a route: `show.py SOCKET NEXT-HOP`."""
import sys
from quiver import Router

with Router(sys.argv[1]) as router:
    print(router.command("show version"), end="")
    for interface in router.json("show interface"):
        print(interface["name"], "up" if interface["link"] else "down")
    with router.program("example") as routes:
        routes.set(["203.0.113.0/24"], via=sys.argv[2])
        routes.flush()
        for route in router.routes("203.0.113.0/24"):
            print(route.prefix, route.source, *route.next_hops)
