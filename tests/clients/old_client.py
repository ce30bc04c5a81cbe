"""A client that knows the schema of the last release alone: `old_client.py SOCKET`, with what protoc makes of `api/released` in PYTHONPATH.

It says what each call of that release gives it. Calls that later releases have added are none of its business."""

import sys

import grpc

from quiver.v1 import commands_pb2, commands_pb2_grpc, common_pb2, configuration_pb2, configuration_pb2_grpc
from quiver.v1 import counters_pb2, counters_pb2_grpc, system_pb2, system_pb2_grpc


def main():
    channel = grpc.insecure_channel("unix:" + sys.argv[1], options=[("grpc.default_authority", "localhost")])
    commands = commands_pb2_grpc.CommandsStub(channel)
    configuration = configuration_pb2_grpc.ConfigurationStub(channel)
    counters = counters_pb2_grpc.CountersStub(channel)

    router = system_pb2_grpc.SystemStub(channel).Get(system_pb2.GetSystemRequest())
    print("system", router.version != "", common_pb2.Role.Name(router.role))

    said = list(commands.Run(commands_pb2.RunRequest(line="show version")))
    print("text", "".join(m.text for m in said).startswith("quiver v"), said[-1].WhichOneof("what"))
    said = list(commands.Run(commands_pb2.RunRequest(line="show version", format=commands_pb2.FORMAT_JSON)))
    print("json", '"quiver"' in "".join(m.json for m in said))
    try:
        list(commands.Run(commands_pb2.RunRequest(line="show nonsense")))
    except grpc.RpcError as e:
        print("refused", e.code().name, "unknown word" in e.details())
    print("list", sum(len(m.commands) for m in commands.List(commands_pb2.ListRequest())) > 100)

    def dump():
        return "".join(m.piece for m in configuration.Dump(configuration_pb2.DumpRequest()))

    document = dump()
    print("check", configuration.Check(configuration_pb2.CheckRequest(document=document)).ok)
    found = configuration.Check(configuration_pb2.CheckRequest(document=document + "x: 1\n")).findings
    print("finding", [f.rule for f in found])
    document += "loopbacks: {loop77: {}}\n"
    steps = [s.text for m in configuration.Plan(configuration_pb2.PlanRequest(document=document)) for s in m.steps]
    print("plan", any("loop77" in s for s in steps))
    done = configuration.Apply(configuration_pb2.ApplyRequest(document=document, comment="of old"))
    print("apply", done.steps > 0, done.number > 0, "loop77" in dump())
    history = [e for m in configuration.History(configuration_pb2.HistoryRequest()) for e in m.entries]
    print("history", any(e.comment == "of old" for e in history))
    configuration.Rollback(configuration_pb2.RollbackRequest(number=done.number - 1))
    print("rollback", "loop77" not in dump())

    names = [c.name for m in counters.List(counters_pb2.ListCountersRequest()) for c in m.counters]
    values = [v for m in counters.Read(counters_pb2.ReadCountersRequest(names=names[:1])) for v in m.values]
    print("counters", len(names) > 10, {v.name for v in values} <= set(names))


if __name__ == "__main__":
    main()
