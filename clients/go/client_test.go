package quiver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestDialSaysWhereThereIsNoRouter(t *testing.T) {
	path := t.TempDir() + "/none.sock"
	_, err := Dial(soon(t), path)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no router at "+path+": ") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
	if _, err := Dial(soon(t), "localhost"); err == nil {
		t.Error("it is taken as a path")
	}
}

func TestACallWaitsForTheRouter(t *testing.T) {
	f := startFake(t)
	c := f.dial(t)
	f.kill()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.System(short); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("%v", err)
	}
	answer := make(chan error)
	go func() {
		_, err := c.System(soon(t))
		answer <- err
	}()
	f.start(t)
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
}

func TestAnErrorTellsItsPlaces(t *testing.T) {
	place := &Place{
		Object: "interfaces.ge0.mtu", Rule: "mtu-range", Value: "70000", Message: "it is too large",
		Expected: []string{"68 to 65535"}, File: "r.yaml", Line: 3, Column: 8,
	}
	s, err := status.New(codes.PermissionDenied, "it is wrong").WithDetails(place, &Place{RoleNeeded: RoleAdmin, Message: "no"})
	if err != nil {
		t.Fatal(err)
	}
	err = failure(s.Err())
	want := "quiver: it is wrong\n  r.yaml:3:8: interfaces.ge0.mtu: it is too large; found 70000; expected: 68 to 65535 [mtu-range]\n  no"
	if err.Error() != want {
		t.Errorf("%v", err)
	}
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrDenied) || errors.Is(err, ErrSyntax) || e.RoleNeeded() != RoleAdmin {
		t.Errorf("%+v", err)
	}
	if back, ok := status.FromError(err); !ok || back.Code() != codes.PermissionDenied {
		t.Errorf("%v", back)
	}
	if err := failure(status.Error(codes.DeadlineExceeded, "late")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
