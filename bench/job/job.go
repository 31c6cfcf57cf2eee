// Package job describes one measurement and its result.
package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Clock says in whose time a figure is. A table has one clock only.
type Clock string

const (
	Virtual  Clock = "virtual"  // a testing/synctest bubble over netsim's sockets
	Relay    Clock = "relay"    // real time, real sockets, netsim.Relay between them
	Loopback Clock = "loopback" // real time, real sockets, nothing between them
)

// A Job is one measurement. A worker process runs one.
type Job struct {
	Scenario string
	Peer     string
	Clock    Clock

	// The path, the same in both directions; zero if the clock is Loopback.
	RTT  time.Duration `json:",omitempty"`
	Loss float64       `json:",omitempty"`
	Rate int64         `json:",omitempty"` // bit/s

	Size    int           `json:",omitempty"` // bytes of a blob, an argument or a block
	Count   int           `json:",omitempty"` // connections, or calls in flight
	Hz      int           `json:",omitempty"` // ticks a second
	Mode    string        `json:",omitempty"` // what the scenario distinguishes further
	Seconds time.Duration `json:",omitempty"` // how long it measures
	After   time.Duration `json:",omitempty"` // when it begins, since the end of the handshake; scenario start only

	Run  int    // 0, 1, 2 …
	Seed uint64 // seed of the path
}

// Row returns everything but the peer and the run, as the name of a row of a table.
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

// Cell returns everything but the run.
func (j Job) Cell() string {
	return fmt.Sprintf("%s/%s/%s/%s", j.Scenario, j.Clock, j.Peer, j.Row())
}

func (j Job) String() string { return fmt.Sprintf("%s #%d", j.Cell(), j.Run+1) }

// Ideal returns RTT/2 + bytes*8/rate/(1-loss), without headers: the least time
// in which the last byte can arrive.
func (j Job) Ideal() time.Duration {
	if j.Rate == 0 {
		return j.RTT / 2
	}
	return j.RTT/2 + time.Duration(float64(j.Size)*8/float64(j.Rate)/(1-j.Loss)*float64(time.Second))
}

const (
	minLimit    = 30 * time.Second
	idealsLimit = 10
)

// Limit returns after how long a transfer is cut.
func (j Job) Limit() time.Duration { return max(minLimit, idealsLimit*j.Ideal()) }

// Stolen is the name of the value that says which share of the cores' time the
// host gave to others during a run in real time.
const Stolen = "stolen_share"

// Disturbed is the beginning of the note of a run in real time that the machine
// disturbed, and that was no better when it was repeated.
const Disturbed = "the machine stood still for "

// A Result is the result of a job.
type Result struct {
	Job
	Values  map[string]float64   `json:",omitempty"` // by name, with the unit in the name
	Samples []float64            `json:",omitempty"` // milliseconds, in the order of arrival
	Series  map[string][]float64 `json:",omitempty"` // over time, one value per Step
	Step    time.Duration        `json:",omitempty"`
	Notes   []string             `json:",omitempty"`

	Cut bool   `json:",omitempty"` // not complete at the limit
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
