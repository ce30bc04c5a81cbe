package quiver

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"quiver/quiverv1"
)

// RouteEvent is what a follower of routes is told: a [RouteState], [RouteMark] or [RouteRestart].
type RouteEvent interface{ routeEvent() }

// RouteState says all routes that a prefix has, in the place of all that was told of it before.
type RouteState struct {
	// Table by number.
	Table uint32
	// Prefix of the destinations.
	Prefix netip.Prefix
	// Routes of it, the one in use first; none: it has gone.
	Routes []Route
}

// RouteMark says that all routes that there are have been told.
type RouteMark struct {
	// Next is the number of the change that comes next.
	Next uint64
}

// RouteRestart says that changes are lost: the follower was too slow, or the connection has gone. All routes that there are
// follow, to the next mark; what is not told until then has gone.
type RouteRestart struct {
	// From and To are the first change that is lost and the first that is not; 0 where the connection had gone.
	From, To uint64
	// Cause is why the connection had gone.
	Cause error
}

func (RouteState) routeEvent()   {}
func (RouteMark) routeEvent()    {}
func (RouteRestart) routeEvent() {}

// Watch follows routes: it yields all that there are, a mark, and then what changes, until the context ends or the loop is left. When
// the connection goes it connects again, and yields a [RouteRestart] and all routes anew; only what the router refuses ends it.
func (c *Client) Watch(ctx context.Context, filter RouteFilter) iter.Seq2[RouteEvent, error] {
	request := &quiverv1.WatchRoutesRequest{Filter: filter.message()}
	return func(yield func(RouteEvent, error) bool) {
		pause := firstPause
		for {
			var failed error
			kinds := kinds{}
			for m, err := range answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.RouteEvent], error) {
				return c.routes.Watch(ctx, request)
			}) {
				if err == nil {
					pause = firstPause
					err = kinds.events(m, func(e RouteEvent) bool { return yield(e, nil) })
				}
				if err == errLeft {
					return
				}
				if failed = err; err != nil {
					break
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
			if !yield(RouteRestart{Cause: failed}, nil) {
				return
			}
		}
	}
}

// passes tells whether what has failed may go well another time: without a connection, or where the router says when to come again.
func passes(err error) bool {
	e, ok := err.(*Error)
	return ok && (e.Is(ErrUnavailable) || e.RetryAfter > 0)
}

// before is the pause before something is tried again: as long as what has failed says, where that is longer.
func before(pause time.Duration, failed error) time.Duration {
	if e, ok := failed.(*Error); ok {
		return max(pause, e.RetryAfter)
	}
	return pause
}

// wait waits; false when the context ends before.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (k *kinds) events(m *quiverv1.RouteEvent, each func(RouteEvent) bool) error {
	switch what := m.What.(type) {
	case *quiverv1.RouteEvent_Snapshot:
		return k.states(what.Snapshot, each)
	case *quiverv1.RouteEvent_Changes:
		for _, batch := range what.Changes.Batches {
			if err := k.states(batch, each); err != nil {
				return err
			}
		}
	case *quiverv1.RouteEvent_Mark:
		if !each(RouteMark{Next: what.Mark.Next}) {
			return errLeft
		}
	case *quiverv1.RouteEvent_Gap:
		if !each(RouteRestart{From: what.Gap.From, To: what.Gap.To}) {
			return errLeft
		}
	}
	return nil
}

// states hands on what a batch says of each prefix.
func (k *kinds) states(batch *quiverv1.RouteBatch, each func(RouteEvent) bool) error {
	var state RouteState
	err := k.routes(batch, func(r Route) bool {
		if state.Prefix != r.Prefix {
			if len(state.Routes) > 0 && !each(state) {
				return false
			}
			state = RouteState{Table: r.Table, Prefix: r.Prefix}
		}
		state.Routes = append(state.Routes, r)
		return true
	})
	if err != nil {
		return err
	}
	if len(state.Routes) > 0 && !each(state) {
		return errLeft
	}
	gone, err := whole(batch.Gone, batch.Ipv6)
	if err != nil {
		return err
	}
	for packed := batch.Gone; gone > 0; gone-- {
		state = RouteState{Table: batch.Table}
		state.Prefix, packed = unpack(packed, batch.Ipv6)
		if !each(state) {
			return errLeft
		}
	}
	return nil
}

// RouteView is what a follower knows: the routes of each prefix. It becomes the router's by what [Client.Watch] yields. It is not
// for use by several goroutines at once.
type RouteView struct {
	// Routes by table and prefix.
	Routes map[RouteKey][]Route
	// Complete: it is as the router's was at some moment after the last restart.
	Complete bool
	// What was told since the last restart, while it is not complete.
	told map[RouteKey]bool
}

// RouteKey is a prefix of a table.
type RouteKey struct {
	Table  uint32
	Prefix netip.Prefix
}

// Apply takes in an event.
func (v *RouteView) Apply(event RouteEvent) {
	if v.Routes == nil {
		v.Routes, v.told = map[RouteKey][]Route{}, map[RouteKey]bool{}
	}
	switch e := event.(type) {
	case RouteState:
		key := RouteKey{e.Table, e.Prefix}
		if len(e.Routes) == 0 {
			delete(v.Routes, key)
		} else {
			v.Routes[key] = e.Routes
		}
		if !v.Complete {
			v.told[key] = true
		}
	case RouteRestart:
		v.Complete, v.told = false, map[RouteKey]bool{}
	case RouteMark:
		for key := range v.Routes {
			if !v.Complete && !v.told[key] {
				delete(v.Routes, key)
			}
		}
		v.Complete, v.told = true, nil
	}
}
