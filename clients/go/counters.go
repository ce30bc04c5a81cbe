package quiver

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"google.golang.org/grpc"

	"quiver/quiverv1"
)

// Counter describes what is counted, as docs/counters.md does.
type Counter = quiverv1.ListCountersResponse_Counter

// CounterValue is a value of a counter, that of all workers together.
type CounterValue = quiverv1.ReadCountersResponse_Value

// Reading is the values of counters at a moment.
type Reading struct {
	// Time at which they were read.
	Time time.Time
	// Values that are not 0.
	Values []*CounterValue
}

// Counters yields what is counted. Names may be beginnings of names with `*` behind them; all without any.
func (c *Client) Counters(ctx context.Context, names ...string) iter.Seq2[*Counter, error] {
	request := &quiverv1.ListCountersRequest{Names: names}
	return each(answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.ListCountersResponse], error) {
		return c.counters.List(ctx, request)
	}), func(m *quiverv1.ListCountersResponse) []*Counter { return m.Counters })
}

// ReadCounters reads counters once. Names are as for [Client.Counters].
func (c *Client) ReadCounters(ctx context.Context, names ...string) (*Reading, error) {
	for reading, err := range c.readings(ctx, names, 0) {
		return reading, err
	}
	return nil, fmt.Errorf("quiver: the router has told no counters")
}

// WatchCounters reads counters at an interval, 100 ms at least, until the context ends or the loop is left. Names are as for
// [Client.Counters].
func (c *Client) WatchCounters(ctx context.Context, interval time.Duration, names ...string) iter.Seq2[*Reading, error] {
	ms := interval.Milliseconds()
	if ms < 1 || ms > math.MaxUint32 {
		return func(yield func(*Reading, error) bool) {
			yield(nil, fmt.Errorf("quiver: counters cannot be read every %v: at least 100 ms", interval))
		}
	}
	return c.readings(ctx, names, uint32(ms))
}

func (c *Client) readings(ctx context.Context, names []string, interval uint32) iter.Seq2[*Reading, error] {
	request := &quiverv1.ReadCountersRequest{Names: names, IntervalMs: interval}
	return func(yield func(*Reading, error) bool) {
		reading := &Reading{}
		for m, err := range answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.ReadCountersResponse], error) {
			return c.counters.Read(ctx, request)
		}) {
			if err != nil {
				yield(nil, err)
				return
			}
			reading.Time = time.Unix(0, m.TimeNs)
			reading.Values = append(reading.Values, m.Values...)
			if m.Complete {
				if !yield(reading, nil) {
					return
				}
				reading = &Reading{}
			}
		}
	}
}
