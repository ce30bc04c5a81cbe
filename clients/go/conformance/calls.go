package main

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"quiver"
)

type arguments map[string]any

func (a arguments) text(name string) string {
	text, _ := a[name].(string)
	return text
}

func (a arguments) texts(name string) []string {
	list, _ := a[name].([]any)
	var texts []string
	for _, one := range list {
		text, _ := one.(string)
		texts = append(texts, text)
	}
	return texts
}

func (a arguments) is(name string) bool {
	is, _ := a[name].(bool)
	return is
}

func (a arguments) number(name string) uint64 {
	number, _ := a[name].(float64)
	return uint64(number)
}

func (a arguments) options() quiver.ApplyOptions {
	return quiver.ApplyOptions{
		Confirm: time.Duration(a.number("confirm_seconds")) * time.Second, Comment: a.text("comment"),
		Exact: a.is("exact"), Restart: a.is("restart"), DryRun: a.is("dry_run"),
	}
}

type call func(r *runner, ctx context.Context, a arguments) (any, error)

// of is the fields of a message, where there is one.
func of[M proto.Message](m M, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return value(m), nil
}

// said is what a command has said.
func said(text string, err error) (any, error) {
	nothing := errors.Is(err, quiver.ErrNothing)
	if nothing {
		err = nil
	}
	return map[string]any{"text": text, "failed": nothing}, err
}

// injection is packets as a case has them, in hexadecimal digits.
func (a arguments) injection() (*quiver.Injection, error) {
	injection := &quiver.Injection{
		Node: a.text("node"), RxInterface: a.text("rx_interface"), TxInterface: a.text("tx_interface"), Count: uint32(a.number("count")),
	}
	for _, text := range a.texts("packets") {
		packet, err := hex.DecodeString(text)
		if err != nil {
			return nil, err
		}
		injection.Packets = append(injection.Packets, packet)
	}
	return injection, nil
}

var calls map[string]call

// What the client has, as the cases call it.
func init() {
	calls = map[string]call{
		"system": func(r *runner, ctx context.Context, _ arguments) (any, error) { return of(r.client.System(ctx)) },
		"command": func(r *runner, ctx context.Context, a arguments) (any, error) {
			return said(r.client.Command(ctx, a.text("line")))
		},
		"commands": func(r *runner, ctx context.Context, a arguments) (any, error) {
			return said(r.client.Script(ctx, strings.Join(a.texts("lines"), "\n")))
		},
		"json": func(r *runner, ctx context.Context, a arguments) (any, error) {
			var value any
			err := r.client.CommandJSON(ctx, a.text("line"), &value)
			return value, err
		},
		"inject": func(r *runner, ctx context.Context, a arguments) (any, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			injection, err := a.injection()
			if err != nil {
				return nil, err
			}
			injector, err := r.client.Injector(ctx)
			if err != nil {
				return nil, err
			}
			taken, err := injector.Inject(injection)
			return map[string]any{"taken": float64(taken)}, err
		},
		"trace": func(r *runner, ctx context.Context, a arguments) (any, error) {
			what := &quiver.Trace{Nodes: a.texts("nodes"), Interface: a.text("interface"), Count: a.number("count")}
			list, begun := []any{}, false
			for event, err := range r.client.Trace(ctx, what) {
				if err != nil {
					return nil, err
				}
				if event.Packet != nil {
					list = append(list, value(event.Packet))
				}
				if !begun {
					begun = true
					if _, err := calls["inject"](r, ctx, a); err != nil {
						return nil, err
					}
				}
			}
			return list, nil
		},
		"complete": func(r *runner, ctx context.Context, a arguments) (any, error) {
			return of(r.client.Complete(ctx, a.text("line")))
		},
		"help": func(r *runner, ctx context.Context, a arguments) (any, error) {
			return r.client.Help(ctx, a.text("line"))
		},
		"list_commands": func(r *runner, ctx context.Context, _ arguments) (any, error) {
			list := []any{}
			for c, err := range r.client.Commands(ctx) {
				if err != nil {
					return nil, err
				}
				list = append(list, value(c))
			}
			return list, nil
		},
		"check": func(r *runner, ctx context.Context, a arguments) (any, error) {
			return of(r.client.Check(ctx, a.text("document")))
		},
		"diff": func(r *runner, ctx context.Context, a arguments) (any, error) {
			d, err := r.client.Diff(ctx, a.text("document"), a.is("exact"))
			if err != nil {
				return nil, err
			}
			return map[string]any{
				"differences": values(d.Objects), "restart": texts(d.Restart), "stays": texts(d.Stays),
			}, nil
		},
		"plan": func(r *runner, ctx context.Context, a arguments) (any, error) {
			p, err := r.client.Plan(ctx, a.text("document"), a.is("exact"))
			if err != nil {
				return nil, err
			}
			return map[string]any{
				"steps": values(p.Steps), "warnings": texts(p.Warnings), "restart": texts(p.Restart), "stays": float64(p.Stays),
			}, nil
		},
		"apply": func(r *runner, ctx context.Context, a arguments) (any, error) {
			return of(r.client.Apply(ctx, a.text("document"), a.options()))
		},
		"rollback": func(r *runner, ctx context.Context, a arguments) (any, error) {
			return of(r.client.Rollback(ctx, a.number("number"), a.options()))
		},
		"confirm": func(r *runner, ctx context.Context, _ arguments) (any, error) {
			number, err := r.client.Confirm(ctx)
			return map[string]any{"number": float64(number)}, err
		},
		"save": func(r *runner, ctx context.Context, a arguments) (any, error) {
			return of(r.client.Save(ctx, a.text("comment")))
		},
		"history": func(r *runner, ctx context.Context, _ arguments) (any, error) {
			list := []any{}
			for entry, err := range r.client.History(ctx) {
				if err != nil {
					return nil, err
				}
				list = append(list, value(entry))
			}
			return list, nil
		},
		"saved": func(r *runner, ctx context.Context, a arguments) (any, error) {
			entry, document, err := r.client.Kept(ctx, a.number("number"))
			if err != nil {
				return nil, err
			}
			fields := value(entry)
			fields["document"] = document
			return fields, nil
		},
		"dump": func(r *runner, ctx context.Context, _ arguments) (any, error) {
			return r.client.Dump(ctx, false)
		},
		"router": func(r *runner, _ context.Context, a arguments) (any, error) { return nil, r.router(a.text("do")) },
	}
	maps.Copy(calls, counterCalls)
	maps.Copy(calls, placeCalls)
	maps.Copy(calls, eventCalls)
	maps.Copy(calls, routeCalls)
}
