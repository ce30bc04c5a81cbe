package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"quiver"
)

type program struct{ *quiver.Program }

// watch follows routes beside the cases.
type watch struct {
	mu    sync.Mutex
	view  quiver.RouteView
	err   error
	close func()
}

// known is what it knows, and whether that is all.
func (w *watch) known() ([]quiver.Route, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []quiver.Route
	for _, routes := range w.view.Routes {
		all = append(all, routes...)
	}
	return all, w.view.Complete, w.err
}

// lasting is a route in words, without whether it is used: that changes without a change of it.
func lasting(r quiver.Route) string {
	r.Used = false
	return fmt.Sprint(routeValue(r))
}

var routeCalls = map[string]call{
	"program": func(r *runner, ctx context.Context, a arguments) (any, error) {
		var options []quiver.ProgramOption
		if _, ok := a["preference"]; ok {
			options = append(options, quiver.Preference(uint32(a.number("preference"))))
		}
		if _, ok := a["grace_seconds"]; ok {
			options = append(options, quiver.Grace(time.Duration(a.number("grace_seconds"))*time.Second))
		}
		p, err := r.client.Program(ctx, a.text("name"), options...)
		if err != nil {
			return nil, err
		}
		r.programs[a.text("as")] = &program{p}
		routes, returned := p.Returned()
		return map[string]any{
			"source": p.Source(), "preference": float64(p.Preference()), "routes": float64(routes), "returned": returned,
		}, nil
	},
	"set": func(r *runner, ctx context.Context, a arguments) (any, error) {
		p, err := r.program(a)
		if err != nil {
			return nil, err
		}
		via, err := p.viaOf(a)
		if err != nil {
			return nil, err
		}
		table := p.Table(uint32(a.number("table")), uint32(a.number("metric")))
		return nil, prefixes(a, func(prefix netip.Prefix) error { return table.Set(ctx, prefix, via) })
	},
	"delete": func(r *runner, ctx context.Context, a arguments) (any, error) {
		p, err := r.program(a)
		if err != nil {
			return nil, err
		}
		table := p.Table(uint32(a.number("table")), uint32(a.number("metric")))
		return nil, prefixes(a, func(prefix netip.Prefix) error { return table.Delete(ctx, prefix) })
	},
	"flush": func(r *runner, ctx context.Context, a arguments) (any, error) {
		p, err := r.program(a)
		if err != nil {
			return nil, err
		}
		err = p.Wait(ctx)
		refused, is := err.(*quiver.RefusedError)
		if err != nil && !is {
			return nil, err
		}
		if refused == nil {
			refused = &quiver.RefusedError{}
		}
		errors := []any{}
		for _, e := range refused.Routes {
			errors = append(errors, map[string]any{
				"prefix": e.Prefix.String(), "rule": e.Rule, "value": e.Value, "message": e.Message,
			})
		}
		return map[string]any{"refused": float64(refused.Count), "errors": errors}, nil
	},
	"sync": func(r *runner, ctx context.Context, a arguments) (any, error) {
		p, err := r.program(a)
		if err != nil {
			return nil, err
		}
		if a.text("do") == "begin" {
			return nil, p.BeginSync()
		}
		gone, err := p.EndSync(ctx)
		return map[string]any{"gone": float64(gone)}, err
	},
	"routes": func(r *runner, ctx context.Context, a arguments) (any, error) {
		filter, err := filterOf(a)
		if err != nil {
			return nil, err
		}
		list := []any{}
		for route, err := range r.client.Routes(ctx, filter) {
			if err != nil {
				return nil, err
			}
			list = append(list, routeValue(route))
		}
		return list, nil
	},
	"count_routes": func(r *runner, ctx context.Context, a arguments) (any, error) {
		filter, err := filterOf(a)
		if err != nil {
			return nil, err
		}
		n := 0.0
		for _, err := range r.client.Routes(ctx, filter) {
			if err != nil {
				return nil, err
			}
			n++
		}
		return n, nil
	},
	"watch": func(r *runner, _ context.Context, a arguments) (any, error) {
		filter, err := filterOf(a)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		w := &watch{}
		w.close = func() {
			cancel()
			<-ended
		}
		go func() {
			defer close(ended)
			for event, err := range r.client.Watch(ctx, filter) {
				w.mu.Lock()
				if err != nil {
					w.err = err
				} else {
					w.view.Apply(event)
				}
				w.mu.Unlock()
			}
		}()
		r.watches[a.text("as")] = w
		return nil, nil
	},
	"agrees": func(r *runner, ctx context.Context, a arguments) (any, error) {
		if h := r.hearings[a.text("on")]; h != nil {
			return h.agrees(ctx, r.client)
		}
		filter, err := filterOf(a)
		if err != nil {
			return nil, err
		}
		there := map[string]int{}
		n := 0.0
		for route, err := range r.client.Routes(ctx, filter) {
			if err != nil {
				return nil, err
			}
			there[lasting(route)]++
			n++
		}
		all, complete, err := r.watches[a.text("on")].known()
		if err != nil {
			return nil, err
		}
		knows := map[string]int{}
		for _, route := range all {
			knows[lasting(route)]++
		}
		return map[string]any{"complete": complete, "same": maps.Equal(knows, there), "count": n}, nil
	},
	"view": func(r *runner, _ context.Context, a arguments) (any, error) {
		all, complete, err := r.watches[a.text("on")].known()
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(all, func(a, b quiver.Route) int {
			return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
		})
		list := []any{}
		for _, route := range all {
			list = append(list, routeValue(route))
		}
		return map[string]any{"complete": complete, "routes": list}, nil
	},
	"close": func(r *runner, _ context.Context, a arguments) (any, error) {
		name := a.text("on")
		if h := r.hearings[name]; h != nil {
			h.close()
			delete(r.hearings, name)
			return nil, nil
		}
		if w := r.watches[name]; w != nil {
			w.close()
			delete(r.watches, name)
			return nil, nil
		}
		p, err := r.program(a)
		if err != nil {
			return nil, err
		}
		delete(r.programs, name)
		return nil, p.Close()
	},
}

