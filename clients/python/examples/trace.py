"""Tells what becomes of packets, node by node: `trace.py SOCKET COUNT NODE...`, with a node such as af-packet-input."""
import sys
from quiver import Lost, Router

path, count, *nodes = sys.argv[1:]
with Router(path) as router, router.trace(*nodes, count=int(count)) as packets:
    print("tracing", flush=True)
    for packet in packets:
        if isinstance(packet, Lost):
            print(f"{packet.count} packets lost")
            continue
        print(f"packet {packet.number} of worker {packet.worker}: {' > '.join(step.node for step in packet.steps)}")
        for step in packet.steps:
            if step.drop_reason:
                print(f"  dropped by {step.node}: {step.drop_meaning}")
