package link

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Sealed is a second carrier, which sends datagrams in sealed packets instead of QUIC packets.
// Whenever it can send a datagram, it takes one from the link through a [Source], and later it
// reports whether that datagram arrived. It shares the link's lock.
type Sealed interface {
	// Wake is called under the lock when the source may have something to send.
	Wake()
	// Unlock does what Wake does, and then releases the lock. The carrier may send packets before
	// Unlock returns.
	Unlock()
}

// sealed is what a link knows about its sealed carrier.
type sealed struct {
	carrier  Sealed        // nil while QUIC carries the datagrams
	carries  atomic.Bool   // same as inUse, for callers that don't hold the lock
	path     recovery.Path // as last passed to SetPath, but without an RTT
	advanced time.Time     // the time that the machines last advanced to

	// Bulk (transfers), in bytes.
	bulk  int // sent since the last [Source.TakeBulk]
	ahead int // the first machine's lead over other machines that also had bulk to send
}

// inUse reports whether the sealed carrier carries the link's datagrams, rather than QUIC.
func (s *sealed) inUse() bool { return s.carrier != nil }

// wake wakes the sealed carrier if it is in use.
func (s *sealed) wake() {
	if s.inUse() {
		s.carrier.Wake()
	}
}

// countBulk updates whose turn it is to send bulk, after the machine at index place sent some.
// othersWait is set if that is the first machine and another one has bulk that could be sent.
func (s *sealed) countBulk(place, bytes int, othersWait bool) {
	s.bulk += bytes
	switch {
	case place > 0:
		// The others catch up, and may get ahead by a datagram.
		s.ahead = max(s.ahead-bytes, -bytes)
	case othersWait:
		// If the first machine was ahead already, the others couldn't catch up, because all
		// their bulk was in flight. So its lead never exceeds one datagram.
		s.ahead = min(s.ahead, 0) + bytes
	default:
		// No other machine has bulk, so there is none to be ahead of.
		s.ahead = 0
	}
}

// takeBulk returns the number of bytes of bulk that were sent since the last call.
func (s *sealed) takeBulk() int {
	sent := s.bulk
	s.bulk = 0
	return sent
}

// Carry gives all datagrams to a sealed carrier from now on, or to QUIC again if by is nil. It
// doesn't resend anything, because datagrams in flight may still arrive over the previous carrier.
func (l *Link) Carry(by Sealed) {
	rtt := l.carrier.Path().SmoothedRTT
	now := l.LockNow()
	defer l.Unlock()
	if by == l.sealed.carrier {
		return
	}
	l.sealed.carrier = by
	l.queued.addOther()
	l.sealed.carries.Store(by != nil)
	l.move(now, rtt)
}

// Ping makes QUIC send a packet that the peer acknowledges. It blocks while QUIC's queue is full.
func (l *Link) Ping() {
	l.mu.Lock()
	l.queued.addOther()
	l.mu.Unlock()
	l.emptyRing()
	ping := [pingBytes]byte{Ping}
	_ = l.carrier.SendDatagram(ping[:]) // if it fails, the reader notices that too
}

