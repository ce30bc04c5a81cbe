"""Transactions write their changes down, and make them at the end of the block, unless it fails."""

import asyncio
import ipaddress
import unittest

from quiver.transaction import AioTransaction, Transaction, place_request
from quiver.v1 import configuration_pb2


class Router:
    def __init__(self):
        self.asked = []

    def edit(self, request, *, timeout=None):
        self.asked.append(request)
        return configuration_pb2.EditResponse(steps=len(request.edits))


class AioRouter(Router):
    async def edit(self, request, *, timeout=None):
        return super().edit(request)


def said(t):
    t.set("interfaces.eth0.mtu", 9000).set(["l3", "interfaces", "eth0.100", "addresses"], [ipaddress.ip_interface("10.0.0.1/24")])
    t.merge("interfaces.eth0", {"description": None, "mac": "02:00:00:00:00:01"})
    t.delete("loopbacks.loop1")
    t.route("10.0.0.0/8", via=ipaddress.ip_address("192.0.2.1"), table=7)
    t.route("10.1.0.0/16", "drop")
    t.delete_route("10.2.0.0/16")


WRITTEN = [
    ("interfaces.eth0.mtu", [], "set", "9000"),
    ("", ["l3", "interfaces", "eth0.100", "addresses"], "set", '["10.0.0.1/24"]'),
    ("interfaces.eth0", [], "merge", '{"description": null, "mac": "02:00:00:00:00:01"}'),
    ("loopbacks.loop1", [], "delete", True),
    ("", ["routes", "prefix=10.0.0.0/8,table=7"], "set", '"via 192.0.2.1"'),
    ("", ["routes", "prefix=10.1.0.0/16,table=0"], "set", '"drop"'),
    ("", ["routes", "prefix=10.2.0.0/16,table=0"], "delete", True),
]


def written(request):
    return [(e.at, list(e.place), e.WhichOneof("act"), getattr(e, e.WhichOneof("act"))) for e in request.edits]


class Transactions(unittest.TestCase):
    def test_the_end_of_the_block_makes_the_changes(self):
        router = Router()
        with Transaction(router, configuration_pb2.EditRequest(comment="x"), None) as t:
            said(t)
            self.assertEqual(router.asked, [])
        self.assertEqual([written(r) for r in router.asked], [WRITTEN])
        self.assertEqual((t.done.steps, router.asked[0].comment), (len(WRITTEN), "x"))

    def test_nothing_is_made_where_the_block_fails_or_says_nothing(self):
        router = Router()
        with self.assertRaises(KeyError), Transaction(router, configuration_pb2.EditRequest(), None) as t:
            said(t)
            raise KeyError
        with Transaction(router, configuration_pb2.EditRequest(), None):
            pass
        with Transaction(router, configuration_pb2.EditRequest(), None) as t:
            said(t)
            t.apply()
        self.assertEqual(len(router.asked), 1)

    def test_what_is_no_value_is_no_change(self):
        t = Transaction(Router(), configuration_pb2.EditRequest(), None)
        cycle = []
        cycle.append(cycle)
        with self.assertRaises(ValueError):
            t.set("a", cycle)
        for words in ({}, {"target": "drop", "via": "192.0.2.1"}):
            with self.assertRaises(ValueError):
                t.route("10.0.0.0/8", **words)
        self.assertFalse(t._request.edits)
        self.assertEqual((list(place_request(["a", "b"]).place), place_request("a.b").at), (["a", "b"], "a.b"))

    def test_the_same_with_async(self):
        async def run():
            router = AioRouter()
            async with AioTransaction(router, configuration_pb2.EditRequest(), None) as t:
                said(t)
            with self.assertRaises(KeyError):
                async with AioTransaction(router, configuration_pb2.EditRequest(), None) as t:
                    said(t)
                    raise KeyError
            return [written(r) for r in router.asked]

        self.assertEqual(asyncio.run(run()), [WRITTEN])


if __name__ == "__main__":
    unittest.main()
