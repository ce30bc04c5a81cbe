"""Answers what is sent to a UDP port of the router's with the same bytes (RFC 862): `udp_echo.py SOCKET PORT`.

The router has no such service: this program has the port's packets, whole, and sends its own. So does a daemon for any protocol.
"""
import struct
import sys
from quiver import Lost, Router, udp_port


def checksum(data):
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def answer(packet):
    """The datagram that goes back, as an IP packet."""
    ip = packet.data[packet.network_offset :]
    if ip[0] >> 4 != 4:
        return None
    length, header = struct.unpack("!H", ip[2:4])[0], (ip[0] & 15) * 4
    source, to, udp = ip[12:16], ip[16:20], ip[header:length]
    ports, payload = udp[2:4] + udp[0:2], udp[8 : struct.unpack("!H", udp[4:6])[0]]
    size = struct.pack("!H", 8 + len(payload))
    pseudo = to + source + b"\0\x11" + size
    sum_of = checksum(pseudo + ports + size + b"\0\0" + payload) or 0xFFFF
    front = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0) + to + source
    front = front[:10] + struct.pack("!H", checksum(front)) + front[12:]
    return front + ports + size + struct.pack("!H", sum_of) + payload


with Router(sys.argv[1]) as router, router.injector() as injector, router.punt(udp_port(int(sys.argv[2]), ip_version=4)) as packets:
    print("answering", flush=True)
    for packet in packets:
        if isinstance(packet, Lost):
            print(f"{packet.count} datagrams came too fast", file=sys.stderr)
        elif reply := answer(packet):
            # As the router's own, routed in the table of the interface on which the question came.
            injector.inject("ip4-lookup", [reply], rx=packet.interface)
