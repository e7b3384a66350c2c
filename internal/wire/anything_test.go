package wire

import (
	"bytes"
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/record"
)

var (
	anyString = rapid.StringN(0, 40, MaxString)
	anyName   = rapid.StringN(1, 40, record.MaxTopicBytes)
)

// generators draw values of every kind of frame that has a body.
func generators() map[Type]*rapid.Generator[any] {
	all := map[Type]*rapid.Generator[any]{
		TDefineTopics: rapid.Custom(func(t *rapid.T) any {
			return DefineTopics{FirstAlias: rapid.Uint32().Draw(t, "first"), Names: rapid.SliceOfN(anyName, 1, 20).Draw(t, "names")}
		}),
		TProducerOpened: rapid.Make[ProducerOpened]().AsAny(),
		TAck:            rapid.Make[Ack]().AsAny(),
		TSubscribe: rapid.Custom(func(t *rapid.T) any {
			s := rapid.Make[Subscribe]().Draw(t, "numbers")
			s.Filters, s.Start = rapid.SliceOfN(anyName, 1, 20).Draw(t, "filters"), StartKind(rapid.IntRange(0, int(StartAgo)).Draw(t, "start"))
			return s
		}),
		TSubscribed: rapid.Make[Subscribed]().AsAny(),
		TCredit:     rapid.Uint64().AsAny(),
		TProgress:   rapid.Uint64().AsAny(),
		TTopicNames: rapid.Custom(func(t *rapid.T) any {
			return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) TopicName {
				return TopicName{ID: rapid.Uint32().Draw(t, "id"), Name: anyName.Draw(t, "name")}
			}), 1, 20).Draw(t, "names")
		}),
		TQuery: rapid.Custom(func(t *rapid.T) any {
			q := rapid.Make[Query]().Draw(t, "numbers")
			q.Kind, q.Filters = QueryLastEach, rapid.SliceOfN(anyName, 1, 20).Draw(t, "filters")
			return q
		}),
		TError: rapid.Custom(func(t *rapid.T) any {
			return Error{Code: Code(rapid.Uint16().Draw(t, "code")), Detail: rapid.Uint64().Draw(t, "detail"), Message: anyString.Draw(t, "message")}
		}),
	}
	maps.Copy(all, handshakeGenerators())
	return all
}

func handshakeGenerators() map[Type]*rapid.Generator[any] {
	topology := rapid.Custom(func(t *rapid.T) Topology {
		return Topology{ClusterID: anyString.Draw(t, "cluster"), LeaderID: anyString.Draw(t, "leader"), Term: rapid.Uint64().Draw(t, "term"),
			Nodes: rapid.SliceOfN(rapid.Make[NodeInfo](), 1, 5).Filter(shortNodes).Draw(t, "nodes")}
	})
	return map[Type]*rapid.Generator[any]{
		THello: rapid.Custom(func(t *rapid.T) any {
			low := rapid.Uint16Range(1, 100).Draw(t, "min")
			return Hello{MinVersion: low, MaxVersion: rapid.Uint16Min(low).Draw(t, "max"), Role: RolePeer, ClusterID: anyString.Draw(t, "cluster"),
				Client: anyString.Draw(t, "client"), HeartbeatMS: rapid.Uint32().Draw(t, "hb"), Credentials: rapid.SliceOf(rapid.Byte()).Draw(t, "cred")}
		}),
		TTopology: topology.AsAny(),
		TWelcome: rapid.Custom(func(t *rapid.T) any {
			return Welcome{Version: rapid.Uint16().Draw(t, "version"), NodeID: anyString.Draw(t, "node"), HeartbeatMS: rapid.Uint32().Draw(t, "hb"),
				MaxFrame: rapid.Uint32().Draw(t, "frame"), MaxInflight: rapid.Uint32().Draw(t, "inflight"),
				FirstSeq: rapid.Uint64().Draw(t, "first"), LastSeq: rapid.Uint64().Draw(t, "last"), Topology: topology.Draw(t, "topology")}
		}),
	}
}

func shortNodes(nodes []NodeInfo) bool {
	for _, n := range nodes {
		if max(len(n.ID), len(n.ClientAddr), len(n.HTTPAddr)) > MaxString {
			return false
		}
	}
	return true
}

// TestRoundTripOfAnything: decode(encode(x)) == x.
func TestRoundTripOfAnything(t *testing.T) {
	for ty, gen := range generators() {
		t.Run(ty.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want, id := gen.Draw(t, "value"), rapid.Uint32().Draw(t, "id")
				r := NewReader(bytes.NewReader(encode(ty, id, want)), 0)
				defer r.Close()
				f, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				got, err := decode(ty, f.Body)
				if err != nil || f.Type != ty || !reflect.DeepEqual(got, want) {
					t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
				}
			})
		})
	}
}
