package quiver

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"quiver/quiverv1"
)

func packed(prefixes ...string) (out []byte) {
	for _, p := range prefixes {
		out = pack(out, netip.MustParsePrefix(p))
	}
	return out
}

func TestPrefixesComeBackAsTheyWere(t *testing.T) {
	for _, text := range []string{"0.0.0.0/0", "10.1.2.0/24", "255.255.255.255/32", "::/0", "2001:db8::/33", "::1/128", "::ffff:10.0.0.0/104"} {
		want := netip.MustParsePrefix(text)
		have, rest := unpack(append(packed(text), 7), !want.Addr().Is4())
		if have != want || len(rest) != 1 {
			t.Errorf("%s comes back as %v, and %v", text, have, rest)
		}
		if key := keyOf(0, 0, want); key.prefix() != want {
			t.Errorf("%s is remembered as %v", text, key.prefix())
		}
	}
}

// What a router tells a follower, by the schema.
func told(kind uint32, prefixes ...string) *quiverv1.RouteBatch {
	b := &quiverv1.RouteBatch{Prefixes: packed(prefixes...)}
	for range prefixes {
		b.OfKind = append(b.OfKind, kind)
	}
	return b
}

func snapshot(b *quiverv1.RouteBatch) *quiverv1.RouteEvent {
	return &quiverv1.RouteEvent{What: &quiverv1.RouteEvent_Snapshot{Snapshot: b}}
}

func changes(batches ...*quiverv1.RouteBatch) *quiverv1.RouteEvent {
	return &quiverv1.RouteEvent{What: &quiverv1.RouteEvent_Changes{Changes: &quiverv1.RouteUpdate{Batches: batches}}}
}

var (
	mark = &quiverv1.RouteEvent{What: &quiverv1.RouteEvent_Mark{Mark: &quiverv1.RouteMark{Next: 1}}}
	gap  = &quiverv1.RouteEvent{What: &quiverv1.RouteEvent_Gap{Gap: &quiverv1.RouteGap{From: 1, To: 5}}}
)

func TestAViewBecomesTheRouters(t *testing.T) {
	first := told(1, "10.0.0.0/24", "10.0.0.0/24", "10.0.1.0/24")
	first.Kinds = []*quiverv1.RouteKind{
		{Number: 1, Source: "static", NextHops: &quiverv1.NextHopSet{NextHops: []*quiverv1.NextHop{{Address: []byte{10, 0, 0, 9}}}}},
		{Number: 2, Source: "api:x@root", Preference: 20, NextHops: &quiverv1.NextHopSet{Action: Drop}},
	}
	first.OfKind[1], first.Unused = 2, []uint32{1}
	steps := []struct {
		event    *quiverv1.RouteEvent
		complete bool
		have     []string
	}{
		{snapshot(first), false, []string{"10.0.0.0/24 2", "10.0.1.0/24 1"}},
		{changes(&quiverv1.RouteBatch{Gone: packed("10.0.1.0/24", "10.9.0.0/16")}), false, []string{"10.0.0.0/24 2"}},
		{mark, true, []string{"10.0.0.0/24 2"}},
		{changes(told(1, "10.0.2.0/24"), told(2, "10.0.0.0/24")), true, []string{"10.0.0.0/24 1", "10.0.2.0/24 1"}},
		{gap, false, []string{"10.0.0.0/24 1", "10.0.2.0/24 1"}},
		{snapshot(told(1, "10.0.3.0/24")), false, []string{"10.0.0.0/24 1", "10.0.2.0/24 1", "10.0.3.0/24 1"}},
		{changes(told(1, "10.0.2.0/24")), false, []string{"10.0.0.0/24 1", "10.0.2.0/24 1", "10.0.3.0/24 1"}},
		{mark, true, []string{"10.0.2.0/24 1", "10.0.3.0/24 1"}},
	}
	var view RouteView
	kinds := kinds{}
	for i, step := range steps {
		if err := kinds.events(step.event, func(e RouteEvent) bool { view.Apply(e); return true }); err != nil {
			t.Fatal(i, err)
		}
		var have []string
		for key, routes := range maps.All(view.Routes) {
			have = append(have, key.Prefix.String()+" "+string(rune('0'+len(routes))))
		}
		slices.Sort(have)
		if view.Complete != step.complete || !slices.Equal(have, step.have) {
			t.Errorf("step %d: %v %v", i, view.Complete, have)
		}
	}
	if r := kinds[1]; r.Action != Forward || r.NextHops[0].String() != "10.0.0.9" || r.NextHops[0].Weight != 1 {
		t.Errorf("%+v", r)
	}
}

func TestAnAnswerThatIsNoneIsAnError(t *testing.T) {
	short := told(1, "10.0.0.0/24")
	short.Prefixes = short.Prefixes[1:]
	more := told(1, "10.0.0.0/24")
	more.OfKind = append(more.OfKind, 1)
	address := told(1)
	address.Kinds = []*quiverv1.RouteKind{{Number: 1, NextHops: &quiverv1.NextHopSet{NextHops: []*quiverv1.NextHop{{Address: []byte{1}}}}}}
	for i, batch := range []*quiverv1.RouteBatch{short, more, told(3, "10.0.0.0/24"), address, {Gone: []byte{1}}} {
		kinds := kinds{1: {}}
		if err := kinds.states(batch, func(RouteEvent) bool { return true }); err == nil {
			t.Errorf("%d is taken", i)
		}
	}
}
