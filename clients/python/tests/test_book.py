"""What a client of routes sends, read by a naive router."""

import random
import unittest
from unittest import mock

from quiver import NextHop, QuiverError, Target, book, unpack
from quiver.book import Book
from quiver.v1 import routes_pb2 as pb


class Naive:
    """A router that does as routes.proto says, in the plainest way."""

    def __init__(self):
        self.routes = {}
        self.begin_stream()

    def begin_stream(self):
        self.sets, self.last = {}, 0
        self.stale = None

    def take(self, request):
        if request.HasField("sets"):
            for s in request.sets.sets:
                assert s.number < book.SETS
                self.sets[s.number] = s
            assert sum(len(s.next_hops) for s in self.sets.values()) <= book.SETS
        elif request.HasField("changes"):
            c = request.changes
            assert c.id > self.last
            self.last = c.id
            prefixes = unpack(c.prefixes, c.ipv6)
            assert c.delete or len(c.sets) in (1, len(prefixes))
            for i, prefix in enumerate(prefixes):
                key = c.table, c.metric, prefix
                if self.stale is not None:
                    self.stale.discard(key)
                if c.delete:
                    self.routes.pop(key, None)
                else:
                    s = self.sets[c.sets[i if len(c.sets) > 1 else 0]]
                    self.routes[key] = (s.action, tuple(h.interface for h in s.next_hops))
            return pb.ProgramReply(done=pb.RouteDone(id=c.id))
        elif request.sync == pb.ROUTE_SYNC_BEGIN:
            self.stale = set(self.routes)
        elif request.sync == pb.ROUTE_SYNC_END:
            assert self.stale is not None, "the end of what was not begun"
            gone, self.stale = self.stale, None
            for key in gone:
                del self.routes[key]
            return pb.ProgramReply(swept=pb.RouteSwept(gone=len(gone)))
        return None


def send(b, router, requests, deliver=1.0, rng=None):
    """What arrives of requests, and the answers: a share of both may be lost with the stream."""
    for request in requests:
        if rng is not None and rng.random() > deliver:
            return False
        reply = router.take(request)
        if reply is not None:
            b.heard(reply)
    return True


