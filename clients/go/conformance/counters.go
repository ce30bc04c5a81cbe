package main

import (
	"context"
	"time"

	"quiver"
)

var counterCalls = map[string]call{
	"list_counters": func(r *runner, ctx context.Context, a arguments) (any, error) {
		list := []any{}
		for c, err := range r.client.Counters(ctx, a.texts("names")...) {
			if err != nil {
				return nil, err
			}
			list = append(list, value(c))
		}
		return list, nil
	},
	"counters": func(r *runner, ctx context.Context, a arguments) (any, error) {
		reading, err := r.client.ReadCounters(ctx, a.texts("names")...)
		if err != nil {
			return nil, err
		}
		return readingValue(reading), nil
	},
	"watch_counters": func(r *runner, ctx context.Context, a arguments) (any, error) {
		list, count := []any{}, int(a.number("count"))
		interval := time.Duration(a.number("interval_ms")) * time.Millisecond
		for reading, err := range r.client.WatchCounters(ctx, interval, a.texts("names")...) {
			if err != nil {
				return nil, err
			}
			if list = append(list, readingValue(reading)); len(list) == count {
				break
			}
		}
		return list, nil
	},
}

func readingValue(r *quiver.Reading) map[string]any {
	return map[string]any{"time_ns": float64(r.Time.UnixNano()), "values": values(r.Values)}
}
