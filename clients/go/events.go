package quiver

import (
	"context"
	"iter"

	"google.golang.org/grpc"

	"quiver/quiverv1"
)

// Event is something that has happened, or a piece of what there is. Its What says what.
type Event = quiverv1.Event

// EventKind is a kind of events.
type EventKind = quiverv1.EventKind

// Kinds of events.
const (
	LinkEvents          = quiverv1.EventKind_EVENT_KIND_LINK
	NeighborEvents      = quiverv1.EventKind_EVENT_KIND_NEIGHBOR
	ConfigurationEvents = quiverv1.EventKind_EVENT_KIND_CONFIGURATION
	LogEvents           = quiverv1.EventKind_EVENT_KIND_LOG
	DropsEvents         = quiverv1.EventKind_EVENT_KIND_DROPS
	RouteEvents         = quiverv1.EventKind_EVENT_KIND_ROUTE
)

// EventFilter says which events are wanted.
type EventFilter struct {
	// Kinds; all but routes where there is none.
	Kinds []EventKind
	// Interfaces of which links, neighbors and drops are told: names, or beginnings of names with `*` behind them; all without any.
	Interfaces []string
	// LogLevel is the least that a line of the log must matter; information without it.
	LogLevel quiverv1.LogLevel
	// DropsPerSecond is the least rate of drops, in packets a second; one without it.
	DropsPerSecond uint64
	// Routes whose changes are told, where the kinds ask for routes; all of table 0 without it.
	Routes *RouteFilter
}

// Events yields what happens until the context ends or the loop is left, with the links and neighbors that there are first. When the
// connection goes it connects again, and yields a gap that has no counts: all is told anew from there. Only what the router refuses
// ends it. [EventView] puts events together.
func (c *Client) Events(ctx context.Context, filter EventFilter) iter.Seq2[*Event, error] {
	request := &quiverv1.WatchEventsRequest{
		Kinds: filter.Kinds, Interfaces: filter.Interfaces, LogLevel: filter.LogLevel, DropsPerSecond: filter.DropsPerSecond,
	}
	if filter.Routes != nil {
		request.Routes = filter.Routes.message()
	}
	return func(yield func(*Event, error) bool) {
		pause := firstPause
		for {
			var failed error
			for event, err := range answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[Event], error) {
				return c.events.Watch(ctx, request)
			}) {
				if failed = err; err != nil {
					break
				}
				pause = firstPause
				if !yield(event, nil) {
					return
				}
			}
			if failed != nil && !passes(failed) || !wait(ctx, before(pause, failed)) {
				if err := ctx.Err(); err != nil {
					failed = err
				}
				yield(nil, failed)
				return
			}
			pause = min(2*pause, longestPause)
			if !yield(&Event{What: &quiverv1.Event_Gap{Gap: &quiverv1.EventGap{}}}, nil) {
				return
			}
		}
	}
}

// EventView is what is known of links and neighbors by the events of [Client.Events]. It is not for use by several goroutines at once.
type EventView struct {
	// Links by number.
	Links map[uint32]*quiverv1.LinkEvent
	// Neighbors by interface and address.
	Neighbors map[NeighborKey]*quiverv1.NeighborEvent
	// Whole has the kinds of which all is told.
	Whole map[EventKind]bool
}

// NeighborKey is the number of an interface, and the bytes of an address.
type NeighborKey struct {
	Index   uint32
	Address string
}

// Apply takes in an event. What is told anew behind a gap is forgotten with the gap.
func (v *EventView) Apply(event *Event) {
	if v.Links == nil {
		v.Links, v.Neighbors, v.Whole = map[uint32]*quiverv1.LinkEvent{}, map[NeighborKey]*quiverv1.NeighborEvent{}, map[EventKind]bool{}
	}
	switch what := event.What.(type) {
	case *quiverv1.Event_Link:
		if what.Link.Change == quiverv1.EventChange_EVENT_CHANGE_GONE {
			delete(v.Links, what.Link.Index)
		} else {
			v.Links[what.Link.Index] = what.Link
		}
	case *quiverv1.Event_Neighbor:
		key := NeighborKey{what.Neighbor.Index, string(what.Neighbor.Address)}
		if what.Neighbor.Change == quiverv1.EventChange_EVENT_CHANGE_GONE {
			delete(v.Neighbors, key)
		} else {
			v.Neighbors[key] = what.Neighbor
		}
	case *quiverv1.Event_SnapshotEnd:
		v.Whole[event.Kind] = true
	case *quiverv1.Event_Gap:
		if len(what.Gap.Lost) == 0 {
			*v = EventView{}
			return
		}
		for _, lost := range what.Gap.Lost {
			delete(v.Whole, lost.Kind)
			switch lost.Kind {
			case LinkEvents:
				clear(v.Links)
			case NeighborEvents:
				clear(v.Neighbors)
			}
		}
	}
}
