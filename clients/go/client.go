// Package quiver is a client of the Quiver router: its commands, its configuration and its routes, over the router's gRPC API.
//
// A [Client] may be used by many goroutines at once. It finds the router again by itself when that was started anew or the
// connection has gone. What the router refuses is an [*Error], which tells what is wrong and what would be right.
//
// The messages and calls that all of it is made of are those of the package quiverv1, which is generated from the schema in
// api/quiver/v1; [Client.Conn] is for whoever wants to use them directly.
package quiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"quiver/quiverv1"
)

const (
	// How long a call waits for a router that is not there, where nobody says.
	patience = 10 * time.Second
	// Pauses between attempts to reach the router: the first and the longest.
	firstPause, longestPause = 20 * time.Millisecond, time.Second
	// The largest answer that is taken, in bytes.
	largestAnswer = 64 << 20
	// What of answers may be under way and not yet read, in bytes: of each call, and together.
	window, windows = 4 << 20, 16 << 20
	// A router of which nothing is heard for so long while a call waits is asked whether it is there, and has as long to answer.
	silence = 10 * time.Second
)

// Only what changes nothing is asked a second time when the connection goes before the first answer.
const serviceConfig = `{"methodConfig": [{
  "name": [
    {"service": "quiver.v1.System"},
    {"service": "quiver.v1.Commands", "method": "Complete"},
    {"service": "quiver.v1.Commands", "method": "Help"},
    {"service": "quiver.v1.Commands", "method": "List"},
    {"service": "quiver.v1.Configuration", "method": "Check"},
    {"service": "quiver.v1.Configuration", "method": "Diff"},
    {"service": "quiver.v1.Configuration", "method": "Plan"},
    {"service": "quiver.v1.Configuration", "method": "PlanEdit"},
    {"service": "quiver.v1.Configuration", "method": "Get"},
    {"service": "quiver.v1.Configuration", "method": "History"},
    {"service": "quiver.v1.Configuration", "method": "Dump"},
    {"service": "quiver.v1.Counters"},
    {"service": "quiver.v1.Routes", "method": "List"}
  ],
  "retryPolicy": {
    "maxAttempts": 3, "initialBackoff": "0.05s", "maxBackoff": "0.5s", "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"]
  }
}]}`

// Client is a connection to a router.
type Client struct {
	conn          *grpc.ClientConn
	address       string
	patience      time.Duration
	system        quiverv1.SystemClient
	commands      quiverv1.CommandsClient
	configuration quiverv1.ConfigurationClient
	counters      quiverv1.CountersClient
	routes        quiverv1.RoutesClient
	events        quiverv1.EventsClient
	packets       quiverv1.PacketsClient
}

type settings struct {
	patience time.Duration
	tls      *TLS
	dial     []grpc.DialOption
}

// Option says how to reach a router.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// WithPatience says how long calls wait for a router that is not there at the moment, on top of what their context says;
// 10 s where it is not said. Without patience they fail at once.
func WithPatience(d time.Duration) Option {
	return option(func(s *settings) { s.patience = d })
}

// WithDialOptions hands options to gRPC.
func WithDialOptions(options ...grpc.DialOption) Option {
	return option(func(s *settings) { s.dial = append(s.dial, options...) })
}

// DefaultAddress is where the API of a router usually is.
const DefaultAddress = "/run/quiver/api.sock"

