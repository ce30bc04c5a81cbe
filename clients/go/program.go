package quiver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"quiver/quiverv1"
)

const (
	// Routes of a message, at most.
	batchRoutes = 8192
	// Routes that are sent and not acknowledged, and those that wait to be sent: beyond it, who sets routes waits.
	flyingRoutes, waitingRoutes = 32 * batchRoutes, 4 * batchRoutes
	// Sets of next hops of a program, and of a message.
	mostVias, messageVias = 65536, 1024
)

// Program is a source of routes: it sets and deletes routes, in packed batches of which many are under way at once, and remembers all
// that there are to be. When the connection goes or the router is started anew, it connects again and sends them all, and what is not among
// them goes; until then what is set is remembered. It may be used by many goroutines at once.
//
// Changes are sent by themselves: at once where nothing is under way, else together with those that follow. [Program.Wait] tells when
// workers use them.
type Program struct {
	client *Client
	hello  *quiverv1.RouteHello
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	work   chan struct{} // something may be sent

	mu      sync.Mutex
	changed chan struct{} // closed and made anew when something below has changed that somebody may wait for
	err     error         // it has ended

	welcome *quiverv1.RouteWelcome // of the first stream
	online  bool
	vias    []*quiverv1.NextHopSet
	numbers map[string]uint32 // of vias, by what they are
	table   desired
	sync    syncState
	gone    uint64 // of the last sync
	outbox
	refused RefusedError
}

type syncState int

const (
	noSync syncState = iota
	syncOpen
	syncEnding
)

// ProgramOption says what kind of source a program is.
type ProgramOption func(*quiverv1.RouteHello)

// Preference says how far its routes are believed, 1 to 254; of a prefix's routes the least is used. 20 where it is not said.
func Preference(preference uint32) ProgramOption {
	return func(h *quiverv1.RouteHello) { h.Preference = &preference }
}

// Grace says how long its routes stay when it has gone, in whole seconds, at most a day; a minute where it is not said.
func Grace(d time.Duration) ProgramOption {
	seconds := uint32(max(0, d) / time.Second)
	return func(h *quiverv1.RouteHello) { h.GraceSeconds = &seconds }
}

