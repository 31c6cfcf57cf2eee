package scenes

import (
	"encoding/binary"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// A receiver sends an ack for every ackEvery packets, after a gap, and no later than ackDelay
	// after a packet (RFC 9000, section 13.2).
	ackEvery = 2
	ackDelay = 25 * time.Millisecond
	// ackNumbers is the maximum number of packet numbers in an ack, which lists the newest ones.
	ackNumbers = 96

	// maxBackoff limits how many times consecutive probe timeouts double the interval.
	maxBackoff = 6
	// persistentTimeouts is how many consecutive probe timeouts count as persistent congestion
	// (compare RFC 9002, section 7.6.1).
	persistentTimeouts = 3
	// pacerBurst is how far the sender may fall behind its pacing rate and still catch up.
	pacerBurst = 2 * time.Millisecond
)

// timeBytes is the encoded size of a time.
const timeBytes = 8

func appendTime(b []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t.Sub(netsim.Epoch)))
}
func timeOf(b []byte) time.Time {
	return netsim.Epoch.Add(time.Duration(binary.BigEndian.Uint64(b)))
}

// A congestion is a model of another stack's congestion control. Sizes are in packets. Times
// count from the start of the flow.
type congestion interface {
	acked(a ack)
	spurious(sent time.Duration) // a packet that was declared lost arrived
	lost(now, sent time.Duration, inFlight int)
	timeout(now time.Duration)
	window() float64
	pace(srtt time.Duration) float64 // packets per second
}

// An ack is what a congestion control learns about one packet that arrived.
type ack struct {
	now, sent time.Duration
	rtt       time.Duration
	latest    bool          // the most recently sent packet in this ack
	delivered float64       // packets that arrived while it was in flight
	took      time.Duration // time in which they arrived
	inFlight  int           // packets still in flight
	before    int           // packets in flight before the ack arrived
	limited   bool          // the sender had nothing more to send when it sent the packet
}

// A sender sends a transfer as QUIC does, with packet numbers, acks, the loss detection of RFC
// 9002, and a congestion control.
type sender struct {
	control congestion
	begin   time.Time // epoch of the times below
	total   int       // pieces of the transfer

	now            time.Duration // newest time passed to a method
	fresh          int           // the first piece that hasn't been sent yet
	again          []int         // lost pieces, to be sent again
	packets        []packet      // by number
	oldest         int           // no packet with a smaller number is in flight
	inFlight       int           // packets in flight
	before         int           // packets in flight before the newest ack arrived
	latest         int           // the largest number in the newest ack
	loss           recovery.Losses
	rtt            recovery.RTT
	next           time.Duration // when the pacer allows the next packet
	pto            time.Duration // when the next probe is due
	backoff        int           // probe timeouts in a row
	probe          bool          // the next packet is a probe
	limited        bool          // nothing waited to be sent since the last packet
	delivered      float64       // packets that the peer has acknowledged
	lastAck        time.Duration // when delivered last grew
	spuriousLosses uint64        // packets that were declared lost but arrived
}

// A packet is a sender's record of one packet.
type packet struct {
	piece     int           // piece in the packet
	sent      time.Duration // when it was sent
	delivered float64       // sender.delivered when it was sent
	at        time.Duration // sender.lastAck when it was sent
	limited   bool          // there was nothing more to send when it was sent
	inFlight  bool          // neither acked nor lost
	acked     bool
}

// A receiver acks the packets that arrive.
type receiver struct {
	receipt
	sender  *sender
	newest  []uint32  // numbers of the newest packets that arrived, for the next ack
	highest uint32    // largest packet number that arrived
	waiting int       // packets received since the last ack
	due     time.Time // when the next ack must be sent; zero if there is nothing to ack
}

// newAcked returns both ends of a flow of Reno, Cubic or BBR.
func newAcked(f Flow, begin time.Time) (*sender, *receiver) {
	s := &sender{begin: begin, total: pieces(f.Bytes)}
	switch f.Kind {
	case Reno:
		s.control = newReno()
	case Cubic:
		s.control = newCubic()
	case BBR:
		s.control = newBBR()
	}
	return s, &receiver{sender: s, receipt: newReceipt(f.Bytes)}
}

func (s *sender) at(t time.Time) time.Duration { return t.Sub(s.begin) }

// Receive handles an ack, which lists the numbers of packets that arrived.
func (s *sender) Receive(now time.Time, b []byte) error {
	t := s.at(now)
	s.now = t
	acked := false
	s.before = s.inFlight
	s.latest = 0
	for n := b; len(n) >= 4; n = n[4:] {
		s.latest = max(s.latest, int(binary.BigEndian.Uint32(n)))
	}
	for ; len(b) >= 4; b = b[4:] {
		if s.ack(t, int(binary.BigEndian.Uint32(b))) {
			acked = true
		}
	}
	if acked {
		s.backoff = 0
		s.setPTO(t)
	}
	s.lose(t)
	return nil
}

// ack records that packet n arrived. It returns false if the packet had already been acked or
// declared lost.
func (s *sender) ack(t time.Duration, n int) bool {
	p := &s.packets[n]
	if p.acked {
		return false
	}
	p.acked = true
	s.delivered++
	s.lastAck = t
	if !p.inFlight {
		s.spuriousLosses++
		s.loss.Spurious(t, t-p.sent)
		s.control.spurious(p.sent)
		return false
	}
	p.inFlight = false
	s.inFlight--
	rtt := t - p.sent
	if uint64(n) >= s.loss.Largest {
		s.loss.Largest = uint64(n) + 1
		s.rtt.Update(t, rtt, 0)
	}
	s.control.acked(ack{
		now: t, sent: p.sent, rtt: rtt, latest: n == s.latest,
		delivered: s.delivered - p.delivered, took: max(t-p.at, 1),
		inFlight: s.inFlight, before: s.before, limited: p.limited,
	})
	return true
}

