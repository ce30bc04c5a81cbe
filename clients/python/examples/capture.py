"""Captures packets into a file for tcpdump and Wireshark: `capture.py SOCKET FILE COUNT [INTERFACE [rx] [tx] [drop]]`."""
import struct
import sys
from quiver import Lost, Router

path, file, count, interface, *directions = sys.argv[1:] + ([""] if len(sys.argv) == 4 else [])
with Router(path) as router, open(file, "wb") as out:
    out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 9216, 1))
    with router.capture(interface, directions=directions, count=int(count)) as packets:
        print("capturing", flush=True)
        for packet in packets:
            if isinstance(packet, Lost):
                print(f"{packet.count} packets are missing", file=sys.stderr)
                continue
            seconds, nanoseconds = divmod(packet.time_ns, 1_000_000_000)
            out.write(struct.pack("<IIII", seconds, nanoseconds, len(packet.data), packet.length) + packet.data)
