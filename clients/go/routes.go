package quiver

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"strings"

	"google.golang.org/grpc"

	"quiver/quiverv1"
)

// Action is what becomes of packets of a route.
type Action = quiverv1.RouteAction

// Actions. Only the first four can be set.
const (
	Forward     = quiverv1.RouteAction_ROUTE_ACTION_FORWARD
	Drop        = quiverv1.RouteAction_ROUTE_ACTION_DROP
	Unreachable = quiverv1.RouteAction_ROUTE_ACTION_UNREACHABLE
	Prohibit    = quiverv1.RouteAction_ROUTE_ACTION_PROHIBIT
	Local       = quiverv1.RouteAction_ROUTE_ACTION_LOCAL
	Connected   = quiverv1.RouteAction_ROUTE_ACTION_CONNECTED
	Neighbor    = quiverv1.RouteAction_ROUTE_ACTION_NEIGHBOR
	Broadcast   = quiverv1.RouteAction_ROUTE_ACTION_BROADCAST
)

// NextHop is one of those over which flows of a route are spread.
type NextHop struct {
	// Address of a neighbor. Without one destinations are neighbors on the interface, or are looked up in the table.
	Address netip.Addr
	// Interface by name. Without one the address is looked up, and packets go where that route leads.
	Interface string
	// Table in which the address is looked up, if that is not the route's own; without an address, in which destinations are.
	Table *uint32
	// Weight is its share of the flows, 1 to 255; 0 counts as 1.
	Weight uint32
	// Labels are MPLS labels that packets get, the outermost first.
	Labels []uint32
	// MTU is the size of the largest packet that may go this way, where that is less than the interface says; 0: nothing is said.
	MTU uint32
}

// String is the next hop in the words of commands.
func (n NextHop) String() string {
	var words []string
	if n.Address.IsValid() {
		words = append(words, n.Address.String())
	}
	if n.Interface != "" {
		words = append(words, n.Interface)
	}
	if n.Table != nil {
		words = append(words, fmt.Sprintf("table %d", *n.Table))
	}
	if n.Weight > 1 {
		words = append(words, fmt.Sprintf("weight %d", n.Weight))
	}
	if n.MTU != 0 {
		words = append(words, fmt.Sprintf("mtu %d", n.MTU))
	}
	for _, l := range n.Labels {
		words = append(words, fmt.Sprintf("label %d", l))
	}
	return strings.Join(words, " ")
}

// Kind is what many routes have in common.
type Kind struct {
	// Source says whose they are: `interface`, `static`, `neighbor`, `kernel:bird`, `api:fleet@root`.
	Source string
	// Preference with which they were made; of a prefix's routes the least is used.
	Preference uint32
	// Metric tells routes of a source apart; the least is used first.
	Metric uint32
	// Action is what becomes of packets.
	Action Action
	// NextHops over which flows are spread.
	NextHops []NextHop
}

// Route is a route of the router's.
type Route struct {
	*Kind
	// Table by number.
	Table uint32
	// Prefix of the destinations.
	Prefix netip.Prefix
	// Used: packets go by it. It is not where it stands behind a better one, or leads nowhere.
	Used bool
}

// Match is what a filter's prefix has to do with the routes' prefixes.
type Match = quiverv1.RouteMatch

// Matches.
const (
	// Longer: the prefix itself and those within it.
	Longer = quiverv1.RouteMatch_ROUTE_MATCH_LONGER
	// Exact: the prefix itself.
	Exact = quiverv1.RouteMatch_ROUTE_MATCH_EXACT
	// Longest: the longest that holds it. Not to be followed.
	Longest = quiverv1.RouteMatch_ROUTE_MATCH_LONGEST
)

// Family is IPv4 or IPv6.
type Family = quiverv1.RouteFamily

// Families.
const (
	IPv4 = quiverv1.RouteFamily_ROUTE_FAMILY_IPV4
	IPv6 = quiverv1.RouteFamily_ROUTE_FAMILY_IPV6
)

