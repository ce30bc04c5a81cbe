package quiver

import (
	"testing"

	"quiver/quiverv1"
)

func TestAGapForgetsWhatIsToldAnewAndNothingElse(t *testing.T) {
	link := func(index uint32, change quiverv1.EventChange) *Event {
		return &Event{Kind: LinkEvents, What: &quiverv1.Event_Link{Link: &quiverv1.LinkEvent{Index: index, Change: change}}}
	}
	end := func(kind EventKind) *Event { return &Event{Kind: kind, What: &quiverv1.Event_SnapshotEnd{}} }
	gap := func(lost ...EventKind) *Event {
		gap := &quiverv1.EventGap{}
		for _, kind := range lost {
			gap.Lost = append(gap.Lost, &quiverv1.EventGap_Lost{Kind: kind, Count: 1})
		}
		return &Event{What: &quiverv1.Event_Gap{Gap: gap}}
	}
	neighbor := &quiverv1.NeighborEvent{Index: 1, Address: []byte{10, 0, 0, 1}}
	var v EventView
	has := func(links, neighbors, whole int) {
		t.Helper()
		if len(v.Links) != links || len(v.Neighbors) != neighbors || len(v.Whole) != whole {
			t.Errorf("%d links, %d neighbors, %d whole; wanted %d, %d, %d", len(v.Links), len(v.Neighbors), len(v.Whole), links, neighbors, whole)
		}
	}
	for _, e := range []*Event{
		link(1, quiverv1.EventChange_EVENT_CHANGE_THERE), end(LinkEvents),
		{Kind: NeighborEvents, What: &quiverv1.Event_Neighbor{Neighbor: neighbor}}, end(NeighborEvents),
		link(2, quiverv1.EventChange_EVENT_CHANGE_CAME), link(1, quiverv1.EventChange_EVENT_CHANGE_GONE),
	} {
		v.Apply(e)
	}
	has(1, 1, 2)
	v.Apply(gap(LogEvents))
	has(1, 1, 2)
	v.Apply(gap(LinkEvents))
	has(0, 1, 1)
	v.Apply(gap())
	has(0, 0, 0)
	v.Apply(end(LogEvents))
	has(0, 0, 1)
}
