package plan

import (
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/scenario"
)

// home returns the path of most comparisons: 10 Mbit/s and 50 ms.
func home(loss float64) job.Job {
	return job.Job{Clock: job.Virtual, RTT: 50 * ms, Loss: loss, Rate: 10e6}
}

// blocks returns one-shot blocks of 2, 10, 100 and 255 fragments.
func blocks(count, runs int, losses ...float64) []job.Job {
	var jobs []job.Job
	for _, p := range who(job.Virtual, func(p peer.Peer) bool { return p.Throws }) {
		for _, size := range []int{2 << 10, 10 << 10, 100 << 10, 255 << 10} {
			for _, loss := range losses {
				j := home(loss)
				j.Scenario, j.Peer, j.Size, j.Count = "block", p, size, count
				jobs = append(jobs, repeat(j, runs)...)
			}
		}
	}
	return jobs
}

// series returns single blobs whose rate and queue are drawn over time.
func series(losses ...float64) []job.Job {
	var jobs []job.Job
	for _, loss := range losses {
		for _, p := range movers(job.Virtual) {
			j := home(loss)
			j.Scenario, j.Peer, j.Size, j.Mode = "blob", p, 4<<20, scenario.ModeSeries
			jobs = append(jobs, repeat(j, 1)...)
		}
	}
	return jobs
}

// starts returns blobs that begin soon after the handshake, when path MTU
// discovery, keys and the choice of the carrier are not complete.
func starts(runs int, losses ...float64) []job.Job {
	var jobs []job.Job
	for _, loss := range losses {
		for _, after := range []time.Duration{0, 25 * ms, 50 * ms, 75 * ms, 100 * ms, time.Second} {
			for _, p := range movers(job.Virtual) {
				j := job.Job{Scenario: "start", Clock: job.Virtual, RTT: 50 * ms, Loss: loss, Rate: 100e6, Peer: p, Size: 256 << 10, After: after}
				jobs = append(jobs, repeat(j, runs)...)
			}
		}
	}
	return jobs
}

// fairs returns each contender beside a QUIC stream, and the stream alone.
func fairs(span time.Duration, runs int, losses ...float64) []job.Job {
	var jobs []job.Job
	for _, loss := range losses {
		j := home(loss)
		j.Scenario, j.Rate, j.Size, j.Seconds = "fair", 20e6, 32<<20, span
		j.Peer, j.Mode = "quic-go/stream", scenario.ModeAlone
		jobs = append(jobs, repeat(j, runs)...)
		j.Mode = scenario.ModeBeside
		for _, p := range movers(job.Virtual) {
			j.Peer = p
			jobs = append(jobs, repeat(j, runs)...)
		}
	}
	return jobs
}

// kernels returns contenders beside the kernel's TCP, if a tunnel can carry both.
func kernels(span time.Duration, runs int, controls ...string) []job.Job {
	if !emulate.CanTunnel() {
		return nil
	}
	var jobs []job.Job
	for _, control := range controls {
		for _, p := range []string{"quiver/slices+sealed", "quiver/slices", "quic-go/stream"} {
			j := home(0)
			j.Scenario, j.Clock, j.Peer, j.Rate, j.Size, j.Seconds, j.Mode = "kernel", job.Relay, p, 20e6, 32<<20, span, control
			jobs = append(jobs, repeat(j, runs)...)
		}
	}
	return jobs
}

func talkers(clock job.Clock) []string {
	return who(clock, func(p peer.Peer) bool { return p.Talks })
}

// plays returns messages alone and beside a blob.
func plays(clock job.Clock, size, messages, runs int, losses ...float64) []job.Job {
	var jobs []job.Job
	for _, loss := range losses {
		for _, p := range talkers(clock) {
			j := home(loss)
			j.Scenario, j.Clock, j.Peer, j.Size, j.Hz, j.Count = "play", clock, p, size, 30, messages
			j.Mode = scenario.ModeAlone
			jobs = append(jobs, repeat(j, runs)...)
			j.Mode = scenario.ModeBeside
			jobs = append(jobs, repeat(j, runs)...)
		}
	}
	return jobs
}

// laneRate is GameNetworkingSockets' 256 KB/s, in bit/s.
const laneRate = 256 * 1024 * 8

func lanes(clock job.Clock, span time.Duration, runs int) []job.Job {
	var jobs []job.Job
	for _, p := range talkers(clock) {
		j := home(0.02)
		j.Scenario, j.Clock, j.Peer, j.Rate, j.Size, j.Hz, j.Seconds = "lane", clock, p, laneRate, 512<<10, 30, span
		jobs = append(jobs, repeat(j, runs)...)
	}
	return jobs
}
