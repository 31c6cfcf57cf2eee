package stream

import (
	"fmt"
	"math"
	"time"

	"github.com/quivernet/quiver/internal/statnet"
)

// Progress is a snapshot of a transfer, in bytes of a blob or elements of an array.
type Progress struct {
	// Sent counts the content that the sender has given to the connection, which may still
	// queue some of it. At the receiver it counts the content that has arrived in order.
	Sent int64
	// Acked counts the content that the receiving application has consumed, as far as
	// this end knows. A progress bar should show it. At the sender, Sent and Acked begin
	// at Resumed, although the receiving application has not been given that content yet.
	Acked int64
	// Total is the size of the content, or -1 while that is unknown.
	Total int64
	// Resumed counts the content that the receiver had stored before the
	// transfer began, and that was not sent again.
	Resumed int64
	// Rate is by how much Acked has grown per second, over the last 5 to 6 seconds or since
	// the transfer began, without Resumed. It is 0 in the first half second, if nothing has
	// moved for 5 seconds, and once the transfer has failed. For a complete transfer it is
	// the mean over its whole duration. Measuring it takes no goroutine and no timer.
	Rate float64
}

// Left estimates how long the rest of the transfer takes at its Rate. It returns
// 0 if nothing is left. ok is false if this is unknown: if Total is unknown, or
// if Rate is 0 because the transfer has just begun, waits or has stalled.
func (p Progress) Left() (left time.Duration, ok bool) {
	rest := p.Total - max(p.Acked, p.Resumed)
	nanoseconds := float64(rest) / p.Rate * float64(time.Second)
	switch {
	case p.Total < 0:
		return 0, false
	case rest <= 0:
		return 0, true
	case !(nanoseconds < math.MaxInt64): // also if it is NaN
		return 0, false
	}
	return time.Duration(nanoseconds), true
}

// String formats the progress: "2,048 sent, 1,024 of 4,096 acked (25.0 %), 512
// resumed, 256 a second, 12s left".
func (p Progress) String() string {
	text := statnet.Count(uint64(p.Sent)) + " sent, " + statnet.Count(uint64(p.Acked))
	if p.Total >= 0 {
		text += " of " + statnet.Count(uint64(p.Total))
	}
	text += " acked"
	if p.Total > 0 {
		text += " (" + statnet.Percent(float64(p.Acked)/float64(p.Total)) + ")"
	}
	if p.Resumed > 0 {
		text += ", " + statnet.Count(uint64(p.Resumed)) + " resumed"
	}
	if p.Rate > 0 {
		text += ", " + statnet.Count(uint64(math.Ceil(p.Rate))) + " a second"
	}
	if left, ok := p.Left(); ok && left > 0 {
		text += ", " + left.Round(time.Second).String() + " left"
	}
	return text
}

// of formats n, and the total if that is known.
func (p Progress) of(n int64) string {
	if p.Total < 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, p.Total)
}

// Stats is a snapshot of a peer's streams. rpc.Stats counts the bytes of
// slices, and counts lanes as channels.
type Stats struct {
	Sending, Waiting, Receiving int // transfers; waiting ones have not sent their header
	// Transfers that were completed, and those that ended otherwise, in either direction.
	Sent, Received, Failed   uint64
	BytesSent, BytesReceived uint64 // of encoded content, in the parts of all transfers, without what was resumed
	Lanes                    int    // open lanes
	// The most entries that any lane has had outstanding, and the size of its buffer.
	PeakOut, Slots               int
	Slices, SlicesResent         uint64 // sent, and how many of these were sent again
	SlicesSealed                 uint64 // how many of Slices were sent in sealed packets
	RepairSlices, SlicesRestored uint64 // repair slices sent; slices that this end restored from received ones
	SlicesRefused                uint64 // dropped on arrival: no room, or malformed
	Late                         uint64 // parts and messages that were dropped because their transfer had ended
	// Evicted counts incoming transfers that were stuck while others needed
	// their memory. They ended with ErrRejected.
	Evicted uint64
	// Unstored counts incoming transfers with a key that the Store does not
	// keep, because it was full or busy, or because it keeps a blob under the
	// key of an array. They continue, but they cannot be resumed.
	Unstored uint64
}

// String formats the numbers as a table of at most 100 columns, which fits below that of rpc.Stats.
func (s Stats) String() string {
	var t statnet.Table
	t.List("Transfers", fmt.Sprintf("%d sending", s.Sending), fmt.Sprintf("%d waiting", s.Waiting), fmt.Sprintf("%d receiving", s.Receiving),
		statnet.Count(s.Sent)+" sent", statnet.Count(s.Received)+" received", statnet.Count(s.Failed)+" failed")
	t.List("Content", statnet.Bytes(float64(s.BytesSent))+" sent", statnet.Bytes(float64(s.BytesReceived))+" received")
	lanes := []string{fmt.Sprintf("%d open", s.Lanes)}
	if s.Slots > 0 { // something was sent on a lane
		lanes = append(lanes, fmt.Sprintf("at most %d of %d entries out", s.PeakOut, s.Slots))
	}
	t.List("Lanes", lanes...)
	t.List("Slices", statnet.Count(s.Slices)+" sent", statnet.Count(s.SlicesResent)+" of them again", statnet.Count(s.SlicesSealed)+" sealed",
		statnet.Count(s.RepairSlices)+" repair slices", statnet.Count(s.SlicesRestored)+" restored")
	t.List("Drops", "slices refused "+statnet.Count(s.SlicesRefused), "late "+statnet.Count(s.Late), "evicted "+statnet.Count(s.Evicted), "not stored "+statnet.Count(s.Unstored))
	return t.String()
}
