package quiver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"

	"quiver/quiverv1"
)

// Edited is what a transaction has done.
type Edited = quiverv1.EditResponse

// Tx is a transaction: changes of single places of what runs, made together or not at all, in the order in which they are said.
// A place is written as docs/engine.md tells: `interfaces.eth0.mtu`, `l3.interfaces[eth0.100].mtu`.
type Tx struct {
	client  *Client
	request *quiverv1.EditRequest
	options ApplyOptions
	err     error
}

func (t *Tx) edit(edit *quiverv1.Edit) { t.request.Edits = append(t.request.Edits, edit) }

func (t *Tx) text(place string, value any) string {
	text, err := json.Marshal(value)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("quiver: the value of %s is none of JSON: %w", place, err)
	}
	return string(text)
}

// Set sets a place to a value, which is sent as JSON: what is there is no more, and what is missing on the way is made.
func (t *Tx) Set(place string, value any) {
	t.edit(&quiverv1.Edit{At: place, Act: &quiverv1.Edit_Set{Set: t.text(place, value)}})
}

// Merge sets some fields of a place, those of mappings within them too; nil takes a field away.
func (t *Tx) Merge(place string, fields map[string]any) {
	t.edit(&quiverv1.Edit{At: place, Act: &quiverv1.Edit_Merge{Merge: t.text(place, fields)}})
}

// Delete takes away what is at a place.
func (t *Tx) Delete(place string) {
	t.edit(&quiverv1.Edit{At: place, Act: &quiverv1.Edit_Delete{Delete: true}})
}

func routePlace(prefix netip.Prefix, table uint32) []string {
	return []string{"routes", fmt.Sprintf("prefix=%s,table=%d", prefix, table)}
}

// Route sets a route of the document to what stands behind its prefix, such as `via 192.0.2.1` or `drop`.
func (t *Tx) Route(prefix netip.Prefix, table uint32, target string) {
	act := &quiverv1.Edit_Set{Set: t.text("routes", target)}
	t.edit(&quiverv1.Edit{Place: routePlace(prefix, table), Act: act})
}

// DeleteRoute takes a route of the document away.
func (t *Tx) DeleteRoute(prefix netip.Prefix, table uint32) {
	t.edit(&quiverv1.Edit{Place: routePlace(prefix, table), Act: &quiverv1.Edit_Delete{Delete: true}})
}

// Version has the changes made only where what runs still has this version, as [Client.Get] tells it; else the transaction fails
// with [ErrChanged].
func (t *Tx) Version(version string) { t.request.Version = version }

// Confirm has the router go back after so long, in whole seconds, unless [Client.Confirm] comes.
func (t *Tx) Confirm(within time.Duration) { t.options.Confirm = within }

// Comment is for the history.
func (t *Tx) Comment(comment string) { t.request.Comment = comment }

// Restart: also where the section `quiver` differs, which comes with the next start. It takes the role admin.
func (t *Tx) Restart() { t.request.Restart = true }

func (t *Tx) ready() error {
	seconds, err := t.options.seconds()
	if t.err != nil {
		return t.err
	}
	t.request.ConfirmSeconds = seconds
	return err
}

// Plan tells the steps that the changes so far would take. Nothing is changed.
func (t *Tx) Plan(ctx context.Context) (*Plan, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	return planned(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.PlanResponse], error) {
		return t.client.configuration.PlanEdit(ctx, t.request)
	})
}

// Transaction makes the changes that f says when it returns, all of them or none; where f fails none, and its error is returned.
// Where f says no changes nothing is done. The router finishes it also when the context ends.
func (c *Client) Transaction(ctx context.Context, f func(t *Tx) error) (*Edited, error) {
	t := &Tx{client: c, request: &quiverv1.EditRequest{}}
	if err := f(t); err != nil {
		return nil, err
	}
	if err := t.ready(); err != nil {
		return nil, err
	}
	if len(t.request.Edits) == 0 {
		return &Edited{}, nil
	}
	return one(c.configuration.Edit(ctx, t.request))
}

// Get reads what runs at a place, such as `interfaces.eth0`, into a value as [json.Unmarshal] does, and returns the version of what
// runs. Where nothing is there it fails with [ErrRefused].
func (c *Client) Get(ctx context.Context, place string, into any) (version string, err error) {
	var b strings.Builder
	for m, err := range answers(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[quiverv1.GetResponse], error) {
		return c.configuration.Get(ctx, &quiverv1.GetRequest{At: place})
	}) {
		if err != nil {
			return "", err
		}
		b.WriteString(m.Piece)
		version += m.Version
	}
	return version, json.Unmarshal([]byte(b.String()), into)
}
