"""The router, as a program sees it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc.aio

from .. import calls
from ..attempts import Attempts
from ..calls import Answer, Reading, SavedConfiguration
from ..channel import Way
from ..errors import CallError, from_rpc
from ..events import lost, wanted
from ..packets import capture_request
from ..program import PAUSE, is_final
from ..router import SOCKET
from ..routes import Reader, Route, Routes, route_filter
from ..transaction import AioTransaction, Got, Place, place_request
from ..v1 import (
    commands_pb2,
    commands_pb2_grpc,
    configuration_pb2,
    configuration_pb2_grpc,
    counters_pb2,
    counters_pb2_grpc,
    events_pb2,
    events_pb2_grpc,
    packets_pb2,
    packets_pb2_grpc,
    routes_pb2,
    routes_pb2_grpc,
    system_pb2,
    system_pb2_grpc,
)
from .follow import Follower
from .packets import Injector, Passing
from .program import Program

T = TypeVar("T")


class Router:
    """As quiver.Router, for one event loop. What is an iterator there is an asynchronous one here."""

    def __init__(
        self,
        path: str = SOCKET,
        *,
        certificate: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        server_name: str | None = None,
        patience: float = 10.0,
    ) -> None:
        self.path, self.patience = path, patience
        self._channel = Way(path, certificate, key, ca, server_name).aio_channel()
        self._commands = commands_pb2_grpc.CommandsStub(self._channel)
        self._configuration = configuration_pb2_grpc.ConfigurationStub(self._channel)
        self._counters = counters_pb2_grpc.CountersStub(self._channel)
        self._system = system_pb2_grpc.SystemStub(self._channel)
        self._routes = routes_pb2_grpc.RoutesStub(self._channel)
        self._events = events_pb2_grpc.EventsStub(self._channel)
        self._packets = packets_pb2_grpc.PacketsStub(self._channel)

    async def close(self) -> None:
        """Ends the connection and what is under way on it."""
        await self._channel.close()

    async def __aenter__(self) -> Router:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # The router, and commands.

    async def system(self, *, timeout: float | None = None) -> system_pb2.GetSystemResponse:
        """Which router it is, and what the caller may do."""
        return await self._ask(system_pb2.GetSystemResponse, self._system.Get, system_pb2.GetSystemRequest(), timeout)

    async def command(self, line: str, *, directory: str = "", timeout: float | None = None) -> Answer:
        """Runs a command: its text, as `quiver ctl` prints it."""
        return await self._told(calls.text_of, self._commands.Run, calls.line(line, False, directory), timeout)

    async def commands(self, lines: str | Iterable[str], *, directory: str = "", timeout: float | None = None) -> Answer:
        """Runs commands until one fails. The error then has its line, and how many were `applied`."""
        return await self._told(calls.text_of, self._commands.Run, calls.lines(lines, False, directory), timeout)

    async def json(self, line: str, *, directory: str = "", timeout: float | None = None) -> Any:
        """Runs a command: its answer as values, of which docs/json.md tells."""
        return await self._told(calls.value_of, self._commands.Run, calls.line(line, True, directory), timeout)

    async def follow_command(self, line: str, *, directory: str = "", timeout: float | None = None) -> AsyncIterator[str]:
        """Runs a command: its text as it comes, such as that of `ping`. It ends with the iteration."""
        async for part in self._stream(self._commands.Run, calls.line(line, False, directory), timeout, repeat=False):
            if part.text:
                yield part.text

    async def complete(self, line: str, cursor: int | None = None, *, timeout: float | None = None) -> commands_pb2.CompleteResponse:
        """What could stand at a place of a line, in bytes; its end unless it says otherwise."""
        at = len(line.encode()) if cursor is None else cursor
        return await self._ask(commands_pb2.CompleteResponse, self._commands.Complete, commands_pb2.CompleteRequest(line=line, cursor=at), timeout)

    async def help(self, line: str = "", *, timeout: float | None = None) -> str:
        """What may follow the beginning of a line."""
        answer = await self._ask(commands_pb2.HelpResponse, self._commands.Help, commands_pb2.HelpRequest(line=line), timeout)
        return answer.text

    async def list_commands(self, *, timeout: float | None = None) -> list[commands_pb2.ListResponse.Command]:
        """All commands, in the order of the reference."""
        return await self._told(
            lambda parts: [c for p in parts for c in p.commands], self._commands.List, commands_pb2.ListRequest(), timeout, repeat=True
        )

    # Documents: YAML, or a mapping.

    async def check(self, document: str | dict[str, Any], *, timeout: float | None = None) -> configuration_pb2.CheckResponse:
        """Checks a document by itself."""
        request = configuration_pb2.CheckRequest(document=calls.document_text(document))
        return await self._ask(configuration_pb2.CheckResponse, self._configuration.Check, request, timeout)

    async def diff(self, document: str | dict[str, Any], *, exact: bool = False, timeout: float | None = None) -> configuration_pb2.DiffResponse:
        """What a document would change of what runs."""
        request = configuration_pb2.DiffRequest(document=calls.document_text(document), exact=exact)
        return await self._whole(configuration_pb2.DiffResponse(), self._configuration.Diff, request, timeout)

    async def plan(
        self,
        document: str | dict[str, Any],
        *,
        exact: bool = False,
        session_client: str = "",
        session_server: str = "",
        timeout: float | None = None,
    ) -> configuration_pb2.PlanResponse:
        """The steps from what runs to a document, and what an operator should know."""
        request = configuration_pb2.PlanRequest(
            document=calls.document_text(document), exact=exact, session_client=session_client, session_server=session_server
        )
        return await self._whole(configuration_pb2.PlanResponse(), self._configuration.Plan, request, timeout)

    async def apply(
        self,
        document: str | dict[str, Any],
        *,
        confirm_seconds: int = 0,
        comment: str = "",
        exact: bool = False,
        restart: bool = False,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> configuration_pb2.ApplyResponse:
        """Brings what runs to a document, or changes nothing and raises RefusedError with an error for each fault.

        With `confirm_seconds` it goes back by itself unless `confirm` comes.
        """
        request = configuration_pb2.ApplyRequest(
            document=calls.document_text(document),
            confirm_seconds=confirm_seconds,
            comment=comment,
            exact=exact,
            restart=restart,
            dry_run=dry_run,
        )
        return await self._ask(configuration_pb2.ApplyResponse, self._configuration.Apply, request, timeout, repeat=False)

    async def confirm(self, *, timeout: float | None = None) -> configuration_pb2.ConfirmResponse:
        """Keeps what was applied to be confirmed."""
        request = configuration_pb2.ConfirmRequest()
        return await self._ask(configuration_pb2.ConfirmResponse, self._configuration.Confirm, request, timeout, repeat=False)

    async def rollback(
        self,
        number: int = 0,
        *,
        confirm_seconds: int = 0,
        comment: str = "",
        exact: bool = False,
        restart: bool = False,
        timeout: float | None = None,
    ) -> configuration_pb2.ApplyResponse:
        """Goes back to a configuration of the history; without a number to what ran before."""
        request = configuration_pb2.RollbackRequest(
            number=number, confirm_seconds=confirm_seconds, comment=comment, exact=exact, restart=restart
        )
        return await self._ask(configuration_pb2.ApplyResponse, self._configuration.Rollback, request, timeout, repeat=False)

    async def save(self, comment: str = "", *, timeout: float | None = None) -> configuration_pb2.SaveResponse:
        """Keeps what runs for the next start."""
        request = configuration_pb2.SaveRequest(comment=comment)
        return await self._ask(configuration_pb2.SaveResponse, self._configuration.Save, request, timeout, repeat=False)

    async def history(self, *, timeout: float | None = None) -> list[configuration_pb2.HistoryResponse.Entry]:
        """The configurations that were kept, the last one first."""
        request = configuration_pb2.HistoryRequest()
        whole = await self._whole(configuration_pb2.HistoryResponse(), self._configuration.History, request, timeout)
        return list(whole.entries)

    async def saved(self, number: int, *, timeout: float | None = None) -> SavedConfiguration:
        """A configuration of the history, with its differences and its document."""
        return await self._told(calls.saved, self._configuration.History, configuration_pb2.HistoryRequest(number=number), timeout, repeat=True)

    async def dump(self, *, json: bool = False, timeout: float | None = None) -> str:
        """The running state as a document."""
        return await self._told(
            lambda parts: "".join(p.piece for p in parts), self._configuration.Dump, configuration_pb2.DumpRequest(json=json), timeout, repeat=True
        )

    # Single places of what runs.

    def transaction(
        self, *, confirm_seconds: int = 0, comment: str = "", version: str = "", restart: bool = False, timeout: float | None = None
    ) -> AioTransaction:
        """Changes places together: `async with router.transaction() as t: t.set("interfaces.eth0.mtu", 9000)`.

        The end of the block makes the changes, all of them or none; an exception in it none. With `confirm_seconds` it goes back by itself
        unless `confirm` comes. With the `version` that `get` told, AbortedError says that something has changed since.
        """
        request = configuration_pb2.EditRequest(confirm_seconds=confirm_seconds, comment=comment, version=version, restart=restart)
        return AioTransaction(self, request, timeout)

    async def edit(self, request: configuration_pb2.EditRequest, *, timeout: float | None = None) -> configuration_pb2.EditResponse:
        """Makes changes of places; `transaction` writes them."""
        answer = await self._ask(configuration_pb2.EditResponse, self._configuration.Edit, request, timeout, repeat=False)
        return answer

    async def plan_edit(self, request: configuration_pb2.EditRequest, *, timeout: float | None = None) -> configuration_pb2.PlanResponse:
        """The steps that changes of places would take."""
        return await self._whole(configuration_pb2.PlanResponse(), self._configuration.PlanEdit, request, timeout)

    async def get(self, place: Place = "", *, timeout: float | None = None) -> Got:
        """What runs at a place, such as `interfaces.eth0`, as values, and the version of what runs. RefusedError: nothing is there."""
        return await self._told(Got, self._configuration.Get, place_request(place), timeout, repeat=True)

    # Counters, by their names (docs/counters.md) or beginnings with `*` behind them; all without.

    async def list_counters(self, *names: str, timeout: float | None = None) -> list[counters_pb2.ListCountersResponse.Counter]:
        """What is counted: unit, meaning, and by what."""
        request = counters_pb2.ListCountersRequest(names=names)
        return await self._told(lambda parts: [c for p in parts for c in p.counters], self._counters.List, request, timeout, repeat=True)

    async def counters(self, *names: str, timeout: float | None = None) -> Reading:
        """Their values now."""
        return await self._told(calls.reading_of, self._counters.Read, counters_pb2.ReadCountersRequest(names=names), timeout, repeat=True)

    async def watch_counters(self, *names: str, interval: float = 1.0, timeout: float | None = None) -> AsyncIterator[Reading]:
        """Their values every so many seconds, at least 0.1."""
        request = counters_pb2.ReadCountersRequest(names=names, interval_ms=max(100, round(interval * 1000)))
        readings = calls.Readings()
        async for part in self._stream(self._counters.Read, request, timeout):
            if reading := readings.read(part):
                yield reading

    # Routes.

    async def routes(
        self,
        prefix: str | None = None,
        *,
        longer: bool = False,
        longest: bool = False,
        table: int = 0,
        family: str = "",
        source: str = "",
        timeout: float | None = None,
    ) -> AsyncIterator[Route]:
        """Routes by prefix, of a prefix the one in use first: all, those of a prefix, those within it (`longer`), or those of the longest
        prefix that holds it (`longest`). `family` is `ipv4` or `ipv6`."""
        async for batch in self.route_batches(
            prefix, longer=longer, longest=longest, table=table, family=family, source=source, timeout=timeout
        ):
            for route in batch:
                yield route

    async def route_batches(
        self,
        prefix: str | None = None,
        *,
        longer: bool = False,
        longest: bool = False,
        table: int = 0,
        family: str = "",
        source: str = "",
        timeout: float | None = None,
    ) -> AsyncIterator[Routes]:
        """The same packed: for very many routes."""
        wanted = routes_pb2.ListRoutesRequest(filter=route_filter(prefix, longer, longest, table, family, source))
        reader = Reader()
        async for batch in self._stream(self._routes.List, wanted, timeout):
            yield reader.read(batch)

    def program(
        self, name: str, *, preference: int | None = None, grace_seconds: int | None = None, remember: bool = True
    ) -> Program:
        """Becomes a client of routes: `async with router.program("fleet") as routes: await routes.set(["10.0.0.0/8"], "192.0.2.1")`.

        `preference` (20) says how far the routes are believed, less is better; `grace_seconds` (60) how long they stay when the client has gone.
        """
        return Program(self, name, preference, grace_seconds, remember)

    def follow(
        self, prefix: str | None = None, *, exact: bool = False, table: int = 0, family: str = "", source: str = ""
    ) -> Follower:
        """A view of the routes within a prefix (or of just that one, `exact`), or of all, that is kept up."""
        wanted = route_filter(prefix, not exact, False, table, family, source)
        return Follower(self, routes_pb2.WatchRoutesRequest(filter=wanted))

    # Events.

    def events(
        self,
        *kinds: str,
        interfaces: Sequence[str] = (),
        log_level: str = "info",
        drops_per_second: int = 1,
        routes: routes_pb2.RouteFilter | None = None,
    ) -> AsyncIterator[events_pb2.Event]:
        """What happens, event after event (`quiver.v1.events_pb2.Event`), with the links and neighbors that there are first.

        Kinds are `link`, `neighbor`, `configuration`, `log`, `drops` and `route`; without any, all but routes. `interfaces` are names, or
        beginnings of names with `*` behind them; `log_level` the least of a line; `drops_per_second` the least rate of drops;
        `routes` the filter of routes, as `route_filter` makes it. It goes on until it is left: a connection that has gone is made
        again, and a gap without counts tells of it. EventView puts events together.
        """
        return self._happenings(wanted(kinds, interfaces, log_level, drops_per_second, routes))

    async def _happenings(self, request: events_pb2.WatchEventsRequest) -> AsyncIterator[events_pb2.Event]:
        told = False
        while True:
            try:
                async for event in self._stream(self._events.Watch, request, None):
                    told = True
                    yield event
            except CallError as e:
                if not told or is_final(e):
                    raise
            yield lost()
            await asyncio.sleep(PAUSE)

    # Packets.

    def capture(
        self, interface: str = "", *, directions: Iterable[str] = (), snap_length: int = 0, count: int = 0, timeout: float | None = None
    ) -> Passing:
        """Copies of packets as they pass, from the beginning of the `async with` block on: of an interface or all, `directions` of `rx`, `tx` and `drop`, or all; `count`
        of them, or until it is closed."""
        return Passing(self, self._packets.Capture, capture_request(interface, directions, snap_length, count), timeout)

    def trace(self, *nodes: str, interface: str = "", count: int = 0, timeout: float | None = None) -> Passing:
        """Packets with what each node did with them, from the beginning of the `async with` block on: of those that come to any of `nodes` (`af-packet-input`), on an
        interface or all; `count` of them, or until it is closed."""
        request = packets_pb2.TraceRequest(nodes=nodes, interface=interface, count=count)
        return Passing(self, self._packets.Trace, request, timeout)

    def punt(self, *filters: packets_pb2.PuntRequest.Filter, timeout: float | None = None) -> Passing:
        """Packets for the router that any of the filters takes (`quiver.udp_port(7)`), which then go to this program alone."""
        return Passing(self, self._packets.Punt, packets_pb2.PuntRequest(filters=filters), timeout)

    def injector(self) -> Injector:
        """A way for packets into the graph."""
        return Injector(self._packets.Inject)

    # Within.

    async def _ask(self, answer: type[T], method: Any, request: Any, timeout: float | None, repeat: bool = True) -> T:
        """An answer of this kind: gRPC's own calls have no types."""
        async def ask(left: float | None) -> Any:
            return await method(request, timeout=left)

        return await self._try(ask, timeout, repeat)

    async def _told(
        self, make: Callable[[Iterable[Any]], T], method: Any, request: Any, timeout: float | None, repeat: bool = False
    ) -> T:
        """What is made of all messages of a stream."""

        async def ask(left: float | None) -> T:
            return make([message async for message in method(request, timeout=left)])

        return await self._try(ask, timeout, repeat)

    async def _whole(self, into: calls.M, method: Any, request: Any, timeout: float | None) -> calls.M:
        return await self._told(lambda parts: calls.merged(into, parts), method, request, timeout, repeat=True)

    async def _stream(self, method: Any, request: Any, timeout: float | None, repeat: bool = True) -> AsyncIterator[Any]:
        """The messages of a stream, which is begun anew while nothing has come of it."""

        async def begin(left: float | None) -> tuple[Any, Any]:
            call = method(request, timeout=left)
            return call, await call.read()

        call, message = await self._try(begin, timeout, repeat)
        try:
            while message is not grpc.aio.EOF:
                yield message
                message = await call.read()
        except grpc.RpcError as e:
            raise from_rpc(e) from None
        finally:
            call.cancel()

    async def _try(self, call: Callable[[float | None], Awaitable[T]], timeout: float | None, repeat: bool) -> T:
        attempts = Attempts(self.patience, timeout, repeat)
        while True:
            try:
                return await call(attempts.left())
            except grpc.RpcError as e:
                await asyncio.sleep(attempts.pause(from_rpc(e)))