// Program begins to set routes, as the source `api:NAME@USER`. Its name has 1 to 24 letters, digits, `.`, `-` and `_`. The context is for the
// beginning alone; [Program.Close] ends it.
func (c *Client) Program(ctx context.Context, name string, options ...ProgramOption) (*Program, error) {
	p := &Program{
		client: c, hello: &quiverv1.RouteHello{Name: name}, ended: make(chan struct{}), work: make(chan struct{}, 1),
		changed: make(chan struct{}), numbers: map[string]uint32{},
	}
	for _, o := range options {
		o(p.hello)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go p.run()
	p.mu.Lock()
	err := p.until(ctx, func() bool { return p.welcome != nil })
	p.mu.Unlock()
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Source is its name as `show ip fib` has it.
func (p *Program) Source() string { return p.welcome.Source }

// Preference is that of its routes, where the operator says no other.
func (p *Program) Preference() uint32 { return p.welcome.Preference }

// Returned tells how many routes the router had of the source when the program began, from a run before: they stay, unless it
// sends all again by [Program.Sync].
func (p *Program) Returned() (routes uint64, returned bool) {
	return p.welcome.Routes, p.welcome.Returned
}

// Close ends it. What is not acknowledged may or may not be made; routes stay for the grace time.
func (p *Program) Close() error {
	p.cancel()
	<-p.ended
	return nil
}

// Via is where packets of routes go: next hops, or an action.
type Via struct {
	program *Program
	number  uint32
}

// Via names next hops over which flows are spread. It is said once, and used for many routes.
func (p *Program) Via(hops ...NextHop) (Via, error) {
	if len(hops) == 0 {
		return Via{}, errors.New("quiver: a Via takes a next hop")
	}
	set := &quiverv1.NextHopSet{Action: Forward}
	for _, h := range hops {
		m := &quiverv1.NextHop{Interface: h.Interface, Table: h.Table, Weight: h.Weight, Labels: h.Labels, Mtu: h.MTU}
		if h.Address.IsValid() {
			m.Address = h.Address.AsSlice()
		}
		set.NextHops = append(set.NextHops, m)
	}
	return p.via(set)
}

// Action names what becomes of packets that go nowhere: [Drop], [Unreachable] or [Prohibit].
func (p *Program) Action(action Action) (Via, error) {
	if action != Drop && action != Unreachable && action != Prohibit {
		return Via{}, fmt.Errorf("quiver: %v cannot be set: Drop, Unreachable and Prohibit can", action)
	}
	return p.via(&quiverv1.NextHopSet{Action: action})
}

func (p *Program) via(set *quiverv1.NextHopSet) (Via, error) {
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return Via{}, fmt.Errorf("quiver: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	number, known := p.numbers[string(key)]
	if !known {
		if len(p.vias) == mostVias {
			return Via{}, fmt.Errorf("quiver: a Program has at most %d different Vias", mostVias)
		}
		number = uint32(len(p.vias))
		set.Number = number
		p.numbers[string(key)] = number
		p.vias = append(p.vias, set)
		if p.online {
			p.say(&quiverv1.ProgramRequest{What: &quiverv1.ProgramRequest_Sets{Sets: &quiverv1.NextHopSets{Sets: p.vias[number:]}}})
			p.wake()
		}
	}
	return Via{p, number}, nil
}

// Table is where a program sets routes: a table, and the metric that tells its routes of a prefix apart.
type Table struct {
	program *Program
	place
}

// Table names a table by number, and a metric; the least metric of a prefix is used first.
func (p *Program) Table(number, metric uint32) Table {
	return Table{p, place{number, metric}}
}

// Set sets a route of table 0, in the place of an earlier one of the prefix. It waits only where very many are under way.
func (p *Program) Set(ctx context.Context, prefix netip.Prefix, via Via) error {
	return p.Table(0, 0).Set(ctx, prefix, via)
}

// Delete deletes a route of table 0. What is not there is no error.
func (p *Program) Delete(ctx context.Context, prefix netip.Prefix) error {
	return p.Table(0, 0).Delete(ctx, prefix)
}

// Set sets a route, in the place of an earlier one of the prefix. It waits only where very many are under way.
func (t Table) Set(ctx context.Context, prefix netip.Prefix, via Via) error {
	if via.program != t.program {
		return fmt.Errorf("quiver: %v: the Via is not of this Program", prefix)
	}
	return t.change(ctx, prefix, via.number)
}

// Delete deletes a route. What is not there is no error.
func (t Table) Delete(ctx context.Context, prefix netip.Prefix) error {
	return t.change(ctx, prefix, deleted)
}

func (t Table) change(ctx context.Context, prefix netip.Prefix, via uint32) error {
	if !prefix.IsValid() {
		return fmt.Errorf("quiver: %v is no prefix", prefix)
	}
	p := t.program
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.waiting >= waitingRoutes {
		if err := p.until(ctx, func() bool { return p.waiting < waitingRoutes }); err != nil {
			return err
		}
	}
	p.table.remember(t.place, prefix, via)
	if p.online {
		p.add(groupOf(t.place, !prefix.Addr().Is4(), via), prefix, via)
		p.wake()
	} else {
		// The next stream sends it with all else, under numbers behind this one: Wait waits for those.
		p.last++
	}
	return nil
}

// Wait waits until workers use all that was set and deleted before. A [*RefusedError] says which routes the router has refused since the last
// Wait; all others are made.
func (p *Program) Wait(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	target := p.last
	if err := p.until(ctx, func() bool { return p.online && p.acked >= target }); err != nil {
		return err
	}
	if p.refused.Count == 0 && len(p.refused.Routes) == 0 {
		return nil
	}
	refused := p.refused
	p.refused = RefusedError{}
	return &refused
}

// Sync sends all routes again, as a client does that has returned: what the router has of it stays in use, and what was not set between
// BeginSync and EndSync goes. It returns how many routes that were.
func (p *Program) Sync(ctx context.Context, set func() error) (gone uint64, err error) {
	if err := p.BeginSync(); err != nil {
		return 0, err
	}
	if err := set(); err != nil {
		return 0, err
	}
	return p.EndSync(ctx)
}

// BeginSync says that all routes are set again from here on.
func (p *Program) BeginSync() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if p.sync != noSync {
		return errors.New("quiver: a sync is under way")
	}
	p.sync = syncOpen
	p.table = desired{}
	if p.online {
		p.say(syncRequest(quiverv1.RouteSync_ROUTE_SYNC_BEGIN))
		p.wake()
	}
	return nil
}

// EndSync says that all are set, and waits until those that were not have gone; how many, it returns.
func (p *Program) EndSync(ctx context.Context) (gone uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sync != syncOpen {
		return 0, errors.New("quiver: EndSync without BeginSync")
	}
	p.sync = syncEnding
	if p.online {
		p.say(syncRequest(quiverv1.RouteSync_ROUTE_SYNC_END))
		p.wake()
	}
	err = p.until(ctx, func() bool { return p.sync == noSync })
	return p.gone, err
}

// until waits until something holds, or the program or the context has ended. The lock is held, but while it waits.
func (p *Program) until(ctx context.Context, holds func() bool) error {
	for {
		if p.err != nil {
			return p.err
		}
		if holds() {
			return nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
			p.mu.Lock()
		case <-ctx.Done():
			p.mu.Lock()
			return fmt.Errorf("quiver: routes of %s: %w", p.hello.Name, ctx.Err())
		}
	}
}

// tell wakes those who wait in until. The lock is held.
func (p *Program) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// wake has the sender look.
func (p *Program) wake() {
	select {
	case p.work <- struct{}{}:
	default:
	}
}
