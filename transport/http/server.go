package http

import (
	"context"
	"errors"
	"net"
	nethttp "net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
)

// Node is what the control plane needs of a node; *cluster.Node is one.
type Node interface {
	cluster.Broker
	Status(ctx context.Context) cluster.Status
	Ready() error
	AddNode(ctx context.Context, id, raftAddr string, voter bool) error
	RemoveNode(ctx context.Context, id string) error
	TransferLeader(ctx context.Context, to string) error
	Checkpoint(ctx context.Context) (id uint64, err error)
	CheckpointDigest(ctx context.Context, id uint64) (fsm.Digest, error)
	PlanNow(ctx context.Context) ([]fsm.Generation, error)
	TakeSnapshot(ctx context.Context) (cluster.SnapshotInfo, error)
	Snapshots() []cluster.SnapshotInfo
	FileList() cluster.FileList
	FileHandler() nethttp.Handler
}

// Options of a server. Node is needed, all else has a default.
type Options struct {
	Node   Node
	Logger hclog.Logger
	// Gatherer feeds /metrics; nil leaves the route answering 404.
	Gatherer prometheus.Gatherer
	// Config is the configuration in force, already without secrets, as JSON-encodable value for /v1/config.
	Config any
	// Pprof opens /debug/pprof: off by default, as profiles tell a lot about the process.
	Pprof bool
	// MaxSubscriptions bounds the open event streams of this server; 0 means 1024.
	MaxSubscriptions int
	// Heartbeat is how often an idle event stream gets a comment or a progress mark; 0 means 10 s.
	Heartbeat time.Duration
	// WriteTimeout closes an event stream whose client does not read for so long; 0 means 30 s.
	WriteTimeout time.Duration
	// RequestTimeout bounds what a request may wait for the cluster; 0 means 10 s.
	RequestTimeout time.Duration
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.MaxSubscriptions == 0 {
		o.MaxSubscriptions = 1024
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 10 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 10 * time.Second
	}
}

// Server serves the control plane. Serve, then Shutdown or Close.
type Server struct {
	opts  Options
	node  Node
	rates *rateSampler
	http  *nethttp.Server
	peers *nethttp.Client

	// streams holds a token per open event stream; its capacity is the limit.
	streams chan struct{}
	// stop ends all event streams: they would keep a graceful shutdown waiting for ever.
	stop       context.CancelFunc
	stopped    context.Context
	transports []*nethttp.Transport
}

// NewServer prepares a server; it starts nothing.
func NewServer(o Options) *Server {
	o.setDefaults()
	transport := &nethttp.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second}
	s := &Server{
		opts:       o,
		node:       o.Node,
		rates:      newRateSampler(o.Node.Stream().Table()),
		peers:      &nethttp.Client{Transport: transport},
		streams:    make(chan struct{}, o.MaxSubscriptions),
		transports: []*nethttp.Transport{transport},
	}
	s.stopped, s.stop = context.WithCancel(context.Background())
	s.http = &nethttp.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          o.Logger.StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true}),
	}
	return s
}

// Serve answers on l until Shutdown or Close, then returns nil.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(l)
	if errors.Is(err, nethttp.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown ends the event streams, waits for running requests until ctx ends, and frees what the server holds.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.http.Shutdown(ctx)
	s.release()
	return err
}

// Close drops all connections at once.
func (s *Server) Close() error {
	s.stop()
	err := s.http.Close()
	s.release()
	return err
}

func (s *Server) release() {
	s.rates.close()
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}
