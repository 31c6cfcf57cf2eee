package sealed

import (
	"errors"
	"time"

	"github.com/quivernet/quiver/internal/udp"
)

const (
	// The reader takes turns for carriers only if it had to wait for packets less than
	// promptTime ago. Otherwise it is busy, and the turns would delay the packets of all
	// carriers, so they are left to other goroutines.
	promptTime = time.Millisecond

	// minFailedPause is the pause after the second failed read in a row. The pause doubles up
	// to maxFailedPause. Once reads have failed for failedTime, we give up on the socket.
	minFailedPause = time.Millisecond
	maxFailedPause = 100 * time.Millisecond
	failedTime     = 10 * time.Second
	// A read that fails seriesGap or more after the last failed one starts a new series.
	seriesGap = failedTime / 10
)

// A reader holds the state that a socket keeps between reads. It is used only by the goroutine of
// quic-go that reads from the socket.
type reader struct {
	inboxes  []*inbox  // inboxes that were empty until packets were put into them; to be notified
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

// notifyInboxes notifies the carriers to which packets were routed since the last call.
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

// handleError handles a failed read. It returns true if the read must be repeated because the
// network may come back. On most errors of this kind, quic-go would abandon the socket with all
// of its connections.
//
// After other errors quic-go reads again at once, so handleError pauses if errors follow each
// other.
func (r *reader) handleError(now time.Time, err error) (again bool) {
	if errors.Is(err, udp.TooLong) {
		// Anybody can send a datagram that's too long, so it mustn't slow us down.
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
