// Package scenario defines what is measured. A scenario runs one job, in a separate worker process.
package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// settleTime is the pause between the handshake and the measurement, during which path MTU
// discovery and the exchange of keys finish.
const settleTime = time.Second

// settleLoopback is the same pause on the loopback.
const settleLoopback = 300 * time.Millisecond

// openTime is how long connecting may take.
const openTime = 10 * time.Second

// scenarios are all scenarios by name.
var scenarios = map[string]func(ctx context.Context, j job.Job, r *job.Result) error{
	"emulator": emulator,
	"blob":     blob,
	"start":    blob,
	"clean":    clean,
	"play":     play,
	"lane":     lane,
	"calls":    calls,
	"block":    block,
	"fair":     fair,
	"kernel":   kernel,
	"crowd":    crowd,
	"latejoin": latejoin,
}

// Names returns the sorted names of the scenarios.
func Names() []string {
	var names []string
	for name := range scenarios {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run runs one job.
func Run(ctx context.Context, j job.Job) job.Result {
	r := job.Result{Job: j}
	run := scenarios[j.Scenario]
	if run == nil {
		r.Err = fmt.Sprintf("unknown scenario %q", j.Scenario)
		return r
	}
	if err := run(ctx, j, &r); err != nil {
		r.Err = err.Error()
	}
	return r
}

// A stage is a connected pair and the net between its ends.
type stage[P peer.Pair] struct {
	net  emulate.Net
	pair P
}

// open connects a pair of the job's peer. It fails if the pair doesn't implement P, which is what
// the scenario needs.
func open[P peer.Pair](ctx context.Context, j job.Job) (s stage[P], err error) {
	who, err := peer.Find(j.Peer)
	if err != nil {
		return s, err
	}
	build := emulate.New
	if who.Tunneled && j.Clock == job.Relay {
		build = func(j job.Job) (emulate.Net, error) { return emulate.NewTunnel(j) }
	}
	if s.net, err = build(j); err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	pair, err := who.Open(ctx, s.net)
	if err != nil {
		s.net.Close()
		return s, fmt.Errorf("open %s: %w", who.Name, err)
	}
	able, ok := pair.(P)
	if !ok {
		pair.Close()
		s.net.Close()
		return s, fmt.Errorf("%s does not support scenario %s", who.Name, j.Scenario)
	}
	s.pair = able
	time.Sleep(settle(j))
	return s, nil
}

// settle returns how long after the handshake a job begins.
func settle(j job.Job) time.Duration {
	switch {
	case j.Scenario == "start":
		return j.After
	case j.Clock == job.Loopback:
		return settleLoopback
	default:
		return settleTime
	}
}

func (s stage[P]) close() {
	s.pair.Close()
	s.net.Close()
}

// content returns bytes that can't be compressed.
func content(size int, seed uint64) []byte {
	var key [32]byte
	for i := range key {
		key[i] = byte(seed >> (i % 8 * 8))
	}
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(data)
	return data
}
