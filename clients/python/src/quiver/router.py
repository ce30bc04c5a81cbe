"""The router, as a program sees it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Iterable, Sequence, TypeVar

import grpc

from . import calls
from .attempts import Attempts
from .calls import Answer, Reading, SavedConfiguration
from .channel import Way
from .errors import CallError, from_rpc
from .events import lost, wanted
from .follow import Follower
from .packets import Injector, Passing, capture_request
from .program import PAUSE, Program, is_final
from .routes import Reader, Route, Routes, route_filter
from .transaction import Got, Place, Transaction, place_request
from .v1 import (
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

T = TypeVar("T")

#: Where a router serves its API unless it is told otherwise.
SOCKET = "/run/quiver/api.sock"


class Router:
    """A connection to a router, by the path of its Unix socket, or by `host:port` with TLS.

    TLS takes files in PEM: the client's `certificate` and `key`, and the `ca` that signs routers' certificates; `server_name` is the name that
    the router's must have, where it is not the host. They are read once: who renews certificates makes a Router anew.

    It connects when it is needed, and again when the connection has gone. A call that only looks is made again for up to `patience` seconds
    while there is no router; so is any call that certainly was not heard. A call that changes something and was cut off raises
    UnavailableError: whether it was done can be seen by looking. Every method takes `timeout`, in seconds; none unless it is given.

    It may be used by several threads, and is closed by the `with` block.
    """

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
        self._channel = Way(path, certificate, key, ca, server_name).channel()
        self._commands = commands_pb2_grpc.CommandsStub(self._channel)
        self._configuration = configuration_pb2_grpc.ConfigurationStub(self._channel)
        self._counters = counters_pb2_grpc.CountersStub(self._channel)
        self._system = system_pb2_grpc.SystemStub(self._channel)
        self._routes = routes_pb2_grpc.RoutesStub(self._channel)
        self._events = events_pb2_grpc.EventsStub(self._channel)
        self._packets = packets_pb2_grpc.PacketsStub(self._channel)

    def close(self) -> None:
        """Ends the connection and what is under way on it."""
        self._channel.close()

    def __enter__(self) -> Router:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # The router, and commands.

    def system(self, *, timeout: float | None = None) -> system_pb2.GetSystemResponse:
        """Which router it is, and what the caller may do."""
        return self._ask(system_pb2.GetSystemResponse, self._system.Get, system_pb2.GetSystemRequest(), timeout)

    def command(self, line: str, *, directory: str = "", timeout: float | None = None) -> Answer:
        """Runs a command: its text, as `quiver ctl` prints it."""
        return self._told(calls.text_of, self._commands.Run, calls.line(line, False, directory), timeout)

    def commands(self, lines: str | Iterable[str], *, directory: str = "", timeout: float | None = None) -> Answer:
        """Runs commands until one fails. The error then has its line, and how many were `applied`."""
        return self._told(calls.text_of, self._commands.Run, calls.lines(lines, False, directory), timeout)

    def json(self, line: str, *, directory: str = "", timeout: float | None = None) -> Any:
        """Runs a command: its answer as values, of which docs/json.md tells."""
        return self._told(calls.value_of, self._commands.Run, calls.line(line, True, directory), timeout)

    def follow_command(self, line: str, *, directory: str = "", timeout: float | None = None) -> Iterator[str]:
        """Runs a command: its text as it comes, such as that of `ping`. It ends with the iteration."""
        for part in self._stream(self._commands.Run, calls.line(line, False, directory), timeout, repeat=False):
            if part.text:
                yield part.text

    def complete(self, line: str, cursor: int | None = None, *, timeout: float | None = None) -> commands_pb2.CompleteResponse:
        """What could stand at a place of a line, in bytes; its end unless it says otherwise."""
        at = len(line.encode()) if cursor is None else cursor
        return self._ask(commands_pb2.CompleteResponse, self._commands.Complete, commands_pb2.CompleteRequest(line=line, cursor=at), timeout)

    def help(self, line: str = "", *, timeout: float | None = None) -> str:
        """What may follow the beginning of a line."""
        answer = self._ask(commands_pb2.HelpResponse, self._commands.Help, commands_pb2.HelpRequest(line=line), timeout)
        return answer.text

    def list_commands(self, *, timeout: float | None = None) -> list[commands_pb2.ListResponse.Command]:
        """All commands, in the order of the reference."""
        return self._told(
            lambda parts: [c for p in parts for c in p.commands], self._commands.List, commands_pb2.ListRequest(), timeout, repeat=True
        )

    # Documents: YAML, or a mapping.

    def check(self, document: str | dict[str, Any], *, timeout: float | None = None) -> configuration_pb2.CheckResponse:
        """Checks a document by itself."""
        request = configuration_pb2.CheckRequest(document=calls.document_text(document))
        return self._ask(configuration_pb2.CheckResponse, self._configuration.Check, request, timeout)

    def diff(self, document: str | dict[str, Any], *, exact: bool = False, timeout: float | None = None) -> configuration_pb2.DiffResponse:
        """What a document would change of what runs."""
        request = configuration_pb2.DiffRequest(document=calls.document_text(document), exact=exact)
        return self._whole(configuration_pb2.DiffResponse(), self._configuration.Diff, request, timeout)

    def plan(
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
        return self._whole(configuration_pb2.PlanResponse(), self._configuration.Plan, request, timeout)

    def apply(
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
        return self._ask(configuration_pb2.ApplyResponse, self._configuration.Apply, request, timeout, repeat=False)

    def confirm(self, *, timeout: float | None = None) -> configuration_pb2.ConfirmResponse:
        """Keeps what was applied to be confirmed."""
        return self._ask(configuration_pb2.ConfirmResponse, self._configuration.Confirm, configuration_pb2.ConfirmRequest(), timeout, repeat=False)

    def rollback(
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
        return self._ask(configuration_pb2.ApplyResponse, self._configuration.Rollback, request, timeout, repeat=False)

    def save(self, comment: str = "", *, timeout: float | None = None) -> configuration_pb2.SaveResponse:
        """Keeps what runs for the next start."""
        request = configuration_pb2.SaveRequest(comment=comment)
        return self._ask(configuration_pb2.SaveResponse, self._configuration.Save, request, timeout, repeat=False)

    def history(self, *, timeout: float | None = None) -> list[configuration_pb2.HistoryResponse.Entry]:
        """The configurations that were kept, the last one first."""
        request = configuration_pb2.HistoryRequest()
        return list(self._whole(configuration_pb2.HistoryResponse(), self._configuration.History, request, timeout).entries)

    def saved(self, number: int, *, timeout: float | None = None) -> SavedConfiguration:
        """A configuration of the history, with its differences and its document."""
        return self._told(calls.saved, self._configuration.History, configuration_pb2.HistoryRequest(number=number), timeout, repeat=True)

    def dump(self, *, json: bool = False, timeout: float | None = None) -> str:
        """The running state as a document."""
        return self._told(
            lambda parts: "".join(p.piece for p in parts), self._configuration.Dump, configuration_pb2.DumpRequest(json=json), timeout, repeat=True
        )

    # Single places of what runs.

    def transaction(
        self, *, confirm_seconds: int = 0, comment: str = "", version: str = "", restart: bool = False, timeout: float | None = None
    ) -> Transaction:
        """Changes places together: `with router.transaction() as t: t.set("interfaces.eth0.mtu", 9000)`.

        The end of the block makes the changes, all of them or none; an exception in it none. With `confirm_seconds` it goes back by itself
        unless `confirm` comes. With the `version` that `get` told, AbortedError says that something has changed since.
        """
        request = configuration_pb2.EditRequest(confirm_seconds=confirm_seconds, comment=comment, version=version, restart=restart)
        return Transaction(self, request, timeout)

    def edit(self, request: configuration_pb2.EditRequest, *, timeout: float | None = None) -> configuration_pb2.EditResponse:
        """Makes changes of places; `transaction` writes them."""
        answer = self._ask(configuration_pb2.EditResponse, self._configuration.Edit, request, timeout, repeat=False)
        return answer

    def plan_edit(self, request: configuration_pb2.EditRequest, *, timeout: float | None = None) -> configuration_pb2.PlanResponse:
        """The steps that changes of places would take."""
        return self._whole(configuration_pb2.PlanResponse(), self._configuration.PlanEdit, request, timeout)

    def get(self, place: Place = "", *, timeout: float | None = None) -> Got:
        """What runs at a place, such as `interfaces.eth0`, as values, and the version of what runs. RefusedError: nothing is there."""
        return self._told(Got, self._configuration.Get, place_request(place), timeout, repeat=True)

    # Counters, by their names (docs/counters.md) or beginnings with `*` behind them; all without.

    def list_counters(self, *names: str, timeout: float | None = None) -> list[counters_pb2.ListCountersResponse.Counter]:
        """What is counted: unit, meaning, and by what."""
        request = counters_pb2.ListCountersRequest(names=names)
        return self._told(lambda parts: [c for p in parts for c in p.counters], self._counters.List, request, timeout, repeat=True)

    def counters(self, *names: str, timeout: float | None = None) -> Reading:
        """Their values now."""
        return self._told(calls.reading_of, self._counters.Read, counters_pb2.ReadCountersRequest(names=names), timeout, repeat=True)

    def watch_counters(self, *names: str, interval: float = 1.0, timeout: float | None = None) -> Iterator[Reading]:
        """Their values every so many seconds, at least 0.1."""
        request = counters_pb2.ReadCountersRequest(names=names, interval_ms=max(100, round(interval * 1000)))
        readings = calls.Readings()
        for part in self._stream(self._counters.Read, request, timeout):
            if reading := readings.read(part):
                yield reading

    # Routes.

    def routes(
        self,
        prefix: str | None = None,
        *,
        longer: bool = False,
        longest: bool = False,
        table: int = 0,
        family: str = "",
        source: str = "",
        timeout: float | None = None,
    ) -> Iterator[Route]:
        """Routes by prefix, of a prefix the one in use first: all, those of a prefix, those within it (`longer`), or those of the longest
        prefix that holds it (`longest`). `family` is `ipv4` or `ipv6`."""
        for batch in self.route_batches(
            prefix, longer=longer, longest=longest, table=table, family=family, source=source, timeout=timeout
        ):
            yield from batch

    def route_batches(
        self,
        prefix: str | None = None,
        *,
        longer: bool = False,
        longest: bool = False,
        table: int = 0,
        family: str = "",
        source: str = "",
        timeout: float | None = None,
    ) -> Iterator[Routes]:
        """The same packed: for very many routes."""
        wanted = routes_pb2.ListRoutesRequest(filter=route_filter(prefix, longer, longest, table, family, source))
        reader = Reader()
        for batch in self._stream(self._routes.List, wanted, timeout):
            yield reader.read(batch)

    def program(
        self, name: str, *, preference: int | None = None, grace_seconds: int | None = None, remember: bool = True
    ) -> Program:
        """Becomes a client of routes: `with router.program("fleet") as routes: routes.set(["10.0.0.0/8"], "192.0.2.1")`.

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
    ) -> Iterator[events_pb2.Event]:
        """What happens, event after event (`quiver.v1.events_pb2.Event`), with the links and neighbors that there are first.

        Kinds are `link`, `neighbor`, `configuration`, `log`, `drops` and `route`; without any, all but routes. `interfaces` are names, or
        beginnings of names with `*` behind them; `log_level` the least of a line; `drops_per_second` the least rate of drops;
        `routes` the filter of routes, as `route_filter` makes it. It goes on until it is left: a connection that has gone is made
        again, and a gap without counts tells of it. EventView puts events together.
        """
        return self._happenings(wanted(kinds, interfaces, log_level, drops_per_second, routes))

    def _happenings(self, request: events_pb2.WatchEventsRequest) -> Iterator[events_pb2.Event]:
        told = False
        while True:
            try:
                for event in self._stream(self._events.Watch, request, None):
                    told = True
                    yield event
            except CallError as e:
                if not told or is_final(e):
                    raise
            yield lost()
            time.sleep(PAUSE)

    # Packets.

    def capture(
        self, interface: str = "", *, directions: Iterable[str] = (), snap_length: int = 0, count: int = 0, timeout: float | None = None
    ) -> Passing:
        """Copies of packets as they pass, from the call on: of an interface or all, `directions` of `rx`, `tx` and `drop`, or all; `count`
        of them, or until it is closed."""
        return Passing(self, self._packets.Capture, capture_request(interface, directions, snap_length, count), timeout)

    def trace(self, *nodes: str, interface: str = "", count: int = 0, timeout: float | None = None) -> Passing:
        """Packets with what each node did with them, from the call on: of those that come to any of `nodes` (`af-packet-input`), on an
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

    def _ask(self, answer: type[T], method: Any, request: Any, timeout: float | None, repeat: bool = True) -> T:
        """An answer of this kind: gRPC's own calls have no types."""
        given: T = self._try(lambda left: method(request, timeout=left), timeout, repeat)
        return given

    def _told(self, make: Callable[[Iterable[Any]], T], method: Any, request: Any, timeout: float | None, repeat: bool = False) -> T:
        """What is made of all messages of a stream."""
        return self._try(lambda left: make(list(method(request, timeout=left))), timeout, repeat)

    def _whole(self, into: calls.M, method: Any, request: Any, timeout: float | None) -> calls.M:
        whole: calls.M = self._told(lambda parts: calls.merged(into, parts), method, request, timeout, repeat=True)
        return whole

    def _stream(self, method: Any, request: Any, timeout: float | None, repeat: bool = True) -> Iterator[Any]:
        """The messages of a stream, which is begun anew while nothing has come of it."""

        def begin(left: float | None) -> tuple[Any, list[Any]]:
            call = method(request, timeout=left)
            return call, [message for message in (next(call, None),) if message is not None]

        call, first = self._try(begin, timeout, repeat)
        try:
            yield from first
            yield from call
        except grpc.RpcError as e:
            raise from_rpc(e) from None
        finally:
            call.cancel()

    def _try(self, call: Callable[[float | None], T], timeout: float | None, repeat: bool) -> T:
        attempts = Attempts(self.patience, timeout, repeat)
        while True:
            try:
                return call(attempts.left())
            except grpc.RpcError as e:
                time.sleep(attempts.pause(from_rpc(e)))
