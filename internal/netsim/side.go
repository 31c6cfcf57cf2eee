package netsim

import (
	"fmt"
	"time"
)

// DefaultMax is the largest datagram in bytes that quic-go takes before it has searched for a larger path MTU. A side whose link has no
// MTU lets its machine build datagrams of this size.
const DefaultMax = 1243

// Machine is one end of a connection without a clock. Its owner calls Receive, then Advance, then AppendPacket until that returns no
// packet, and calls again at NextTimeout.
type Machine interface {
	// Receive takes ownership of the datagram. An error ends the machine.
	Receive(now time.Time, datagram []byte) error
	// AppendPacket appends a packet of at most size bytes to buf.
	AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool)
	// Advance runs timers. An error ends the machine. Afterwards NextTimeout lies after now or a packet is ready.
	Advance(now time.Time) error
	NextTimeout() (at time.Time, ok bool)
}

// windower is a machine that wants to know the path's window.
type windower interface{ SetWindow(bytes int) }

// Side is one end of a Pair: a machine and the link that leads away from it.
type Side struct {
	Name    string
	Machine Machine
	Link    *Link // to the other side

	// Max is the largest datagram the machine may build, in bytes. 0 = what the link's MTU is at that time, or
	// DefaultMax when it has none. A fixed Max above the MTU makes a black hole.
	Max int

	// Err is the error that Receive or Advance returned; from then on the machine is not driven, and packets to it vanish.
	Err error

	Sent, Received uint64 // packets that the machine built and took

	spare []byte // buffer for the next packet
}

// max returns the largest datagram that AppendPacket may build, in bytes.
func (s *Side) max(now time.Time) int {
	if s.Max > 0 {
		return s.Max
	}
	if mtu := s.Link.MTU(now); mtu > 0 {
		return mtu
	}
	return DefaultMax
}

// receive hands the machine what has arrived over the other side's link, and reports whether anything had.
func (s *Side) receive(now time.Time, from *Side) (moved bool, err error) {
	for {
		packet, ok := from.Link.Deliver(now)
		if !ok {
			return moved, nil
		}
		moved = true
		if s.Err != nil {
			continue
		}
		s.Received++
		if err := s.Machine.Receive(now, packet); err != nil {
			return true, s.fail("Receive", err)
		}
	}
}

func (s *Side) advance(now time.Time) error {
	if s.Err != nil {
		return nil
	}
	if err := s.Machine.Advance(now); err != nil {
		return s.fail("Advance", err)
	}
	return nil
}

func (s *Side) fail(call string, err error) error {
	s.Err = err
	return fmt.Errorf("netsim: side %s: %s: %w", s.Name, call, err)
}

// send moves packets from the machine to the link until the machine has none.
func (s *Side) send(now time.Time, tap func(*Side, []byte, Fate)) (moved bool, err error) {
	if s.Err != nil {
		return false, nil
	}
	for n := 0; ; n++ {
		limit := s.max(now)
		buf := s.buffer(limit)
		packet, _, ok := s.Machine.AppendPacket(now, buf, limit)
		switch {
		case !ok:
			s.spare = buf
			return moved, nil
		case len(packet) > limit:
			return moved, fmt.Errorf("netsim: side %s built a packet of %d bytes, its limit was %d", s.Name, len(packet), limit)
		case len(packet) == 0:
			return moved, fmt.Errorf("%w: side %s built an empty packet", ErrSpin, s.Name)
		case n == maxPacketsAtOnce:
			return moved, fmt.Errorf("%w: side %s built %d packets at one time", ErrSpin, s.Name, n)
		}
		moved = true
		s.Sent++
		if fate := s.Link.Send(now, packet); tap != nil {
			tap(s, packet, fate)
		}
	}
}

func (s *Side) buffer(size int) []byte {
	buf := s.spare
	s.spare = nil
	if cap(buf) < size {
		buf = make([]byte, 0, size)
	}
	return buf
}

// timeout returns when the machine wants to be called again.
func (s *Side) timeout() (at time.Time, ok bool) {
	if s.Err != nil {
		return time.Time{}, false
	}
	return s.Machine.NextTimeout()
}
