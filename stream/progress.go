package stream

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/statnet"
	"github.com/quivernet/quiver/rpc"
)

// Progress is a snapshot of a transfer. Its fields, and their texts in String, count bytes of a
// blob, or elements of an array.
type Progress struct {
	// Sent is the amount that the sender has passed to the connection, which may still have some
	// of it queued. At the receiver, Sent is the amount that has arrived in order.
	Sent int64
	// Acked is the amount that the receiving application has consumed, as far as this end knows.
	// This is what a progress bar should show. At the sender, Sent and Acked begin at Resumed,
	// although the receiving application may not have consumed that content yet.
	Acked int64
	// Total is the size of the content, or -1 while that is unknown.
	Total int64
	// Resumed is the amount that the receiver had stored before the transfer began. It was not
	// sent again.
	Resumed int64
	// Rate is the growth of Acked in bytes or elements per second, excluding Resumed. It is
	// measured over the last 5 to 6 seconds, or since the transfer began. Once the transfer is
	// complete, Rate is the mean over the whole duration.
	//
	// Rate is 0 in the first half second, after 5 seconds without progress, and once the transfer
	// has failed. Measuring it takes neither a goroutine nor a timer.
	Rate float64
}

// Left estimates how long the rest of the transfer takes at its Rate. It returns 0 if nothing is
// left. ok is false if there is no estimate, either because Total is unknown or because Rate is 0,
// which means that the transfer has just begun, is waiting, or has stalled.
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

// of formats n, followed by the total if that is known.
func (p Progress) of(n int64) string {
	if p.Total < 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, p.Total)
}

const (
	// speedTime is the period over which the speed is measured. It is long enough to include
	// several of the receiver's reports, but short enough that estimates of the remaining time
	// soon recover after a change.
	speedTime = 5 * time.Second
	// speedStep is the minimum time between a mark and the second mark before it.
	speedStep = time.Second
	// minSpeedTime is the minimum duration of a transfer before it has a speed, because the content
	// that arrives in the first moment would result in a huge speed.
	minSpeedTime = time.Second / 2
)

// A speed measures how fast a transfer's Acked grows. The zero speed hasn't been started and always
// returns 0. Guarded by the lock of the transfer.
type speed struct {
	begin  time.Time // set by start
	resume int64     // Acked at begin

	// marks is a ring of the newest marks. note overwrites the newest mark, instead of adding
	// another, until speedStep has passed since the second newest. The ring therefore reaches back
	// at least speedTime, however often Acked changes.
	marks [2*int(speedTime/speedStep) + 2]speedMark
	count int // number of marks ever made

	// Set by end.
	ended bool    // the transfer is complete
	mean  float64 // bytes or elements per second from start to end
}

// A speedMark is the value of Acked at some time.
type speedMark struct {
	after time.Duration // since begin
	acked int64
}

// start begins the measurement. acked is the value of Acked at this time, which is more than 0 if
// the transfer is resumed.
func (s *speed) start(now time.Time, acked int64) {
	*s = speed{begin: now, resume: acked, count: 1}
	s.marks[0].acked = acked
}

// mark returns the nth newest mark, where 1 is the newest.
func (s *speed) mark(n int) *speedMark { return &s.marks[(s.count-n)%len(s.marks)] }

// note records the value of Acked at now, if it has changed.
func (s *speed) note(now time.Time, acked int64) {
	after := now.Sub(s.begin)
	switch {
	case s.count == 0 || acked == s.mark(1).acked:
		return
	case s.count == 1 || after-s.mark(2).after >= speedStep:
		s.count++ // keep the newest mark and add another one
	}
	*s.mark(1) = speedMark{after, acked}
}

// end is called when the transfer is complete. From then on, its speed is the mean over its whole
// duration.
func (s *speed) end(now time.Time, acked int64) {
	duration := now.Sub(s.begin).Seconds()
	if s.count > 0 && duration > 0 {
		s.mean = float64(acked-s.resume) / duration
	}
	s.ended = true
}

// at returns the speed at the given time, in bytes or elements per second.
func (s *speed) at(now time.Time) float64 {
	if s.ended || s.count == 0 {
		return s.mean
	}

	// Measure from the newest mark that is at least speedTime old, or from the oldest mark if there
	// is none.
	after := now.Sub(s.begin)
	from := s.mark(1)
	for n := 2; n <= min(s.count, len(s.marks)) && after-from.after < speedTime; n++ {
		from = s.mark(n)
	}
	// The mark may be much older than that, because no marks are added while nothing arrives. Count
	// at most one more speedStep, so that a transfer doesn't look slow after a pause.
	period := min(after-from.after, speedTime+speedStep)
	if period < minSpeedTime {
		return 0
	}
	return float64(s.mark(1).acked-from.acked) / period.Seconds()
}

// A status is what the application sees of a Transfer. The world's goroutine updates it, and any
// goroutine may read it.
type status struct {
	conn *rpc.Conn // to the receiver; set by newTransfer

	// mu guards the fields below.
	mu       sync.Mutex
	progress Progress // as of the last tick, without Rate
	speed    speed    // for Rate
	sealed   bool     // whether content was sent in sealed packets, as of the last noteSealed
	finished bool     // the transfer has ended at this end
	err      error    // why it failed; nil if it is complete
}

// current returns the progress as of now.
func (s *status) current() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.progress
	p.Rate = s.speed.at(time.Now())
	return p
}

// sent returns Progress.Sent.
func (s *status) sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress.Sent
}

// cause returns why the transfer failed, or nil if it did not fail.
func (s *status) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *status) isFinished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finished
}

// isSealed returns the current value of Transfer.Sealed or, once the transfer or its connection
// has ended, the last value that noteSealed recorded.
func (s *status) isSealed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished || s.conn.Err() != nil {
		return s.sealed
	}
	return s.conn.Sealed()
}

// noteSealed records the current value of Transfer.Sealed, which an ended connection no longer
// knows. The caller holds mu.
func (s *status) noteSealed() {
	if !s.finished && s.conn.Err() == nil {
		s.sealed = s.conn.Sealed()
	}
}

// start is called when the header is sent, and starts measuring the speed.
func (s *status) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.speed.start(time.Now(), 0)
}

// resume is called with the amount of content that the receiver has stored.
func (s *status) resume(stored int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.Resumed = stored
	s.progress.Sent = max(s.progress.Sent, stored)
	s.progress.Acked = max(s.progress.Acked, stored)
	if stored > 0 {
		s.speed.start(time.Now(), s.progress.Acked) // stored content doesn't count
	}
}

// setSent is called when a part has been sent.
func (s *status) setSent(sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.Sent = sent
	s.noteSealed()
}

// setTotal is called when the size of the content is known.
func (s *status) setTotal(total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.Total = total
}

// ack is called when the receiver reports how much it has consumed.
func (s *status) ack(consumed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteSealed()
	p := &s.progress
	p.Acked = max(p.Acked, min(consumed, max(p.Sent, p.Total)))
	s.speed.note(time.Now(), p.Acked)
}

// end records that the transfer has ended, with its error or nil if it is complete. The caller
// holds mu.
func (s *status) end(err error) {
	s.noteSealed()
	s.finished = true
	s.err = err
	if err != nil {
		s.speed = speed{}
		return
	}
	// The last grant may not have counted everything, and Total may be unknown.
	p := &s.progress
	p.Acked = max(p.Sent, p.Total)
	p.Sent = p.Acked
	p.Total = p.Acked
	s.speed.end(time.Now(), p.Acked)
}
