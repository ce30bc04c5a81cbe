package quiver

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"

	"quiver/quiverv1"
)

// What the router says of documents, as docs/api.md describes it.
type (
	// Checked is what is wrong with a document.
	Checked = quiverv1.CheckResponse
	// Difference is an object that differs.
	Difference = quiverv1.DiffResponse_Difference
	// Step is a step from what runs to a document.
	Step = quiverv1.PlanResponse_Step
	// Applied is what was done.
	Applied = quiverv1.ApplyResponse
	// Entry is a configuration that was kept.
	Entry = quiverv1.HistoryResponse_Entry
	// Saved says under which number what runs is kept.
	Saved = quiverv1.SaveResponse
	// Change is what happens to an object.
	Change = quiverv1.Change
)

// Changes.
const (
	Add     = quiverv1.Change_CHANGE_ADD
	Remove  = quiverv1.Change_CHANGE_REMOVE
	Replace = quiverv1.Change_CHANGE_REPLACE
)

// ApplyOptions say how a document is applied. The zero value: at once, for good, beside what commands made.
type ApplyOptions struct {
	// Confirm: it goes back after so long, in whole seconds, unless [Client.Confirm] comes.
	Confirm time.Duration
	// Comment is for the history.
	Comment string
	// Exact: what commands made goes as well, where the document does not say it.
	Exact bool
	// Restart: also where the section `quiver` differs, which comes with the next start. It takes the role admin.
	Restart bool
	// DryRun only says how many steps there would be.
	DryRun bool
}

func (o ApplyOptions) seconds() (uint32, error) {
	seconds := math.Ceil(o.Confirm.Seconds())
	if seconds < 0 || seconds > math.MaxUint32 {
		return 0, fmt.Errorf("quiver: Confirm is %v, which is no time to wait", o.Confirm)
	}
	return uint32(seconds), nil
}

// Differences are what a document would change.
type Differences struct {
	// Objects are those that differ.
	Objects []*Difference
	// Restart are lines of the section `quiver` that differ, which takes a restart.
	Restart []string
	// Stays is what others have made and stays: commands, sources of routes.
	Stays []string
}

// Plan is how a document would be applied.
type Plan struct {
	// Steps, in order.
	Steps []*Step
	// Warnings are what may not be meant.
	Warnings []string
	// Restart are lines of the section `quiver` that differ, which takes a restart.
	Restart []string
	// Stays is how many objects of commands stay.
	Stays uint64
}

// Check checks a document, YAML or JSON, by itself. A wrong one is no error, but has findings.
func (c *Client) Check(ctx context.Context, document string) (*Checked, error) {
	return one(c.configuration.Check(ctx, &quiverv1.CheckRequest{Document: document}))
}

// Diff tells what a document would change of what runs; with `exact` what commands made goes as well.
func (c *Client) Diff(ctx context.Context, document string, exact bool) (*Differences, error) {
	request := &quiverv1.DiffRequest{Document: document, Exact: exact}
	var d Differences
	for m, err := range answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.DiffResponse], error) {
		return c.configuration.Diff(ctx, request)
	}) {
		if err != nil {
			return nil, err
		}
		d.Objects = append(d.Objects, m.Differences...)
		d.Restart = append(d.Restart, m.Restart...)
		d.Stays = append(d.Stays, m.Stays...)
	}
	return &d, nil
}

// Plan tells the steps from what runs to a document; with `exact` what commands made goes as well.
func (c *Client) Plan(ctx context.Context, document string, exact bool) (*Plan, error) {
	request := &quiverv1.PlanRequest{Document: document, Exact: exact}
	return planned(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.PlanResponse], error) {
		return c.configuration.Plan(ctx, request)
	})
}

// planned is a plan of all its messages.
func planned(ctx context.Context, call func(context.Context) (grpc.ServerStreamingClient[quiverv1.PlanResponse], error)) (*Plan, error) {
	var p Plan
	for m, err := range answers(ctx, call) {
		if err != nil {
			return nil, err
		}
		p.Steps = append(p.Steps, m.Steps...)
		p.Warnings = append(p.Warnings, m.Warnings...)
		p.Restart = append(p.Restart, m.Restart...)
		p.Stays += m.Stays
	}
	return &p, nil
}

// Apply brings what runs to a document, YAML or JSON, or changes nothing. The router finishes it also when the context ends.
func (c *Client) Apply(ctx context.Context, document string, o ApplyOptions) (*Applied, error) {
	seconds, err := o.seconds()
	if err != nil {
		return nil, err
	}
	return one(c.configuration.Apply(ctx, &quiverv1.ApplyRequest{
		Document: document, ConfirmSeconds: seconds, Comment: o.Comment, Exact: o.Exact, Restart: o.Restart, DryRun: o.DryRun,
	}))
}

// Confirm keeps what was applied to be confirmed, and returns its number in the history, 0 when the router keeps none.
func (c *Client) Confirm(ctx context.Context) (uint64, error) {
	answer, err := one(c.configuration.Confirm(ctx, &quiverv1.ConfirmRequest{}))
	return answer.GetNumber(), err
}

// Rollback goes back to a number of the history; 0 is what ran before that which waits to be confirmed, else the one before the
// last. A dry run is not to be had.
func (c *Client) Rollback(ctx context.Context, number uint64, o ApplyOptions) (*Applied, error) {
	if o.DryRun {
		return nil, fmt.Errorf("quiver: Rollback has no DryRun: Diff of the document that History has tells what it would change")
	}
	seconds, err := o.seconds()
	if err != nil {
		return nil, err
	}
	return one(c.configuration.Rollback(ctx, &quiverv1.RollbackRequest{
		Number: number, ConfirmSeconds: seconds, Comment: o.Comment, Exact: o.Exact, Restart: o.Restart,
	}))
}

// Save keeps what runs for the next start.
func (c *Client) Save(ctx context.Context, comment string) (*Saved, error) {
	return one(c.configuration.Save(ctx, &quiverv1.SaveRequest{Comment: comment}))
}

func (c *Client) history(ctx context.Context, number uint64) iter.Seq2[*quiverv1.HistoryResponse, error] {
	return answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.HistoryResponse], error) {
		return c.configuration.History(ctx, &quiverv1.HistoryRequest{Number: number})
	})
}

// History yields the configurations that were kept, the last one first.
func (c *Client) History(ctx context.Context) iter.Seq2[*Entry, error] {
	return each(c.history(ctx, 0), func(m *quiverv1.HistoryResponse) []*Entry { return m.Entries })
}

// Kept returns a configuration of the history with its differences, and its document.
func (c *Client) Kept(ctx context.Context, number uint64) (*Entry, string, error) {
	if number == 0 {
		return nil, "", fmt.Errorf("quiver: a number of the history is 1 or more")
	}
	var entry *Entry
	var b strings.Builder
	for m, err := range c.history(ctx, number) {
		if err != nil {
			return nil, "", err
		}
		if len(m.Entries) > 0 {
			entry = m.Entries[0]
		}
		b.WriteString(m.Document)
	}
	return entry, b.String(), nil
}

// Dump returns the running state as a document: YAML, or JSON.
func (c *Client) Dump(ctx context.Context, asJSON bool) (string, error) {
	var b strings.Builder
	for m, err := range answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.DumpResponse], error) {
		return c.configuration.Dump(ctx, &quiverv1.DumpRequest{Json: asJSON})
	}) {
		if err != nil {
			return "", err
		}
		b.WriteString(m.Piece)
	}
	return b.String(), nil
}
