package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/load"
)

// What BenchmarkIndexBesidePublishing does: the tip holds indexKept messages in indexParts partitions; for indexFor, publishers add
// indexRate a second, while each of indexReaders reads one partition from first to caught-up every indexEvery.
const (
	indexKept    = 1_000_000
	indexParts   = 100
	indexRate    = 50_000
	indexReaders = 100
	indexEvery   = 6 * time.Second
	indexFor     = 18 * time.Second
)

// BenchmarkIndexBesidePublishing compares a node with the tip's index and without (tip.index off): the node is a process of its own,
// whose processor time is what it used while the load ran. Run it with -benchtime 1x.
func BenchmarkIndexBesidePublishing(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "cantus")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/cantus-bus/cantus/cmd/cantus").CombinedOutput(); err != nil {
		b.Fatalf("build: %v: %s", err, out)
	}
	for _, index := range []string{"on", "off"} {
		b.Run("index="+index, func(b *testing.B) {
			for b.Loop() {
				measureIndex(b, binary, index)
			}
		})
	}
}

func measureIndex(b *testing.B, binary, index string) {
	p := startNode(b, binary, "CANTUS_TIP_INDEX="+index)
	connect := client.Options{Servers: []string{p.client}}
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	publish := load.PublishOptions{Connect: connect, Clients: 2, Messages: indexKept, Size: 128, Topics: indexParts * 1000, Payload: dataset.Text}
	if _, err := load.Publish(ctx, publish); err != nil {
		b.Fatal(err)
	}
	publish.Messages, publish.Rate = int64(indexRate*indexFor.Seconds()), indexRate
	var recoveries, read atomic.Uint64
	var readers sync.WaitGroup
	reading, stop := context.WithCancel(ctx)
	for i := range indexReaders {
		readers.Go(func() { recoverOften(b, reading, connect, i, &recoveries, &read) })
	}
	before := p.cpu(b)
	result, err := load.Publish(ctx, publish)
	used := p.cpu(b) - before
	stop()
	readers.Wait()
	if err != nil || result.Refused > 0 {
		b.Fatalf("publishing: %v, %d refused", err, result.Refused)
	}
	b.ReportMetric(used.Seconds(), "cpu-s")
	b.ReportMetric(result.P99MS, "publish-p99-ms")
	b.ReportMetric(result.PerSecond, "publishes/s")
	b.ReportMetric(float64(recoveries.Load()), "recoveries")
	b.ReportMetric(float64(read.Load()), "messages-read")
	b.ReportMetric(0, "ns/op")
}

// recoverOften reads a partition from first to caught-up again and again, at a pace.
func recoverOften(b *testing.B, ctx context.Context, connect client.Options, i int, recoveries, read *atomic.Uint64) {
	pace := time.NewTicker(indexEvery)
	defer pace.Stop()
	for {
		r, err := load.Read(ctx, load.ReadOptions{Connect: connect, CaughtUp: true,
			Subscribe: client.SubscribeOptions{Filters: []string{fmt.Sprintf("bench/p%d/**", i%indexParts)}, From: client.First()}})
		if ctx.Err() != nil {
			return
		}
		if err != nil || r.Messages < indexKept/indexParts {
			b.Errorf("reader %d: %d messages, %v", i, r.Messages, err)
			return
		}
		recoveries.Add(1)
		read.Add(r.Messages)
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

// process is a node that runs as a process.
type process struct {
	cmd    *exec.Cmd
	client string // address
}

func startNode(b *testing.B, binary string, env ...string) *process {
	cmd := exec.Command(binary, "serve", "--dev")
	cmd.Env = append(os.Environ(), "CANTUS_LISTEN_CLIENT=127.0.0.1:0", "CANTUS_LISTEN_HTTP=127.0.0.1:0", "CANTUS_LISTEN_RAFT=127.0.0.1:0", "CANTUS_LISTEN_GOSSIP=127.0.0.1:0")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, ok := strings.Cut(line, "client ")
	addr, _, _ := strings.Cut(rest, ",")
	if err != nil || !ok {
		b.Fatalf("the node said %q: %v", line, err)
	}
	return &process{cmd: cmd, client: addr}
}

// cpu is what the process has used so far, user and system.
func (p *process) cpu(b *testing.B) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		b.Skipf("processor time of a process: %v", err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * (time.Second / 100) // the kernel counts hundredths for this file
}
