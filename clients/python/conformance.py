"""Carries out the cases that every client must pass: `conformance.py [--async] SOCKET CASES [NAME...]`, see clients/conformance.md."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import ipaddress
import json
import re
import sys
import threading
import time
from typing import Any

from google.protobuf.message import Message

import quiver
import quiver.aio


def plain(value: Any) -> Any:
    """A message as mappings, with the names of the schema, and enumerations as words."""
    if not isinstance(value, Message):
        return value
    out: dict[str, Any] = {}
    for field in value.DESCRIPTOR.fields:
        content = getattr(value, field.name)
        if field.enum_type is not None:
            prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", field.enum_type.name).upper() + "_"
            content = field.enum_type.values_by_number[content].name.removeprefix(prefix).lower()
        elif field.message_type is not None or not isinstance(content, (str, bytes, int, float)):
            content = plain(content) if isinstance(content, Message) else [plain(c) for c in content]
        out[field.name] = content
    return out


def route(r: quiver.Route) -> dict[str, Any]:
    hops = [
        {"address": h.address, "interface": h.interface, "table": h.table, "weight": h.weight, "labels": list(h.labels), "mtu": h.mtu}
        for h in r.next_hops
    ]
    return {
        "table": r.table, "prefix": r.prefix, "source": r.source, "preference": r.preference, "metric": r.metric, "used": r.used,
        "action": r.action, "next_hops": hops,
    }


class Awaited:
    """An object of quiver.aio as the same one of quiver, so that the cases run once for both."""

    def __init__(self, of: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._of, self._loop = of, loop

    @classmethod
    def router(cls, socket: str) -> Awaited:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()

        async def make() -> Any:
            return quiver.aio.Router(socket)

        return cls(asyncio.run_coroutine_threadsafe(make(), loop).result(), loop)

    def _do(self, name: str, *words: Any, **more: Any) -> Any:
        async def do() -> Any:
            got = getattr(self._of, name)
            if callable(got):
                if name in ("flush", "end"):
                    # The time is that of the caller's.
                    return await asyncio.wait_for(got(**more), words[0])
                got = got(*words, **more)
            if inspect.isasyncgen(got):
                some = []
                async with contextlib.aclosing(got):
                    async for item in got:
                        some.append(item)
                        # What would not end by itself.
                        if (name == "watch_counters" and len(some) == 3) or (name == "events" and ended(some)):
                            break
                return some
            if isinstance(got, (quiver.aio.Program, quiver.aio.Follower, quiver.aio.Injector, quiver.aio.Passing)):
                return Awaited(await got.__aenter__(), self._loop)
            if isinstance(got, quiver.aio.Transaction):
                return Awaited(got, self._loop)
            return await got if inspect.isawaitable(got) else got

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result()

    def __getattr__(self, name: str) -> Any:
        if name in ("welcome", "done") or (name == "complete" and isinstance(self._of, quiver.aio.Follower)):
            return self._do(name)
        return lambda *words, **more: self._do(name, *words, **more)

    def __iter__(self) -> Any:
        async def do() -> Any:
            return [item async for item in self._of]

        return iter(asyncio.run_coroutine_threadsafe(do(), self._loop).result())

    def __enter__(self) -> Any:
        return self._do("__aenter__")

    def __exit__(self, *error: Any) -> None:
        self._do("__aexit__", *error)


def bare(m: Message) -> Message:
    """A link or a neighbor without how it came to be so."""
    of = type(m)()
    of.CopyFrom(m)
    for field in {"change", "changed", "mac_before"} & set(m.DESCRIPTOR.fields_by_name):
        of.ClearField(field)
    return of


def view_of(events: list[Any]) -> quiver.EventView:
    """The links and neighbors of events."""
    view = quiver.EventView()
    for event in events:
        view.heard(event)
    return view


def known(view: quiver.EventView) -> dict[Any, Any]:
    return {key: bare(m) for of in (view.links, view.neighbors) for key, m in of.items()}


class Hearing:
    """Takes in events as they come: of `quiver` in a thread, which ends with the next event or the process, of `quiver.aio` in a task."""

    def __init__(self, router: Any, kinds: list[str]) -> None:
        self.view, self.closed = quiver.EventView(), False
        self.error: BaseException | None = None
        if isinstance(router, Awaited):
            self.task = asyncio.run_coroutine_threadsafe(self.await_all(router._of.events(*kinds)), router._loop)
        else:
            self.task = None
            threading.Thread(target=self.take_all, args=(router.events(*kinds),), daemon=True).start()

    async def await_all(self, events: Any) -> None:
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    self.view.heard(event)
        except quiver.CallError as e:
            self.error = e

    def take_all(self, events: Any) -> None:
        try:
            for event in events:
                if self.closed:
                    return
                self.view.heard(event)
        except quiver.CallError as e:
            self.error = e

    def close(self) -> None:
        self.closed = True
        if self.task is not None:
            self.task.cancel()


class Wrong(Exception):
    """An expectation that does not hold."""


class Runner:
    def __init__(self, router: Any, cases: dict[str, Any]) -> None:
        self.router = router
        self.cases = cases
        self.kept: dict[str, Any] = {}
        self.open: dict[str, Any] = {}

    def document(self, name: str) -> str:
        d = self.cases["documents"][name]
        text = self.document(d["of"]) if "of" in d else ""
        for old, new in d.get("swap", {}).items():
            assert old in text, f"document {name}: {old} is not in {d['of']}"
            text = text.replace(old, new, 1)
        return text + "".join(line + "\n" for line in (*d.get("lines", ()), *d.get("add", ())))

    def filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self.kept[value["$kept"]] if "$kept" in value else {k: self.filled(v) for k, v in value.items()}
        return [self.filled(v) for v in value] if isinstance(value, list) else value

    # Expectations.

    def hold(self, want: Any, got: Any, at: str = "") -> None:
        if isinstance(want, dict):
            rules = {k: v for k, v in want.items() if k.startswith("$")}
            for rule, value in rules.items():
                if not self.rule(rule, value, got, at):
                    raise Wrong(f"{at or 'it'}: wanted {rule} {json.dumps(value)}, got {shown(got)}")
            for key in want.keys() - rules.keys():
                if not isinstance(got, dict) or key not in got:
                    raise Wrong(f"{at or 'it'} has no {key}: {shown(got)}")
                self.hold(want[key], got[key], f"{at}.{key}".lstrip("."))
        elif isinstance(want, list):
            if not isinstance(got, list) or len(want) != len(got):
                raise Wrong(f"{at or 'it'}: wanted {len(want)} elements, got {shown(got)}")
            for i, (w, g) in enumerate(zip(want, got)):
                self.hold(w, g, f"{at}[{i}]")
        elif want != got or isinstance(want, bool) != isinstance(got, bool):
            raise Wrong(f"{at or 'it'}: wanted {json.dumps(want)}, got {shown(got)}")

    def holds(self, want: Any, got: Any) -> bool:
        try:
            self.hold(want, got)
        except Wrong:
            return False
        return True

    def rule(self, rule: str, value: Any, got: Any, at: str) -> bool:
        if rule == "$contains":
            return isinstance(got, str) and value in got
        if rule == "$lacks":
            return isinstance(got, str) and value not in got
        if rule == "$matches":
            return isinstance(got, str) and re.search(value, got) is not None
        if rule == "$least":
            return isinstance(got, (int, float)) and got >= value
        if rule == "$kept":
            return bool(got == self.kept[value])
        if rule == "$not":
            return not self.holds(value, got)
        if rule == "$some":
            return isinstance(got, list) and any(self.holds(value, g) for g in got)
        if rule == "$none":
            return isinstance(got, list) and not any(self.holds(value, g) for g in got)
        if rule == "$all":
            return isinstance(got, list) and len(got) == len(value) and all(any(self.holds(v, g) for g in got) for v in value)
        raise Wrong(f"{at}: there is no rule {rule}")

    # Calls.

    def call(self, name: str, a: dict[str, Any]) -> Any:
        router, timeout = self.router, a.get("deadline")
        if name in ("system", "list_commands", "confirm", "history", "dump"):
            return listed(getattr(router, name)(timeout=timeout))
        if name == "command":
            answer = router.command(a["line"], timeout=timeout)
            return {"text": str(answer), "failed": answer.failed}
        if name == "commands":
            answer = router.commands(a["lines"], timeout=timeout)
            return {"text": str(answer), "failed": answer.failed}
        if name in ("json", "complete", "help"):
            return listed(getattr(router, name)(a["line"], timeout=timeout))
        if name in ("check", "diff", "plan", "apply"):
            more = {k: a[k] for k in ("exact", "confirm_seconds", "comment", "restart", "dry_run") if k in a}
            return plain(getattr(router, name)(self.document(a["document"]), timeout=timeout, **more))
        if name in ("rollback", "save"):
            more = {k: a[k] for k in ("number", "exact", "confirm_seconds", "comment", "restart") if k in a}
            return plain(getattr(router, name)(timeout=timeout, **more))
        if name == "list_counters":
            return listed(router.list_counters(*a["names"], timeout=timeout))
        if name == "counters":
            reading = router.counters(*a["names"], timeout=timeout)
            return {"time_ns": reading.time_ns, "values": listed(reading.values)}
        if name == "watch_counters":
            some = []
            for reading in router.watch_counters(*a["names"], interval=a["interval_ms"] / 1000, timeout=timeout):
                some.append({"time_ns": reading.time_ns, "values": listed(reading.values)})
                if len(some) == a["count"]:
                    break
            return some
        if name == "get":
            got = router.get(a["place"], timeout=timeout)
            return {"value": got.value, "version": got.version}
        if name == "transaction":
            more = {k: a[k] for k in ("comment", "confirm_seconds", "version") if k in a}
            transaction = router.transaction(timeout=timeout, **more)
            if a.get("plan"):
                say(transaction, a["edits"])
                return plain(transaction.plan(timeout=timeout))
            with transaction as t:
                say(t, a["edits"])
            return plain(t.done)
        if name == "events" and "as" in a:
            self.open[a["as"]] = Hearing(router, a["kinds"])
            return None
        if name == "agrees":
            on = self.open[a["on"]]
            if isinstance(on, Hearing):
                if on.error is not None:
                    raise on.error
                complete = on.view.whole >= {"link", "neighbor"}
                fresh = known(view_of(self.call("told", {"kinds": ["link", "neighbor"]})))
                # Another thread takes in events: that may fail a try, and the next one tells.
                return {"complete": complete, "same": known(on.view) == fresh, "count": len(fresh)}
            there = [{**route(r), "used": None} for r in router.routes(a["prefix"], longer=True)]
            knows = [{**route(r), "used": None} for r in on.routes()]
            return {"complete": on.complete, "same": sorted(knows, key=str) == sorted(there, key=str), "count": len(there)}
        if name in ("events", "told"):
            some = []
            for event in router.events(*a["kinds"], interfaces=a.get("interfaces", ())):
                some.append(event)
                if ended(some):
                    break
            return some if name == "told" else [{"what": e.WhichOneof("what"), **plain(e)} for e in some]
        if name == "saved":
            saved = router.saved(a["number"], timeout=timeout)
            return {**plain(saved.entry), "document": saved.document}
        if name in ("routes", "count_routes", "watch"):
            more = {k: a[k] for k in ("table", "family", "source") if k in a}
            match = a.get("match", "longer")
            if name == "watch":
                self.open[a["as"]] = router.follow(a.get("prefix"), exact=match == "exact", **more)
                return None
            more.update(longer=match == "longer", longest=match == "longest")
            if name == "routes":
                return [route(r) for r in router.routes(a.get("prefix"), timeout=timeout, **more)]
            return sum(map(len, router.route_batches(a.get("prefix"), timeout=timeout, **more)))
        if name == "inject":
            self.open["injector"] = injector = router.injector()
            packets = [bytes.fromhex(p) for p in a["packets"]]
            try:
                taken = injector.inject(a["node"], packets, rx=a.get("rx_interface", ""), tx=a.get("tx_interface", ""), count=a.get("count", 1))
                return {"taken": taken}
            finally:
                self.open.pop("injector").close()
        if name == "trace":
            self.open["trace"] = passing = router.trace(*a["nodes"], interface=a.get("interface", ""), count=a.get("count", 0), timeout=timeout)
            try:
                self.call("inject", a)
                return [plain(p) for p in passing]
            finally:
                self.open.pop("trace").close()
        if name == "program":
            more = {k: a[k] for k in ("preference", "grace_seconds") if k in a}
            self.open[a["as"]] = program = router.program(a["name"], **more)
            return plain(program.welcome)
        if name in ("set", "delete"):
            more = {k: a[k] for k in ("table", "metric") if k in a}
            if name == "delete":
                return self.open[a["on"]].delete(prefixes(a["prefixes"]), **more)
            hops = tuple(quiver.NextHop(**{**h, "labels": tuple(h.get("labels", ()))}) for h in a.get("next_hops", ()))
            via = quiver.Target(hops, a.get("action", "forward"))
            return self.open[a["on"]].set(prefixes(a["prefixes"]), via, **more)
        if name == "flush":
            done = self.open[a["on"]].flush(timeout or 60, check=False)
            return {"refused": done.refused, "errors": [vars(e) for e in done.errors]}
        if name == "sync":
            on = self.open[a["on"]]
            return {"gone": on.end(timeout or 60)} if a["do"] == "end" else on.begin()
        if name == "view":
            on = self.open[a["on"]]
            return {"complete": on.complete, "routes": [route(r) for r in on.routes()]}
        if name == "close":
            return self.open.pop(a["on"]).close()
        if name == "router":
            print("router", a["do"], flush=True)
            sys.stdin.readline()
            return None
        raise Wrong(f"there is no call {name}")

    def step(self, step: dict[str, Any]) -> None:
        arguments = self.filled({k: v for k, v in step.items() if k not in ("gives", "fails", "keep", "within", "call")})
        deadline = time.monotonic() + step.get("within", 0)
        while True:
            try:
                self.once(step, arguments)
                return
            except Wrong:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def once(self, step: dict[str, Any], arguments: dict[str, Any]) -> None:
        try:
            result = self.call(step["call"], arguments)
        except quiver.CallError as e:
            if "fails" not in step:
                raise Wrong(f"it failed: {e.code.name}: {e}") from e
            self.hold(step["fails"], {"code": e.code.name, "message": e.message, "errors": [plain(i) for i in e.errors]})
            return
        if "fails" in step:
            raise Wrong(f"it did not fail: {shown(result)}")
        if "gives" in step:
            self.hold(step["gives"], result)
        for name, field in step.get("keep", {}).items():
            self.kept[name] = result[field]

    def case(self, case: dict[str, Any]) -> None:
        try:
            for number, step in enumerate(case["steps"], 1):
                try:
                    self.step(step)
                except Wrong as e:
                    raise Wrong(f"step {number}, {step['call']}: {e}") from e
        finally:
            for opened in self.open.values():
                opened.close()
            self.open.clear()


def ended(events: list[Any]) -> bool:
    """Whether all that there is has been told, of links and neighbors."""
    return sum(e.WhichOneof("what") == "snapshot_end" for e in events) == 2


def listed(value: Any) -> Any:
    return [plain(v) for v in value] if isinstance(value, list) else plain(value)


def say(transaction: Any, edits: list[dict[str, Any]]) -> None:
    """Says the changes of a transaction."""
    for e in edits:
        if "set" in e:
            transaction.set(e["set"], e["to"])
        elif "merge" in e:
            transaction.merge(e["merge"], e["with"])
        elif "delete" in e:
            transaction.delete(e["delete"])
        elif "to" in e:
            transaction.route(e["route"], e["to"], table=e.get("table", 0))
        else:
            transaction.delete_route(e["route"], table=e.get("table", 0))


def prefixes(given: Any) -> Any:
    if isinstance(given, list):
        return given
    first = ipaddress.ip_network(given["first"])
    size = first.max_prefixlen // 8
    begin, step = int(first.network_address), 1 << (first.max_prefixlen - first.prefixlen)
    data = b"".join((begin + i * step).to_bytes(size, "big") for i in range(given["count"]))
    return quiver.pack_bytes(data, first.prefixlen, first.version == 6)


def shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) < 600 else text[:600] + " ..."


def has_service(name: str) -> bool:
    """Whether the schema of this client has it."""
    try:
        module = importlib.import_module(f"quiver.v1.{name.lower()}_pb2")
    except ModuleNotFoundError:
        return False
    return name in module.DESCRIPTOR.services_by_name


def main() -> int:
    words = [w for w in sys.argv[1:] if w != "--async"]
    socket, file, *names = words
    with open(file) as f:
        cases = json.load(f)
    router = quiver.Router(socket) if words == sys.argv[1:] else Awaited.router(socket)
    runner, failed = Runner(router, cases), False
    for case in cases["cases"]:
        if names and case["name"] not in names:
            continue
        if not has_service(case["needs"]):
            print(f"skip {case['name']}: the schema has no service {case['needs']}", flush=True)
            continue
        try:
            runner.case(case)
            print(f"ok {case['name']}", flush=True)
        except Exception as e:
            failed = True
            why = f"{e}" if isinstance(e, Wrong) else f"{type(e).__name__}: {e}"
            print(f"FAIL {case['name']}: {why}".replace("\n", " | "), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
