"""Routes: where they lead, which to read, and how they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Union

from . import packing
from .errors import PrefixError
from .v1 import routes_pb2 as pb

_ACTIONS = {
    "forward": pb.ROUTE_ACTION_FORWARD,
    "drop": pb.ROUTE_ACTION_DROP,
    "unreachable": pb.ROUTE_ACTION_UNREACHABLE,
    "prohibit": pb.ROUTE_ACTION_PROHIBIT,
}
_ACTION_NAMES = {n: name.removeprefix("ROUTE_ACTION_").lower() for name, n in pb.RouteAction.items() if n}
_FAMILIES = {"": pb.ROUTE_FAMILY_UNSPECIFIED, "ipv4": pb.ROUTE_FAMILY_IPV4, "ipv6": pb.ROUTE_FAMILY_IPV6}


@dataclass(frozen=True)
class NextHop:
    """One next hop: an address on an interface, an address that is looked up, an interface, or a table."""

    address: str = ""
    interface: str = ""
    #: The table in which the address is looked up, or the destinations where there is no address.
    table: int | None = None
    #: Its share of the flows, 1 to 255.
    weight: int = 1
    #: MPLS labels that packets get, the outermost first.
    labels: tuple[int, ...] = ()
    #: The largest packet that may go this way, where that is less than the interface says; 0: nothing is said.
    mtu: int = 0

    @classmethod
    def parse(cls, text: str) -> NextHop:
        """`ADDRESS INTERFACE`, `ADDRESS` or `INTERFACE`."""
        words = text.split()
        if len(words) == 2:
            return cls(words[0], words[1])
        if len(words) != 1:
            raise PrefixError(f"next hop {text!r}: right would be `10.0.0.1`, `10.0.0.1 eth0` or `eth0`")
        try:
            packing.address_bytes(words[0])
        except PrefixError:
            return cls(interface=words[0])
        return cls(words[0])

    def __str__(self) -> str:
        words = [self.address, self.interface]
        words += [f"table {self.table}"] if self.table is not None else []
        words += [f"weight {self.weight}"] if self.weight != 1 else []
        words += [f"mtu {self.mtu}"] if self.mtu else []
        words += ["labels " + "/".join(map(str, self.labels))] if self.labels else []
        return " ".join(w for w in words if w)

    def message(self) -> pb.NextHop:
        """As the schema has it."""
        address = packing.address_bytes(self.address) if self.address else b""
        return pb.NextHop(
            address=address, interface=self.interface, table=self.table, weight=self.weight, labels=self.labels, mtu=self.mtu
        )

    @classmethod
    def of(cls, hop: pb.NextHop) -> NextHop:
        """As the schema has it."""
        table = hop.table if hop.HasField("table") else None
        return cls(packing.address_text(hop.address), hop.interface, table, hop.weight or 1, tuple(hop.labels), hop.mtu)


@dataclass(frozen=True)
class Target:
    """Where packets of routes go: over next hops, or nowhere (`drop`, `unreachable`, `prohibit`)."""

    next_hops: tuple[NextHop, ...] = ()
    action: str = "forward"

    def __hash__(self) -> int:
        # Asked for once a route, where routes have a target each.
        known = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = hash((self.next_hops, self.action))
        return int(known)

    def message(self, number: int) -> pb.NextHopSet:
        """As the schema has it, with its number in a stream."""
        hops = [hop.message() for hop in self.next_hops]
        return pb.NextHopSet(number=number, action=_ACTIONS[self.action], next_hops=hops)


#: What stands for a target: `"10.0.0.1 eth0"`, a NextHop, several of either, `"drop"`, `"unreachable"`, `"prohibit"`, or a Target.
Via = Union[str, NextHop, Target, Iterable[Union[str, NextHop]]]


def target(via: Via) -> Target:
    """The target that something stands for."""
    if isinstance(via, Target):
        if via.action not in _ACTIONS:
            raise PrefixError(f"action {via.action!r}: it is one of {', '.join(_ACTIONS)}")
        return via
    if isinstance(via, str) and via in _ACTIONS and via != "forward":
        return Target(action=via)
    some = [via] if isinstance(via, (str, NextHop)) else list(via)
    return Target(tuple(hop if isinstance(hop, NextHop) else NextHop.parse(hop) for hop in some))


@dataclass(frozen=True)
class Kind:
    """What routes have in common."""

    source: str
    preference: int
    metric: int
    action: str
    next_hops: tuple[NextHop, ...]

    @classmethod
    def of(cls, kind: pb.RouteKind) -> Kind:
        """As the schema has it."""
        hops = tuple(map(NextHop.of, kind.next_hops.next_hops))
        action = _ACTION_NAMES.get(kind.next_hops.action, "forward")
        return cls(kind.source, kind.preference, kind.metric, action, hops)


class Route:
    """A route that the router has."""

    __slots__ = ("kind", "prefix", "table", "used")

    def __init__(self, prefix: str, table: int, used: bool, kind: Kind) -> None:
        self.prefix = prefix
        self.table = table
        #: Packets take it; another route of the prefix may be better, or it leads nowhere.
        self.used = used
        self.kind = kind

    @property
    def source(self) -> str:
        """Whose it is: `interface`, `static`, `kernel:bird`, `api:fleet@root`."""
        return self.kind.source

    @property
    def preference(self) -> int:
        """How far its source is believed: less is better."""
        return self.kind.preference

    @property
    def metric(self) -> int:
        """Tells routes of a source apart: less is better."""
        return self.kind.metric

    @property
    def action(self) -> str:
        """`forward`, `drop`, `unreachable`, `prohibit`, `local`, `connected`, `neighbor`, `broadcast`."""
        return self.kind.action

    @property
    def next_hops(self) -> tuple[NextHop, ...]:
        """Where its packets go."""
        return self.kind.next_hops

    def _key(self) -> tuple[object, ...]:
        return self.prefix, self.table, self.used, self.kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Route) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        way = f"via {', '.join(map(str, self.next_hops))}" if self.next_hops else self.action
        return f"<Route {self.prefix} {way}, of {self.source}{'' if self.used else ', not used'}>"


def route_filter(prefix: str | None, longer: bool, longest: bool, table: int, family: str, source: str) -> pb.RouteFilter:
    """Which routes."""
    if family not in _FAMILIES:
        raise PrefixError(f"family {family!r}: it is ipv4 or ipv6")
    if longer and longest:
        raise PrefixError("routes within a prefix (longer), or the longest that holds it: not both")
    if prefix is not None:
        packing.pack(prefix)
    match = pb.ROUTE_MATCH_LONGER if longer or prefix is None else pb.ROUTE_MATCH_LONGEST if longest else pb.ROUTE_MATCH_EXACT
    return pb.RouteFilter(
        table=table, family=_FAMILIES[family], prefix=prefix or "", match=match, source=source
    )


@dataclass(frozen=True)
class Routes:
    """Routes of one family in one table, packed."""

    table: int
    prefixes: packing.Packed
    #: The kind of each.
    kinds: list[Kind]
    #: Places of those that packets do not take.
    unused: frozenset[int]
    #: Prefixes that have no route any more.
    gone: packing.Packed

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[Route]:
        table, unused = self.table, self.unused
        for at, (prefix, kind) in enumerate(zip(self.prefixes.texts(), self.kinds)):
            yield Route(prefix, table, at not in unused, kind)


class Reader:
    """Reads the batches of a stream, which tell a kind once and then its number."""

    def __init__(self) -> None:
        self._kinds: dict[int, Kind] = {}

    def read(self, batch: pb.RouteBatch) -> Routes:
        """The routes of the next batch."""
        if batch.forget_kinds:
            self._kinds.clear()
        for kind in batch.kinds:
            self._kinds[kind.number] = Kind.of(kind)
        prefixes = packing.Packed(batch.ipv6, batch.prefixes)
        kinds = list(map(self._kinds.__getitem__, batch.of_kind))
        return Routes(batch.table, prefixes, kinds, frozenset(batch.unused), packing.Packed(batch.ipv6, batch.gone))
