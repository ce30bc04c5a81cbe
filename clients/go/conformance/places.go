package main

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"quiver"
)

// errPlanned ends a transaction of which only the steps are wanted.
var errPlanned = errors.New("planned")

// say says the changes of a transaction.
func say(t *quiver.Tx, edits []any) error {
	for _, one := range edits {
		fields, _ := one.(map[string]any)
		e := arguments(fields)
		switch {
		case e["set"] != nil:
			t.Set(e.text("set"), e["to"])
		case e["merge"] != nil:
			with, _ := e["with"].(map[string]any)
			t.Merge(e.text("merge"), with)
		case e["delete"] != nil:
			t.Delete(e.text("delete"))
		default:
			prefix, err := netip.ParsePrefix(e.text("route"))
			if err != nil {
				return err
			}
			if e["to"] != nil {
				t.Route(prefix, uint32(e.number("table")), e.text("to"))
			} else {
				t.DeleteRoute(prefix, uint32(e.number("table")))
			}
		}
	}
	return nil
}

var placeCalls = map[string]call{
	"get": func(r *runner, ctx context.Context, a arguments) (any, error) {
		var got any
		version, err := r.client.Get(ctx, a.text("place"), &got)
		if err != nil {
			return nil, err
		}
		return map[string]any{"value": got, "version": version}, nil
	},
	"transaction": func(r *runner, ctx context.Context, a arguments) (any, error) {
		edits, _ := a["edits"].([]any)
		var plan *quiver.Plan
		done, err := r.client.Transaction(ctx, func(t *quiver.Tx) error {
			t.Comment(a.text("comment"))
			t.Version(a.text("version"))
			t.Confirm(time.Duration(a.number("confirm_seconds")) * time.Second)
			if err := say(t, edits); err != nil || !a.is("plan") {
				return err
			}
			var err error
			if plan, err = t.Plan(ctx); err != nil {
				return err
			}
			return errPlanned
		})
		if errors.Is(err, errPlanned) {
			return map[string]any{"steps": values(plan.Steps), "warnings": texts(plan.Warnings), "restart": texts(plan.Restart)}, nil
		}
		return of(done, err)
	},
}
