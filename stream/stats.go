package stream

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/statnet"
)

// Stats is a snapshot of a peer's streams. The bytes that slices and lanes use on the network are
// counted in rpc.Stats instead. Those of lanes are part of its channels.
type Stats struct {
	// Sending, Waiting and Receiving count open transfers. A waiting transfer has not sent its
	// header yet.
	Sending, Waiting, Receiving int
	// Sent and Received count completed transfers. Failed counts transfers that ended in any
	// other way, in either direction.
	Sent, Received, Failed uint64
	// BytesSent and BytesReceived count the bytes of encoded content in the parts of all transfers.
	// Content that the receiver already had stored is not sent, and therefore not counted.
	BytesSent, BytesReceived uint64

	// Lanes is the number of open lanes.
	Lanes int
	// PeakOut is the maximum number of entries of its reliable buffer that any lane has had
	// outstanding. Slots is the number of entries of that buffer, or 0 until something is sent on a
	// lane.
	PeakOut, Slots int

	// Slices counts the slices sent. It includes SlicesResent, which counts retransmissions, and
	// SlicesSealed, which counts slices sent in sealed packets.
	Slices, SlicesResent, SlicesSealed uint64
	// RepairSlices counts the redundant slices sent to make up for losses. SlicesRestored counts
	// the lost slices that this end restored from the repair slices that it received.
	RepairSlices, SlicesRestored uint64
	// SlicesRefused counts slices dropped on arrival, because there was no room for them or
	// because they were malformed.
	SlicesRefused uint64

	// Late counts parts and messages dropped because their transfer had ended.
	Late uint64
	// Evicted counts incoming transfers that ended with ErrRejected because they were stuck while
	// others needed their memory.
	Evicted uint64
	// Unstored counts incoming transfers that have a key but continue without the Store, and can't
	// be resumed. The Store was full or busy, or it has a blob under the key of an array.
	Unstored uint64
}

// String formats the numbers as a table of at most 100 columns, which fits below the table of
// rpc.Stats.
func (s Stats) String() string {
	var t statnet.Table
	t.List("Transfers",
		fmt.Sprintf("%d sending", s.Sending),
		fmt.Sprintf("%d waiting", s.Waiting),
		fmt.Sprintf("%d receiving", s.Receiving),
		statnet.Count(s.Sent)+" sent",
		statnet.Count(s.Received)+" received",
		statnet.Count(s.Failed)+" failed")
	t.List("Content",
		statnet.Bytes(float64(s.BytesSent))+" sent",
		statnet.Bytes(float64(s.BytesReceived))+" received")
	lanes := []string{fmt.Sprintf("%d open", s.Lanes)}
	if s.Slots > 0 { // something was sent on a lane
		lanes = append(lanes, fmt.Sprintf("at most %d of %d entries outstanding", s.PeakOut, s.Slots))
	}
	t.List("Lanes", lanes...)
	t.List("Slices",
		statnet.Count(s.Slices)+" sent",
		statnet.Count(s.SlicesResent)+" resent",
		statnet.Count(s.SlicesSealed)+" sealed",
		statnet.Count(s.RepairSlices)+" repair slices",
		statnet.Count(s.SlicesRestored)+" restored")
	t.List("Drops",
		statnet.Count(s.SlicesRefused)+" slices refused",
		statnet.Count(s.Late)+" late",
		statnet.Count(s.Evicted)+" evicted",
		statnet.Count(s.Unstored)+" not stored")
	return t.String()
}

// peerCounts holds what [Peer.Stats] returns, except for the counts of slices, which the slice
// route keeps. It is safe for concurrent use.
type peerCounts struct {
	// Counted as they happen, because a transfer may end on any goroutine.
	sent     atomic.Uint64 // outgoing transfers that the peer consumed
	received atomic.Uint64 // incoming transfers that we consumed
	failed   atomic.Uint64 // transfers that ended in any other way
	unstored atomic.Uint64 // incoming transfers with a key that continue without the store

	// The other counts belong to the world's goroutine, which copies them here in each tick.
	mu   sync.Mutex
	tick Stats // guarded by mu
}

// noteSent counts an outgoing transfer that has ended: as complete if err is nil, otherwise as
// failed.
func (c *peerCounts) noteSent(err error) { c.noteEnd(&c.sent, err) }

// noteReceived counts an incoming transfer that has ended, in the same way.
func (c *peerCounts) noteReceived(err error) { c.noteEnd(&c.received, err) }

// noteEnd adds one to completed or, if err isn't nil, to failed.
func (c *peerCounts) noteEnd(completed *atomic.Uint64, err error) {
	if err != nil {
		c.failed.Add(1)
		return
	}
	completed.Add(1)
}

// setTickStats is called at the end of a tick, and when the connection ends, with the counts that
// the world's goroutine keeps. The other fields of s are zero.
func (c *peerCounts) setTickStats(s Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick = s
}

// tickStats returns what setTickStats was last called with.
func (c *peerCounts) tickStats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tick
}

// stats returns all counts except those of slices: the counts of the last tick, and the current
// values of the atomic counters.
func (c *peerCounts) stats() Stats {
	s := c.tickStats()
	s.Sent = c.sent.Load()
	s.Received = c.received.Load()
	s.Failed = c.failed.Load()
	s.Unstored = c.unstored.Load()
	return s
}
