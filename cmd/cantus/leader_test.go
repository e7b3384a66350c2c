package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
)

// handing is a control plane that tells one status after the other, the last one for ever, and takes every handover. told hears how many
// statuses it has given.
func handing(t *testing.T, told func(int), statuses ...cluster.Status) string {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			json.NewEncoder(w).Encode(changed{OK: true, Leader: "a", Term: 3}) // what was known before the election
			return
		}
		n := int(asked.Add(1))
		told(n)
		json.NewEncoder(w).Encode(statuses[min(n, len(statuses))-1])
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestTransferWaitsForTheNewLeader: neither the old one nor none is an answer.
func TestTransferWaitsForTheNewLeader(t *testing.T) {
	old := cluster.Status{Leader: "a", Term: 3}
	url := handing(t, func(int) {}, old, old, cluster.Status{Term: 4}, cluster.Status{Leader: "b", Term: 4})
	r := must(t, cantus(t, []string{"CANTUS_HTTP=" + url}, "leader", "transfer"))
	if r.out != "leadership handed over; leader b, term 4\n" {
		t.Errorf("%q", r.out)
	}
	url = handing(t, func(int) {}, old)
	v := decode[changed](t, must(t, cantus(t, []string{"CANTUS_HTTP=" + url}, "leader", "transfer", "--to", "a", "--json")))
	if v != (changed{true, "a", 3}) {
		t.Errorf("to the one that leads: %+v", v)
	}
}

// TestTransferWithoutANewLeader: when the time is over it is said that none is known, and how to look again.
func TestTransferWithoutANewLeader(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	url := handing(t, func(n int) {
		if n == 4 {
			cancel()
		}
	}, cluster.Status{Leader: "a", Term: 3}, cluster.Status{Term: 3})
	c, err := control.New([]string{url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var v changed
	err = handOver(ctx, c, "", &v)
	if err == nil || !strings.Contains(err.Error(), "no new leader is known yet") || !strings.Contains(err.Error(), "cantus status") {
		t.Errorf("%+v, %v", v, err)
	}
}
