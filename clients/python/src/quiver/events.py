"""What happens in the router: links, neighbors, configuration, log, drops, routes."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import QuiverError
from .v1 import events_pb2 as pb
from .v1 import routes_pb2

#: The kinds by their words: `link`, `neighbor`, `configuration`, `log`, `drops`, `route`.
KINDS = {v.name.removeprefix("EVENT_KIND_").lower(): v.number for v in pb.EventKind.DESCRIPTOR.values if v.number}
_LEVELS = {v.name.removeprefix("LOG_LEVEL_").lower(): v.number for v in pb.LogLevel.DESCRIPTOR.values if v.number}
_WORDS = {number: word for word, number in KINDS.items()}


class EventError(QuiverError, ValueError):
    """A kind of events or a level that there is not, found before anything is sent."""


def event_kind(event: pb.Event) -> str:
    """The kind of an event in a word; empty for a gap, and for a kind that this version does not know."""
    return _WORDS.get(event.kind, "")


def _name(of: dict[str, int], what: str, word: str) -> str:
    if word not in of:
        raise EventError(f"{what} {word!r}: it is one of {', '.join(of)}")
    return f"{what.upper()}_{word.upper()}"


def wanted(
    kinds: Sequence[str], interfaces: Sequence[str], log_level: str, drops_per_second: int, routes: routes_pb2.RouteFilter | None
) -> pb.WatchEventsRequest:
    """What is asked for."""
    return pb.WatchEventsRequest(
        kinds=[_name(KINDS, "event_kind", k) for k in kinds],
        interfaces=interfaces,
        log_level=_name(_LEVELS, "log_level", log_level),
        drops_per_second=drops_per_second,
        routes=routes,
    )


def lost() -> pb.Event:
    """The gap of a connection that has gone: of what and how many events is not known."""
    return pb.Event(gap=pb.EventGap())


class EventView:
    """The links and neighbors that there are, from the events of `router.events(...)`."""

    def __init__(self) -> None:
        #: By number.
        self.links: dict[int, pb.LinkEvent] = {}
        #: By the number of the interface, and the address as bytes.
        self.neighbors: dict[tuple[int, bytes], pb.NeighborEvent] = {}
        #: The kinds of which all is told.
        self.whole: set[str] = set()

    def heard(self, event: pb.Event) -> None:
        """Takes note of an event. What is told anew behind a gap is forgotten with the gap."""
        what = event.WhichOneof("what")
        if what == "link":
            if event.link.change == pb.EVENT_CHANGE_GONE:
                self.links.pop(event.link.index, None)
            else:
                self.links[event.link.index] = event.link
        elif what == "neighbor":
            key = (event.neighbor.index, event.neighbor.address)
            if event.neighbor.change == pb.EVENT_CHANGE_GONE:
                self.neighbors.pop(key, None)
            else:
                self.neighbors[key] = event.neighbor
        elif what == "snapshot_end":
            self.whole.add(event_kind(event))
        elif what == "gap":
            gone = {_WORDS.get(of.kind, "") for of in event.gap.lost} or set(KINDS)
            self.whole -= gone
            if "link" in gone:
                self.links.clear()
            if "neighbor" in gone:
                self.neighbors.clear()
