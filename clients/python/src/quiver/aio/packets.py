"""Packets: captures, packets for a program, and packets into the graph."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import grpc.aio

from ..errors import from_rpc
from ..packets import Lost, inject_request, taken

if TYPE_CHECKING:
    from .router import Router


class Passing:
    """As quiver.Passing: `async with router.capture() as packets: async for packet in packets: ...`. Packets come from the beginning of the
    block on."""

    def __init__(self, router: Router, method: Any, request: Any, timeout: float | None) -> None:
        self._router, self._method, self._request, self._timeout = router, method, request, timeout
        self._call: Any = None

    async def __aenter__(self) -> Passing:
        async def begin(left: float | None) -> Any:
            call = self._method(self._request, timeout=left)
            # The first message is empty: packets come from then on.
            await call.read()
            return call

        self._call = await self._router._try(begin, self._timeout, True)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends it."""
        self._call.cancel()

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                for packet in message.packets:
                    yield packet
                if message.lost:
                    yield Lost(message.lost)
        except grpc.RpcError as e:
            raise from_rpc(e) from None


class Injector:
    """As quiver.Injector, for one task."""

    def __init__(self, method: Any) -> None:
        self._call = method()

    async def __aenter__(self) -> Injector:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends it."""
        self._call.cancel()

    async def inject(self, node: str, packets: Iterable[bytes], *, rx: str = "", tx: str = "", count: int = 1) -> int:
        """Puts packets into the graph at a node, `count` times, and waits until they are there: how many were taken."""
        try:
            await self._call.write(inject_request(node, packets, rx, tx, count))
            return taken(await self._call.read())
        except grpc.RpcError as e:
            raise from_rpc(e) from None
