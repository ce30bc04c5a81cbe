"""One end of a wire: sends and receives frames byte by byte, beside Linux's own stack."""

import errno
import select
import socket
import struct
import time

from .expect import PATIENCE, show

SOL_PACKET = 263
PACKET_AUXDATA = 8
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 3
TP_STATUS_CSUMNOTREADY = 1 << 3
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6

ALL_ROUTERS_CHATTER = (133, 134, 143)


class Wire:
    """The far end of the cable in one of the router's ports."""

    def __init__(self, netns, device, mac):
        self.device, self.mac, self.netns = device, mac, netns
        with netns.entered():
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        s.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        s.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        for option in (33, 32):  # SO_RCVBUFFORCE, SO_SNDBUFFORCE
            s.setsockopt(socket.SOL_SOCKET, option, 32 << 20)
        s.bind((device, ETH_P_ALL))
        s.setblocking(False)
        self._socket = s

    def close(self):
        self._socket.close()

    def fileno(self):
        return self._socket.fileno()

    def send(self, *frames):
        """Sends frames (Scapy packets or bytes) one right after the other."""
        for raw in [bytes(f) for f in frames]:
            while True:
                try:
                    self._socket.send(raw)
                    break
                except (BlockingIOError, OSError) as e:
                    if not isinstance(e, BlockingIOError) and e.errno != errno.ENOBUFS:
                        raise
                    select.select([], [self._socket], [], 0.1)

    def _take(self):
        """The next frame that is there, with its VLAN tag back in its place, else None."""
        while True:
            try:
                data, control, _, _ = self._socket.recvmsg(65600, 256)
                break
            except BlockingIOError:
                return None
            except OSError as e:
                # The wire was cut; Linux says so once.
                if e.errno != errno.ENETDOWN:
                    raise
        for level, kind, value in control:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", value[:20])
                if status & TP_STATUS_VLAN_VALID:
                    tpid = tpid if status & TP_STATUS_VLAN_TPID_VALID else 0x8100
                    data = data[:12] + struct.pack("!HH", tpid, tci) + data[12:]
        return data

    def recv(self, timeout=PATIENCE, chatter=False):
        """The next frame, or None at the deadline. Neighbour discovery of the router's own is left out unless `chatter`."""
        deadline = time.monotonic() + timeout
        while True:
            frame = self._take()
            if frame is not None:
                if chatter or not is_chatter(frame):
                    return frame
                continue
            rest = deadline - time.monotonic()
            if rest <= 0:
                return None
            select.select([self._socket], [], [], rest)

    def take(self, count, timeout=PATIENCE, chatter=False):
        """`count` frames; fails when fewer come."""
        frames = []
        deadline = time.monotonic() + timeout
        while len(frames) < count:
            frame = self.recv(max(0, deadline - time.monotonic()), chatter)
            if frame is None:
                shown = "\n".join(show(f) for f in frames[-5:])
                raise AssertionError(f"{self.device}: {len(frames)} of {count} frames came; the last:\n{shown}")
            frames.append(frame)
        return frames

    def expect(self, *wanted, timeout=PATIENCE, chatter=False, ignore=None):
        """The next frames are exactly these, byte by byte, in this order. `ignore` masks byte ranges."""
        for want in wanted:
            want = bytes(want)
            got = self.recv(timeout, chatter)
            assert got is not None, f"{self.device}: nothing came in {timeout} s; wanted\n  {show(want)}"
            assert mask(got, ignore) == mask(want, ignore), (
                f"{self.device}: another frame came\n got {show(got)}\nwant {show(want)}"
            )

    def wait(self, matches, timeout=PATIENCE):
        """The first frame (as Scapy packet) for which `matches` is true; others are passed over."""
        from scapy.layers.l2 import Ether

        deadline = time.monotonic() + timeout
        seen = []
        while True:
            frame = self.recv(max(0, deadline - time.monotonic()), chatter=True)
            if frame is None:
                raise AssertionError(f"{self.device}: no such frame came; {len(seen)} others:\n"
                                     + "\n".join(show(f) for f in seen[-10:]))
            packet = Ether(frame)
            if matches(packet):
                return packet
            seen.append(frame)

    def drain(self):
        """Throws away what is there."""
        while self._take() is not None:
            pass


def mask(frame, ranges):
    """The frame with zeros in these (start, end) ranges."""
    raw = bytearray(frame)
    for start, end in ranges or ():
        raw[start:end] = bytes(len(raw[start:end]))
    return bytes(raw)


def is_chatter(frame):
    """What the router says of its own accord on a quiet wire: gratuitous ARP, DAD, advertisements to all nodes, and which
    groups it has joined."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, body = frame[at:at + 2], frame[at + 2:]
    if kind == b"\x08\x06":
        return body[14:18] == body[24:28] or body[14:18] == bytes(4)
    if kind == b"\x08\x00" and body[9] == 2:
        return True
    if kind == b"\x86\xdd" and body[6] == 0 and body[40:41] == b"\x3a" and len(body) > 48:
        return body[48] in ALL_ROUTERS_CHATTER + (131, 132)
    if kind == b"\x86\xdd" and body[6] == 58 and len(body) > 40:
        to_many = body[24] == 0xFF
        return to_many and (body[40] in ALL_ROUTERS_CHATTER + (136,) or body[40] == 135 and body[8:24] == bytes(16))
    return False
