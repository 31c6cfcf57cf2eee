package link

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Sealed is a carrier beside QUIC that asks the link, through its [Source], for datagrams when it can send them, and says what
// became of each. It uses the lock of the link.
type Sealed interface {
	// Wake says that the source may have something to send. It is called under the lock.
	Wake()
	// Unlock says so, and releases the lock. The carrier may send on the caller's goroutine.
	Unlock()
}

// sealed is the state of a link's sealed carrier.
type sealed struct {
	carrier Sealed // nil while QUIC carries
	carries atomic.Bool
	path    recovery.Path // the path that the machines were last told
	at      time.Time     // the now of the last advance
	bulk    int           // bytes in datagrams with bulk that left since the last [Source.Bulk]
	ahead   int           // bytes of bulk that the first machine has sent more than the others while those had some, too: a datagram at most
}

// Carry makes the sealed carrier by carry all datagrams from now on, or QUIC if by is nil. Datagrams in flight may still arrive over the
// other carrier, so the change alone resends nothing.
func (l *Link) Carry(by Sealed) {
	rtt := l.carrier.Path().SmoothedRTT
	now := l.LockNow()
	defer l.Unlock()
	if by == l.sealed.carrier {
		return
	}
	l.sealed.carrier = by
	l.queued.other()
	l.sealed.carries.Store(by != nil)
	l.move(now, rtt)
}

// Ping makes QUIC send a packet that the peer acknowledges. It blocks while QUIC's queue is full.
func (l *Link) Ping() {
	l.mu.Lock()
	l.queued.other()
	l.mu.Unlock()
	l.relieve()
	ping := [pingBytes]byte{Ping}
	_ = l.carrier.SendDatagram(ping[:]) // an error means that the connection has ended, which the reader notices
}

// move tells the machines that their datagrams take another path from now on, of which rtt is all that is known; 0 = not even that. The
// caller holds the lock.
func (l *Link) move(now time.Time, rtt time.Duration) {
	l.sealed.path = recovery.Path{Epoch: l.sealed.path.Epoch + 1, Fates: l.sealed.carrier != nil, More: l.expected.Load() > 0}
	moved := l.sealed.path
	moved.RTT = rtt
	for i := range l.slots {
		l.slots[i].window = 0
		l.slots[i].SetPath(now, moved)
	}
}

// Sealed reports whether the sealed carrier carries.
func (l *Link) Sealed() bool { return l.sealed.carries.Load() }

// Source is the link as its sealed carrier sees it. The carrier holds the link's lock during all methods but Lock, TryLock and Woken.
type Source struct{ link *Link }

// Source returns the link as a sealed carrier sees it.
func (l *Link) Source() Source { return Source{l} }

// Lock takes the link's lock, TryLock does so unless somebody has it, and Unlock releases it. Unlike [Link.Unlock] that does not look
// whether something may leave: the carrier does so in its turn.
func (s Source) Lock()         { s.link.mu.Lock() }
func (s Source) TryLock() bool { return s.link.mu.TryLock() }
func (s Source) Unlock() {
	s.link.mu.Unlock()
	s.link.relieve()
}

// Moved says that the carrier's path has changed: what the machines have measured is of the old one.
func (s Source) Moved(now time.Time) {
	if l := s.link; l.sealed.carrier != nil {
		l.move(now, 0)
	}
}

// A token is the number of a datagram, with the machine's place in bits 56 to 61. No machine uses those: bunch counts from 0, and
// the machine of slices uses the two highest bits for datagrams that are no slices.
const (
	placeShift = 56
	placeMask  = 0x3f << placeShift
)

// Tell passes on what the carrier has measured of its path: the window in bytes, the rate in bytes a second, and the share of packets
// that are lost, 0 to 1.
func (s Source) Tell(now time.Time, window int, rate, loss float64) {
	p := &s.link.sealed.path
	if !p.Fates {
		return
	}
	p.Window, p.Rate, p.Loss = window, rate, loss
	for i := range s.link.slots {
		s.link.slots[i].SetPath(now, *p)
	}
}

// AppendPayload appends a datagram of the first machine that has one. Bulk of the first machine waits while it is ahead of that of the
// others, so that neither starves.
func (s Source) AppendPayload(now time.Time, buf []byte, room recovery.Room) (b []byte, token uint64, content recovery.Content, ok bool) {
	l := s.link
	if l.sealed.carrier == nil || !s.advance(now) {
		return buf, 0, content, false
	}
	l.holdBack(now, !room.Bulk)
	if l.sealed.ahead > 0 && room.Bulk && !l.Rated() && s.othersWait() {
		play, first := !l.rated.play.IsZero(), l.slots[0].Machine
		first.Hold(play, true)
		b, token, content, ok = s.appendFirst(now, buf, room.Max)
		first.Hold(play, false)
	}
	if !ok {
		b, token, content, ok = s.appendFirst(now, buf, room.Max)
	}
	return b, token, content, ok
}

