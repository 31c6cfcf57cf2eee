package scenes

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/sealed"
)

const (
	// maxPacket is the maximum packet size of every flow in bytes, without IP and UDP
	// headers.
	maxPacket = sealed.SafePacket
	// piece is the payload of a full packet of every flow, which is the room for chunks in a sealed
	// packet.
	piece = 1136
	// opening is how long before a transfer our carrier begins to open, unless the flow's Lead is
	// longer.
	opening = time.Second
	// callBytes is the payload of a packet of play (a game's own traffic), sent every playInterval.
	// callToken is the token of all such packets beside a transfer of ours.
	callBytes    = 100
	callToken    = 1 << 40
	playInterval = time.Second / 30
)

// An ours is one of our flows: a transfer between two sealed sessions.
type ours struct {
	*receipt // the receipt of to
	to       *source
	session  *sealed.Session
}

func (o ours) delays() []time.Duration { return o.to.callDelays }
func (o ours) spurious() uint64        { return o.session.Stats().Spurious }

// newOurs returns the two sessions of one of our flows. rate is the path's rate in bit/s, and rtt
// is its round trip.
func newOurs(
	f Flow, seed uint64, begin time.Time, rate int64, rtt time.Duration, siblings *sealed.Siblings,
) (client, server netsim.Machine, o ours) {
	sends := &source{begin: begin, total: pieces(f.Bytes), pause: f.Pause}
	if f.Refill > 0 {
		sends.refillEvery = f.Refill
		sends.refillPieces = int(1.2*float64(rate)/8*f.Refill.Seconds()) / maxPacket
		if f.Batch > 0 {
			sends.refillPieces = pieces(f.Batch)
			sends.batched = true
		}
	}
	if f.Plays {
		sends.nextCall = begin.Add(playPhase(seed) - f.lead())
	}
	o.to = &source{receipt: newReceipt(f.Bytes)}
	o.receipt = &o.to.receipt
	a := newSession(sends, true, seed, f.Train, rtt, siblings)
	b := newSession(o.to, false, seed, 0, rtt, nil)
	a.Start(begin.Add(-f.lead()), sealed.ID{1})
	b.Start(begin.Add(-f.lead()), sealed.ID{2})
	o.session = a
	if f.Moves > 0 {
		return &mover{Session: a, at: netsim.Epoch.Add(f.Moves), again: f.Roams}, b, o
	}
	return a, b, o
}

// newSession returns one end of a flow. As on a real connection, it knows the round trip rtt that
// QUIC measured. train is the rate in bit/s that its train of packets shows. If that is 0, the
// session sends a real train.
func newSession(
	s sealed.Source, client bool, seed uint64, train float64, rtt time.Duration, siblings *sealed.Siblings,
) *sealed.Session {
	c := sealed.SessionConfig{
		Exporter: export(seed), Instance: 1, Client: client, Source: s, RTT: rtt, Siblings: siblings,
		Controller: pace.New(pace.Config{Epoch: epoch(seed, siblings)}),
	}
	if train > 0 {
		const bytes = 16 * 1500
		c.NoTrain = true
		span := time.Duration(bytes * 8e9 / train)
		c.Controller.TrainMeasured(pace.Train{Bytes: bytes, Span: span, Even: true})
	}
	binary.LittleEndian.PutUint64(c.Seed[:], seed+1)
	session, err := sealed.NewSession(c)
	if err != nil {
		panic(err)
	}
	return session
}

// clocksDiffer is the maximum difference between two hosts' clocks.
const clocksDiffer = 200 * time.Millisecond

// playPhase returns when a flow sends its first packet of play, within the first playInterval.
func playPhase(seed uint64) time.Duration {
	return time.Duration(seed*2654435761%33) * time.Millisecond
}

// epoch returns when 1970 began by the clock of a flow's host.
func epoch(seed uint64, siblings *sealed.Siblings) time.Time {
	if siblings != nil { // all sessions of a server share its clock
		return time.Time{}
	}
	return time.Unix(0, int64(seed*2654435761%uint64(clocksDiffer)))
}

// export returns a substitute for the exporter of a TLS connection.
func export(seed uint64) sealed.Exporter {
	return func(label string, context []byte, length int) ([]byte, error) {
		h := hmac.New(sha256.New, binary.LittleEndian.AppendUint64(nil, seed))
		h.Write([]byte(label))
		h.Write(context)
		return h.Sum(nil)[:length], nil
	}
}

// pieces returns the number of pieces in a transfer. An endless transfer has more pieces than
// any scene sends.
func pieces(bytes int) int {
	if bytes == 0 {
		return 1 << 30
	}
	return (bytes + piece - 1) / piece
}

// A source is one end of a flow of ours. It sends numbered pieces, resends lost ones, and records
// what it receives.
type source struct {
	begin time.Time                      // start of the transfer
	total int                            // pieces of the transfer
	pause func(since time.Duration) bool // Flow.Pause
	now   time.Time                      // newest time passed to a method

	// Sending.
	next  uint32   // the first piece that hasn't been sent yet
	again []uint32 // lost pieces, to be sent again
	acked []uint64 // one bit for each piece that the peer has acked

	receipt // what arrived of the peer's transfer

	// Play beside the transfer.
	nextCall   time.Time       // time of the next call; zero = never
	calls      []time.Time     // times of the calls that wait to be sent
	callDelays []time.Duration // time each call of the peer took to arrive

	// Refills, if Flow.Refill is set.
	refillEvery  time.Duration // 0 if all pieces wait from the beginning
	refillPieces int           // number of pieces that wait after a refill
	batched      bool          // apart from lost pieces, no more than refillPieces wait
	refillLeft   int           // pieces of the refill that still wait; negative if one was missing
	refilledAt   time.Time     // time of the last refill
}

