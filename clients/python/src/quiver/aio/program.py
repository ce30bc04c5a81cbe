"""Setting routes: a client of routes, whose stream is kept up by a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

import grpc
import grpc.aio

from ..attempts import Attempts
from ..book import UNDER_WAY, Book, Change, Done, RoutesRefused
from ..errors import CallError, QuiverError, UnavailableError, from_rpc
from ..packing import Packed, Prefix
from ..program import PAUSE, hello, is_final
from ..routes import Via
from ..v1 import routes_pb2 as pb

if TYPE_CHECKING:
    from .router import Router

Requests = asyncio.Queue[Optional[pb.ProgramRequest]]


async def _sent(requests: Requests) -> AsyncIterator[pb.ProgramRequest]:
    while (request := await requests.get()) is not None:
        yield request


class Program:
    """As quiver.Program: `async with router.program(NAME) as routes: await routes.set(...)`. It begins with the `async with` block."""

    def __init__(self, router: Router, name: str, preference: int | None, grace_seconds: int | None, remember: bool) -> None:
        self._router = router
        self._hello = hello(name, preference, grace_seconds)
        self._book = Book(remember)
        self._news = asyncio.Condition()
        self._requests: Requests = asyncio.Queue()
        self._call: Any = None
        self._task: asyncio.Task[None] | None = None
        self._error: QuiverError | None = None
        self._closed = False
        #: What the router said first.
        self.welcome: pb.RouteWelcome

    @property
    def source(self) -> str:
        """The name of its source, as `show ip fib` has it."""
        return self.welcome.source

    # For callers.

    async def set(self, prefixes: Packed | Iterable[Prefix], via: Via, *, table: int = 0, metric: int = 0) -> None:
        """Sets routes that all go the same way, in the place of earlier ones of the prefixes."""
        await self._change(self._book.changes(prefixes, via, None, table, metric))

    async def set_each(self, prefixes: Packed | Iterable[Prefix], vias: Sequence[Via], *, table: int = 0, metric: int = 0) -> None:
        """Sets routes with a target for each, of one family. Let those that are the same be the same object."""
        await self._change(self._book.changes(prefixes, None, vias, table, metric))

    async def delete(self, prefixes: Packed | Iterable[Prefix], *, table: int = 0, metric: int = 0) -> None:
        """Takes routes away. What is not there is no error."""
        await self._change(self._book.changes(prefixes, None, None, table, metric))

    async def flush(self, *, check: bool = True) -> Done:
        """Waits until workers use all that was sent. With `check`, RoutesRefused is raised where some was refused."""
        upto = self._book.sent
        await self._wait(lambda: self._book.settled(upto))
        done = self._book.take()
        if check and done.refused:
            raise RoutesRefused(done)
        return done

    async def begin(self) -> None:
        """All routes are sent again from here on, as by a client that was started anew: what the router has stays in use."""
        self._check()
        self._requests.put_nowait(self._book.begin())

    async def end(self) -> int:
        """All are sent again: what was not goes. Waits for that, and answers how many routes have gone."""
        self._check()
        self._requests.put_nowait(self._book.end())
        await self._wait(lambda: self._book.gone is not None)
        return self._book.gone or 0

    async def close(self) -> None:
        """Ends the stream, behind what was sent. The routes stay for the grace time."""
        if self._closed:
            return
        self._closed = True
        self._requests.put_nowait(None)
        await self._tell()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=10)
            self._task.cancel()

    async def __aenter__(self) -> Program:
        attempts = Attempts(self._router.patience, None, True)
        while True:
            try:
                await self._open()
                break
            except CallError as e:
                await asyncio.sleep(attempts.pause(e))
        self._book.welcomed(self.welcome)
        self._task = asyncio.create_task(self._keep_up())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None and not self._closed:
                await self.flush()
        finally:
            await self.close()

    # Within.

    async def _change(self, changes: Iterator[Change]) -> None:
        for change in changes:
            await self._wait(lambda: self._book.under_way < UNDER_WAY)
            for request in self._book.send(change):
                self._requests.put_nowait(request)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise QuiverError("the client of routes is closed")

    async def _wait(self, condition: Callable[[], bool]) -> None:
        def over() -> bool:
            self._check()
            return condition()

        async with self._news:
            await self._news.wait_for(over)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _open(self) -> None:
        """Begins a stream and waits for the Welcome."""
        requests: Requests = asyncio.Queue()
        requests.put_nowait(self._hello)
        call = self._router._routes.Program(_sent(requests))
        try:
            reply = await call.read()
        except grpc.RpcError as e:
            raise from_rpc(e) from None
        if reply is grpc.aio.EOF:
            raise UnavailableError(grpc.StatusCode.UNAVAILABLE, "the router has ended the stream")
        self._requests, self._call, self.welcome = requests, call, reply.welcome

    async def _keep_up(self) -> None:
        try:
            await self._streams()
        except Exception as e:
            await self._fail(QuiverError(f"the client of routes has failed: {e!r}"))
            raise

    async def _streams(self) -> None:
        while True:
            error = await self._read()
            self._requests.put_nowait(None)
            if self._closed:
                return
            if not self._book.remember or is_final(error):
                return await self._fail(error)
            # Until the new stream stands, callers write into the book alone: from there all is sent again.
            while True:
                await asyncio.sleep(PAUSE)
                if self._closed:
                    return
                try:
                    await self._open()
                    break
                except CallError as e:
                    if is_final(e):
                        return await self._fail(e)
            for request in self._book.again():
                self._requests.put_nowait(request)
            if self._closed:
                self._requests.put_nowait(None)
            await self._tell()

    async def _read(self) -> CallError:
        """Hears what the router says, until the stream ends."""
        try:
            # Not `async for`, which gRPC does not allow behind the `read` of the Welcome.
            while (reply := await self._call.read()) is not grpc.aio.EOF:
                self._book.heard(reply)
                await self._tell()
        except grpc.RpcError as e:
            return from_rpc(e)
        return UnavailableError(grpc.StatusCode.UNAVAILABLE, "the router has ended the stream")

    async def _fail(self, error: QuiverError) -> None:
        self._error = error
        await self._tell()