// lose declares packets lost that later packets overtook.
func (s *sender) lose(t time.Duration) {
	s.loss.Begin(t, max(s.rtt.Current(), time.Millisecond))
	for n := s.oldest; n < len(s.packets) && uint64(n) < s.loss.Largest; n++ {
		if p := &s.packets[n]; p.inFlight && s.loss.Check(t, uint64(n), p.sent) {
			p.inFlight = false
			s.inFlight--
			s.again = append(s.again, p.piece)
			s.control.lost(t, p.sent, s.inFlight)
		}
	}
	for s.oldest < len(s.packets) && !s.packets[s.oldest].inFlight {
		s.oldest++
	}
}

// setPTO restarts the probe timeout (RFC 9002, section 6.2.1). Each consecutive timeout doubles the
// interval, up to maxBackoff times.
func (s *sender) setPTO(t time.Duration) {
	s.pto = t + (s.rtt.Current()+max(4*s.rtt.Variance, time.Millisecond)+ackDelay)<<min(s.backoff, maxBackoff)
}

// Advance runs the timers of losses and probes. From persistentTimeouts consecutive probe timeouts
// on, it also notifies the congestion control.
func (s *sender) Advance(now time.Time) error {
	t := s.at(now)
	s.now = t
	if s.loss.Next > 0 && s.loss.Next <= t {
		s.lose(t)
	}
	if s.inFlight > 0 && s.pto <= t {
		s.backoff++
		s.probe = true
		s.setPTO(t)
		if s.backoff >= persistentTimeouts {
			s.control.timeout(t)
		}
	}
	return nil
}

func (s *sender) NextTimeout() (time.Time, bool) {
	at, ok := time.Duration(0), false
	add := func(t time.Duration, running bool) {
		if running && (!ok || t < at) {
			at, ok = t, true
		}
	}
	add(s.loss.Next, s.loss.Next > 0)
	add(s.pto, s.inFlight > 0)
	add(max(s.next, 0), s.more() && float64(s.inFlight+1) <= s.control.window())
	return s.begin.Add(at), ok
}

// more reports whether there are pieces to send.
func (s *sender) more() bool { return len(s.again) > 0 || s.fresh < s.total }

// AppendPacket appends the next packet if the window and the pacer allow one. They don't limit
// probes.
func (s *sender) AppendPacket(now time.Time, b []byte, _ int) ([]byte, uint64, bool) {
	t := s.at(now)
	s.now = t
	if t < 0 {
		return b, 0, false
	}
	if probing := s.probe && s.inFlight > 0; !probing {
		if !s.more() {
			s.limited = true
			return b, 0, false
		}
		if float64(s.inFlight+1) > s.control.window() || t < s.next {
			return b, 0, false
		}
	}
	n := len(s.packets)
	p := packet{
		piece: s.pick(), sent: t,
		delivered: s.delivered, at: s.lastAck,
		limited: s.limited, inFlight: true,
	}
	if s.inFlight == 0 {
		p.at = t
		s.lastAck = t
	}
	s.packets = append(s.packets, p)
	s.inFlight++
	s.probe = false
	s.limited = false
	if rate := s.control.pace(s.rtt.Current()); rate > 0 {
		s.next = max(s.next, t-pacerBurst) + time.Duration(1e9/rate)
	}
	s.setPTO(t)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = binary.BigEndian.AppendUint32(b, uint32(p.piece))
	return append(b, make([]byte, maxPacket-len(b))...), uint64(n), true
}

// pick returns the piece to send: a lost one, a new one or, for a probe, the oldest one in
// flight.
func (s *sender) pick() int {
	switch {
	case len(s.again) > 0:
		n := s.again[0]
		s.again = s.again[1:]
		return n
	case s.fresh < s.total:
		s.fresh++
		return s.fresh - 1
	}
	return s.packets[s.oldest].piece
}

// Receive handles a packet and decides when to send the next ack.
func (r *receiver) Receive(now time.Time, b []byte) error {
	n := binary.BigEndian.Uint32(b)
	piece := binary.BigEndian.Uint32(b[4:])
	r.arrived(now, piece)
	r.newest = append(r.newest, n)
	if len(r.newest) > ackNumbers {
		r.newest = append(r.newest[:0], r.newest[len(r.newest)-ackNumbers/2:]...)
	}
	gap := n > r.highest+1 || n < r.highest
	r.highest = max(r.highest, n)
	r.waiting++
	if r.waiting >= ackEvery || gap {
		r.due = now
	} else if r.due.IsZero() {
		r.due = now.Add(ackDelay)
	}
	return nil
}

func (r *receiver) Advance(time.Time) error        { return nil }
func (r *receiver) NextTimeout() (time.Time, bool) { return r.due, !r.due.IsZero() }
func (r *receiver) AppendPacket(now time.Time, b []byte, _ int) ([]byte, uint64, bool) {
	if r.due.IsZero() || now.Before(r.due) {
		return b, 0, false
	}
	r.due = time.Time{}
	r.waiting = 0
	for _, n := range r.newest {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b, 0, true
}

func (r *receiver) delays() []time.Duration { return nil }
func (r *receiver) spurious() uint64        { return r.sender.spuriousLosses }