// Dial connects to the router whose API is at an address, the path of a Unix socket or, with the option [TLS], host:port, and fails when
// there is none or it refuses the caller. Without an address it is that of the environment's QUIVER_API, else [DefaultAddress]. The context is for
// connecting alone.
func Dial(ctx context.Context, address string, options ...Option) (*Client, error) {
	s := settings{patience: patience}
	for _, o := range options {
		o.apply(&s)
	}
	if address == "" {
		address = cmp.Or(os.Getenv("QUIVER_API"), DefaultAddress)
	}
	target, credentials, err := s.way(address)
	if err != nil {
		return nil, err
	}
	c := &Client{address: address, patience: s.patience}
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(credentials),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestPause},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silence, Timeout: silence}),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(windows),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestAnswer)),
		grpc.WithChainUnaryInterceptor(c.unary),
		grpc.WithChainStreamInterceptor(c.stream),
	}, s.dial...)
	if c.conn, err = grpc.NewClient(target, dial...); err != nil {
		return nil, fmt.Errorf("quiver: %s: %w", address, err)
	}
	c.system = quiverv1.NewSystemClient(c.conn)
	c.commands = quiverv1.NewCommandsClient(c.conn)
	c.configuration = quiverv1.NewConfigurationClient(c.conn)
	c.counters = quiverv1.NewCountersClient(c.conn)
	c.routes = quiverv1.NewRoutesClient(c.conn)
	c.events = quiverv1.NewEventsClient(c.conn)
	c.packets = quiverv1.NewPacketsClient(c.conn)
	c.patience = 0
	_, err = c.System(ctx)
	c.patience = s.patience
	if err != nil {
		c.conn.Close()
		return nil, err
	}
	return c, nil
}

// way is an address as gRPC names it, and how a connection to it is made.
func (s *settings) way(address string) (string, credentials.TransportCredentials, error) {
	if s.tls != nil {
		credentials, err := s.tls.credentials()
		return "dns:///" + address, credentials, err
	}
	target, err := target(address)
	return target, insecure.NewCredentials(), err
}

// target is a path as gRPC names it.
func target(address string) (string, error) {
	path, _ := strings.CutPrefix(address, "unix:")
	path, err := filepath.Abs(path)
	if err != nil || !strings.Contains(address, "/") {
		return "", fmt.Errorf("quiver: %q is no path of a Unix socket, such as %s, and host:port takes TLS", address, DefaultAddress)
	}
	return "unix:" + path, nil
}

// Close ends the connection and all calls that are under way.
func (c *Client) Close() error {
	return c.conn.Close()
}

// Conn is the connection, for the clients of the package quiverv1.
func (c *Client) Conn() *grpc.ClientConn {
	return c.conn
}

// System tells which router this is, and what the caller may do.
func (c *Client) System(ctx context.Context) (*System, error) {
	return one(c.system.Get(ctx, &quiverv1.GetSystemRequest{}))
}

// System is what a router says of itself.
type System = quiverv1.GetSystemResponse

// Role is what somebody may do; each may do what those before it may.
type Role = quiverv1.Role

// Roles.
const (
	RoleRead      = quiverv1.Role_ROLE_READ
	RoleOperate   = quiverv1.Role_ROLE_OPERATE
	RoleConfigure = quiverv1.Role_ROLE_CONFIGURE
	RoleAdmin     = quiverv1.Role_ROLE_ADMIN
)

// reach waits for the connection as long as the patience lasts. Who has waited in vain learns why from the call itself, for which a
// tenth of the time is left.
func (c *Client) reach(ctx context.Context) {
	if c.conn.GetState() == connectivity.Ready || c.patience <= 0 {
		return
	}
	patience := c.patience
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)*9/10)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		c.conn.Connect()
		state := c.conn.GetState()
		if state == connectivity.Ready || state == connectivity.Shutdown || !c.conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}

func (c *Client) unary(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	c.reach(ctx)
	return c.located(next(ctx, method, request, reply, cc, options...))
}

func (c *Client) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.reach(ctx)
	stream, err := next(ctx, desc, cc, method, options...)
	return stream, c.located(err)
}

// located says which router it is that is not there.
func (c *Client) located(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() == codes.Unavailable && len(s.Details()) == 0 {
		why := s.Message()
		if _, after, found := strings.Cut(why, "error while dialing: "); found {
			why = strings.TrimSuffix(after, `"`)
		}
		return status.Errorf(codes.Unavailable, "no router at %s: %s", c.address, why)
	}
	return err
}

// one hands on an answer, or the error as one of ours.
func one[T any](answer *T, err error) (*T, error) {
	if err != nil {
		return nil, failure(err)
	}
	return answer, nil
}

var errClosed = errors.New("quiver: it is closed")
