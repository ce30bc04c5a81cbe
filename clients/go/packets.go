package quiver

import (
	"context"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"quiver/quiverv1"
)

// Capture says which packets are captured; all, where it says nothing.
type Capture = quiverv1.CaptureRequest

// Trace says at which nodes packets begin to be traced, and which.
type Trace = quiverv1.TraceRequest

// PuntFilter is a kind of packets for the router itself; see [UDPPort] and its like.
type PuntFilter = quiverv1.PuntRequest_Filter

// Injection is packets for a node of the graph.
type Injection = quiverv1.InjectRequest

// UDPPort asks for datagrams to a port of the router's.
func UDPPort(port uint16) *PuntFilter {
	return &PuntFilter{What: &quiverv1.PuntRequest_Filter_UdpPort{UdpPort: uint32(port)}}
}

// TCPPort asks for segments to a port of the router's.
func TCPPort(port uint16) *PuntFilter {
	return &PuntFilter{What: &quiverv1.PuntRequest_Filter_TcpPort{TcpPort: uint32(port)}}
}

// IPProtocol asks for packets to the router of a protocol above IP.
func IPProtocol(number uint8) *PuntFilter {
	return &PuntFilter{What: &quiverv1.PuntRequest_Filter_IpProtocol{IpProtocol: uint32(number)}}
}

// EtherType asks for frames of a type.
func EtherType(number uint16) *PuntFilter {
	return &PuntFilter{What: &quiverv1.PuntRequest_Filter_Ethertype{Ethertype: uint32(number)}}
}

// CaptureEvent is what a capture tells: a packet, or how many are lost. The first event has neither: packets are captured from then on.
type CaptureEvent struct {
	// Packet that passed; nil for none.
	Packet *quiverv1.CaptureResponse_Packet
	// Lost packets, as they were not taken in time.
	Lost uint64
}

// TraceEvent is what a trace tells: a packet with what nodes did with it, or how many are lost. The first event has neither: packets are
// traced from then on.
type TraceEvent struct {
	// Packet that passed; nil for none.
	Packet *quiverv1.TraceResponse_Packet
	// Lost packets, as they were not taken in time.
	Lost uint64
}

// PuntEvent is the same of packets that a program has asked for.
type PuntEvent struct {
	// Packet that came; nil for none.
	Packet *quiverv1.PuntResponse_Packet
	// Lost packets, as they were not taken in time.
	Lost uint64
}

// Capture yields packets as they pass, until the context ends, the loop is left, or there were as many as asked for.
func (c *Client) Capture(ctx context.Context, what *Capture) iter.Seq2[CaptureEvent, error] {
	return passing(answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.CaptureResponse], error) {
		return c.packets.Capture(ctx, what)
	}), func(m *quiverv1.CaptureResponse) (events []CaptureEvent) {
		for _, p := range m.Packets {
			events = append(events, CaptureEvent{Packet: p})
		}
		if m.Lost != 0 || len(m.Packets) == 0 {
			events = append(events, CaptureEvent{Lost: m.Lost})
		}
		return events
	})
}

// Trace yields packets with what each node did with them, until the context ends, the loop is left, or there were as many as asked for.
func (c *Client) Trace(ctx context.Context, what *Trace) iter.Seq2[TraceEvent, error] {
	return passing(answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.TraceResponse], error) {
		return c.packets.Trace(ctx, what)
	}), func(m *quiverv1.TraceResponse) (events []TraceEvent) {
		for _, p := range m.Packets {
			events = append(events, TraceEvent{Packet: p})
		}
		if m.Lost != 0 || len(m.Packets) == 0 {
			events = append(events, TraceEvent{Lost: m.Lost})
		}
		return events
	})
}

// Punt yields packets for the router itself that any of the filters takes, until the context ends or the loop is left. Nobody else has
// them meanwhile.
func (c *Client) Punt(ctx context.Context, filters ...*PuntFilter) iter.Seq2[PuntEvent, error] {
	request := &quiverv1.PuntRequest{Filters: filters}
	return passing(answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.PuntResponse], error) {
		return c.packets.Punt(ctx, request)
	}), func(m *quiverv1.PuntResponse) (events []PuntEvent) {
		for _, p := range m.Packets {
			events = append(events, PuntEvent{Packet: p})
		}
		if m.Lost != 0 || len(m.Packets) == 0 {
			events = append(events, PuntEvent{Lost: m.Lost})
		}
		return events
	})
}

func passing[M, E any](messages iter.Seq2[*M, error], of func(*M) []E) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for m, err := range messages {
			if err != nil {
				var none E
				yield(none, err)
				return
			}
			for _, event := range of(m) {
				if !yield(event, nil) {
					return
				}
			}
		}
	}
}

// Injector puts packets into the graph. It is for one goroutine at a time, and ends with its context.
type Injector struct {
	stream grpc.BidiStreamingClient[quiverv1.InjectRequest, quiverv1.InjectResponse]
}

// Injector begins a stream of packets into the graph.
func (c *Client) Injector(ctx context.Context) (*Injector, error) {
	stream, err := c.packets.Inject(ctx)
	if err != nil {
		return nil, failure(err)
	}
	return &Injector{stream}, nil
}

// Inject puts packets into the graph at a node, and waits until they are there: how many were taken. After an error that is [ErrRefused]
// others may follow.
func (i *Injector) Inject(packets *Injection) (uint64, error) {
	// What is wrong with a stream to which nothing can be sent, Recv tells.
	_ = i.stream.Send(packets)
	answer, err := i.stream.Recv()
	if err != nil {
		return 0, failure(err)
	}
	if place := answer.Error; place != nil {
		return 0, &Error{Code: codes.FailedPrecondition, Message: place.Object + ": " + place.Message, Places: []*Place{place}}
	}
	return answer.Taken, nil
}
