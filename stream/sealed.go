package stream

import (
	"sync"
	"time"

	"github.com/quivernet/quiver/rpc"
)

const (
	// sealedAckEvery slices bring an ack over the sealed carrier, whose own feedback tells of single packets: a full part.
	sealedAckEvery = slicePartSlices
	sealedAckDelay = 20 * time.Millisecond
	// sealedUnsent may wait at the least while the sealed carrier moves slices: no play waits behind it.
	sealedUnsent = 64 << 10
	// sealedAgain is how long after the last arrival all leaves again that is not acked: the peer has not kept it.
	sealedAgain = time.Second
)

// sealedLink is the machine of chunks that have two carriers: the sealed one while it is open, QUIC else. Chunks and what
// is acked of them stay when they move. One carrier works the machine at a time, under its own lock, and the world's
// goroutine looks in from outside of both: so the machine has a lock of its own, taken last and held shortly.
type sealedLink struct {
	mu sync.Mutex
	sliceLink

	wake func() // makes the world tick

	// While the sealed carrier is open.
	path   *rpc.RawCarrier
	ackDue bool      // the carrier knows
	stale  uint64    // sendings below it left over QUIC before, 0 = none did
	until  time.Time // when they are given up
	count  uint64    // slices that were sent sealed
	moved  time.Time // when one of them left or arrived last, or the carrier changed

	tail    bool // no part will follow those that were given
	repairs repairs
}

func newSealedLink(account *account, wake func()) *sealedLink {
	return &sealedLink{sliceLink: sliceLink{sliceMachine: newSliceMachine(sealedProtocol, account)}, wake: wake}
}

// visit runs fn with the machine in hand and lets leave what that changed. Like follow and end it is for the world's
// goroutine, which alone writes sealed and tail.
func (l *sealedLink) visit(conn *rpc.Conn, fn func(now time.Time)) {
	if !l.sealed {
		conn.Drive(func(now time.Time) {
			l.mu.Lock()
			defer l.mu.Unlock()
			fn(now)
		})
		return
	}
	l.mu.Lock()
	fn(time.Now())
	changed := l.sliceMachine.Changed()
	l.mu.Unlock()
	if changed {
		l.path.Wake()
	}
}

// follow has the carrier take over that is to: on the world's goroutine, at each tick.
func (l *sealedLink) follow(conn *rpc.Conn, wanted bool) {
	r := conn.Raw()
	if r == nil {
		return
	}
	r.Want(wanted)
	if open := r.State() == rpc.RawOpen; open != l.sealed {
		l.move(open, conn.RTT())
		l.visit(conn, func(time.Time) { l.changed = true })
	}
}

// isSealed reports whether the sealed carrier moves the slices. It is safe from any goroutine.
func (l *sealedLink) isSealed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sealed
}

// end tells whether no part will follow those that were given, so that repair slices are worth their bytes.
func (l *sealedLink) end(conn *rpc.Conn, tail bool) {
	if tail != l.tail {
		l.visit(conn, func(time.Time) { l.tail, l.changed = tail, true })
	}
}

// move changes the carrier. What is under way over QUIC may still arrive; what was over the sealed carrier is lost, as that
// has told already.
func (l *sealedLink) move(open bool, rtt time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed, l.sealedRate = open, 0
	l.foreign, l.moved = l.flight.next, time.Now()
	if open {
		l.inbox.ackEvery, l.inbox.ackDelay = sealedAckEvery, sealedAckDelay
		l.stale, l.until = l.flight.next, time.Now().Add(rtt*5/4+sliceAckDelay)
		return
	}
	l.inbox.ackEvery, l.inbox.ackDelay = sliceAckEvery, sliceAckDelay
	l.inbox.repeat()
}

// againAt returns when what arrived sealed leaves again, by whichever carrier there is then: that one said that it arrived,
// only an ack says that the peer has kept it.
func (l *sealedLink) againAt() (at time.Time, any bool) {
	return l.moved.Add(sealedAgain), !l.idle() && l.flight.count == 0
}

// checkKept has leave again what was not kept, when that is due.
func (l *sealedLink) checkKept(now time.Time) {
	if at, ok := l.againAt(); ok && !now.Before(at) {
		l.moved = now
		l.again()
	}
}

// The methods of [rpc.Machine]: those of the machine under its lock. While the sealed carrier is open, nothing leaves here,
// but what comes is taken.

func (l *sealedLink) Receive(now time.Time, datagram []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sliceLink.Receive(now, datagram)
}

func (l *sealedLink) AppendPacket(now time.Time, buf []byte, most int) (packet []byte, number uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return buf, 0, false
	}
	return l.sliceLink.AppendPacket(now, buf, most)
}

func (l *sealedLink) Unsent(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sliceLink.Unsent(number)
}

func (l *sealedLink) Advance(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.trimAt(); ok && !now.Before(at) {
		l.repairs.trim()
	}
	if l.sealed {
		l.tidy(now)
		return nil
	}
	l.checkKept(now)
	return l.sliceLink.Advance(now)
}

func (l *sealedLink) NextTimeout() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return l.trimAt()
	}
	var first earliest
	first.of(l.sliceLink.NextTimeout())
	first.of(l.againAt())
	return first.at, first.any
}

func (l *sealedLink) SetWindow(bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sliceLink.SetWindow(bytes)
}

func (l *sealedLink) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return 0
	}
	return l.sliceLink.InFlight()
}

func (l *sealedLink) Waiting() (unreliable, bulk bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return false, false
	}
	return l.sliceLink.Waiting()
}

func (l *sealedLink) Hold(unreliable, bulk bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sliceLink.Hold(unreliable, bulk)
}

func (l *sealedLink) Arrived() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sliceLink.Arrived()
}

func (l *sealedLink) Lost() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sliceLink.Lost()
}

func (l *sealedLink) Wake() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sliceLink.Wake()
}

func (l *sealedLink) Changed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sliceLink.Changed()
}
