package link

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Sealed is a carrier beside QUIC. It asks the link, through its [Source], for datagrams
// when it can send them, and reports whether each arrived. It uses the lock of the link.
type Sealed interface {
	// Wake is called under the lock when the source may have something to send.
	Wake()
	// Unlock does what Wake does, and releases the lock. The carrier may send
	// on the calling goroutine.
	Unlock()
}

// sealed is the state of a link's sealed carrier.
type sealed struct {
	carrier Sealed        // nil while QUIC carries the datagrams
	carries atomic.Bool   // carrier is not nil; read without the lock
	path    recovery.Path // as the machines have it from the last SetPath, without RTT
	at      time.Time     // argument now of the last advance
	bulk    int           // bytes of datagrams with bulk that were sent since the last [Source.Bulk]
	// Bytes of bulk that the first machine has sent more than the others while
	// those had some, too; at most one datagram.
	ahead int
}

// Carry makes the sealed carrier by carry all datagrams from now on, or QUIC if
// by is nil. Datagrams in flight may still arrive over the other carrier, so
// the change alone does not cause resends.
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
	_ = l.carrier.SendDatagram(ping[:]) // an error means that the connection has ended, and the reader gets it, too
}

// move informs the machines that their datagrams take another path from now on, of
// which only the round trip is known; 0 = not even that. The caller holds the lock.
func (l *Link) move(now time.Time, rtt time.Duration) {
	l.sealed.path = recovery.Path{Epoch: l.sealed.path.Epoch + 1, Fates: l.sealed.carrier != nil, More: l.expected.Load() > 0}
	moved := l.sealed.path
	moved.RTT = rtt
	for i := range l.slots {
		l.slots[i].window = 0
		l.slots[i].SetPath(now, moved)
	}
}

// Sealed reports whether the sealed carrier carries the datagrams.
func (l *Link) Sealed() bool { return l.sealed.carries.Load() }

// A Source is a link as the source of its sealed carrier. The carrier holds the
// link's lock during all methods but Lock, TryLock and Woken.
type Source struct{ link *Link }

// Source returns the link as the source of a sealed carrier.
func (l *Link) Source() Source { return Source{l} }

// Lock takes the link's lock, TryLock takes it if it is free, and Unlock releases
// it. Unlike [Link.Unlock], Unlock sends nothing: the carrier does that in its turn.
func (s Source) Lock()         { s.link.mu.Lock() }
func (s Source) TryLock() bool { return s.link.mu.TryLock() }
func (s Source) Unlock() {
	s.link.mu.Unlock()
	s.link.relieve()
}

// Moved is called when the carrier's path has changed: the machines'
// measurements do not apply to it.
func (s Source) Moved(now time.Time) {
	if l := s.link; l.sealed.carrier != nil {
		l.move(now, 0)
	}
}

// A token is the number of a datagram, with the index of its machine in bits 56
// to 61. No machine uses those bits: bunch counts from 0, and the machine of
// slices uses the two highest bits for datagrams that are not slices.
const (
	placeShift = 56
	placeMask  = 0x3f << placeShift
)

// Tell passes the carrier's measurements of its path to the machines: the window in
// bytes, the rate in bytes a second, and the share of packets that are lost, from 0 to 1.
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

// AppendPayload appends a datagram of the first machine that has one. While the first machine
// has sent more bulk than the others, its bulk waits for theirs, so that neither starves.
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

// countBulk counts bytes of bulk that the machine at index place has sent.
func (s Source) countBulk(place, bytes int) {
	s.link.sealed.bulk += bytes
	switch ahead := &s.link.sealed.ahead; {
	case place > 0:
		*ahead = max(*ahead-bytes, -bytes)
	case s.othersWait(): // if it was ahead already, the others had nothing to send: all of theirs is in flight
		*ahead = min(*ahead, 0) + bytes
	default:
		*ahead = 0
	}
}

// Bulk returns how many bytes of bulk were sent in sealed packets since the
// last call, and whether more bulk waits only for room on their path.
func (s Source) Bulk() (left int, waits bool) {
	l := s.link
	left, l.sealed.bulk = l.sealed.bulk, 0
	if l.sealed.carrier == nil || l.Rated() {
		return left, false
	}
	return left, slices.ContainsFunc(l.slots, func(s slot) bool { _, bulk := s.Waiting(); return bulk })
}

// othersWait reports whether a machine after the first has bulk that could be sent.
func (s Source) othersWait() bool {
	others := s.link.slots[1:]
	return slices.ContainsFunc(others, func(o slot) bool { _, bulk := o.Waiting(); return bulk })
}

// Acked is called when a datagram has arrived, and Lost when it is lost.
func (s Source) Acked(now time.Time, token uint64) { s.fate(now, token, true) }
func (s Source) Lost(now time.Time, token uint64)  { s.fate(now, token, false) }

// fate passes the fate of a datagram to its machine.
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

// mostExpected is the most announced bytes that Waiting returns, so that the
// sum with what the machines hold fits into an int of 32 bits.
const mostExpected = 1 << 30

// Waiting returns how many bytes were never sent, including those that Expect has announced.
func (s Source) Waiting() (bytes int) {
	bytes = int(min(s.link.expected.Load(), mostExpected))
	for i := range s.link.slots {
		bytes += s.link.slots[i].Queued()
	}
	return bytes
}

// Advance runs the timers that are due.
func (s Source) Advance(now time.Time) { s.advance(now) }

// advance runs the machines' timers, at most once for each now. It returns
// false if a machine has failed.
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

// Turned is called at the end of each turn of the carrier. It reports whether
// the carrier must call Woken after it has released the lock.
func (s Source) Turned() (woken bool) {
	l := s.link
	if l.failed != nil {
		return false
	}
	l.uncork()
	switch {
	case l.sealed.carrier == nil:
		if l.parked && l.writerWorks(time.Now()) { // QUIC answers what arrived over the sealed carrier
			l.parked = false
			l.signal()
		}
	default:
		l.changed() // clears the changes so far, which this turn has handled
		if l.draining.Load() && l.drained() {
			l.end(nil)
		}
	}
	return l.woken()
}

// Woken calls Config.Wake.
func (s Source) Woken() { s.link.config.Wake() }
