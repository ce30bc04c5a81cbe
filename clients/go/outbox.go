package quiver

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"

	"quiver/quiverv1"
)

// deleted stands in the place of a Via's number where a route goes.
const deleted = ^uint32(0)

// place is where a program sets routes.
type place struct{ table, metric uint32 }

// wanted are the routes of a place, with the numbers of their Vias: by address and length, which for IPv4 are one number, since that is found in a
// third of the time.
type wanted struct {
	ip4 map[uint64]uint32
	ip6 map[[17]byte]uint32
}

// desired is which routes there are to be.
type desired struct {
	places map[place]*wanted
	// There are others as well, which are not known: so it has to be remembered what was deleted.
	partly bool
}

func (d *desired) remember(at place, prefix netip.Prefix, via uint32) {
	w := d.places[at]
	if w == nil {
		if d.places == nil {
			d.places = map[place]*wanted{}
		}
		w = &wanted{map[uint64]uint32{}, map[[17]byte]uint32{}}
		d.places[at] = w
	}
	if prefix.Addr().Is4() {
		a := prefix.Addr().As4()
		remember(w.ip4, uint64(binary.BigEndian.Uint32(a[:]))<<8|uint64(prefix.Bits()), via, d.partly)
	} else {
		remember(w.ip6, [17]byte(pack(make([]byte, 0, 17), prefix)), via, d.partly)
	}
}

func remember[K comparable](routes map[K]uint32, key K, via uint32, partly bool) {
	if via == deleted && !partly {
		delete(routes, key)
	} else {
		routes[key] = via
	}
}

// each hands on all of them, by place and family. Prefixes in order are made faster, for their nodes of the table lie together.
func (d *desired) each(add func(group, netip.Prefix, uint32)) {
	for at, w := range d.places {
		for _, key := range slices.Sorted(maps.Keys(w.ip4)) {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], uint32(key>>8))
			add(groupOf(at, false, w.ip4[key]), netip.PrefixFrom(netip.AddrFrom4(a), int(key&0xff)), w.ip4[key])
		}
		keys := slices.Collect(maps.Keys(w.ip6))
		slices.SortFunc(keys, func(a, b [17]byte) int { return slices.Compare(a[1:], b[1:]) })
		for _, key := range keys {
			prefix, _ := unpack(key[:], true)
			add(groupOf(at, true, w.ip6[key]), prefix, w.ip6[key])
		}
	}
}

// group is what routes of a message have in common.
type group struct {
	place
	ipv6, delete bool
}

func groupOf(at place, ipv6 bool, via uint32) group {
	return group{at, ipv6, via == deleted}
}

// message is one that is to be sent.
type message struct {
	request *quiverv1.ProgramRequest
	routes  int
}

// outbox is what a stream has to send, and what of it is under way.
type outbox struct {
	queue   []message
	waiting int                    // routes in the queue
	open    *quiverv1.RouteChanges // the message to which routes are added
	group   group                  // of open
	count   int                    // routes of open

	flying  []*quiverv1.RouteChanges
	under   int    // routes of flying
	last    uint64 // the number of the last changes
	acked   uint64 // of the last that workers use
	highest uint64 // of the last that was acknowledged, which is not told while resuming

	resuming bool   // the routes that there are to be are sent again
	sweeping bool   // and what is not among them goes
	resumed  uint64 // the last changes of that
}

// say has a message follow what was said before.
func (o *outbox) say(request *quiverv1.ProgramRequest) {
	o.seal()
	o.queue = append(o.queue, message{request: request})
}

// add has a route follow what was said before.
func (o *outbox) add(g group, prefix netip.Prefix, via uint32) {
	if o.open != nil && o.group != g {
		o.seal()
	}
	if o.open == nil {
		o.last++
		o.group = g
		o.open = &quiverv1.RouteChanges{
			Id: o.last, Table: g.table, Metric: g.metric, Ipv6: g.ipv6, Delete: g.delete,
		}
	}
	m := o.open
	m.Prefixes = pack(m.Prefixes, prefix)
	if !g.delete {
		switch {
		case o.count == 0:
			m.Sets = append(m.Sets, via)
		case len(m.Sets) == 1 && m.Sets[0] == via:
			// One stands for all.
		default:
			for len(m.Sets) < o.count {
				m.Sets = append(m.Sets, m.Sets[0])
			}
			m.Sets = append(m.Sets, via)
		}
	}
	o.count++
	if o.count == batchRoutes {
		o.seal()
	}
}

// seal ends the open message.
func (o *outbox) seal() {
	if o.open == nil {
		return
	}
	request := &quiverv1.ProgramRequest{What: &quiverv1.ProgramRequest_Changes{Changes: o.open}}
	o.queue = append(o.queue, message{request, o.count})
	o.waiting += o.count
	o.open, o.count = nil, 0
}

// next takes the next message that is to be sent now, if there is one, and tells whether others may add more.
func (o *outbox) next() (request *quiverv1.ProgramRequest, room bool) {
	if len(o.queue) == 0 {
		// Who sets one route after another fills a message while the one before is under way.
		if o.open == nil || o.under > 0 {
			return nil, false
		}
		o.seal()
	}
	m := o.queue[0]
	if m.routes > 0 {
		if o.under >= flyingRoutes {
			return nil, false
		}
		o.under += m.routes
		o.flying = append(o.flying, m.request.GetChanges())
		before := o.waiting
		o.waiting -= m.routes
		room = before >= waitingRoutes && o.waiting < waitingRoutes
	}
	o.queue[0] = message{}
	o.queue = o.queue[1:]
	return m.request, room
}

// resume says that what has been added since the stream began is all that there is to be.
func (o *outbox) resume(sweeping bool) {
	o.resumed, o.sweeping = o.last, sweeping
	o.resuming = sweeping || o.waiting > 0
	if !o.resuming {
		o.acked = o.last
	}
}

// done is for changes that workers use.
func (o *outbox) done(id uint64) {
	n := 0
	for ; n < len(o.flying) && o.flying[n].Id <= id; n++ {
		o.under -= routesOf(o.flying[n])
		o.flying[n] = nil
	}
	o.flying = o.flying[n:]
	o.highest = max(o.highest, id)
	if !o.sweeping && (!o.resuming || id >= o.resumed) {
		o.resuming, o.acked = false, max(o.acked, o.highest)
	}
}

// swept is for what was not sent again and has gone.
func (o *outbox) swept() {
	if o.sweeping {
		o.sweeping, o.resuming = false, false
		o.acked = max(o.acked, o.highest, o.resumed)
	}
}

func routesOf(m *quiverv1.RouteChanges) int {
	return len(m.Prefixes) / packedLen(m.Ipv6)
}
