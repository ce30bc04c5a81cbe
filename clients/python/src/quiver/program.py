"""Setting routes: a client of routes, whose stream is kept up by a thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union

import grpc

from .attempts import Attempts
from .book import UNDER_WAY, Book, Change, Done, RoutesRefused
from .errors import CallError, DeniedError, InvalidError, QuiverError, RefusedError, UnavailableError, from_rpc
from .packing import Packed, Prefix
from .routes import Via
from .v1 import routes_pb2 as pb

if TYPE_CHECKING:
    from .router import Router

Requests = queue.SimpleQueue[Union[pb.ProgramRequest, None]]
#: What is sent, the call of gRPC, and the answer to the Hello.
Stream = tuple[Requests, Any, pb.RouteWelcome]

#: Seconds between attempts to begin a stream anew.
PAUSE = 0.2

#: What no further attempt makes right.
FINAL = (InvalidError, DeniedError, RefusedError)


def hello(name: str, preference: int | None, grace_seconds: int | None) -> pb.ProgramRequest:
    """The first message of a stream."""
    return pb.ProgramRequest(hello=pb.RouteHello(name=name, preference=preference, grace_seconds=grace_seconds))


def is_final(error: CallError) -> bool:
    """Whether it is pointless to begin a stream anew."""
    return isinstance(error, FINAL) or error.code in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAUTHENTICATED)


class Program:
    """A client of routes: `router.program(NAME)`. Its routes are those of the source `api:NAME@USER`.

    `set` and `delete` send packed batches and do not wait for the answer, but where 32 batches are under way; `flush` waits until
    workers use all that was sent, and raises RoutesRefused where the router has refused some.

    When the connection goes, or the router, the stream is begun anew, and all routes are sent again: what the router
    still has stays in use meanwhile. For that the batches are remembered, in about 5 bytes an IPv4 route; with `remember=False` they are not,
    and the next call raises the error.

    It ends with the `with` block. Its routes then stay for the grace time. All methods may be called from several threads.
    """

    def __init__(self, router: Router, name: str, preference: int | None, grace_seconds: int | None, remember: bool) -> None:
        self._router = router
        self._hello = hello(name, preference, grace_seconds)
        self._book = Book(remember)
        self._state = threading.Condition()
        self._error: QuiverError | None = None
        self._closed = False
        #: What the router said first: its source, preference, how many routes it has, and whether they are from before.
        self.welcome: pb.RouteWelcome
        attempts = Attempts(router.patience, None, True)
        while True:
            try:
                self._take(self._open())
                break
            except CallError as e:
                time.sleep(attempts.pause(e))
        self._book.welcomed(self.welcome)
        self._thread = threading.Thread(target=self._keep_up, name=f"quiver-program-{name}", daemon=True)
        self._thread.start()

    @property
    def source(self) -> str:
        """The name of its source, as `show ip fib` has it."""
        return self.welcome.source

    # For callers.

    def set(self, prefixes: Packed | Iterable[Prefix], via: Via, *, table: int = 0, metric: int = 0) -> None:
        """Sets routes that all go the same way, in the place of earlier ones of the prefixes.

        The fastest are packed prefixes (`quiver.pack_bytes`), then lists of text.
        """
        self._change(self._book.changes(prefixes, via, None, table, metric))

    def set_each(self, prefixes: Packed | Iterable[Prefix], vias: Sequence[Via], *, table: int = 0, metric: int = 0) -> None:
        """Sets routes with a target for each, of one family. Let those that are the same be the same object."""
        self._change(self._book.changes(prefixes, None, vias, table, metric))

    def delete(self, prefixes: Packed | Iterable[Prefix], *, table: int = 0, metric: int = 0) -> None:
        """Takes routes away. What is not there is no error."""
        self._change(self._book.changes(prefixes, None, None, table, metric))

    def flush(self, timeout: float | None = None, *, check: bool = True) -> Done:
        """Waits until workers use all that was sent. With `check`, RoutesRefused is raised where some was refused."""
        with self._state:
            upto = self._book.sent
            self._wait(lambda: self._book.settled(upto), timeout)
            done = self._book.take()
        if check and done.refused:
            raise RoutesRefused(done)
        return done

    def begin(self) -> None:
        """All routes are sent again from here on, as by a client that was started anew: what the router has stays in use."""
        with self._state:
            self._check()
            self._requests.put(self._book.begin())

    def end(self, timeout: float | None = None) -> int:
        """All are sent again: what was not goes. Waits for that, and answers how many routes have gone."""
        with self._state:
            self._check()
            self._requests.put(self._book.end())
            self._wait(lambda: self._book.gone is not None, timeout)
            return self._book.gone or 0

    def close(self) -> None:
        """Ends the stream, behind what was sent. The routes stay for the grace time."""
        with self._state:
            if self._closed:
                return
            self._closed = True
            self._requests.put(None)
            self._state.notify_all()
        self._thread.join(timeout=10)
        self._call.cancel()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None and not self._closed:
                self.flush()
        finally:
            self.close()

    # Within.

    def _change(self, changes: Iterator[Change]) -> None:
        for change in changes:
            with self._state:
                self._wait(lambda: self._book.under_way < UNDER_WAY, None)
                for request in self._book.send(change):
                    self._requests.put(request)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise QuiverError("the client of routes is closed")

    def _wait(self, condition: Any, timeout: float | None) -> None:
        """Waits for something that the thread hears."""

        def over() -> bool:
            self._check()
            return bool(condition())

        if not self._state.wait_for(over, timeout):
            raise QuiverError(f"no answer within {timeout} s: {self._book.under_way} batches are under way")

    def _open(self) -> Stream:
        """Begins a stream and waits for the Welcome."""
        requests: Requests = queue.SimpleQueue()
        requests.put(self._hello)
        call = self._router._routes.Program(iter(requests.get, None))
        try:
            return requests, call, next(call).welcome
        except grpc.RpcError as e:
            requests.put(None)
            raise from_rpc(e) from None
        except StopIteration:
            requests.put(None)
            raise UnavailableError(grpc.StatusCode.UNAVAILABLE, "the router has ended the stream") from None

    def _take(self, stream: Stream) -> None:
        self._requests, self._call, self.welcome = stream

    def _keep_up(self) -> None:
        try:
            self._streams()
        except Exception as e:
            with self._state:
                self._fail(QuiverError(f"the client of routes has failed: {e!r}"))
            raise

    def _streams(self) -> None:
        while True:
            error = self._read()
            with self._state:
                self._requests.put(None)
                if self._closed:
                    return
                if not self._book.remember or is_final(error):
                    self._fail(error)
                    return
            if not self._begin_again():
                return

    def _read(self) -> CallError:
        """Hears what the router says, until the stream ends."""
        try:
            for reply in self._call:
                with self._state:
                    self._book.heard(reply)
                    self._state.notify_all()
        except grpc.RpcError as e:
            return from_rpc(e)
        return UnavailableError(grpc.StatusCode.UNAVAILABLE, "the router has ended the stream")

    def _begin_again(self) -> bool:
        while True:
            with self._state:
                if self._state.wait_for(lambda: self._closed, PAUSE):
                    return False
            try:
                stream = self._open()
            except CallError as e:
                if not is_final(e):
                    continue
                with self._state:
                    self._fail(e)
                return False
            with self._state:
                self._take(stream)
                if self._closed:
                    self._requests.put(None)
                    return False
                for request in self._book.again():
                    self._requests.put(request)
                self._state.notify_all()
            return True

    def _fail(self, error: QuiverError) -> None:
        self._error = error
        self._state.notify_all()