// move tells the machines that their datagrams take another path from now on. All that we may know
// about that path is its round-trip time, which is 0 if unknown. The caller holds the lock.
func (l *Link) move(now time.Time, rtt time.Duration) {
	l.sealed.path = recovery.Path{
		Epoch: l.sealed.path.Epoch + 1,
		Fates: l.sealed.inUse(),
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

// A Source is a sealed carrier's view of its link. The carrier must hold the link's lock while it
// calls any method other than Lock, TryLock and Woken.
type Source struct{ link *Link }

// Source returns the link as the source of a sealed carrier.
func (l *Link) Source() Source { return Source{l} }

// Lock takes the link's lock, TryLock takes it only if it is free, and Unlock releases it. Unlike
// [Link.Unlock], this Unlock sends nothing, since the carrier is about to do that anyway.
func (s Source) Lock()         { s.link.mu.Lock() }
func (s Source) TryLock() bool { return s.link.mu.TryLock() }
func (s Source) Unlock() {
	s.link.mu.Unlock()
	s.link.emptyRing()
}

// Moved is called when the carrier has moved to another path, to which none of the machines'
// measurements apply.
func (s Source) Moved(now time.Time) {
	if s.link.sealed.inUse() {
		s.link.move(now, 0)
	}
}

// A token identifies a datagram to the carrier. It's the datagram's number, with the index of its
// machine in bits 56 to 61. No machine uses these bits itself: bunch counts from 0, and package
// slices uses only the two highest bits, which mark datagrams that aren't slices.
const (
	placeShift = 56
	placeMask  = 0x3f << placeShift
)

// Tell passes the carrier's measurements of its path to the machines: the window in bytes, the rate
// in bytes per second, and the share of packets that are lost, from 0 to 1.
func (s Source) Tell(now time.Time, window int, rate, loss float64, lossOf int) {
	p := &s.link.sealed.path
	if !p.Fates {
		// QUIC has taken over again, so the machines aren't using this path.
		return
	}
	p.Window, p.Rate, p.Loss, p.LossOf = window, rate, loss, lossOf
	for i := range s.link.slots {
		s.link.slots[i].SetPath(now, *p)
	}
}

// AppendPayload appends the next datagram, which comes from the first machine that has one. The
// exception is bulk, where the first machine takes turns with the other machines so that neither
// side starves the other.
func (s Source) AppendPayload(now time.Time, buf []byte, room recovery.Room) (
	b []byte, token uint64, content recovery.Content, ok bool,
) {
	l := s.link
	if !l.sealed.inUse() {
		return buf, 0, content, false
	}
	s.Advance(now)
	if l.failed != nil {
		return buf, 0, content, false
	}
	l.holdBack(now, !room.Bulk)
	if room.Bulk && s.othersFirst() {
		held := l.limiter.delaysUnreliable()
		l.play.Hold(held, true)
		b, token, content, ok = s.appendNext(now, buf, room.Max)
		l.play.Hold(held, false)
	}
	if !ok {
		b, token, content, ok = s.appendNext(now, buf, room.Max)
	}
	return b, token, content, ok
}

// othersFirst reports whether the first machine has sent more bulk than the others and has to wait,
// because one of them has bulk too.
func (s Source) othersFirst() bool {
	return s.link.sealed.ahead > 0 && !s.link.Rated() && s.othersHaveBulk()
}

// appendNext appends a datagram of the first machine that has one.
func (s Source) appendNext(now time.Time, buf []byte, size int) (
	b []byte, token uint64, content recovery.Content, ok bool,
) {
	l := s.link
	for i := range l.slots {
		m := l.slots[i].Machine
		if b, number, ok := m.AppendPacket(now, buf, size); ok {
			bytes, content := len(b)-len(buf), m.Content()
			if i == 0 {
				l.queued.addFirst(number)
			} else {
				l.counts.otherOut.Add(uint64(bytes))
			}
			if content.Bulk {
				l.sealed.countBulk(i, bytes, i == 0 && s.othersHaveBulk())
			}
			return b, number&^placeMask | uint64(i)<<placeShift, content, true
		}
	}
	return buf, 0, content, false
}

// TakeBulk returns the number of bytes of bulk that were sent in sealed packets since the last
// call. blocked is true if there is more bulk and only the path has no room for it.
func (s Source) TakeBulk() (sent int, blocked bool) {
	l := s.link
	sent = l.sealed.takeBulk()
	if !l.sealed.inUse() || l.Rated() {
		return sent, false
	}
	return sent, slices.ContainsFunc(l.slots, slot.hasBulk)
}

// othersHaveBulk reports whether a machine after the first has bulk that could be sent.
func (s Source) othersHaveBulk() bool {
	return slices.ContainsFunc(s.link.slots[1:], slot.hasBulk)
}

// Acked is called when a datagram has arrived, and Lost when one was lost.
func (s Source) Acked(now time.Time, token uint64) { s.fate(now, token, true) }
func (s Source) Lost(now time.Time, token uint64)  { s.fate(now, token, false) }

// fate tells the machine that built a datagram whether it arrived.
func (s Source) fate(now time.Time, token uint64, arrived bool) {
	place := token & placeMask >> placeShift
	s.link.slots[place].Fate(now, token&^placeMask, arrived)
}

// Receive passes a datagram to its machine. The datagram still belongs to the caller.
func (s Source) Receive(now time.Time, datagram []byte) {
	l := s.link
	if l.failed != nil {
		return
	}
	if err := l.deliver(now, datagram, lent); err != nil {
		l.end(violation(err))
	}
}

// maxExpected limits the announced bytes that Waiting counts, so that their sum with the machines'
// own bytes fits into a 32-bit int.
const maxExpected = 1 << 30

// Waiting returns the number of bytes that have never been sent, including the bytes announced by
// Expect.
func (s Source) Waiting() (bytes int) {
	bytes = int(min(s.link.expected.Load(), maxExpected))
	for i := range s.link.slots {
		bytes += s.link.slots[i].Queued()
	}
	return bytes
}

// Advance runs the machines' timers, unless it did so for the same now already. It ends the link if
// a machine fails.
func (s Source) Advance(now time.Time) {
	l := s.link
	if l.failed != nil || !now.After(l.sealed.advanced) {
		return
	}
	l.sealed.advanced = now
	if err := l.advance(now); err != nil {
		l.end(violation(err))
	}
}

// NextTimeout returns when the carrier must next call Advance or AppendPayload.
func (s Source) NextTimeout() (next time.Time, ok bool) {
	l := s.link
	if !l.sealed.inUse() || l.failed != nil {
		return time.Time{}, false
	}
	return l.nextTimeout()
}

// Turned is called at the end of each turn of the carrier. It ends the link if a Close has
// delivered everything, and reports whether the carrier must call Woken after it has released the
// lock.
func (s Source) Turned() (callWoken bool) {
	l := s.link
	if l.failed != nil {
		return false
	}
	l.uncork()
	switch {
	case l.sealed.inUse():
		l.takeChanges() // this turn has dealt with whatever changed before it
		if l.drained() {
			l.endDrained()
		}
	case l.parked && l.reschedule(time.Now()):
		// What arrived over the sealed carrier is answered over QUIC.
		l.parked = false
		l.writer.signal()
	}
	return l.takeWakeUps()
}

// Woken calls Config.Wake.
func (s Source) Woken() { s.link.config.Wake() }
