package quiver

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quiver/quiverv1"
)

// routeKey is a route of a client.
type routeKey struct {
	address       [16]byte
	table, metric uint32
	bits          uint8
	ipv6          bool
}

func keyOf(table, metric uint32, prefix netip.Prefix) routeKey {
	k := routeKey{table: table, metric: metric, bits: uint8(prefix.Bits()), ipv6: !prefix.Addr().Is4()}
	if k.ipv6 {
		k.address = prefix.Addr().As16()
	} else {
		a := prefix.Addr().As4()
		copy(k.address[:], a[:])
	}
	return k
}

func (k routeKey) prefix() netip.Prefix {
	if k.ipv6 {
		return netip.PrefixFrom(netip.AddrFrom16(k.address), int(k.bits))
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(k.address[:4])), int(k.bits))
}

// fake is a router of one client of routes, as routes.proto says it is.
type fake struct {
	quiverv1.UnimplementedSystemServer
	quiverv1.UnimplementedRoutesServer
	path string

	mu     sync.Mutex
	server *grpc.Server
	listen net.Listener
	routes map[routeKey]string
	stale  map[routeKey]bool
	hellos int
	// Streams end before the answer to so many messages, which are taken; 0: never.
	endAfter int
	refuse   map[routeKey]bool
	ended    error // with which streams end
	batches  int
	hold     chan struct{} // streams read no further than the first changes until it is closed
}

func startFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{path: filepath.Join(t.TempDir(), "api.sock"), routes: map[routeKey]string{}, ended: status.Error(codes.Unavailable, "gone")}
	f.start(t)
	t.Cleanup(f.kill)
	return f
}

func (f *fake) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("unix", f.path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	quiverv1.RegisterSystemServer(server, f)
	quiverv1.RegisterRoutesServer(server, f)
	f.mu.Lock()
	f.server, f.listen = server, listener
	f.mu.Unlock()
	go server.Serve(listener)
}

func (f *fake) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listen.Close() // also where Serve has not come yet
	f.server.Stop()
}

func (f *fake) dial(t *testing.T) *Client {
	t.Helper()
	c, err := Dial(t.Context(), f.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (f *fake) has() map[routeKey]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.routes)
}

func (f *fake) Get(context.Context, *quiverv1.GetSystemRequest) (*quiverv1.GetSystemResponse, error) {
	return &quiverv1.GetSystemResponse{Version: "0.0.0", Role: RoleAdmin}, nil
}

func (f *fake) Program(stream grpc.BidiStreamingServer[quiverv1.ProgramRequest, quiverv1.ProgramReply]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetHello() == nil {
		return status.Error(codes.InvalidArgument, "the first message says who you are")
	}
	f.mu.Lock()
	f.hellos++
	left, hold := f.endAfter, f.hold
	f.stale = nil
	welcome := &quiverv1.RouteWelcome{
		Source: "api:" + first.GetHello().Name + "@root", Preference: 20,
		Routes: uint64(len(f.routes)), Returned: len(f.routes) > 0, MostRoutes: 65536,
	}
	f.mu.Unlock()
	if err := stream.Send(&quiverv1.ProgramReply{What: &quiverv1.ProgramReply_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	vias := map[uint32]string{}
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		reply, err := f.take(m, vias)
		if err != nil {
			return err
		}
		if left--; left == 0 {
			return f.ended
		}
		if reply != nil {
			if err := stream.Send(reply); err != nil {
				return err
			}
			if hold != nil {
				select {
				case <-hold:
				case <-stream.Context().Done():
				}
			}
		}
	}
}

func (f *fake) take(m *quiverv1.ProgramRequest, vias map[uint32]string) (*quiverv1.ProgramReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch what := m.What.(type) {
	case *quiverv1.ProgramRequest_Sets:
		for _, set := range what.Sets.Sets {
			vias[set.Number] = fmt.Sprint(set.Action, len(set.NextHops))
			for _, h := range set.NextHops {
				vias[set.Number] += fmt.Sprint(" ", h.Address, h.Interface)
			}
		}
	case *quiverv1.ProgramRequest_Changes:
		f.batches++
		return f.change(what.Changes, vias)
	case *quiverv1.ProgramRequest_Sync:
		if what.Sync == quiverv1.RouteSync_ROUTE_SYNC_BEGIN {
			f.stale = map[routeKey]bool{}
			for key := range f.routes {
				f.stale[key] = true
			}
			return nil, nil
		}
		if f.stale == nil {
			return nil, status.Error(codes.InvalidArgument, "ROUTE_SYNC_END without ROUTE_SYNC_BEGIN")
		}
		for key := range f.stale {
			delete(f.routes, key)
		}
		swept := &quiverv1.RouteSwept{Gone: uint64(len(f.stale))}
		f.stale = nil
		return &quiverv1.ProgramReply{What: &quiverv1.ProgramReply_Swept{Swept: swept}}, nil
	}
	return nil, nil
}

func (f *fake) change(m *quiverv1.RouteChanges, vias map[uint32]string) (*quiverv1.ProgramReply, error) {
	done := &quiverv1.RouteDone{Id: m.Id}
	n := routesOf(m)
	if !m.Delete && len(m.Sets) != 1 && len(m.Sets) != n || m.Delete && len(m.Sets) != 0 {
		return nil, status.Errorf(codes.InvalidArgument, "%d sets of %d routes", len(m.Sets), n)
	}
	packed := m.Prefixes
	for i := range n {
		prefix, rest := unpack(packed, m.Ipv6)
		packed = rest
		key := keyOf(m.Table, m.Metric, prefix)
		if m.Delete {
			delete(f.routes, key)
			continue
		}
		via, known := vias[m.Sets[min(i, len(m.Sets)-1)]]
		if !known {
			return nil, status.Error(codes.InvalidArgument, "set-unknown")
		}
		if f.refuse[key] {
			index := uint32(i)
			done.Refused++
			done.Errors = append(done.Errors, &quiverv1.RouteError{Id: m.Id, Index: &index, Rule: "refused", Value: "x", Message: "it is refused"})
			continue
		}
		f.routes[key] = via
		delete(f.stale, key)
	}
	return &quiverv1.ProgramReply{What: &quiverv1.ProgramReply_Done{Done: done}}, nil
}

// soon is a context for what must not take long.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}
