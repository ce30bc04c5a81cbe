package quiver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quiver/quiverv1"
)

// What [errors.Is] finds in an [*Error].
var (
	// ErrSyntax: what was sent is wrong by itself: a line that is no command, a document that breaks a rule.
	ErrSyntax = errors.New("it is not understood")
	// ErrDenied: the caller's role does not suffice; [Error.RoleNeeded] says which would.
	ErrDenied = errors.New("the role is missing")
	// ErrRefused: the router does not do it as things are.
	ErrRefused = errors.New("it is refused")
	// ErrChanged: what runs has another version than the one that was named, or an answer was cut off.
	ErrChanged = errors.New("it has changed")
	// ErrUnavailable: there is no router, or the connection to it has gone. Whether the call had effect is not known.
	ErrUnavailable = errors.New("the router cannot be reached")
	// ErrTooMuch: a limit of the router's is exceeded.
	ErrTooMuch = errors.New("it is too much")
)

// Place is one thing that is wrong: the object, the rule that is broken, the value found, what would be right, and where it
// stands in a document or a line.
type Place = quiverv1.ErrorInfo

// Error is what the router answers when it does not do what was asked.
type Error struct {
	// Code is the code of the call's status.
	Code codes.Code
	// Message says what is wrong.
	Message string
	// Places are what is wrong one by one; of a document at most 100.
	Places []*Place
	// RetryAfter says when who has asked for too much ([ErrTooMuch]) may come again; 0 where that does not help.
	RetryAfter time.Duration

	status *status.Status
}

// Error is the message with the places.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("quiver: ")
	if len(e.Places) != 1 || e.Places[0].Message != e.Message {
		b.WriteString(e.Message)
	}
	for i, p := range e.Places {
		if i > 0 || b.Len() > len("quiver: ") {
			b.WriteString("\n  ")
		}
		b.WriteString(Describe(p))
	}
	return b.String()
}

// Describe says in a line what is wrong at a place.
func Describe(p *Place) string {
	var b strings.Builder
	where := p.File
	if p.Line != 0 {
		where = strings.TrimPrefix(fmt.Sprintf("%s:%d", p.File, p.Line), ":")
	}
	if p.Column != 0 {
		where = strings.TrimPrefix(fmt.Sprintf("%s:%d", where, p.Column), ":")
	}
	for _, word := range []string{where, p.Object} {
		if word != "" {
			b.WriteString(word + ": ")
		}
	}
	b.WriteString(p.Message)
	if p.Value != "" && !strings.Contains(p.Message, p.Value) {
		fmt.Fprintf(&b, "; found %s", p.Value)
	}
	if len(p.Expected) > 0 {
		fmt.Fprintf(&b, "; expected: %s", strings.Join(p.Expected, ", "))
	}
	if p.Object != "" && p.Rule != "" {
		fmt.Fprintf(&b, " [%s]", p.Rule)
	}
	return b.String()
}

// Is makes [errors.Is] find what kind of error it is; also that of a context that has ended.
func (e *Error) Is(kind error) bool {
	switch e.Code {
	case codes.InvalidArgument:
		return kind == ErrSyntax
	case codes.PermissionDenied:
		return kind == ErrDenied
	case codes.FailedPrecondition:
		return kind == ErrRefused
	case codes.Aborted:
		return kind == ErrChanged
	case codes.Unavailable:
		return kind == ErrUnavailable
	case codes.ResourceExhausted, codes.OutOfRange:
		return kind == ErrTooMuch
	case codes.Canceled:
		return kind == context.Canceled
	case codes.DeadlineExceeded:
		return kind == context.DeadlineExceeded
	}
	return false
}

// RoleNeeded is the role that would be needed, where it is the caller's that does not suffice.
func (e *Error) RoleNeeded() Role {
	for _, p := range e.Places {
		if p.RoleNeeded != quiverv1.Role_ROLE_UNSPECIFIED {
			return p.RoleNeeded
		}
	}
	return quiverv1.Role_ROLE_UNSPECIFIED
}

// GRPCStatus is the call's status, as [status.FromError] finds it.
func (e *Error) GRPCStatus() *status.Status {
	return e.status
}

// failure makes an error of a call one of ours.
func failure(err error) error {
	if err == nil {
		return nil
	}
	var ours *Error
	if errors.As(err, &ours) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("quiver: %w", err)
	}
	e := &Error{Code: s.Code(), Message: s.Message(), status: s}
	if e.Code == codes.Unimplemented && e.Message == "" {
		e.Message = "the router has no such call: it is older than this client"
	}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *Place:
			e.Places = append(e.Places, d)
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return e
}
