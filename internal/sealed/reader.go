package sealed

import (
	"errors"
	"time"

	"github.com/quivernet/quiver/internal/udp"
)

const (
	// The reader takes turns for carriers only if it had to wait for packets less than
	// promptTime ago. Otherwise it is busy and would delay the packets of all carriers, so
	// other goroutines take the turns.
	promptTime = time.Millisecond

	// minFailedPause is the pause after the second failed read in a row. The pause doubles up
	// to maxFailedPause. Once reads have failed for failedTime, we give up on the socket.
	minFailedPause = time.Millisecond
	maxFailedPause = 100 * time.Millisecond
	failedTime     = 10 * time.Second
	// A read that fails more than seriesGap after another one starts a new series.
	seriesGap = failedTime / 10
)

// A reader holds the state that a socket keeps between reads. It is used only by quic-go's
// goroutine that reads the socket.
type reader struct {
	inboxes  []*inbox  // inboxes that were empty and got packets since notifyInboxes
	waitedAt time.Time // when the last read that had to wait for packets returned

	// The current series of failed reads.
	failedAt     time.Time     // when the last one failed; zero if a read succeeded since
	failingSince time.Time     // when the first one failed
	pause        time.Duration // before the next failed read returns
}

// noteRead records a read from begin to end, if it had to wait for packets.
func (r *reader) noteRead(begin, end time.Time) {
	if end.Sub(begin) >= udp.LongRead {
		r.waitedAt = end
	}
}

// notifyInboxes makes the carriers handle the packets that were routed to them.
func (r *reader) notifyInboxes(now time.Time) {
	inline := now.Sub(r.waitedAt) < promptTime
	for _, b := range r.inboxes {
		b.notify(inline)
	}
	clear(r.inboxes)
	r.inboxes = r.inboxes[:0]
}

// succeeded is called after a read without an error, which ends a series of failed ones.
func (r *reader) succeeded() { r.failedAt = time.Time{} }

// handleError decides what to do about a failed read. It returns true if the read must be
// repeated because the network is only gone for a while. On most errors of this kind, quic-go
// would abandon the socket with all its connections.
//
// After other errors quic-go reads again at once, so handleError pauses if errors
// follow each other.
func (r *reader) handleError(now time.Time, err error) (again bool) {
	if errors.Is(err, udp.TooLong) {
		// Anybody may send a datagram that's too long, so don't let that slow us down.
		return false
	}
	if now.Sub(r.failedAt) >= seriesGap {
		r.failingSince = now
		r.pause = 0
	}
	time.Sleep(r.pause)
	r.pause = min(max(2*r.pause, minFailedPause), maxFailedPause)
	r.failedAt = time.Now()
	return udp.IsLoss(err) && now.Sub(r.failingSince) < failedTime
}
