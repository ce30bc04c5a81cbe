"""Changes of single places of what runs, made together at the end of a `with` block."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .v1 import configuration_pb2

if TYPE_CHECKING:
    from .aio.router import Router as AioRouter
    from .router import Router

R = TypeVar("R")
S = TypeVar("S", bound="Edits[Any]")

#: A place in one text, such as `interfaces.eth0.mtu`, or its elements.
Place = str | Sequence[str]


def value_text(value: Any) -> str:
    """A value as JSON. What JSON does not know, such as addresses, is said as text."""
    return json.dumps(value, default=str)


class Edits(Generic[R]):
    """What both kinds of Transaction are: changes in order, and how to apply them."""

    def __init__(self, router: R, request: configuration_pb2.EditRequest, timeout: float | None) -> None:
        self._router = router
        self._request = request
        self._timeout = timeout
        #: What was done, behind the block.
        self.done: configuration_pb2.EditResponse | None = None

    def _edit(self, place: Place) -> configuration_pb2.Edit:
        edit = self._request.edits.add()
        if isinstance(place, str):
            edit.at = place
        else:
            edit.place.extend(place)
        return edit

    def set(self: S, place: Place, value: Any) -> S:
        """Sets a place to a value: what is there is no more, and what is missing on the way is made."""
        text = value_text(value)
        self._edit(place).set = text
        return self

    def merge(self: S, place: Place, mapping: dict[str, Any]) -> S:
        """Sets some fields of a place, those of mappings within them too; None takes a field away."""
        text = value_text(mapping)
        self._edit(place).merge = text
        return self

    def delete(self: S, place: Place) -> S:
        """Takes away what is at a place."""
        self._edit(place).delete = True
        return self

    def route(self: S, prefix: Any, target: str = "", *, via: Any = None, table: int = 0) -> S:
        """Sets a route of the document: to what stands behind its prefix (`drop`, `via 192.0.2.1 left weight 2`), or by way of a next hop."""
        if bool(target) == (via is not None):
            raise ValueError("a route has a target or a next hop `via`, one of the two")
        return self.set(self._route(prefix, table), target or f"via {via}")

    def delete_route(self: S, prefix: Any, *, table: int = 0) -> S:
        """Takes a route of the document away."""
        return self.delete(self._route(prefix, table))

    @staticmethod
    def _route(prefix: Any, table: int) -> Place:
        return ["routes", f"prefix={prefix},table={table}"]


class Transaction(Edits["Router"]):
    """See `Router.transaction`."""

    def plan(self, *, timeout: float | None = None) -> configuration_pb2.PlanResponse:
        """The steps that the changes so far would take. Nothing is changed."""
        return self._router.plan_edit(self._request, timeout=timeout)

    def apply(self) -> configuration_pb2.EditResponse:
        """Makes the changes, or none of them and raises; the end of the block does it."""
        self.done = self._router.edit(self._request, timeout=self._timeout)
        return self.done

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None and self.done is None and self._request.edits:
            self.apply()


class AioTransaction(Edits["AioRouter"]):
    """See `quiver.aio.Router.transaction`."""

    async def plan(self, *, timeout: float | None = None) -> configuration_pb2.PlanResponse:
        """The steps that the changes so far would take. Nothing is changed."""
        return await self._router.plan_edit(self._request, timeout=timeout)

    async def apply(self) -> configuration_pb2.EditResponse:
        """Makes the changes, or none of them and raises; the end of the block does it."""
        self.done = await self._router.edit(self._request, timeout=self._timeout)
        return self.done

    async def __aenter__(self) -> AioTransaction:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None and self.done is None and self._request.edits:
            await self.apply()


def place_request(place: Place) -> configuration_pb2.GetRequest:
    """Asks for a place."""
    if isinstance(place, str):
        return configuration_pb2.GetRequest(at=place)
    return configuration_pb2.GetRequest(place=place)


class Got:
    """What stands at a place, and the version of what runs, for `Router.transaction`."""

    def __init__(self, parts: Any) -> None:
        some = list(parts)
        #: As values.
        self.value: Any = json.loads("".join(p.piece for p in some))
        #: Another one after each change.
        self.version: str = "".join(p.version for p in some)
