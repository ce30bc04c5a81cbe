package main

import (
	"context"

	"google.golang.org/protobuf/proto"

	"quiver"
	"quiver/quiverv1"
)

var eventCalls = map[string]call{
	"events": func(r *runner, ctx context.Context, a arguments) (any, error) {
		filter := quiver.EventFilter{Interfaces: a.texts("interfaces")}
		for _, kind := range a.texts("kinds") {
			filter.Kinds = append(filter.Kinds, quiver.EventKind(number(quiver.LinkEvents.Descriptor(), kind)))
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