// appendFirst appends a datagram of the first machine that has one.
func (s Source) appendFirst(now time.Time, buf []byte, most int) (b []byte, token uint64, content recovery.Content, ok bool) {
	l := s.link
	for i := range l.slots {
		m := l.slots[i].Machine
		if b, number, ok := m.AppendPacket(now, buf, most); ok {
			bytes, content := len(b)-len(buf), m.Content()
			if i == 0 {
				l.queued.next = number + 1
			} else {
				l.counts.otherOut.Add(uint64(bytes))
			}
			if content.Bulk {
				s.countBulk(i, bytes)
			}
			return b, number&^placeMask | uint64(i)<<placeShift, content, true
		}
	}
	return buf, 0, content, false
}

// countBulk counts bytes of bulk of the machine in a place.
func (s Source) countBulk(place, bytes int) {
	s.link.sealed.bulk += bytes
	switch ahead := &s.link.sealed.ahead; {
	case place > 0:
		*ahead = max(*ahead-bytes, -bytes)
	case s.othersWait(): // when it was ahead already, the others had nothing to send: all of theirs is under way
		*ahead = min(*ahead, 0) + bytes
	default:
		*ahead = 0
	}
}

// Bulk returns how many bytes of bulk have left in sealed packets since the last call, and whether more of it waits for nothing but room on their
// path.
func (s Source) Bulk() (left int, waits bool) {
	l := s.link
	left, l.sealed.bulk = l.sealed.bulk, 0
	if l.sealed.carrier == nil || l.Rated() {
		return left, false
	}
	return left, slices.ContainsFunc(l.slots, func(s slot) bool { _, bulk := s.Waiting(); return bulk })
}

// othersWait reports whether a machine behind the first has bulk that may leave.
func (s Source) othersWait() bool {
	others := s.link.slots[1:]
	return slices.ContainsFunc(others, func(o slot) bool { _, bulk := o.Waiting(); return bulk })
}

// Acked notes that a datagram has arrived, Lost that it is lost.
func (s Source) Acked(now time.Time, token uint64) { s.fate(now, token, true) }
func (s Source) Lost(now time.Time, token uint64)  { s.fate(now, token, false) }

func (s Source) fate(now time.Time, token uint64, arrived bool) {
	place := token & placeMask >> placeShift
	s.link.slots[place].Fate(now, token&^placeMask, arrived)
}

// Receive gives a datagram to its machine.
func (s Source) Receive(now time.Time, datagram []byte) {
	l := s.link
	if l.failed != nil {
		return
	}
	if err := l.deliver(now, datagram, true); err != nil {
		l.end(violation(err))
	}
}

// mostExpected is how many announced bytes count: what the machines hold besides still fits into an int of 32 bits.
const mostExpected = 1 << 30

// Waiting returns the bytes that were never sent, including those that Expect has announced.
func (s Source) Waiting() (bytes int) {
	bytes = int(min(s.link.expected.Load(), mostExpected))
	for i := range s.link.slots {
		bytes += s.link.slots[i].Queued()
	}
	return bytes
}

// Advance runs the timers that are due.
func (s Source) Advance(now time.Time) { s.advance(now) }

// advance runs the machines' timers, at most once for each now. It is false if a machine has failed.
func (s Source) advance(now time.Time) bool {
	l := s.link
	if l.failed != nil || !now.After(l.sealed.at) {
		return l.failed == nil
	}
	l.sealed.at = now
	for i := range l.slots {
		if l.failed = l.slots[i].Advance(now); l.failed != nil {
			l.end(violation(l.failed))
			return false
		}
	}
	return true
}

// NextTimeout returns when the carrier must call Advance or AppendPayload again.
func (s Source) NextTimeout() (next time.Time, ok bool) {
	l := s.link
	if l.sealed.carrier == nil || l.failed != nil {
		return time.Time{}, false
	}
	return l.nextTimeout()
}

// Turned is called at the end of each turn of the carrier. It reports whether the carrier must call Woken after it has released the
// lock.
func (s Source) Turned() (woken bool) {
	l := s.link
	if l.failed != nil {
		return false
	}
	l.uncork()
	switch {
	case l.sealed.carrier == nil:
		if l.parked && l.writerWorks(time.Now()) { // QUIC answers what came over the sealed carrier
			l.parked = false
			l.signal()
		}
	default:
		l.changed() // forgets the changes so far, which this turn has seen
		if l.draining.Load() && l.drained() {
			l.end(nil)
		}
	}
	return l.woken()
}

// Woken calls Config.Wake.
func (s Source) Woken() { s.link.config.Wake() }
