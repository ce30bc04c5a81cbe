package quiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"google.golang.org/grpc"

	"quiver/quiverv1"
)

// ErrNothing says that a command ran and did not find what it was to find, such as a ping that nobody answered.
var ErrNothing = errors.New("quiver: the command did not find what it was to find")

// Form is the form of a command's answer.
type Form = quiverv1.Format

// Forms.
const (
	// Text as `quiver ctl` prints it.
	Text = quiverv1.Format_FORMAT_TEXT
	// JSON as of `quiver ctl --json`.
	JSON = quiverv1.Format_FORMAT_JSON
)

// Command runs a command and returns its text, as `quiver ctl` prints it. With [ErrNothing] there is text as well.
func (c *Client) Command(ctx context.Context, line string) (string, error) {
	return c.gather(ctx, &quiverv1.RunRequest{What: &quiverv1.RunRequest_Line{Line: line}, Format: Text})
}

// Script runs commands, one a line, until one fails: the error's place has the line, and how many were applied.
func (c *Client) Script(ctx context.Context, lines string) (string, error) {
	return c.gather(ctx, &quiverv1.RunRequest{What: &quiverv1.RunRequest_Lines{Lines: lines}, Format: Text})
}

// CommandJSON runs a command and puts its JSON, of which docs/json.md has the fields, into what `into` points at.
func (c *Client) CommandJSON(ctx context.Context, line string, into any) error {
	text, err := c.gather(ctx, &quiverv1.RunRequest{What: &quiverv1.RunRequest_Line{Line: line}, Format: JSON})
	if err != nil && !errors.Is(err, ErrNothing) {
		return err
	}
	if e := json.Unmarshal([]byte(text), into); e != nil {
		return fmt.Errorf("quiver: the JSON of %q: %w", line, e)
	}
	return err
}

// Output runs a command and yields its answer as it comes, in pieces: for commands that go on for a while or tell much. To
// leave the loop ends a command that only looks.
func (c *Client) Output(ctx context.Context, line string, form Form) iter.Seq2[string, error] {
	return c.run(ctx, &quiverv1.RunRequest{What: &quiverv1.RunRequest_Line{Line: line}, Format: form})
}

func (c *Client) gather(ctx context.Context, request *quiverv1.RunRequest) (string, error) {
	var b strings.Builder
	for piece, err := range c.run(ctx, request) {
		if err != nil {
			return b.String(), err
		}
		b.WriteString(piece)
	}
	return b.String(), nil
}

func (c *Client) run(ctx context.Context, request *quiverv1.RunRequest) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		ended := false
		for m, err := range answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.RunResponse], error) {
			return c.commands.Run(ctx, request)
		}) {
			if err != nil {
				yield("", err)
				return
			}
			switch what := m.What.(type) {
			case *quiverv1.RunResponse_Text:
				if !yield(what.Text, nil) {
					return
				}
			case *quiverv1.RunResponse_Json:
				if !yield(what.Json, nil) {
					return
				}
			case *quiverv1.RunResponse_Ended_:
				ended = true
				if what.Ended.Failed && !yield("", ErrNothing) {
					return
				}
			}
		}
		if !ended {
			yield("", fmt.Errorf("quiver: the answer has no end: %w", io.ErrUnexpectedEOF))
		}
	}
}

// CommandInfo describes a command.
type CommandInfo = quiverv1.ListResponse_Command

// Commands yields all commands, in the order of the reference.
func (c *Client) Commands(ctx context.Context) iter.Seq2[*CommandInfo, error] {
	return each(answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.ListResponse], error) {
		return c.commands.List(ctx, &quiverv1.ListRequest{})
	}), func(m *quiverv1.ListResponse) []*CommandInfo { return m.Commands })
}

// Completion is what could stand at a place of a line.
type Completion = quiverv1.CompleteResponse

// Complete tells what could stand at the end of a line, as the Tab key offers it.
func (c *Client) Complete(ctx context.Context, line string) (*Completion, error) {
	return one(c.commands.Complete(ctx, &quiverv1.CompleteRequest{Line: line, Cursor: uint32(len(line))}))
}

// Help tells what may follow the beginning of a line, as `?` shows it.
func (c *Client) Help(ctx context.Context, line string) (string, error) {
	answer, err := one(c.commands.Help(ctx, &quiverv1.HelpRequest{Line: line}))
	return answer.GetText(), err
}

// answers yields the messages of a call. To leave the loop ends the call.
func answers[T any](
	ctx context.Context, call func(context.Context) (grpc.ServerStreamingClient[T], error),
) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := call(ctx)
		for err == nil {
			var m *T
			if m, err = stream.Recv(); err == nil && !yield(m, nil) {
				return
			}
		}
		if err != io.EOF {
			yield(nil, failure(err))
		}
	}
}

// each yields what messages have of something.
func each[M, T any](messages iter.Seq2[*M, error], of func(*M) []*T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for m, err := range messages {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, one := range of(m) {
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}
