"""The routes of a client: what is sent, what is acknowledged, and what is sent again. Nothing here talks to anybody."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from .errors import QuiverError
from .packing import WIDTH, Packed, Prefix, pack, split, unpack
from .routes import Target, Via, target
from .v1 import routes_pb2 as pb

#: Batches that may be under way before `set` and `delete` wait.
UNDER_WAY = 32
#: Numbers of next-hop sets, and next hops of all of them.
SETS = 65_536
#: Routes of what is remembered, from which on it is looked through for what counts no more.
TIDY = 2_000_000


@dataclass(frozen=True)
class RouteError:
    """What is wrong with a route, with a batch, or with where routes go."""

    #: The route's prefix; empty where it is about more than one.
    prefix: str
    #: The rule that is broken, such as `host-bits` or `next-hop`.
    rule: str
    value: str
    message: str

    def __str__(self) -> str:
        return f"{self.prefix}: {self.message}" if self.prefix and self.prefix not in self.message else self.message


@dataclass(frozen=True)
class Done:
    """What became of the routes since it was last asked for."""

    refused: int = 0
    #: The first of what was refused, at most 256 for each answer of the router, and 4096 in all.
    errors: list[RouteError] = field(default_factory=list)


class RoutesRefused(QuiverError):
    """The router has refused some routes, and has made the others."""

    def __init__(self, done: Done) -> None:
        super().__init__(done)
        self.refused = done.refused
        self.errors = done.errors

    def __str__(self) -> str:
        first = "".join(f"\n  {e}" for e in self.errors[:10])
        more = f"\n  and {self.refused - 10} more" if self.refused > 10 else ""
        return f"{self.refused} route{'' if self.refused == 1 else 's'} refused{first}{more}"


@dataclass(frozen=True)
class Change:
    """Routes of one batch that are set, or deleted where they have no targets."""

    table: int
    metric: int
    prefixes: Packed
    #: That of all, or of each.
    targets: tuple[Target, ...]

    def __len__(self) -> int:
        return len(self.prefixes)


def _pieces(prefixes: Packed | Iterable[Prefix], most: int) -> Iterator[Packed]:
    """Prefixes packed, at most so many at once."""
    if isinstance(prefixes, (Packed, str)):
        for packed in pack(prefixes):
            yield from packed.pieces(most)
        return
    rest = iter(prefixes)
    while some := list(islice(rest, most)):
        yield from pack(some)


class Book:
    """What a stream of a client has sent and heard."""

    def __init__(self, remember: bool) -> None:
        self.remember = remember
        #: Replies are waited for up to this number.
        self.sent = 0
        self.acknowledged = 0
        self.most_routes = SETS
        self.gone: int | None = None
        self._kept: list[Change] = []
        self._routes = 0
        self._tidy_at = TIDY
        #: The router has routes of the client from before, which are not known here.
        self._partly = False
        #: How many batches there were when the caller began to send all again.
        self._begun_at: int | None = None
        #: The last number of what was sent again on a new stream, of which the end is still awaited.
        self._settled_at = 0
        self._sweeping = False
        self._refused = 0
        self._errors: list[RouteError] = []
        self._restart()

    def _restart(self) -> None:
        self._numbers: dict[Target, int] = {}
        self._next = 0
        self._free: deque[int] = deque()
        self._hops = 0
        self._flying: dict[int, Change] = {}

    def welcomed(self, welcome: pb.RouteWelcome) -> None:
        """Takes note of the first answer of the first stream."""
        self.most_routes = welcome.most_routes or self.most_routes
        self._partly = welcome.routes > 0

    @property
    def under_way(self) -> int:
        """Batches that are not acknowledged."""
        return len(self._flying)

    # What is to be sent.

    def changes(self, prefixes: Packed | Iterable[Prefix], via: Via | None, each: Sequence[Via] | None, table: int, metric: int) -> Iterator[Change]:
        """The batches of what a caller sets (to one target, or to one each) or deletes (without)."""
        if each is None:
            targets: tuple[Target, ...] = () if via is None else (target(via),)
            for piece in _pieces(prefixes, self.most_routes):
                yield Change(table, metric, piece, targets)
            return
        pieces = list(_pieces(prefixes, self.most_routes))
        if len({piece.ipv6 for piece in pieces}) > 1:
            raise QuiverError("prefixes of both families, with a target each: set one family at a time")
        if sum(map(len, pieces)) != len(each):
            raise QuiverError(f"{len(each)} targets for {sum(map(len, pieces))} prefixes: one each")
        # Targets that are the same object are looked at once.
        known = {id(v): v for v in each}
        made = {key: target(v) for key, v in known.items()}
        at = 0
        for piece in pieces:
            yield Change(table, metric, piece, tuple([made[id(v)] for v in each[at : at + len(piece)]]))
            at += len(piece)

    def send(self, change: Change) -> list[pb.ProgramRequest]:
        """The messages of a batch."""
        if self.remember:
            self._kept.append(change)
            self._routes += len(change)
            if self._routes > self._tidy_at:
                self._tidy()
        return self._messages(change)

    def _messages(self, change: Change) -> list[pb.ProgramRequest]:
        sets: list[pb.NextHopSet] = []
        needed = dict.fromkeys(change.targets)
        for t in needed:
            if t not in self._numbers:
                self._number(t, sets, needed)
        requests = [pb.ProgramRequest(sets=pb.NextHopSets(sets=sets))] if sets else []
        self.sent += 1
        self._flying[self.sent] = change
        changes = pb.RouteChanges(
            id=self.sent,
            table=change.table,
            ipv6=change.prefixes.ipv6,
            delete=not change.targets,
            metric=change.metric,
            prefixes=change.prefixes.data,
            sets=map(self._numbers.__getitem__, change.targets),
        )
        return [*requests, pb.ProgramRequest(changes=changes)]

    def _number(self, t: Target, sets: list[pb.NextHopSet], needed: dict[Target, None]) -> None:
        """Gives a target a number; where there is no room, others lose theirs. Routes that were set by them stay as they are."""
        for old in list(self._numbers) if self._hops + len(t.next_hops) > SETS or self._full() else ():
            if old in needed:
                continue
            number = self._numbers.pop(old)
            self._hops -= len(old.next_hops)
            self._free.append(number)
            sets.append(Target(action="drop").message(number))
            if self._hops + len(t.next_hops) <= SETS and not self._full():
                break
        number = self._free.popleft() if self._free else self._next
        self._next = max(self._next, number + 1)
        self._numbers[t] = number
        self._hops += len(t.next_hops)
        sets.append(t.message(number))

    def _full(self) -> bool:
        return not self._free and self._next >= SETS

    def begin(self) -> pb.ProgramRequest:
        """All routes are sent again from here on: what was sent before counts no more."""
        self._begun_at = len(self._kept)
        return pb.ProgramRequest(sync=pb.ROUTE_SYNC_BEGIN)

    def end(self) -> pb.ProgramRequest:
        """All are sent again."""
        if self._begun_at is not None:
            del self._kept[: self._begun_at]
            self._routes = sum(map(len, self._kept))
            self._begun_at, self._partly = None, False
        self.gone = None
        return pb.ProgramRequest(sync=pb.ROUTE_SYNC_END)

    def again(self) -> list[pb.ProgramRequest]:
        """Everything that is to be sent on a new stream, after its Hello."""
        self._restart()
        self.gone = None
        if self._begun_at is None:
            self._tidy()
        else:
            # The caller is about to send all again: what is older would go anyway.
            del self._kept[: self._begun_at]
            self._begun_at = 0
        messages = [request for change in self._kept for request in self._messages(change)]
        self._settled_at = self.sent
        if not messages:
            self.acknowledged = self.sent
        # Where the router may have routes that are not known here, none is swept: what was deleted is deleted again.
        self._sweeping = self._begun_at is None and not self._partly
        begin = [] if self._partly and self._begun_at is None else [pb.ProgramRequest(sync=pb.ROUTE_SYNC_BEGIN)]
        end = [pb.ProgramRequest(sync=pb.ROUTE_SYNC_END)] if self._sweeping else []
        return [*begin, *messages, *end]

    def settled(self, upto: int) -> bool:
        """What was sent up to this number is acknowledged, and on a new stream all that was sent again."""
        return not self._sweeping and self.acknowledged >= max(upto, self._settled_at)

    def _tidy(self) -> None:
        """Leaves out of what is remembered what later changes have overruled."""
        if self._begun_at is not None:
            return
        last: dict[tuple[int, int, bool], dict[bytes, Target | None]] = {}
        for change in self._kept:
            routes = last.setdefault((change.table, change.metric, change.prefixes.ipv6), {})
            prefixes = split(change.prefixes.data, change.prefixes.ipv6)
            if len(change.targets) > 1:
                routes.update(zip(prefixes, change.targets))
            elif change.targets or self._partly:
                routes.update(dict.fromkeys(prefixes, change.targets[0] if change.targets else None))
            else:
                for prefix in prefixes:
                    routes.pop(prefix, None)
        kept: list[Change] = []
        for (table, metric, ipv6), routes in last.items():
            by_target: dict[Target | None, list[bytes]] = {}
            for prefix, to in routes.items():
                by_target.setdefault(to, []).append(prefix)
            for to, prefixes in by_target.items():
                for piece in Packed(ipv6, b"".join(prefixes)).pieces(self.most_routes):
                    kept.append(Change(table, metric, piece, () if to is None else (to,)))
        self._kept = kept
        self._routes = sum(map(len, kept))
        self._tidy_at = max(TIDY, 2 * self._routes)

    # What is heard.

    def heard(self, reply: pb.ProgramReply) -> None:
        """Takes note of a reply behind the Welcome."""
        if reply.HasField("swept"):
            self.gone = reply.swept.gone
            self._sweeping = False
            return
        done = reply.done
        self._refused += done.refused
        for e in done.errors:
            if len(self._errors) < 4096:
                self._errors.append(RouteError(self._prefix(e), e.rule, e.value, e.message))
        self.acknowledged = max(self.acknowledged, done.id)
        # Numbers rise, and a dictionary keeps its order.
        while self._flying and (first := next(iter(self._flying))) <= done.id:
            del self._flying[first]

    def _prefix(self, e: pb.RouteError) -> str:
        change = self._flying.get(e.id)
        if change is None or not e.HasField("index"):
            return ""
        ipv6 = change.prefixes.ipv6
        at = e.index * WIDTH[ipv6]
        return "".join(unpack(change.prefixes.data[at : at + WIDTH[ipv6]], ipv6))

    def take(self) -> Done:
        """What became of the routes since the last time."""
        done = Done(self._refused, self._errors)
        self._refused, self._errors = 0, []
        return done
