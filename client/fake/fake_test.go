package fake_test

import (
	"testing"

	"github.com/cantus-bus/cantus/client/conformance"
	"github.com/cantus-bus/cantus/client/fake"
	"github.com/cantus-bus/cantus/internal/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for name, o := range map[string]fake.Options{"one node": {}, "three nodes": {Nodes: 3}, "no forwarding": {Nodes: 3, NoForward: true}} {
		t.Run(name, func(t *testing.T) {
			conformance.Run(t, func(t *testing.T) conformance.Target {
				b := fake.New(o)
				t.Cleanup(b.Close)
				target := conformance.Target{Options: b.ClientOptions(), Trim: b.Trim}
				if o.Nodes > 1 {
					target.MoveLeader = func() { b.SetLeader((b.Leader() + 1) % o.Nodes) }
				}
				return target
			})
		})
	}
}
