"""Following routes: a view that is the router's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import grpc

from .errors import CallError, UnavailableError, from_rpc
from .packing import pack, split
from .program import PAUSE, is_final
from .routes import Reader, Route, Routes
from .v1 import routes_pb2 as pb

if TYPE_CHECKING:
    from .router import Router


#: Table, whether it is IPv6, address and length: what routes are sorted by.
Key = tuple[int, bool, bytes]


def _key(table: int, ipv6: bool, packed: bytes) -> Key:
    return table, ipv6, packed[1:] + packed[:1]


class View:
    """What a follower knows, from the events of one stream after the other."""

    def __init__(self) -> None:
        self._routes: dict[Key, list[Route]] = {}
        #: What was told since all is told anew; None: nothing is.
        self._told: set[Key] | None = set()
        self._reader = Reader()
        #: All routes that there are have been told.
        self.complete = False
        #: Changes that were lost, since it began: gaps that the router told of, and connections.
        self.gaps = 0

    def restart(self) -> None:
        """A new stream begins."""
        self._reader = Reader()
        # A stream that has told nothing, as while there is no router, takes nothing away.
        self.gaps += bool(self.complete or self._told)
        self._anew()

    def _anew(self) -> None:
        self._told = set()
        self.complete = False

    def heard(self, event: pb.RouteEvent) -> None:
        """Takes note of an event."""
        what = event.WhichOneof("what")
        if what == "snapshot":
            self._put(self._reader.read(event.snapshot))
        elif what == "changes":
            for batch in event.changes.batches:
                self._put(self._reader.read(batch))
        elif what == "gap":
            self.gaps += 1
            self._anew()
        elif what == "mark":
            if self._told is not None:
                for key in self._routes.keys() - self._told:
                    del self._routes[key]
            self._told = None
            self.complete = True

    def _put(self, routes: Routes) -> None:
        table, ipv6 = routes.table, routes.prefixes.ipv6
        of_prefix: dict[Key, list[Route]] = {}
        for prefix, route in zip(split(routes.prefixes.data, ipv6), routes):
            of_prefix.setdefault(_key(table, ipv6, prefix), []).append(route)
        self._routes.update(of_prefix)
        if self._told is not None:
            self._told.update(of_prefix)
        for prefix in split(routes.gone.data, ipv6):
            self._routes.pop(_key(table, ipv6, prefix), None)

    def routes(self) -> list[Route]:
        """All routes, by prefix; of a prefix the one in use first."""
        return [route for key in sorted(self._routes) for route in self._routes[key]]

    def at(self, prefix: str, table: int) -> list[Route]:
        """The routes of a prefix."""
        return [r for packed in pack([prefix]) for r in self._routes.get(_key(table, packed.ipv6, packed.data), ())]

    def count(self) -> int:
        """How many routes."""
        return sum(map(len, self._routes.values()))


class Follower:
    """A view of routes that is kept up by a thread: `router.follow(...)`.

    While `complete` is false the router tells all routes (anew, after a gap or a lost connection), and the view has what was known before.
    """

    def __init__(self, router: Router, request: pb.WatchRoutesRequest) -> None:
        self._router, self._request = router, request
        self._state = threading.Condition()
        self._view = View()
        self._changes = 0
        self._error: CallError | None = None
        self._closed = False
        self._call: Any = None
        self._thread = threading.Thread(target=self._keep_up, name="quiver-follow", daemon=True)
        self._thread.start()

    @property
    def complete(self) -> bool:
        """All routes that there are have been told."""
        with self._state:
            self._check()
            return self._view.complete

    @property
    def gaps(self) -> int:
        """How often changes were lost, and all was told anew."""
        with self._state:
            return self._view.gaps

    def routes(self) -> list[Route]:
        """All routes as they are known now."""
        with self._state:
            self._check()
            return self._view.routes()

    def at(self, prefix: str, table: int = 0) -> list[Route]:
        """The routes of a prefix as they are known now."""
        with self._state:
            self._check()
            return self._view.at(prefix, table)

    def __len__(self) -> int:
        with self._state:
            return self._view.count()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all routes are told."""
        with self._state:
            return self._state.wait_for(lambda: self._checked().complete, timeout)

    def changed(self, timeout: float | None = None) -> Iterator[int]:
        """Yields each time that there is news, until the follower is closed, or nothing has come for so many seconds."""
        seen = -1
        while True:
            with self._state:
                if not self._state.wait_for(lambda: self._closed or (self._checked() and self._changes != seen), timeout):
                    return
                if self._closed:
                    return
                seen = self._changes
            yield seen

    def close(self) -> None:
        """Ends it."""
        with self._state:
            self._closed = True
            self._state.notify_all()
            if self._call is not None:
                self._call.cancel()
        self._thread.join(timeout=10)

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _checked(self) -> View:
        self._check()
        return self._view

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _keep_up(self) -> None:
        while not self._closed:
            error = self._read()
            with self._state:
                if self._closed:
                    return
                if is_final(error):
                    self._error = error
                    self._state.notify_all()
                    return
                self._view.restart()
            time.sleep(PAUSE)

    def _read(self) -> CallError:
        try:
            with self._state:
                self._call = self._router._routes.Watch(self._request)
            for event in self._call:
                with self._state:
                    self._view.heard(event)
                    self._changes += 1
                    self._state.notify_all()
        except grpc.RpcError as e:
            return from_rpc(e)
        return UnavailableError(grpc.StatusCode.UNAVAILABLE, "the router has ended the stream")
