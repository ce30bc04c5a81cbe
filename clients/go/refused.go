package quiver

import (
	"fmt"
	"net/netip"
	"strings"

	"quiver/quiverv1"
)

// How many refused routes are kept to be told.
const mostRefused = 1024

// RefusedError says which routes the router has refused. All others are made, and what was there of a refused one before stays.
type RefusedError struct {
	// Count is how many routes are refused.
	Count uint64
	// Routes are the first of them; also sets of next hops that are refused.
	Routes []RefusedRoute
}

// RefusedRoute is a route that the router has refused.
type RefusedRoute struct {
	// Table by number.
	Table uint32
	// Prefix; not valid where all routes of a message are meant, or a set of next hops.
	Prefix netip.Prefix
	// Rule that is broken, such as `host-bits`.
	Rule string
	// Value found.
	Value string
	// Message says what is wrong and what would be right.
	Message string
}

func (r RefusedRoute) String() string {
	where := ""
	if r.Prefix.IsValid() {
		where = r.Prefix.String() + ": "
	}
	return fmt.Sprintf("%s%s [%s]", where, r.Message, r.Rule)
}

// Error names the first of them.
func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "quiver: %d routes are refused", e.Count)
	for i, r := range e.Routes {
		if i == 10 {
			b.WriteString("\n  ...")
			break
		}
		fmt.Fprintf(&b, "\n  %v", r)
	}
	return b.String()
}

// Is makes [errors.Is] find [ErrRefused].
func (e *RefusedError) Is(kind error) bool { return kind == ErrRefused }

// take keeps what an answer says is refused of what is under way.
func (e *RefusedError) take(done *quiverv1.RouteDone, flying []*quiverv1.RouteChanges) {
	e.Count += done.Refused
	for _, told := range done.Errors {
		if len(e.Routes) == mostRefused {
			return
		}
		r := RefusedRoute{Rule: told.Rule, Value: told.Value, Message: told.Message}
		for _, m := range flying {
			if m.Id != told.Id {
				continue
			}
			r.Table = m.Table
			if told.Index != nil && int(*told.Index) < routesOf(m) {
				r.Prefix, _ = unpack(m.Prefixes[int(*told.Index)*packedLen(m.Ipv6):], m.Ipv6)
			}
			break
		}
		e.Routes = append(e.Routes, r)
	}
}
