package quiver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func hop(n int) NextHop {
	return NextHop{Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), Interface: "left"}
}

// model is what the router is to have, by what a test has asked for.
type model struct {
	t       *testing.T
	program *Program
	vias    []Via
	words   []string
	want    map[routeKey]string
}

func modelOf(t *testing.T, p *Program) *model {
	t.Helper()
	m := &model{t: t, program: p, want: map[routeKey]string{}}
	for n := range 5 {
		via, err := p.Via(hop(n))
		if err != nil {
			t.Fatal(err)
		}
		m.vias = append(m.vias, via)
		m.words = append(m.words, fmt.Sprint(Forward, 1, " ", []byte{10, 0, 0, byte(n)}, "left"))
	}
	return m
}

// change makes a change at random.
func (m *model) change(r *rand.Rand) {
	m.t.Helper()
	prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{20, 0, byte(r.IntN(16)), 0}), 24)
	if r.IntN(3) == 0 {
		prefix = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 15: byte(r.IntN(16))}), 128)
	}
	number, metric := uint32(r.IntN(2)), uint32(r.IntN(2))
	table, key := m.program.Table(number, metric), keyOf(number, metric, prefix)
	var err error
	if r.IntN(3) == 0 {
		err = table.Delete(m.t.Context(), prefix)
		delete(m.want, key)
	} else {
		via := r.IntN(len(m.vias))
		err = table.Set(m.t.Context(), prefix, m.vias[via])
		m.want[key] = m.words[via]
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) equals(f *fake) {
	m.t.Helper()
	if err := m.program.Wait(soon(m.t)); err != nil {
		m.t.Fatal(err)
	}
	if have := f.has(); !maps.Equal(have, m.want) {
		m.t.Fatalf("the router has %v\nwanted %v", have, m.want)
	}
}

