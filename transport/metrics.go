package transport

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/wire"
)

// ackCodes are the outcomes that are counted by name; others share a counter.
var ackCodes = [...]fsm.Code{
	fsm.OK, fsm.Duplicate, fsm.OutOfOrder, fsm.Fenced, fsm.UnknownProducer, fsm.PreconditionFailed, fsm.TooManyTopics,
	fsm.TooManyProducers, fsm.Invalid, fsm.Settled, fsm.NotLeader, fsm.Unavailable, fsm.Unknown, fsm.DiskFull, fsm.TooLarge,
	fsm.ShuttingDown,
}

// metrics of a server. Counters on hot paths are resolved once.
type metrics struct {
	connections  prometheus.Gauge
	accepted     prometheus.Counter
	refused      prometheus.Counter
	frameIn      [wire.TAnswer + 1]prometheus.Counter // by wire.Type
	frameOut     [wire.TAnswer + 1]prometheus.Counter
	bytesIn      prometheus.Counter
	bytesOut     prometheus.Counter
	published    prometheus.Counter
	delivered    prometheus.Counter
	looked       prometheus.Counter
	copiedBytes  prometheus.Counter
	directBytes  prometheus.Counter
	acks         [256]prometheus.Counter // by fsm.Code; unknown codes share one
	inflight     prometheus.Gauge
	stalls       prometheus.Counter
	subs         prometheus.Gauge
	subsOpened   prometheus.Counter
	subsEnded    *prometheus.CounterVec
	slowClosed   prometheus.Counter
	deadClosed   prometheus.Counter
	cutShort     prometheus.Counter
	protocolErrs *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := factory{r}
	m := &metrics{
		connections:  f.gauge("connections", "Connections open now."),
		accepted:     f.counter("connections_accepted_total", "Connections that were let in."),
		refused:      f.counter("connections_refused_total", "Connections refused because the limit was reached."),
		bytesIn:      f.counter("received_bytes_total", "Bytes read from clients."),
		bytesOut:     f.counter("sent_bytes_total", "Bytes written to clients."),
		published:    f.counter("published_messages_total", "Messages handed to the broker."),
		delivered:    f.counter("delivered_messages_total", "Messages sent to subscribers."),
		looked:       f.counter("queried_messages_total", "Messages sent in answers to queries."),
		copiedBytes:  f.counter("data_copied_bytes_total", "Bytes of records copied into a write buffer because their stretches of the ring were short."),
		directBytes:  f.counter("data_direct_bytes_total", "Bytes of records written from where they stand in the ring."),
		inflight:     f.gauge("inflight_bytes", "Bytes of publishes whose acks are not written yet."),
		stalls:       f.counter("read_stalls_total", "Times the server stopped reading from a client because of a limit."),
		subs:         f.gauge("subscriptions", "Subscriptions open now."),
		subsOpened:   f.counter("subscriptions_opened_total", "Subscriptions opened."),
		subsEnded:    f.vec("subscriptions_ended_total", "Subscriptions refused or ended, by code; ok is an unsubscribe.", "code"),
		slowClosed:   f.counter("slow_closed_total", "Connections closed because the client took no bytes for the write timeout."),
		deadClosed:   f.counter("dead_closed_total", "Connections closed because the client was silent for three heartbeats."),
		cutShort:     f.counter("cut_short_total", "Connections that ended within a frame."),
		protocolErrs: f.vec("protocol_errors_total", "Connections and requests refused for an error of the client, by code.", "code"),
	}
	m.resolve(f)
	return m
}

// resolve makes the counters that are found by index.
func (m *metrics) resolve(f factory) {
	in := f.vec("frames_received_total", "Frames read from clients, by type.", "type")
	out := f.vec("frames_sent_total", "Frames written to clients, by type.", "type")
	for i := range wire.TAnswer + 1 {
		name := wire.Type(i).String()
		m.frameIn[i], m.frameOut[i] = in.WithLabelValues(name), out.WithLabelValues(name)
	}
	acks := f.vec("acks_total", "Acks sent, by outcome.", "code")
	other := acks.WithLabelValues("other")
	for i := range m.acks {
		m.acks[i] = other
	}
	for _, c := range ackCodes {
		m.acks[c] = acks.WithLabelValues(c.String())
	}
}

func (m *metrics) protocolError(c wire.Code) { m.protocolErrs.WithLabelValues(c.String()).Inc() }

func (m *metrics) subEnded(c wire.Code) { m.subsEnded.WithLabelValues(c.String()).Inc() }

// factory makes metrics under one prefix and registers them if there is where.
type factory struct{ r prometheus.Registerer }

func (f factory) register(c prometheus.Collector) {
	if f.r != nil {
		f.r.MustRegister(c)
	}
}

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "cantus", Subsystem: "transport", Name: name, Help: help})
	f.register(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "cantus", Subsystem: "transport", Name: name, Help: help})
	f.register(g)
	return g
}

func (f factory) vec(name, help, label string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cantus", Subsystem: "transport", Name: name, Help: help}, []string{label})
	f.register(v)
	return v
}
