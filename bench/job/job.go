// Package job describes one measurement and its result.
package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Clock is the clock by which a job is measured. All jobs of a table have the same one.
type Clock string

const (
	Virtual  Clock = "virtual"  // a testing/synctest bubble over netsim's sockets
	Relay    Clock = "relay"    // real time, real sockets, netsim.Relay between them
	Loopback Clock = "loopback" // real time, real sockets, nothing between them
)

// A Job is one measurement. A worker process runs a single job.
type Job struct {
	Scenario string
	Peer     string
	Clock    Clock

	// The path, which is the same in both directions; zero if the clock is Loopback.
	RTT  time.Duration `json:",omitempty"`
	Loss float64       `json:",omitempty"`
	Rate int64         `json:",omitempty"` // bit/s

	Size    int           `json:",omitempty"` // bytes of a blob, an argument or a block
	Count   int           `json:",omitempty"` // connections, or calls in flight
	Hz      int           `json:",omitempty"` // ticks a second
	Mode    string        `json:",omitempty"` // the scenario's variant
	Seconds time.Duration `json:",omitempty"` // how long it measures
	After   time.Duration `json:",omitempty"` // when it begins, since the end of the handshake; only for scenario start

	Run  int    // 0, 1, 2 …
	Seed uint64 // seed of the path
}

// Row returns the name of the job's row in a table: everything except the peer and the run.
func (j Job) Row() string {
	var parts []string
	add := func(shown bool, format string, v any) {
		if shown {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add(j.Rate > 0, "%s", Rate(j.Rate))
	add(j.RTT > 0, "%v", j.RTT)
	add(j.RTT > 0, "%s", Share(j.Loss))
	add(j.Size > 0, "%s", Bytes(j.Size))
	add(j.Count > 0, "n=%d", j.Count)
	add(j.Hz > 0, "%d Hz", j.Hz)
	add(j.Scenario == "start", "%v after the handshake", j.After)
	add(j.Mode != "", "%s", j.Mode)
	return strings.Join(parts, ", ")
}

// Cell returns the name of the job's cell in a table: everything except the run.
func (j Job) Cell() string {
	return fmt.Sprintf("%s/%s/%s/%s", j.Scenario, j.Clock, j.Peer, j.Row())
}

func (j Job) String() string { return fmt.Sprintf("%s #%d", j.Cell(), j.Run+1) }

// Ideal returns RTT/2 + bytes*8/rate/(1-loss), the minimum time in which the last byte can arrive,
// without headers.
func (j Job) Ideal() time.Duration {
	if j.Rate == 0 {
		return j.RTT / 2
	}
	return j.RTT/2 + time.Duration(float64(j.Size)*8/float64(j.Rate)/(1-j.Loss)*float64(time.Second))
}

// A transfer is cut after idealsLimit times the ideal, or after minLimit if that is longer.
const (
	minLimit    = 30 * time.Second
	idealsLimit = 10
)

// Limit returns how long a transfer may take before it is cut.
func (j Job) Limit() time.Duration { return max(minLimit, idealsLimit*j.Ideal()) }

// Stolen is the name of the value for the share of the cores' time that the host gave to others
// during a run in real time.
const Stolen = "stolen_share"

// Disturbed begins the note of a run in real time that the machine disturbed, even when the run was
// repeated.
const Disturbed = "the machine stood still for "

// A Result is the result of a job.
type Result struct {
	Job
	Values  map[string]float64   `json:",omitempty"` // by name, with the unit in the name
	Samples []float64            `json:",omitempty"` // milliseconds, in the order of arrival
	Series  map[string][]float64 `json:",omitempty"` // over time, one value per Step
	Step    time.Duration        `json:",omitempty"`
	Notes   []string             `json:",omitempty"`

	Cut bool   `json:",omitempty"` // not complete within Limit
	Err string `json:",omitempty"` // why there are no values; "" = no error
}

// Disturbed reports whether the machine disturbed the run.
func (r *Result) Disturbed() bool {
	return slices.ContainsFunc(r.Notes, func(note string) bool { return strings.HasPrefix(note, Disturbed) })
}

// Set sets a value.
func (r *Result) Set(name string, v float64) {
	if r.Values == nil {
		r.Values = make(map[string]float64)
	}
	r.Values[name] = v
}