func begin(t *testing.T, f *fake) *Program {
	t.Helper()
	p, err := f.dial(t).Program(soon(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestTheRouterHasWhatWasAskedFor(t *testing.T) {
	f := startFake(t)
	m := modelOf(t, begin(t, f))
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		for range r.IntN(100) {
			m.change(r)
		}
		m.equals(f)
	}
	if f.hellos != 1 {
		t.Errorf("%d streams", f.hellos)
	}
}

func TestStreamsThatBreakLoseNothing(t *testing.T) {
	for seed := range uint64(20) {
		f := startFake(t)
		m := modelOf(t, begin(t, f))
		r := rand.New(rand.NewPCG(seed, 3))
		for range 6 {
			// All streams end after some messages, and the router may forget all meanwhile.
			f.mu.Lock()
			f.endAfter = 1 + r.IntN(40)
			if r.IntN(3) == 0 {
				clear(f.routes)
			}
			f.mu.Unlock()
			for range r.IntN(200) {
				m.change(r)
			}
			f.mu.Lock()
			f.endAfter = 0
			f.mu.Unlock()
			f.kill()
			if r.IntN(2) == 0 {
				f.mu.Lock()
				clear(f.routes)
				f.mu.Unlock()
				m.change(r)
			}
			f.start(t)
			m.equals(f)
		}
	}
}

func TestSync(t *testing.T) {
	f := startFake(t)
	p := begin(t, f)
	m := modelOf(t, p)
	r := rand.New(rand.NewPCG(4, 5))
	for i := range 20 {
		for range 50 {
			m.change(r)
		}
		m.equals(f)
		before := len(m.want)
		clear(m.want)
		gone, err := p.Sync(soon(t), func() error {
			for range r.IntN(20) {
				m.change(r)
			}
			// A sync goes on with another stream.
			if i%2 == 0 {
				f.kill()
				f.start(t)
				if err := p.Wait(soon(t)); err != nil {
					t.Fatal(err)
				}
				if have := len(f.has()); have < before {
					t.Fatalf("%d of %d routes are there before all are set again", have, before)
				}
			}
			for range r.IntN(20) {
				m.change(r)
			}
			return nil
		})
		if err != nil || int(gone) > before {
			t.Fatalf("%d of %d routes have gone: %v", gone, before, err)
		}
		m.equals(f)
	}
}

func TestRoutesOfARunBeforeStayUntilASync(t *testing.T) {
	f := startFake(t)
	m := modelOf(t, begin(t, f))
	m.change(rand.New(rand.NewPCG(0, 0)))
	for len(m.want) < 3 {
		m.change(rand.New(rand.NewPCG(0, uint64(len(m.want)))))
		m.change(rand.New(rand.NewPCG(9, uint64(len(m.want)))))
		if err := m.program.Set(t.Context(), netip.MustParsePrefix(fmt.Sprintf("30.0.%d.0/24", len(m.want))), m.vias[0]); err != nil {
			t.Fatal(err)
		}
		m.want[keyOf(0, 0, netip.MustParsePrefix(fmt.Sprintf("30.0.%d.0/24", len(m.want))))] = m.words[0]
	}
	m.equals(f)
	m.program.Close()

	next := modelOf(t, begin(t, f))
	next.want = maps.Clone(m.want)
	if routes, returned := next.program.Returned(); !returned || int(routes) != len(m.want) {
		t.Fatalf("%d routes, returned: %v", routes, returned)
	}
	for key := range m.want {
		if err := next.program.Table(key.table, key.metric).Delete(t.Context(), key.prefix()); err != nil {
			t.Fatal(err)
		}
		delete(next.want, key)
		break
	}
	f.kill()
	f.start(t)
	next.equals(f)
	gone, err := next.program.Sync(soon(t), func() error { return nil })
	if err != nil || int(gone) != len(m.want)-1 {
		t.Fatalf("%d routes have gone: %v", gone, err)
	}
	clear(next.want)
	next.equals(f)
}

func TestAWaitLastsUntilAllIsSentAgain(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		f := startFake(t)
		m := modelOf(t, begin(t, f))
		r := rand.New(rand.NewPCG(6, 7))
		for len(m.want) < 20 {
			m.change(r)
		}
		m.equals(f)
		waitsBehindTheFirst(m, f, forgotten, func() {})
	}
}

func TestAWaitLastsUntilWhatIsDeletedHasGone(t *testing.T) {
	f := startFake(t)
	m := modelOf(t, begin(t, f))
	for _, text := range []string{"20.0.0.0/24", "20.0.1.0/24"} {
		prefix := netip.MustParsePrefix(text)
		if err := m.program.Set(t.Context(), prefix, m.vias[0]); err != nil {
			t.Fatal(err)
		}
		m.want[keyOf(0, 0, prefix)] = m.words[0]
	}
	m.equals(f)
	waitsBehindTheFirst(m, f, false, func() {
		prefix := netip.MustParsePrefix("20.0.0.0/24")
		if err := m.program.Delete(t.Context(), prefix); err != nil {
			t.Fatal(err)
		}
		delete(m.want, keyOf(0, 0, prefix))
	})
}

// waitsBehindTheFirst has a router come back that takes the first changes and no more: nobody's Wait ends then.
func waitsBehindTheFirst(m *model, f *fake, forgotten bool, meanwhile func()) {
	t, p := m.t, m.program
	t.Helper()
	f.kill()
	f.mu.Lock()
	f.hold = make(chan struct{})
	if forgotten {
		clear(f.routes)
	}
	f.mu.Unlock()
	meanwhile()
	p.mu.Lock()
	before := p.last
	p.mu.Unlock()
	f.start(t)
	for {
		p.mu.Lock()
		highest, changed := p.highest, p.changed
		p.mu.Unlock()
		if highest > before {
			break
		}
		select {
		case <-changed:
		case <-soon(t).Done():
			t.Fatal("nothing is acknowledged")
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(over); !errors.Is(err, context.Canceled) {
		t.Fatalf("it does not wait: %v", err)
	}
	close(f.hold)
	m.equals(f)
}

func TestRoutesGatherWhileOthersAreUnderWay(t *testing.T) {
	var o outbox
	add := func(i byte) { o.add(group{}, netip.PrefixFrom(netip.AddrFrom4([4]byte{20, i}), 16), 0) }
	add(1)
	first, _ := o.next()
	if routesOf(first.GetChanges()) != 1 {
		t.Fatal("the first route is not sent at once")
	}
	add(2)
	add(3)
	if more, _ := o.next(); more != nil {
		t.Fatal("the next one does not wait")
	}
	o.done(first.GetChanges().Id)
	if more, _ := o.next(); routesOf(more.GetChanges()) != 2 {
		t.Fatal("they are not sent together")
	}
}

func TestRefusedRoutesAreNamed(t *testing.T) {
	f := startFake(t)
	p := begin(t, f)
	via, _ := p.Via(hop(1))
	bad := netip.MustParsePrefix("20.0.3.0/24")
	f.refuse = map[routeKey]bool{keyOf(7, 0, bad): true}
	for i := range 5 {
		if err := p.Table(7, 0).Set(t.Context(), netip.PrefixFrom(netip.AddrFrom4([4]byte{20, 0, byte(i), 0}), 24), via); err != nil {
			t.Fatal(err)
		}
	}
	err := p.Wait(soon(t))
	var refused *RefusedError
	if !errors.As(err, &refused) || !errors.Is(err, ErrRefused) || refused.Count != 1 || len(refused.Routes) != 1 {
		t.Fatalf("%v", err)
	}
	if r := refused.Routes[0]; r.Prefix != bad || r.Table != 7 || r.Rule != "refused" {
		t.Errorf("%v", r)
	}
	if err := p.Wait(soon(t)); err != nil {
		t.Errorf("told twice: %v", err)
	}
}

func TestARefusedClientEnds(t *testing.T) {
	f := startFake(t)
	p := begin(t, f)
	via, _ := p.Via(hop(1))
	f.mu.Lock()
	f.ended = status.Error(codes.FailedPrecondition, "an operator has ended it")
	f.endAfter = 1
	f.mu.Unlock()
	f.kill()
	ctx := soon(t)
	p.mu.Lock()
	err := p.until(ctx, func() bool { return !p.online })
	p.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	// What is set while there is no router is waited for as well.
	prefix := netip.MustParsePrefix("20.0.0.0/24")
	if err := p.Set(ctx, prefix, via); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- p.Wait(ctx) }()
	f.start(t)
	if err := <-waited; !errors.Is(err, ErrRefused) {
		t.Fatalf("%v", err)
	}
	if err := p.Set(t.Context(), prefix, via); !errors.Is(err, ErrRefused) {
		t.Fatalf("%v", err)
	}
}

func TestWhoHasAskedForTooMuchComesAgain(t *testing.T) {
	f := startFake(t)
	p := begin(t, f)
	via, _ := p.Via(hop(1))
	tooMuch, err := status.New(codes.ResourceExhausted, "too much").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(300 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.ended, f.endAfter = tooMuch.Err(), 1
	f.mu.Unlock()
	f.kill()
	ctx, began := soon(t), time.Now()
	f.start(t)
	prefix := netip.MustParsePrefix("20.0.0.0/24")
	if err := p.Set(ctx, prefix, via); err != nil {
		t.Fatal(err)
	}
	// It is refused once.
	for refused := false; !refused; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		if refused = f.hellos > 1; refused {
			f.endAfter = 0
		}
		f.mu.Unlock()
	}
	if err := p.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); len(f.has()) != 1 || took < 300*time.Millisecond {
		t.Errorf("%d routes, after %v", len(f.has()), took)
	}
}

func TestManyRoutesTakeFewMessages(t *testing.T) {
	f := startFake(t)
	p := begin(t, f)
	via, _ := p.Via(hop(1))
	const count = 200_000
	for i := range count {
		address := netip.AddrFrom4([4]byte{20, byte(i >> 16), byte(i >> 8), byte(i)})
		if err := p.Set(t.Context(), netip.PrefixFrom(address, 32), via); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	if n := len(f.has()); n != count {
		t.Errorf("%d routes", n)
	}
	// The first ones are sent at once, and some after each answer.
	if most := 4 * count / batchRoutes; f.batches > most {
		t.Errorf("%d messages", f.batches)
	}
}

func TestWhatIsNoRouteIsNotSent(t *testing.T) {
	f := startFake(t)
	p, other := begin(t, f), begin(t, f)
	foreign, _ := other.Via(hop(1))
	prefix := netip.MustParsePrefix("20.0.0.0/24")
	via, _ := p.Via(hop(1))
	for _, err := range []error{
		p.Set(t.Context(), prefix, foreign),
		p.Set(t.Context(), prefix, Via{}),
		p.Set(t.Context(), netip.Prefix{}, via),
		second(p.Via()),
		second(p.Action(Local)),
		second(p.EndSync(t.Context())),
	} {
		if err == nil {
			t.Error("it is taken")
		}
	}
	p.Close()
	if err := p.Set(t.Context(), prefix, via); err == nil {
		t.Error("it is taken by a program that is closed")
	}
}

func second[T any](_ T, err error) error { return err }
