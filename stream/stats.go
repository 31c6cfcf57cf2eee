package stream

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/statnet"
)

// Stats is a snapshot of a peer's streams. The bytes of slices are counted in rpc.Stats, which
// also counts the bytes of lanes, as part of the channels.
type Stats struct {
	// Sending, Waiting and Receiving count open transfers. Waiting transfers have not sent their
	// header yet.
	Sending, Waiting, Receiving int
	// Sent and Received count completed transfers. Failed counts transfers that ended in any
	// other way, in either direction.
	Sent, Received, Failed uint64
	// BytesSent and BytesReceived count the encoded content in the parts of all transfers,
	// which does not include resumed content.
	BytesSent, BytesReceived uint64

	// Lanes is the number of open lanes.
	Lanes int
	// PeakOut is the maximum number of entries that any lane has had outstanding. Slots is the
	// size of a lane's buffer, in entries.
	PeakOut, Slots int

	// Slices counts the slices sent. It includes SlicesResent, which were sent again, and
	// SlicesSealed, which were sent in sealed packets.
	Slices, SlicesResent, SlicesSealed uint64
	// RepairSlices counts the repair slices sent. SlicesRestored counts the slices that this
	// end has restored from the repair slices that it received.
	RepairSlices, SlicesRestored uint64
	// SlicesRefused counts slices dropped on arrival, because there was no room for them or
	// because they were malformed.
	SlicesRefused uint64

	// Late counts parts and messages dropped because their transfer had ended.
	Late uint64
	// Evicted counts incoming transfers that were stuck while others needed their memory, and
	// therefore ended with ErrRejected.
	Evicted uint64
	// Unstored counts incoming transfers that continue without the Store although they have a key,
	// so that they cannot be resumed. The Store was full or busy, or it has a blob under the key of
	// an array.
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
		"slices refused "+statnet.Count(s.SlicesRefused),
		"late "+statnet.Count(s.Late),
		"evicted "+statnet.Count(s.Evicted),
		"not stored "+statnet.Count(s.Unstored))
	return t.String()
}

// peerCounts holds what [Peer.Stats] returns, except for the counts of slices. It is safe for
// concurrent use.
type peerCounts struct {
	sent     atomic.Uint64 // outgoing transfers that the peer consumed
	received atomic.Uint64 // incoming transfers that we consumed
	failed   atomic.Uint64 // transfers that ended in any other way
	unstored atomic.Uint64 // incoming transfers with a key that continue without the store

	mu    sync.Mutex // guards other
	other Stats      // the other counts, as of the last tick
}

// noteSent counts an outgoing transfer that has ended with err, or is complete if err is nil.
func (c *peerCounts) noteSent(err error) { c.noteEnd(&c.sent, err) }

// noteReceived counts an incoming transfer that has ended with err, or is complete if err is nil.
func (c *peerCounts) noteReceived(err error) { c.noteEnd(&c.received, err) }

func (c *peerCounts) noteEnd(completed *atomic.Uint64, err error) {
	if err != nil {
		c.failed.Add(1)
		return
	}
	completed.Add(1)
}

// update replaces the counts that lastTick returns.
func (c *peerCounts) update(now Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.other = now
}

// lastTick returns the counts that the last tick stored.
func (c *peerCounts) lastTick() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.other
}

// stats returns lastTick with the current counts of transfers that have ended or aren't stored.
func (c *peerCounts) stats() Stats {
	s := c.lastTick()
	s.Sent = c.sent.Load()
	s.Received = c.received.Load()
	s.Failed = c.failed.Load()
	s.Unstored = c.unstored.Load()
	return s
}
