package link

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Sealed is a second carrier beside QUIC. When it can send datagrams, it takes them from the
// link through its [Source]. It reports for each whether it arrived. It shares the link's
// lock.
type Sealed interface {
	// Wake is called under the lock when the source may have something to send.
	Wake()
	// Unlock does what Wake does and releases the lock. The carrier may send on the calling
	// goroutine.
	Unlock()
}

// sealed is the state of a link's sealed carrier.
type sealed struct {
	carrier Sealed        // nil while QUIC carries the datagrams
	carries atomic.Bool   // carrier is not nil; read without the lock
	path    recovery.Path // the machines' path as of the last SetPath, without RTT
	at      time.Time     // time of the last advance
	bulk    int           // bytes of datagrams with bulk sent since the last [Source.Bulk]
	// Bytes of bulk by which the first machine is ahead of the others while those also had
	// bulk to send. At most one datagram.
	ahead int
}

// Carry makes the sealed carrier by carry all datagrams from now on. If by is nil, QUIC
// carries them. Datagrams in flight may still arrive over the other carrier, so the change
// alone does not cause resends.
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
	_ = l.carrier.SendDatagram(ping[:]) // on an error the connection has ended, and the reader sees it
}

// move tells the machines that their datagrams take another path from now on. Only its round
// trip is known; 0 if not even that. The caller holds the lock.
func (l *Link) move(now time.Time, rtt time.Duration) {
	l.sealed.path = recovery.Path{
		Epoch: l.sealed.path.Epoch + 1,
		Fates: l.sealed.carrier != nil,
		More:  l.expected.Load() > 0,
	}
	moved := l.sealed.path
	moved.RTT = rtt
	for i := range l.slots {
		l.slots[i].window = 0
		l.slots[i].SetPath(now, moved)
	}
}

// Sealed reports whether the sealed carrier carries the datagrams.
func (l *Link) Sealed() bool { return l.sealed.carries.Load() }

// A Source gives a sealed carrier access to its link. The carrier holds the link's lock
// during all methods except Lock, TryLock and Woken.
type Source struct{ link *Link }

// Source returns the link as the source of a sealed carrier.
func (l *Link) Source() Source { return Source{l} }

// Lock takes the link's lock, TryLock takes it if it is free and Unlock releases it. Unlike
// [Link.Unlock], Unlock sends nothing: the carrier sends in its turn.
func (s Source) Lock()         { s.link.mu.Lock() }
func (s Source) TryLock() bool { return s.link.mu.TryLock() }
func (s Source) Unlock() {
	s.link.mu.Unlock()
	s.link.relieve()
}

// Moved is called when the carrier's path has changed. The machines' measurements do not
// apply to the new path.
func (s Source) Moved(now time.Time) {
	if l := s.link; l.sealed.carrier != nil {
		l.move(now, 0)
	}
}

// A token is the number of a datagram, with the index of its machine in bits 56 to 61. No
// machine uses those bits: bunch counts from 0, and package slices uses the two highest bits
// for datagrams that are not slices.
const (
	placeShift = 56
	placeMask  = 0x3f << placeShift
)

// Tell passes the carrier's path measurements to the machines: the window in bytes, the rate
// in bytes per second and the share of lost packets, from 0 to 1.
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

// AppendPayload appends a datagram of the first machine that has one.
//
// While the first machine has sent more bulk than the others, its bulk waits for theirs. So
// neither starves.
func (s Source) AppendPayload(now time.Time, buf []byte, room recovery.Room) (
	b []byte, token uint64, content recovery.Content, ok bool,
) {
	l := s.link
	if l.sealed.carrier == nil || !s.advance(now) {
		return buf, 0, content, false
	}
	l.holdBack(now, !room.Bulk)
	if l.sealed.ahead > 0 && room.Bulk && !l.Rated() && s.othersWait() {
		play := !l.rated.play.IsZero()
		first := l.slots[0].Machine
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
func (s Source) appendFirst(now time.Time, buf []byte, most int) (
	b []byte, token uint64, content recovery.Content, ok bool,
) {
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

// countBulk counts bulk bytes sent by the machine at index place.
func (s Source) countBulk(place, bytes int) {
	s.link.sealed.bulk += bytes
	switch ahead := &s.link.sealed.ahead; {
	case place > 0:
		*ahead = max(*ahead-bytes, -bytes)
	case s.othersWait(): // if the first machine was ahead already, all bulk of the others is in flight
		*ahead = min(*ahead, 0) + bytes
	default:
		*ahead = 0
	}
}

// Bulk returns the number of bulk bytes sent in sealed packets since the last call. It also
// reports whether more bulk waits only for room on the path.
func (s Source) Bulk() (left int, waits bool) {
	l := s.link
	left = l.sealed.bulk
	l.sealed.bulk = 0
	if l.sealed.carrier == nil || l.Rated() {
		return left, false
	}
	return left, slices.ContainsFunc(l.slots, slot.bulkWaits)
}

// othersWait reports whether a machine after the first has bulk that could be sent.
func (s Source) othersWait() bool {
	return slices.ContainsFunc(s.link.slots[1:], slot.bulkWaits)
}

// Acked is called when a datagram has arrived, and Lost when it was lost.
func (s Source) Acked(now time.Time, token uint64) { s.fate(now, token, true) }
func (s Source) Lost(now time.Time, token uint64)  { s.fate(now, token, false) }

// fate tells a datagram's machine whether the datagram arrived.
func (s Source) fate(now time.Time, token uint64, arrived bool) {
	place := token & placeMask >> placeShift
	s.link.slots[place].Fate(now, token&^placeMask, arrived)
}

// Receive passes a datagram to its machine.
func (s Source) Receive(now time.Time, datagram []byte) {
	l := s.link
	if l.failed != nil {
		return
	}
	if err := l.deliver(now, datagram, true); err != nil {
		l.end(violation(err))
	}
}

// mostExpected limits the announced bytes that Waiting returns. Their sum with the bytes the
// machines hold then fits into an int of 32 bits.
const mostExpected = 1 << 30

// Waiting returns the number of bytes not sent yet, including those announced by Expect.
func (s Source) Waiting() (bytes int) {
	bytes = int(min(s.link.expected.Load(), mostExpected))
	for i := range s.link.slots {
		bytes += s.link.slots[i].Queued()
	}
	return bytes
}

// Advance runs the timers that are due.
func (s Source) Advance(now time.Time) { s.advance(now) }

// advance runs the machines' timers, at most once for each now. It returns false if a machine
// has failed.
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

// NextTimeout returns the time at which the carrier must call Advance or AppendPayload again.
func (s Source) NextTimeout() (next time.Time, ok bool) {
	l := s.link
	if l.sealed.carrier == nil || l.failed != nil {
		return time.Time{}, false
	}
	return l.nextTimeout()
}

// Turned is called at the end of each turn of the carrier. It reports whether the carrier
// must call Woken after releasing the lock.
func (s Source) Turned() (woken bool) {
	l := s.link
	if l.failed != nil {
		return false
	}
	l.uncork()
	if l.sealed.carrier == nil {
		// QUIC answers what arrived over the sealed carrier.
		if l.parked && l.writerWorks(time.Now()) {
			l.parked = false
			l.signal()
		}
	} else {
		l.changed() // clears the changes so far, which this turn has handled
		if l.draining.Load() && l.drained() {
			l.end(nil)
		}
	}
	return l.woken()
}

// Woken calls Config.Wake.
func (s Source) Woken() { s.link.config.Wake() }