// RouteFilter says which routes. The zero value: all of table 0.
type RouteFilter struct {
	// Table by number.
	Table uint32
	// Family; that of the prefix, or both, where it is not said.
	Family Family
	// Prefix; all where there is none.
	Prefix netip.Prefix
	// Match: Longer where it is not said.
	Match Match
	// Source by name; all where there is none.
	Source string
}

func (f RouteFilter) message() *quiverv1.RouteFilter {
	m := &quiverv1.RouteFilter{Table: f.Table, Family: f.Family, Match: f.Match, Source: f.Source}
	if f.Prefix.IsValid() {
		m.Prefix = f.Prefix.String()
	}
	return m
}

// Routes yields routes by prefix, those of a prefix one behind the other, the one in use first. What changes meanwhile may be
// among them or not. To leave the loop ends the call.
//
//	for r, err := range client.Routes(ctx, quiver.RouteFilter{Prefix: netip.MustParsePrefix("10.0.0.0/8")}) {
func (c *Client) Routes(ctx context.Context, filter RouteFilter) iter.Seq2[Route, error] {
	request := &quiverv1.ListRoutesRequest{Filter: filter.message()}
	return func(yield func(Route, error) bool) {
		kinds := kinds{}
		for batch, err := range answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.RouteBatch], error) {
			return c.routes.List(ctx, request)
		}) {
			if err == nil {
				err = kinds.routes(batch, func(r Route) bool { return yield(r, nil) })
			}
			if err == errLeft {
				return
			}
			if err != nil {
				yield(Route{}, err)
				return
			}
		}
	}
}

// kinds are those that a stream has told of, by number.
type kinds map[uint32]*Kind

var errLeft = fmt.Errorf("quiver: the loop was left")

// routes hands on the routes of a batch; errLeft where `each` wants no more.
func (k *kinds) routes(batch *quiverv1.RouteBatch, each func(Route) bool) error {
	if batch.ForgetKinds {
		*k = kinds{}
	}
	for _, told := range batch.Kinds {
		kind, err := kindOf(told)
		if err != nil {
			return err
		}
		(*k)[told.Number] = kind
	}
	n, err := whole(batch.Prefixes, batch.Ipv6)
	if err != nil {
		return err
	}
	if n != len(batch.OfKind) {
		return fmt.Errorf("quiver: the router's answer has %d routes and %d kinds", n, len(batch.OfKind))
	}
	packed, unused := batch.Prefixes, batch.Unused
	for i, number := range batch.OfKind {
		r := Route{Kind: (*k)[number], Table: batch.Table, Used: true}
		r.Prefix, packed = unpack(packed, batch.Ipv6)
		if r.Kind == nil {
			return fmt.Errorf("quiver: the router's answer names kind %d, which it has not told", number)
		}
		if len(unused) > 0 && unused[0] == uint32(i) {
			r.Used, unused = false, unused[1:]
		}
		if !each(r) {
			return errLeft
		}
	}
	return nil
}

func kindOf(m *quiverv1.RouteKind) (*Kind, error) {
	k := &Kind{Source: m.Source, Preference: m.Preference, Metric: m.Metric, Action: m.NextHops.GetAction()}
	if k.Action == quiverv1.RouteAction_ROUTE_ACTION_UNSPECIFIED {
		k.Action = Forward
	}
	for _, h := range m.NextHops.GetNextHops() {
		hop := NextHop{Interface: h.Interface, Table: h.Table, Weight: max(h.Weight, 1), Labels: h.Labels, MTU: h.Mtu}
		if len(h.Address) > 0 {
			var ok bool
			if hop.Address, ok = netip.AddrFromSlice(h.Address); !ok {
				return nil, fmt.Errorf("quiver: the router's answer has a next hop with an address of %d bytes", len(h.Address))
			}
		}
		k.NextHops = append(k.NextHops, hop)
	}
	return k, nil
}
