"""Packets: captures, packets for a program, and packets into the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any

import grpc

from .errors import RefusedError, UnavailableError, from_rpc
from .v1 import packets_pb2 as pb

if TYPE_CHECKING:
    from .router import Router

_DIRECTIONS = {
    "rx": pb.PACKET_DIRECTION_RX,
    "tx": pb.PACKET_DIRECTION_TX,
    "drop": pb.PACKET_DIRECTION_DROP,
}


@dataclass(frozen=True)
class Lost:
    """So many packets are missing here, as they were not taken in time."""

    count: int


def capture_request(interface: str, directions: Iterable[str], snap_length: int, count: int) -> pb.CaptureRequest:
    """What to capture."""
    wanted = []
    for word in directions:
        if word not in _DIRECTIONS:
            raise ValueError(f"{word!r} is no direction: rx, tx or drop")
        wanted.append(_DIRECTIONS[word])
    return pb.CaptureRequest(interface=interface, directions=wanted, snap_length=snap_length, count=count)


def inject_request(node: str, packets: Iterable[bytes], rx: str, tx: str, count: int) -> pb.InjectRequest:
    """Packets for a node."""
    return pb.InjectRequest(node=node, rx_interface=rx, tx_interface=tx, packets=packets, count=count)


def taken(answer: Any) -> int:
    """How many packets the graph has taken."""
    if not isinstance(answer, pb.InjectResponse):
        raise UnavailableError(grpc.StatusCode.UNAVAILABLE, "the router has ended the call")
    if answer.HasField("error"):
        raise RefusedError(grpc.StatusCode.FAILED_PRECONDITION, f"{answer.error.object}: {answer.error.message}", [answer.error])
    return answer.taken


def ethertype(number: int, *, interface: str = "") -> pb.PuntRequest.Filter:
    """Frames of an EtherType."""
    return pb.PuntRequest.Filter(ethertype=number, interface=interface)


def ip_protocol(number: int, *, interface: str = "", ip_version: int = 0) -> pb.PuntRequest.Filter:
    """Packets to the router of a protocol above IP."""
    return pb.PuntRequest.Filter(ip_protocol=number, interface=interface, ip_version=ip_version)


def udp_port(port: int, *, interface: str = "", ip_version: int = 0) -> pb.PuntRequest.Filter:
    """Datagrams to a UDP port of the router's."""
    return pb.PuntRequest.Filter(udp_port=port, interface=interface, ip_version=ip_version)


def tcp_port(port: int, *, interface: str = "", ip_version: int = 0) -> pb.PuntRequest.Filter:
    """Segments to a TCP port of the router's."""
    return pb.PuntRequest.Filter(tcp_port=port, interface=interface, ip_version=ip_version)


class Passing:
    """Packets as they come, and `Lost` where some are missing. Leaving the `with` block, or `close`, ends what brings them."""

    def __init__(self, router: Router, method: Any, request: Any, timeout: float | None) -> None:
        def begin(left: float | None) -> Any:
            call = method(request, timeout=left)
            # The first message is empty: packets come from then on.
            next(call, None)
            return call

        self._closed = False
        self._call = router._try(begin, timeout, True)

    def close(self) -> None:
        """Ends it."""
        self._closed = True
        self._call.cancel()

    def __enter__(self) -> Passing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        try:
            for message in self._call:
                yield from message.packets
                if message.lost:
                    yield Lost(message.lost)
        except grpc.RpcError as e:
            if not self._closed:
                raise from_rpc(e) from None


class Injector:
    """A way for packets into the graph, for one thread. The `with` block ends it."""

    def __init__(self, method: Any) -> None:
        self._requests: SimpleQueue[pb.InjectRequest | None] = SimpleQueue()
        self._answers = method(iter(self._requests.get, None))

    def close(self) -> None:
        """Ends it."""
        self._requests.put(None)
        self._answers.cancel()

    def __enter__(self) -> Injector:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def inject(self, node: str, packets: Iterable[bytes], *, rx: str = "", tx: str = "", count: int = 1) -> int:
        """Puts packets into the graph at a node, `count` times, and waits until they are there: how many were taken."""
        self._requests.put(inject_request(node, packets, rx, tx, count))
        try:
            answer = next(self._answers, None)
        except grpc.RpcError as e:
            raise from_rpc(e) from None
        return taken(answer)