func (r *runner) program(a arguments) (*program, error) {
	if p := r.programs[a.text("on")]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("nothing is open as %q", a.text("on"))
}

func (p *program) viaOf(a arguments) (quiver.Via, error) {
	if action := a.text("action"); action != "" {
		return p.Action(quiver.Action(number(quiver.Forward.Descriptor(), action)))
	}
	var hops []quiver.NextHop
	for _, one := range a["next_hops"].([]any) {
		fields := arguments(one.(map[string]any))
		hop := quiver.NextHop{Interface: fields.text("interface"), Weight: uint32(fields.number("weight")), MTU: uint32(fields.number("mtu"))}
		if text := fields.text("address"); text != "" {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return quiver.Via{}, err
			}
			hop.Address = address
		}
		if _, ok := fields["table"]; ok {
			table := uint32(fields.number("table"))
			hop.Table = &table
		}
		labels, _ := fields["labels"].([]any)
		for _, label := range labels {
			hop.Labels = append(hop.Labels, uint32(label.(float64)))
		}
		hops = append(hops, hop)
	}
	return p.Via(hops...)
}

// prefixes hands on those of a step.
func prefixes(a arguments, each func(netip.Prefix) error) error {
	if list, ok := a["prefixes"].([]any); ok {
		for _, one := range list {
			prefix, err := netip.ParsePrefix(one.(string))
			if err == nil {
				err = each(prefix)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	fields := arguments(a["prefixes"].(map[string]any))
	prefix, err := netip.ParsePrefix(fields.text("first"))
	if err != nil {
		return err
	}
	for n := fields.number("count"); n > 0; n-- {
		if err := each(prefix); err != nil {
			return err
		}
		prefix = following(prefix)
	}
	return nil
}

// following is the prefix of the same length behind a prefix.
func following(prefix netip.Prefix) netip.Prefix {
	bytes := prefix.Addr().AsSlice()
	at, add := (prefix.Bits()-1)/8, uint(1)<<((8-prefix.Bits()%8)%8)
	for ; at >= 0 && add > 0; at-- {
		sum := uint(bytes[at]) + add
		bytes[at], add = byte(sum), sum>>8
	}
	address, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(address, prefix.Bits())
}

func filterOf(a arguments) (quiver.RouteFilter, error) {
	f := quiver.RouteFilter{
		Table: uint32(a.number("table")), Source: a.text("source"),
		Family: quiver.Family(number(quiver.IPv4.Descriptor(), a.text("family"))),
		Match:  quiver.Match(number(quiver.Exact.Descriptor(), a.text("match"))),
	}
	var err error
	if text := a.text("prefix"); text != "" {
		f.Prefix, err = netip.ParsePrefix(text)
	}
	return f, err
}

func routeValue(r quiver.Route) map[string]any {
	hops := []any{}
	for _, h := range r.NextHops {
		hop := map[string]any{"address": "", "interface": h.Interface, "weight": float64(h.Weight)}
		if h.Address.IsValid() {
			hop["address"] = h.Address.String()
		}
		if h.Table != nil {
			hop["table"] = float64(*h.Table)
		}
		labels := []any{}
		for _, l := range h.Labels {
			labels = append(labels, float64(l))
		}
		hop["labels"], hop["mtu"] = labels, float64(h.MTU)
		hops = append(hops, hop)
	}
	return map[string]any{
		"table": float64(r.Table), "prefix": r.Prefix.String(), "source": r.Source, "preference": float64(r.Preference),
		"metric": float64(r.Metric), "used": r.Used, "next_hops": hops,
		"action": word(r.Action.Descriptor(), protoreflect.EnumNumber(r.Action)),
	}
}
