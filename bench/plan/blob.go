package plan

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

const ms = time.Millisecond

// A grid is a table of emulated paths.
type grid struct {
	clock  job.Clock
	rtts   []time.Duration
	losses []float64
	rates  []int64
	sizes  []int
	runs   int
	peers  []string
}

func (g grid) cells(fn func(j job.Job)) {
	for _, size := range g.sizes {
		for _, rate := range g.rates {
			for _, rtt := range g.rtts {
				for _, loss := range g.losses {
					fn(job.Job{Scenario: "blob", Clock: g.clock, RTT: rtt, Loss: loss, Rate: rate, Size: size})
				}
			}
		}
	}
}

// blobs returns the jobs of the grid.
func (g grid) blobs() []job.Job {
	var jobs []job.Job
	g.cells(func(j job.Job) {
		for _, p := range g.peers {
			j.Peer = p
			jobs = append(jobs, repeat(j, g.runs)...)
		}
	})
	return jobs
}

// movers returns the peers that can move blobs by that clock.
func movers(clock job.Clock) []string { return who(clock, func(p peer.Peer) bool { return p.Moves }) }

// who returns the names of the peers that run by that clock and for which able returns true.
func who(clock job.Clock, able func(p peer.Peer) bool) []string {
	var names []string
	for _, p := range peer.All() {
		if able(p) && p.Runs(clock) {
			names = append(names, p.Name)
		}
	}
	return names
}

// smallRuns is how many times as often small blobs are measured in virtual time. It costs little,
// and their times have two peaks, between which the median of three runs jumps.
const smallRuns = 5

func fullBlobs(runs int) []job.Job {
	g := grid{
		clock: job.Virtual, runs: smallRuns * runs, peers: movers(job.Virtual),
		rtts:   []time.Duration{20 * ms, 50 * ms, 100 * ms, 200 * ms},
		losses: []float64{0, 0.01, 0.02, 0.05, 0.1},
		rates:  []int64{10e6, 100e6},
		sizes:  []int{256 << 10},
	}
	jobs := g.blobs()
	g.runs, g.sizes = runs, []int{4 << 20, 32 << 20}
	jobs = append(jobs, g.blobs()...)
	jobs = append(jobs, large(runs)...)
	g.clock, g.sizes, g.peers = job.Relay, []int{256 << 10}, movers(job.Relay)
	jobs = append(jobs, g.blobs()...)
	g.sizes, g.rates = []int{4 << 20}, []int64{10e6}
	jobs = append(jobs, g.blobs()...)
	// Otherwise this takes hours: few of the fast paths fit the machine at
	// once, and 32 MiB take 27 s at best on the slow ones.
	g.runs, g.peers = 1, realTimers()
	g.sizes = []int{32 << 20}
	jobs = append(jobs, g.blobs()...)
	g.rates, g.sizes = []int64{100e6}, []int{4 << 20, 32 << 20}
	return append(jobs, g.blobs()...)
}

// large returns blobs of 32 MiB over a path that holds 6 MB.
func large(runs int) []job.Job {
	g := grid{
		clock: job.Virtual, runs: runs, peers: movers(job.Virtual), rtts: []time.Duration{50 * ms}, losses: []float64{0, 0.001},
		rates: []int64{1e9}, sizes: []int{32 << 20},
	}
	return g.blobs()
}

// realTimers returns the peers that move blobs in real time only, and a few for
// comparison with virtual time.
func realTimers() []string {
	bridge := []string{"quiver/lanes", "quiver/slices+sealed", "quic-go/stream"}
	return who(job.Relay, func(p peer.Peer) bool {
		return p.Moves && (!p.Runs(job.Virtual) || slices.Contains(bridge, p.Name))
	})
}

func quickBlobs() []job.Job {
	g := grid{
		clock: job.Virtual, runs: 1, peers: movers(job.Virtual), rtts: []time.Duration{50 * ms}, losses: []float64{0, 0.01},
		rates: []int64{10e6}, sizes: []int{256 << 10, 4 << 20},
	}
	jobs := g.blobs()
	g.clock, g.peers, g.losses, g.sizes = job.Relay, movers(job.Relay), []float64{0.01}, []int{256 << 10}
	return append(jobs, g.blobs()...)
}
