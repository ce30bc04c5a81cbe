"""A follower's view, by the events of routes.proto."""

import unittest

from quiver import pack
from quiver.follow import View
from quiver.v1 import routes_pb2 as pb


def batch(prefixes=(), gone=(), unused=(), new=()):
    """Routes of kind 1, but for the first of them, which are of those of `new`."""
    kinds = [pb.RouteKind(number=n, source=f"source{n}", next_hops=pb.NextHopSet(action=pb.ROUTE_ACTION_DROP)) for n in new]
    data, data_gone = (b"".join(p.data for p in pack(list(x))) for x in (prefixes, gone))
    of_kind = [*new, *[1] * len(prefixes)][: len(prefixes)]
    return pb.RouteBatch(kinds=kinds, prefixes=data, of_kind=of_kind, unused=unused, gone=data_gone)


def snapshot(*args, **kwargs):
    return pb.RouteEvent(snapshot=batch(*args, **kwargs))


def changes(*args, **kwargs):
    return pb.RouteEvent(changes=pb.RouteUpdate(batches=[batch(*args, **kwargs)]))


MARK, GAP = pb.RouteEvent(mark=pb.RouteMark()), pb.RouteEvent(gap=pb.RouteGap())


class TheView(unittest.TestCase):
    def check(self, view, *prefixes):
        self.assertEqual([r.prefix for r in view.routes()], list(prefixes))

    def test_snapshot_mark_and_changes(self):
        view = View()
        view.heard(snapshot(["10.2.0.0/16", "10.1.0.0/16"], new=[1]))
        self.assertFalse(view.complete)
        view.heard(changes(["10.3.0.0/16"], ["10.2.0.0/16"]))
        view.heard(MARK)
        self.assertTrue(view.complete)
        self.check(view, "10.1.0.0/16", "10.3.0.0/16")
        # Two routes of a prefix, the second not in use, in the place of what was told.
        view.heard(changes(["10.1.0.0/16", "10.1.0.0/16"], unused=[1], new=[2]))
        self.assertEqual([(r.source, r.used) for r in view.at("10.1.0.0/16", 0)], [("source2", True), ("source1", False)])
        self.check(view, "10.1.0.0/16", "10.1.0.0/16", "10.3.0.0/16")

    def test_gap(self):
        """What is told neither behind the gap nor by changes before the mark is gone; until the mark the view has what it had."""
        view = View()
        view.heard(snapshot(["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"], new=[1]))
        view.heard(MARK)
        view.heard(GAP)
        self.assertEqual((view.complete, view.gaps), (False, 1))
        view.heard(changes(["10.4.0.0/16"]))
        view.heard(snapshot(["10.1.0.0/16"]))
        self.check(view, "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16")
        view.heard(MARK)
        self.check(view, "10.1.0.0/16", "10.4.0.0/16")

    def test_another_stream(self):
        """Its numbers of kinds are others, and it tells all anew."""
        view = View()
        view.heard(snapshot(["10.1.0.0/16", "10.2.0.0/16"], new=[1]))
        view.heard(MARK)
        # Of the attempts that reach no router only the first takes something away.
        view.restart()
        view.restart()
        self.assertEqual((view.complete, view.gaps), (False, 1))
        with self.assertRaises(KeyError):
            view.heard(snapshot(["10.2.0.0/16"]))
        view.heard(snapshot(["10.2.0.0/16"], new=[1]))
        view.heard(MARK)
        self.check(view, "10.2.0.0/16")


if __name__ == "__main__":
    unittest.main()
