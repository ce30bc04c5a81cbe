"""What a view of events knows, by messages of its own making."""

import unittest

from quiver.events import EventError, EventView, lost, wanted
from quiver.v1 import events_pb2 as pb


def link(index: int, change: int) -> pb.Event:
    return pb.Event(kind=pb.EVENT_KIND_LINK, link=pb.LinkEvent(index=index, change=change, interface=f"loop{index}"))


class Views(unittest.TestCase):
    def test_a_gap_forgets_what_is_told_anew_and_nothing_else(self) -> None:
        view = EventView()
        view.heard(link(1, pb.EVENT_CHANGE_THERE))
        view.heard(pb.Event(kind=pb.EVENT_KIND_NEIGHBOR, neighbor=pb.NeighborEvent(index=1, address=b"\x0a\0\0\1")))
        for kind in (pb.EVENT_KIND_LINK, pb.EVENT_KIND_NEIGHBOR):
            view.heard(pb.Event(kind=kind, snapshot_end=pb.SnapshotEnd()))
        view.heard(link(2, pb.EVENT_CHANGE_CAME))
        view.heard(link(1, pb.EVENT_CHANGE_GONE))
        self.assertEqual((set(view.links), len(view.neighbors), view.whole), ({2}, 1, {"link", "neighbor"}))
        view.heard(pb.Event(gap=pb.EventGap(lost=[pb.EventGap.Lost(kind=pb.EVENT_KIND_LINK, count=3)])))
        self.assertEqual((view.links, len(view.neighbors), view.whole), ({}, 1, {"neighbor"}))
        view.heard(lost())
        self.assertEqual((view.links, view.neighbors, view.whole), ({}, {}, set()))

    def test_words_that_are_none(self) -> None:
        kinds = wanted(["link", "log"], [], "warn", 0, None).kinds
        self.assertEqual(list(kinds), [pb.EVENT_KIND_LINK, pb.EVENT_KIND_LOG])
        with self.assertRaisesRegex(EventError, "link, neighbor"):
            wanted(["links"], [], "info", 0, None)
        with self.assertRaisesRegex(EventError, "warn"):
            wanted([], [], "loud", 0, None)
