"""Following routes: a view that is the router's."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

import grpc

from ..errors import CallError, UnavailableError, from_rpc
from ..follow import View
from ..program import PAUSE, is_final
from ..routes import Route
from ..v1 import routes_pb2 as pb

if TYPE_CHECKING:
    from .router import Router


class Follower:
    """As quiver.Follower: `async with router.follow(...) as view: await view.wait()`."""

    def __init__(self, router: Router, request: pb.WatchRoutesRequest) -> None:
        self._router, self._request = router, request
        self._news = asyncio.Condition()
        self._view = View()
        self._changes = 0
        self._error: CallError | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def complete(self) -> bool:
        """All routes that there are have been told."""
        return self._checked().complete

    @property
    def gaps(self) -> int:
        """How often changes were lost, and all was told anew."""
        return self._view.gaps

    def routes(self) -> list[Route]:
        """All routes as they are known now."""
        return self._checked().routes()

    def at(self, prefix: str, table: int = 0) -> list[Route]:
        """The routes of a prefix as they are known now."""
        return self._checked().at(prefix, table)

    def __len__(self) -> int:
        return self._view.count()

    async def wait(self) -> None:
        """Waits until all routes are told."""
        async with self._news:
            await self._news.wait_for(lambda: self._checked().complete)

    async def changed(self) -> None:
        """Waits for news."""
        async with self._news:
            seen = self._changes
            await self._news.wait_for(lambda: self._checked() is not None and self._changes != seen)

    async def close(self) -> None:
        """Ends it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=10)

    async def __aenter__(self) -> Follower:
        self._task = asyncio.create_task(self._keep_up())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _checked(self) -> View:
        if self._error is not None:
            raise self._error
        return self._view

    async def _keep_up(self) -> None:
        while True:
            error = await self._read()
            if is_final(error):
                self._error = error
                await self._tell()
                return
            self._view.restart()
            await asyncio.sleep(PAUSE)

    async def _read(self) -> CallError:
        call: Any = self._router._routes.Watch(self._request)
        try:
            async for event in call:
                self._view.heard(event)
                self._changes += 1
                await self._tell()
        except grpc.RpcError as e:
            return from_rpc(e)
        finally:
            call.cancel()
        return UnavailableError(grpc.StatusCode.UNAVAILABLE, "the router has ended the stream")

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()