class TheBook(unittest.TestCase):
    def put(self, b, router, *args, **kwargs):
        for change in b.changes(*args, **kwargs):
            send(b, router, b.send(change))

    def test_streams_that_break(self):
        """Whatever of a stream is lost, the router has in the end what the caller asked for."""
        for seed in range(60):
            rng = random.Random(seed)
            with mock.patch.object(book, "TIDY", rng.choice([5, 50, 10_000])):
                router, want, b = Naive(), {}, Book(True)
                b.welcomed(pb.RouteWelcome(most_routes=4))
                for _ in range(80):
                    prefixes = [f"10.0.{rng.randint(0, 12)}.0/24" for _ in range(rng.randint(1, 9))]
                    table, metric, via = rng.randint(0, 1), rng.randint(0, 1), rng.choice([None, "left", "drop", ["left", "right"]])
                    each = None
                    if via is not None and rng.random() < 0.3:
                        each = [rng.choice(["left", "right", "drop"]) for _ in prefixes]
                    whole = True
                    for change in b.changes(prefixes, via, each, table, metric):
                        requests = b.send(change)
                        whole = whole and send(b, router, requests, 0.97, rng)
                    for i, prefix in enumerate(prefixes):
                        to = each[i] if each else via
                        want.pop((table, metric, prefix), None)
                        if to is not None:
                            hops = () if to == "drop" else (to,) if isinstance(to, str) else tuple(to)
                            want[table, metric, prefix] = (pb.ROUTE_ACTION_DROP if to == "drop" else pb.ROUTE_ACTION_FORWARD, hops)
                    while not whole:
                        if rng.random() < 0.3:
                            router.routes.clear()
                        router.begin_stream()
                        whole = send(b, router, b.again(), 0.97, rng)
                        if whole:
                            self.assertTrue(b.settled(b.sent))
                            self.assertEqual(b.under_way, 0)
                    self.assertEqual(router.routes, want)

    def test_routes_from_before_stay(self):
        """A client that returns and goes on sweeps nothing that it does not know, until it sends all again."""
        router, b = Naive(), Book(True)
        router.routes = {(0, 0, "10.9.0.0/16"): (1, ("left",)), (0, 0, "10.8.0.0/16"): (1, ("left",))}
        b.welcomed(pb.RouteWelcome(routes=2, returned=True))
        self.put(b, router, ["10.1.0.0/16"], "left", None, 0, 0)
        for change in b.changes(["10.8.0.0/16"], None, None, 0, 0):
            b.send(change)  # which is lost
        router.begin_stream()
        send(b, router, b.again())
        self.assertEqual(sorted(k[2] for k in router.routes), ["10.1.0.0/16", "10.9.0.0/16"])
        # All again, with a stream that breaks between.
        send(b, router, [b.begin()])
        self.put(b, router, ["10.2.0.0/16"], "left", None, 0, 0)
        router.begin_stream()
        send(b, router, b.again())
        self.assertIn((0, 0, "10.9.0.0/16"), router.routes)
        send(b, router, [b.end()])
        self.assertEqual([k[2] for k in router.routes], ["10.2.0.0/16"])
        self.assertEqual(b.gone, 2)

    def test_more_targets_than_there_are_numbers(self):
        with mock.patch.object(book, "SETS", 8):
            router, b = Naive(), Book(False)
            b.most_routes = 3
            for n in range(50):
                hops = tuple(NextHop(interface=f"if{n}-{i}") for i in range(n % 4 + 1))
                self.put(b, router, [f"10.{n}.0.0/16"], Target(hops), None, 0, 0)
                self.assertEqual(router.routes[0, 0, f"10.{n}.0.0/16"][1], tuple(h.interface for h in hops))
                self.assertEqual(len(router.routes), n + 1)

    def test_targets_of_a_batch_stay_together(self):
        """What another target of the same batch needs loses its number to none."""
        with mock.patch.object(book, "SETS", 4):
            router, b = Naive(), Book(False)
            for n in range(20):
                names = [f"if{(n + i) % 7}" for i in range(4)]
                rng = random.Random(n)
                rng.shuffle(names)
                self.put(b, router, [f"10.0.{i}.0/24" for i in range(4)], None, names, 0, 0)
                self.assertEqual([router.routes[0, 0, f"10.0.{i}.0/24"][1][0] for i in range(4)], names)

    def test_settled_when_the_rest_has_gone(self):
        router, b = Naive(), Book(True)
        self.put(b, router, ["10.1.0.0/16"], "left", None, 0, 0)
        upto = b.sent
        router.begin_stream()
        *most, end = b.again()
        self.assertFalse(b.settled(upto))
        send(b, router, most)
        self.assertFalse(b.settled(upto))
        send(b, router, [end])
        self.assertTrue(b.settled(upto))

    def test_errors_name_the_route(self):
        b = Book(True)
        for change in b.changes(["10.0.0.0/8", "11.0.0.0/8"], "left", None, 0, 0):
            b.send(change)
        error = pb.RouteError(id=1, index=1, rule="refused", message="no")
        b.heard(pb.ProgramReply(done=pb.RouteDone(id=1, refused=1, errors=[error])))
        done = b.take()
        self.assertEqual((done.refused, done.errors[0].prefix, str(done.errors[0])), (1, "11.0.0.0/8", "11.0.0.0/8: no"))
        self.assertEqual(b.take(), book.Done())

    def test_a_target_for_each(self):
        b = Book(True)
        with self.assertRaisesRegex(QuiverError, "1 targets for 2 prefixes"):
            list(b.changes(["10.0.0.0/8", "11.0.0.0/8"], None, ["left"], 0, 0))
        with self.assertRaisesRegex(QuiverError, "both families"):
            list(b.changes(["10.0.0.0/8", "::/0"], None, ["left", "left"], 0, 0))


if __name__ == "__main__":
    unittest.main()
