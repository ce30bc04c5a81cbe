"""Sets many routes, reads them back and takes them away: `bulk.py SOCKET NEXT-HOP [COUNT]`."""

import sys
import time
from array import array

from quiver import Router, pack_bytes


def prefixes(count):
    """As many prefixes of 24 bits from 20.0.0.0 on, packed."""
    addresses = array("I", [(20 << 24) + (i << 8) for i in range(count)])
    addresses.byteswap()
    return pack_bytes(addresses.tobytes(), 24)


def main():
    socket, next_hop, *more = sys.argv[1:]
    count = int(more[0]) if more else 1_000_000

    def timed(what, work):
        began = time.perf_counter()
        work()
        print(f"{what}: {count / (time.perf_counter() - began):,.0f} routes a second")

    with Router(socket) as router, router.program("bulk", grace_seconds=0) as routes:

        def change(work):
            work()
            routes.flush()

        def read():
            batches = router.route_batches(source=routes.source)
            back = b"".join(batch.prefixes.data for batch in batches)
            assert back == prefixes(count).data, "what is read back differs"

        timed("set", lambda: change(lambda: routes.set(prefixes(count), via=next_hop)))
        timed("read back and compared", read)
        timed("deleted", lambda: change(lambda: routes.delete(prefixes(count))))


main()