func (s *source) AppendPayload(now time.Time, buf []byte, room sealed.Room) ([]byte, uint64, sealed.Content, bool) {
	s.now = now
	if len(s.calls) > 0 && room.Max >= callBytes {
		buf = append(appendTime(buf, s.calls[0]), make([]byte, callBytes-timeBytes)...)
		s.calls = s.calls[1:]
		return buf, callToken, sealed.Content{Play: true}, true
	}
	paused := s.pause != nil && s.pause(now.Sub(netsim.Epoch))
	if room.Max < piece || !room.Bulk || now.Before(s.begin) || paused {
		return buf, 0, sealed.Content{}, false
	}
	for len(s.again) > 0 {
		n := s.again[0]
		s.again = s.again[1:]
		if !s.isAcked(n) {
			return appendPiece(buf, n), uint64(n), sealed.Content{Bulk: true}, true
		}
	}
	if int(s.next) >= s.total || !s.take() {
		return buf, 0, sealed.Content{}, false
	}
	s.next++
	return appendPiece(buf, s.next-1), uint64(s.next - 1), sealed.Content{Bulk: true}, true
}

// take takes one of the pieces that wait to be sent, after a refill if one is due, and reports
// whether there was one. Without Flow.Refill, there always is.
func (s *source) take() bool {
	if s.refillEvery == 0 {
		return true
	}
	if s.now.Sub(s.refilledAt) >= s.refillEvery {
		s.refilledAt = s.now
		s.refillLeft = s.refillPieces
	}
	s.refillLeft--
	return s.refillLeft >= 0
}

func (s *source) Waiting() int {
	if s.now.Before(s.begin) {
		return 0
	}
	fresh := s.total - int(s.next)
	switch {
	case !s.batched:
	case s.now.Sub(s.refilledAt) >= s.refillEvery:
		fresh = min(fresh, s.refillPieces)
	default:
		fresh = min(fresh, max(0, s.refillLeft))
	}
	return int(min(int64(fresh+len(s.again))*piece, math.MaxInt32)) // fits an int of any size
}

func appendPiece(b []byte, n uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, n)
	return append(b, make([]byte, piece-4)...)
}

func (s *source) isAcked(n uint32) bool {
	return int(n/64) < len(s.acked) && s.acked[n/64]&(1<<(n%64)) != 0
}

func (s *source) Acked(_ time.Time, token uint64) {
	if token == callToken {
		return
	}
	for len(s.acked) <= int(token/64) {
		s.acked = append(s.acked, 0)
	}
	s.acked[token/64] |= 1 << (token % 64)
}

func (s *source) Lost(_ time.Time, token uint64) {
	if token != callToken {
		s.again = append(s.again, uint32(token))
	}
}

func (s *source) Receive(now time.Time, b []byte) {
	if len(b) == callBytes {
		s.callDelays = append(s.callDelays, now.Sub(timeOf(b)))
		return
	}
	s.arrived(now, binary.BigEndian.Uint32(b))
}

func (s *source) Moved(time.Time) {}

func (s *source) Advance(now time.Time) {
	s.now = now
	for !s.nextCall.IsZero() && !now.Before(s.nextCall) {
		s.calls = append(s.calls, s.nextCall)
		s.nextCall = s.nextCall.Add(playInterval)
	}
}

// NextTimeout returns when the source may next have something to send, either a call of play or a
// piece of the transfer.
func (s *source) NextTimeout() (time.Time, bool) {
	at, ok := s.nextPiece()
	if !s.nextCall.IsZero() && (!ok || s.nextCall.Before(at)) {
		return s.nextCall, true
	}
	return at, ok
}

// nextPiece returns when a piece may next be ready: when the transfer begins, each millisecond
// during a pause, or at the next refill.
func (s *source) nextPiece() (time.Time, bool) {
	switch {
	case s.total > 0 && s.now.Before(s.begin):
		return s.begin, true
	case s.pause != nil && s.pause(s.now.Sub(netsim.Epoch)):
		return s.now.Add(time.Millisecond), true
	case s.refillEvery > 0 && s.refillLeft < 0 && int(s.next) < s.total:
		return s.refilledAt.Add(s.refillEvery), true
	}
	return time.Time{}, false
}

// A mover is a session whose address changes at a given time.
type mover struct {
	*sealed.Session
	at    time.Time
	again time.Duration // interval at which it changes again; 0 if it changes once
}

func (m *mover) Advance(now time.Time) error {
	if !m.at.IsZero() && !now.Before(m.at) {
		m.Moved(now)
		m.at = m.at.Add(m.again)
		if m.again == 0 {
			m.at = time.Time{}
		}
	}
	return m.Session.Advance(now)
}

func (m *mover) NextTimeout() (time.Time, bool) {
	at, ok := m.Session.NextTimeout()
	if !m.at.IsZero() && (!ok || m.at.Before(at)) {
		return m.at, true
	}
	return at, ok
}
