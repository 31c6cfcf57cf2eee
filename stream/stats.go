package stream

import (
	"fmt"
	"math"
	"time"

	"github.com/quivernet/quiver/internal/statnet"
)

// Progress is a snapshot of a transfer. It counts bytes of a blob, or elements of an array.
type Progress struct {
	// Sent is the amount that the sender has given to the connection, which may still be queuing
	// some of it. At the receiver, it is the amount that has arrived in order.
	Sent int64
	// Acked is the amount that the receiving application has consumed, as far as this end knows.
	// This is what a progress bar should show. At the sender, Sent and Acked begin at Resumed,
	// although the receiving application may not have got that content yet.
	Acked int64
	// Total is the size of the content, or -1 while that is unknown.
	Total int64
	// Resumed is the amount that the receiver had stored before the transfer began. It was not
	// sent again.
	Resumed int64
	// Rate is the growth of Acked per second, excluding Resumed. It is measured over the last 5
	// to 6 seconds, or since the transfer began. Once the transfer is complete, it is the mean
	// over the whole duration.
	//
	// Rate is 0 in the first half second, while nothing has moved for 5 seconds, and once the
	// transfer has failed. Measuring it takes neither a goroutine nor a timer.
	Rate float64
}

// Left estimates how long the rest of the transfer takes at its Rate. It returns 0 if nothing is
// left. ok is false if there is no estimate, either because Total is unknown, or because Rate is
// 0: the transfer has just begun, is waiting, or has stalled.
func (p Progress) Left() (left time.Duration, ok bool) {
	rest := p.Total - max(p.Acked, p.Resumed)
	nanoseconds := float64(rest) / p.Rate * float64(time.Second)
	switch {
	case p.Total < 0:
		return 0, false
	case rest <= 0:
		return 0, true
	case !(nanoseconds < math.MaxInt64): // true for NaN
		return 0, false
	}
	return time.Duration(nanoseconds), true
}

// String formats the progress: "2,048 sent, 1,024 of 4,096 acked (25.0 %), 512 resumed, 256 a
// second, 12s left".
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
	// Unstored counts incoming transfers that go on without the Store although they have a key,
	// so that they cannot be resumed. The Store was full or busy, or it keeps a blob under the
	// key of an array.
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
		lanes = append(lanes, fmt.Sprintf("at most %d of %d entries out", s.PeakOut, s.Slots))
	}
	t.List("Lanes", lanes...)
	t.List("Slices",
		statnet.Count(s.Slices)+" sent",
		statnet.Count(s.SlicesResent)+" of them again",
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
