package main

import (
	"bytes"
	"context"
	"maps"
	"sync"

	"google.golang.org/protobuf/proto"

	"quiver"
	"quiver/quiverv1"
)

// hearing takes in events beside the cases.
type hearing struct {
	mu    sync.Mutex
	view  quiver.EventView
	err   error
	close func()
}

func (r *runner) hear(filter quiver.EventFilter) *hearing {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	h := &hearing{}
	h.close = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		for event, err := range r.client.Events(ctx, filter) {
			h.mu.Lock()
			if err != nil {
				h.err = err
			} else {
				h.view.Apply(event)
			}
			h.mu.Unlock()
		}
	}()
	return h
}

// links and neighbors of a view, without how they came to be so.
func known(v *quiver.EventView) map[any][]byte {
	all := map[any][]byte{}
	for key, link := range v.Links {
		link = proto.CloneOf(link)
		link.Change, link.Changed = 0, nil
		all[key], _ = proto.MarshalOptions{Deterministic: true}.Marshal(link)
	}
	for key, neighbor := range v.Neighbors {
		neighbor = proto.CloneOf(neighbor)
		neighbor.Change, neighbor.MacBefore = 0, nil
		all[key], _ = proto.MarshalOptions{Deterministic: true}.Marshal(neighbor)
	}
	return all
}

// agrees compares what was heard with new snapshots.
func (h *hearing) agrees(ctx context.Context, client *quiver.Client) (any, error) {
	var fresh quiver.EventView
	filter := quiver.EventFilter{Kinds: []quiver.EventKind{quiver.LinkEvents, quiver.NeighborEvents}}
	for event, err := range client.Events(ctx, filter) {
		if err != nil {
			return nil, err
		}
		fresh.Apply(event)
		if len(fresh.Whole) == 2 {
			break
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	there := known(&fresh)
	same := maps.EqualFunc(known(&h.view), there, bytes.Equal)
	return map[string]any{"complete": len(h.view.Whole) == 2, "same": same, "count": float64(len(there))}, nil
}

var eventCalls = map[string]call{
	"events": func(r *runner, ctx context.Context, a arguments) (any, error) {
		filter := quiver.EventFilter{Interfaces: a.texts("interfaces")}
		for _, kind := range a.texts("kinds") {
			filter.Kinds = append(filter.Kinds, quiver.EventKind(number(quiver.LinkEvents.Descriptor(), kind)))
		}
		if name := a.text("as"); name != "" {
			r.hearings[name] = r.hear(filter)
			return nil, nil
		}
		list, ends := []any{}, 0
		for event, err := range r.client.Events(ctx, filter) {
			if err != nil {
				return nil, err
			}
			list = append(list, eventValue(event))
			if _, end := event.What.(*quiverv1.Event_SnapshotEnd); end {
				ends++
			}
			// All that there is has been told, of links and neighbors.
			if ends == 2 {
				break
			}
		}
		return list, nil
	},
}

func eventValue(e *quiver.Event) map[string]any {
	fields := value(proto.Message(e))
	what := e.ProtoReflect()
	if field := what.WhichOneof(what.Descriptor().Oneofs().ByName("what")); field != nil {
		fields["what"] = string(field.Name())
	}
	return fields
}
