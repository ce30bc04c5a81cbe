package quiver

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quiver/quiverv1"
)

// run has a stream, and another one when that has gone, until it is closed or the router refuses it.
func (p *Program) run() {
	defer close(p.ended)
	defer p.cancel()
	pause := firstPause
	for {
		began, err := p.stream()
		if began {
			pause = firstPause
		}
		p.mu.Lock()
		p.online = false
		// What was not sent or not acknowledged is remembered, and sent with all else.
		p.outbox = outbox{last: p.last, acked: p.acked}
		first := p.welcome == nil
		switch {
		case p.ctx.Err() != nil:
			p.err = errClosed
		case first || !passes(err):
			p.err = err
		}
		ended := p.err != nil
		p.tell()
		p.mu.Unlock()
		if ended {
			return
		}
		// Who waits in vain here finds that it is closed when it tries.
		wait(p.ctx, before(pause, err))
		pause = min(2*pause, longestPause)
	}
}

// stream sends what is to be sent until the stream has gone. It tells whether the router has taken the client, and why it has gone.
func (p *Program) stream() (began bool, err error) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	stream, err := p.client.routes.Program(ctx)
	if err != nil {
		return false, failure(err)
	}
	// What is wrong with a stream to which nothing can be sent, Recv tells.
	_ = stream.Send(&quiverv1.ProgramRequest{What: &quiverv1.ProgramRequest_Hello{Hello: p.hello}})
	first, err := stream.Recv()
	if err != nil {
		return false, lost(err)
	}
	welcome := first.GetWelcome()
	if welcome == nil {
		return false, errors.New("quiver: the router does not answer a RouteHello with a RouteWelcome")
	}
	p.begin(welcome)
	received := make(chan error, 1)
	go func() { received <- p.receive(stream) }()
	for {
		m := p.next()
		if m != nil {
			if stream.Send(m) != nil {
				return true, <-received
			}
			continue
		}
		select {
		case <-p.work:
		case err := <-received:
			return true, err
		}
	}
}

// lost is why a stream has gone: also one that the router has ended in order.
func lost(err error) error {
	if err == io.EOF {
		return failure(status.Error(codes.Unavailable, "the router has ended the stream of routes"))
	}
	return failure(err)
}

func (p *Program) receive(stream grpc.BidiStreamingClient[quiverv1.ProgramRequest, quiverv1.ProgramReply]) error {
	for {
		reply, err := stream.Recv()
		if err != nil {
			return lost(err)
		}
		p.mu.Lock()
		switch what := reply.What.(type) {
		case *quiverv1.ProgramReply_Done:
			p.refused.take(what.Done, p.flying)
			p.done(what.Done.Id)
		case *quiverv1.ProgramReply_Swept:
			if p.sync == syncEnding {
				p.sync, p.gone = noSync, what.Swept.Gone
			}
			p.swept()
		}
		p.tell()
		p.mu.Unlock()
		p.wake()
	}
}

// begin is for a stream that begins: all that there is to be is sent first.
func (p *Program) begin(welcome *quiverv1.RouteWelcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for from := 0; from < len(p.vias); from += messageVias {
		sets := &quiverv1.NextHopSets{Sets: p.vias[from:min(from+messageVias, len(p.vias))]}
		p.say(&quiverv1.ProgramRequest{What: &quiverv1.ProgramRequest_Sets{Sets: sets}})
	}
	if p.welcome == nil {
		p.welcome = welcome
		// Routes of a run before, of which nothing is known here, stay.
		p.table.partly = welcome.Returned
	} else {
		sweep := p.sync != noSync || welcome.Returned && !p.table.partly
		if sweep {
			p.say(syncRequest(quiverv1.RouteSync_ROUTE_SYNC_BEGIN))
		}
		p.table.each(p.add)
		p.seal()
		sweep = sweep && p.sync != syncOpen
		if sweep {
			p.say(syncRequest(quiverv1.RouteSync_ROUTE_SYNC_END))
		}
		p.resume(sweep)
	}
	p.online = true
	p.tell()
}

func syncRequest(what quiverv1.RouteSync) *quiverv1.ProgramRequest {
	return &quiverv1.ProgramRequest{What: &quiverv1.ProgramRequest_Sync{Sync: what}}
}

// next is the next message to be sent, if one is to be sent now.
func (p *Program) next() *quiverv1.ProgramRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, told := p.outbox.next()
	if told {
		p.tell()
	}
	return m
}
