package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"
)

// Defaults and bounds of the options.
const (
	DefaultRetryTimeout = 30 * time.Second
	DefaultHeartbeat    = time.Second
	DefaultDialTimeout  = 3 * time.Second

	minHeartbeat = 50 * time.Millisecond
	maxHeartbeat = time.Minute
)

// DialFunc opens a byte stream to a server's address. It must stop when ctx ends. Close must unblock Read and Write.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// Options of a Client. Only Servers is required.
type Options struct {
	// Servers are addresses (host:port) of some nodes. One that answers is enough: the others are learnt from it.
	Servers []string
	// Name says who this is to people who look at the server. Default: "go".
	Name string
	// ClusterID refuses servers of any other cluster. Empty: any.
	ClusterID string
	// Dial replaces TCP, for tests (see the fake package) and tunnels.
	Dial DialFunc
	// Logger gets reconnects and their causes. Default: nothing is logged.
	Logger *slog.Logger
	// ConnectWait is how long Connect goes on trying when no server answers. Default 0: each is tried once.
	ConnectWait time.Duration
	// DialTimeout bounds one attempt to connect, the exchange of versions included.
	DialTimeout time.Duration
	// RetryTimeout bounds the retries of a publish, and how long a subscription looks for a server before its error
	// says so (it can be asked again then). Negative: no bound.
	RetryTimeout time.Duration
	// Heartbeat is how often the connection is probed; three silent ones and it is given up. 50 ms to 1 min.
	Heartbeat time.Duration
}

// withDefaults checks o and fills what is missing.
func (o Options) withDefaults() (Options, error) {
	if len(o.Servers) == 0 {
		return o, errors.New("connect: no servers given: set Options.Servers to at least one host:port")
	}
	o.Servers = append([]string(nil), o.Servers...)
	if o.Name == "" {
		o.Name = "go"
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.RetryTimeout == 0 {
		o.RetryTimeout = DefaultRetryTimeout
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	o.Heartbeat = min(max(o.Heartbeat, minHeartbeat), maxHeartbeat)
	return o, nil
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}
