package stream

import (
	"fmt"
	"math"
	"time"

	"github.com/quivernet/quiver/internal/statnet"
)

// Progress is a snapshot of a transfer, in bytes of a blob or elements of an array.
type Progress struct {
	// Sent counts the content that the sender has given to the connection, where some of it may still wait; at the receiver, the
	// content that has arrived in order.
	Sent int64
	// Acked counts the content that the receiving application has consumed, as far as this end knows. Show it in a progress bar. At the
	// sender Sent and Acked begin at Resumed, although the receiving application has yet to be handed that.
	Acked int64
	// Total is -1 while it is not known.
	Total int64
	// Resumed counts the content that the receiver had stored before the transfer began, and that was not sent again.
	Resumed int64
	// Rate is how much Acked has grown a second, in the last 5 to 6 seconds or since the transfer began; what was Resumed does not count. It is
	// 0 in the first half second, when nothing has moved for 5 seconds, and once the transfer has failed. Of a complete transfer it is the mean
	// of all of its time. No goroutine or timer runs to measure it.
	Rate float64
}

// Left estimates how long the transfer takes to bring the rest at its Rate, and is 0 when there is none. ok is false if nobody can tell:
// Total is not known, or Rate is 0, because the transfer has just begun, waits or stands still.
func (p Progress) Left() (left time.Duration, ok bool) {
	rest := p.Total - max(p.Acked, p.Resumed)
	nanoseconds := float64(rest) / p.Rate * float64(time.Second)
	switch {
	case p.Total < 0:
		return 0, false
	case rest <= 0:
		return 0, true
	case !(nanoseconds < math.MaxInt64): // nor when it is no number
		return 0, false
	}
	return time.Duration(nanoseconds), true
}

// String says how far the transfer is: "2,048 sent, 1,024 of 4,096 acked (25.0 %), 512 resumed, 256 a second, 12s left".
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

// Stats is a snapshot of a peer's streams. rpc.Stats has the bytes of slices, and counts lanes as channels.
type Stats struct {
	Sending, Waiting, Receiving  int    // transfers; those that wait have not sent their header
	Sent, Received, Failed       uint64 // transfers that were completed, and those that ended otherwise, in either direction
	BytesSent, BytesReceived     uint64 // of content, encoded, in parts of all transfers; what was resumed is not among them
	Lanes                        int    // open
	PeakOut, Slots               int    // the most entries that a lane ever had outstanding, and how many its buffer has
	Slices, SlicesResent         uint64 // sent, and how many of those again
	SlicesSealed                 uint64 // how many of those sent left in sealed packets
	RepairSlices, SlicesRestored uint64 // repair slices sent; slices that this end restored from those that came
	SlicesRefused                uint64 // dropped on arrival: no room, or malformed
	Late                         uint64 // parts and messages that were dropped because their transfer had ended
	// Evicted counts incoming transfers that were stuck while others needed their memory. They ended with ErrRejected.
	Evicted uint64
	// Unstored counts incoming transfers with a key that the Store does not keep: it was full or busy, or it keeps a blob under the key of an
	// array. They go on, but they cannot be resumed.
	Unstored uint64
}

// String formats the numbers as a table of at most 100 columns, which fits below that of rpc.Stats.
func (s Stats) String() string {
	var t statnet.Table
	t.List("Transfers", fmt.Sprintf("%d sending", s.Sending), fmt.Sprintf("%d waiting", s.Waiting), fmt.Sprintf("%d receiving", s.Receiving),
		statnet.Count(s.Sent)+" sent", statnet.Count(s.Received)+" received", statnet.Count(s.Failed)+" failed")
	t.List("Content", statnet.Bytes(float64(s.BytesSent))+" sent", statnet.Bytes(float64(s.BytesReceived))+" received")
	lanes := []string{fmt.Sprintf("%d open", s.Lanes)}
	if s.Slots > 0 { // something was sent on one
		lanes = append(lanes, fmt.Sprintf("at most %d of %d entries out", s.PeakOut, s.Slots))
	}
	t.List("Lanes", lanes...)
	t.List("Slices", statnet.Count(s.Slices)+" sent", statnet.Count(s.SlicesResent)+" of them again", statnet.Count(s.SlicesSealed)+" sealed",
		statnet.Count(s.RepairSlices)+" repair slices", statnet.Count(s.SlicesRestored)+" restored")
	t.List("Drops", "slices refused "+statnet.Count(s.SlicesRefused), "late "+statnet.Count(s.Late), "evicted "+statnet.Count(s.Evicted), "not stored "+statnet.Count(s.Unstored))
	return t.String()
}
