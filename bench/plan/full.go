package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/scenario"
)

// Full returns the jobs of every table. Each cell of the tables is measured runs times, those of
// start three times and small blobs in virtual time five times as often. The check of the
// emulator, blobs over time, and what would take hours are measured once.
func Full(runs int) []job.Job {
	jobs := emulators()
	jobs = append(jobs, inTurns(cleans(64<<20, runs))...)
	jobs = append(jobs, inTurns(callJobs(3*time.Second, runs))...)
	jobs = append(jobs, inTurns(crowds(5*time.Second, runs, crowdOf{200, 30}, crowdOf{500, 30}, crowdOf{1000, 10}))...)
	jobs = append(jobs, inTurns(lateJoins(runs, rushOf{scenario.ModeDown, 200, 1 << 20}, rushOf{scenario.ModeUp, 64, 4 << 20}, rushOf{scenario.ModeUp, 200, 1 << 20}))...)
	jobs = append(jobs, blocks(1000, runs, 0, 0.01, 0.02, 0.05)...)
	jobs = append(jobs, series(0, 0.01)...)
	jobs = append(jobs, starts(3*runs, 0, 0.01)...)
	jobs = append(jobs, fairs(60*time.Second, runs, 0, 0.01)...)
	jobs = append(jobs, kernels(60*time.Second, runs, "cubic", "bbr")...)
	for _, clock := range []job.Clock{job.Virtual, job.Relay} {
		jobs = append(jobs, plays(clock, 4<<20, 3000, runs, 0, 0.01)...)
		jobs = append(jobs, lanes(clock, time.Minute, runs)...)
	}
	return append(jobs, fullBlobs(runs)...)
}

// inTurns orders all first runs before all second ones, so that a machine whose
// speed drifts favours no peer.
func inTurns(jobs []job.Job) []job.Job {
	slices.SortStableFunc(jobs, func(a, b job.Job) int { return cmp.Compare(a.Run, b.Run) })
	return jobs
}

// Quick returns every contender and every scenario once.
func Quick() []job.Job {
	jobs := emulators()
	jobs = append(jobs, cleans(2<<20, 1)...)
	jobs = append(jobs, callJobs(200*time.Millisecond, 1)...)
	jobs = append(jobs, crowds(time.Second, 1, crowdOf{50, 30})...)
	jobs = append(jobs, lateJoins(1, rushOf{scenario.ModeDown, 50, 1 << 20}, rushOf{scenario.ModeUp, 16, 4 << 20})...)
	jobs = append(jobs, blocks(100, 1, 0.01)...)
	jobs = append(jobs, series(0.01)...)
	jobs = append(jobs, starts(1, 0)...)
	jobs = append(jobs, fairs(10*time.Second, 1, 0)...)
	jobs = append(jobs, kernels(10*time.Second, 1, "cubic")...)
	jobs = append(jobs, plays(job.Virtual, 4<<20, 300, 1, 0.01)...)
	jobs = append(jobs, plays(job.Relay, 1<<20, 60, 1, 0.01)...)
	jobs = append(jobs, lanes(job.Virtual, time.Minute, 1)...)
	return append(jobs, quickBlobs()...)
}

// emulators returns jobs that check the nets. The relay's jobs run alone,
// because they take the whole rate.
func emulators() []job.Job {
	var jobs []job.Job
	for _, clock := range []job.Clock{job.Virtual, job.Relay} {
		for _, rate := range []int64{10e6, 100e6} {
			for _, mode := range []string{scenario.ModeDelay, scenario.ModeRate, scenario.ModeLoss, scenario.ModeQueue} {
				j := job.Job{Scenario: "emulator", Peer: "netsim", Clock: clock, RTT: 50 * ms, Rate: rate, Mode: mode}
				if mode == scenario.ModeLoss {
					j.Loss = 0.02
				}
				if mode == scenario.ModeLoss && rate == 10e6 && clock == job.Relay {
					continue // this would take 40 s and show nothing new
				}
				jobs = append(jobs, repeat(j, 1)...)
			}
		}
	}
	return jobs
}

func cleans(size, runs int) []job.Job {
	var jobs []job.Job
	for _, p := range movers(job.Loopback) {
		jobs = append(jobs, repeat(job.Job{Scenario: "clean", Peer: p, Clock: job.Loopback, Size: size}, runs)...)
	}
	return jobs
}

func callJobs(span time.Duration, runs int) []job.Job {
	var jobs []job.Job
	for _, m := range []struct {
		mode string
		able func(p peer.Peer) bool
	}{
		{scenario.ModeRoundTrip, func(p peer.Peer) bool { return p.Calls }},
		{scenario.ModeChained, func(p peer.Peer) bool { return p.Chains }},
		{scenario.ModePipelined, func(p peer.Peer) bool { return p.Calls }},
		{scenario.ModeOneWay, func(p peer.Peer) bool { return p.Shouts }},
	} {
		for _, p := range who(job.Loopback, m.able) {
			j := job.Job{Scenario: "calls", Peer: p, Clock: job.Loopback, Size: 64, Mode: m.mode, Seconds: span}
			jobs = append(jobs, repeat(j, runs)...)
		}
	}
	return jobs
}

type crowdOf struct{ count, hz int }

func crowds(span time.Duration, runs int, sizes ...crowdOf) []job.Job {
	var jobs []job.Job
	for _, p := range who(job.Loopback, func(p peer.Peer) bool { return p.Gather != nil }) {
		j := job.Job{Scenario: "crowd", Peer: p, Clock: job.Loopback, Seconds: span, Mode: scenario.ModeBothWays}
		for _, c := range sizes {
			j.Count, j.Hz = c.count, c.hz
			jobs = append(jobs, repeat(j, runs)...)
		}
		j.Mode, j.Count, j.Hz = scenario.ModeMulticast, 100, 30
		jobs = append(jobs, repeat(j, runs)...)
	}
	return jobs
}

// A rushOf is a late join of count clients, with a blob of size bytes each.
type rushOf struct {
	mode        string
	count, size int
}

func lateJoins(runs int, rushes ...rushOf) []job.Job {
	var jobs []job.Job
	for _, p := range who(job.Loopback, func(p peer.Peer) bool { return p.Rushes }) {
		for _, r := range rushes {
			j := job.Job{Scenario: "latejoin", Peer: p, Clock: job.Loopback, Mode: r.mode, Count: r.count, Size: r.size}
			jobs = append(jobs, repeat(j, runs)...)
		}
	}
	return jobs
}
