package pace_test

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
)

const (
	payload = 1400         // bytes of the blob in a packet
	sealed  = payload + 29 // and what sealing adds
	charged = sealed + netsim.UDPOverhead
)

// A bulk is a simple reliable transfer over a controller: packets have numbers,
// acks have the arrivals of the last packets, losses are detected as in RFC
// 9002, and lost pieces are sent again. Parity is a perfect code over the whole
// blob: any pieces of it, as many as the blob has, are enough.
type bulk struct {
	index  int
	ctl    governor
	pieces int // of the blob
	parity int // more pieces, sent in the first pass
	begin  time.Time
	now    time.Time
	pause  func(now time.Time) bool // true: the application has nothing to send just now

	// The sender.
	fresh    int   // next piece never sent
	again    []int // pieces to send again
	acked    []bool
	copies   []int // packets in flight or unacked of each piece
	sent     []record
	oldest   int
	largest  int
	inFlight int
	probe    time.Time
	backoff  int
	probes   int
	bytes    int // of all packets, without the 28
	feedback map[uint64][]arrival

	// The receiver.
	got      []bool
	count    int
	finished time.Time
	arrivals []arrival
	unacked  int
	ackAt    time.Time
	acks     uint64
	highest  uint64
	gap      bool
	queued   []byte
	received int // bytes of payload
}

// governor is a congestion controller.
type governor interface {
	Sent(now time.Time, size, inFlight int) pace.Sample
	Acked(now time.Time, s pace.Sample, size int, arrival time.Time)
	Lost(now time.Time, s pace.Sample, size int)
	Feedback(now time.Time, inFlight int)
	Limited(inFlight int)
	Next(now time.Time, size, inFlight int) (time.Time, bool)
	RTT() (latest, smoothed, least time.Duration)
	PTO() time.Duration
}

type record struct {
	piece   int
	size    int
	at      time.Time
	sample  pace.Sample
	decided bool
	acked   bool
}

type arrival struct {
	number uint64
	at     time.Time
}

// The toy receiver's rules: those of package bunch, with a shorter delay.
const (
	ackEvery = 8
	ackDelay = 10 * ms
	ackTells = 128 // arrivals in an ack, so that lost ones do not matter
)

func newBulk(index, size int, ctl governor, begin time.Time) *bulk {
	b := &bulk{index: index, ctl: ctl, pieces: (size + payload - 1) / payload, begin: begin, feedback: make(map[uint64][]arrival)}
	b.largest = -1
	return b.withParity(0)
}

func (b *bulk) withParity(n int) *bulk {
	b.parity = n
	b.acked, b.copies, b.got = make([]bool, b.pieces+n), make([]int, b.pieces+n), make([]bool, b.pieces+n)
	return b
}

func (b *bulk) done() bool { return b.count >= b.pieces }

// took returns the time from the beginning to the last piece's arrival.
func (b *bulk) took() time.Duration { return b.finished.Sub(b.begin) }

// wire returns the bytes sent over the blob's bytes.
func (b *bulk) wire() float64 { return float64(b.bytes) / float64(b.pieces*payload) }

func (b *bulk) arrive(now time.Time, packet []byte) {
	n := number(packet)
	b.gap = b.gap || n > b.highest+1
	b.highest = max(b.highest, n)
	b.arrivals = append(b.arrivals, arrival{n, now})
	if len(b.arrivals) > ackTells {
		b.arrivals = b.arrivals[1:]
	}
	if b.unacked++; b.unacked == 1 {
		b.ackAt = now.Add(ackDelay)
	}
	piece := b.sent[n].piece
	if !b.got[piece] {
		b.got[piece] = true
		b.received += payload
		if b.count++; b.count == b.pieces {
			b.finished = now
			b.gap = true // an ack at once
		}
	}
	if b.unacked >= ackEvery || b.gap {
		b.gap = false
		b.ackAt = now
	}
}

// remote is a receiver's clock with an offset of its own.
func remote(t time.Time) time.Time { return t.Add(-1234567 * time.Second) }

func (b *bulk) reply(now time.Time) []byte {
	if b.unacked == 0 || now.Before(b.ackAt) {
		return nil
	}
	b.unacked = 0
	b.acks++
	b.feedback[b.acks] = slices.Clone(b.arrivals)
	return frame(b.index, b.acks, 60+2*min(len(b.arrivals), 2*ackEvery))
}

func (b *bulk) answer(now time.Time, packet []byte) {
	n := number(packet)
	news := b.feedback[n]
	delete(b.feedback, n)
	for _, a := range news {
		b.ack(now, a)
	}
	b.lose(now)
	b.ctl.Feedback(now, b.inFlight)
	b.backoff = 0
	b.arm(now)
}

func (b *bulk) ack(now time.Time, a arrival) {
	r := &b.sent[a.number]
	if r.acked {
		return
	}
	if !r.decided {
		b.inFlight -= r.size
	}
	r.decided, r.acked = true, true
	b.largest = max(b.largest, int(a.number))
	b.acked[r.piece] = true
	b.ctl.Acked(now, r.sample, r.size, remote(a.at))
}

// lose applies the packet threshold and the time threshold.
func (b *bulk) lose(now time.Time) {
	latest, smoothed, _ := b.ctl.RTT()
	limit := max(latest, smoothed) * 9 / 8
	for n := b.oldest; n < b.largest; n++ {
		r := &b.sent[n]
		if !r.decided && (b.largest-n >= 3 || now.Sub(r.at) > limit) {
			r.decided = true
			b.inFlight -= r.size
			b.ctl.Lost(now, r.sample, r.size)
			b.resend(r.piece)
		}
	}
	for b.oldest < len(b.sent) && b.sent[b.oldest].decided {
		b.oldest++
	}
}

// resend queues a piece; at the tail, when nothing new is left, twice, because
// a second loss would cost a round trip.
func (b *bulk) resend(piece int) {
	if b.acked[piece] || piece >= b.pieces {
		return
	}
	b.again = append(b.again, piece)
	if b.fresh == b.pieces+b.parity {
		b.again = append(b.again, piece)
	}
}

func (b *bulk) run(now time.Time) {
	b.now = now
	if b.inFlight > 0 && !now.Before(b.probe) {
		b.probes++
		b.backoff++
		b.arm(now)
	}
}

func (b *bulk) arm(now time.Time) { b.probe = now.Add(b.ctl.PTO() << min(b.backoff, 6)) }

// piece returns the next piece to send, -1 = none.
func (b *bulk) piece(now time.Time) int {
	for len(b.again) > 0 && b.acked[b.again[0]] {
		b.again = b.again[1:]
	}
	paused := b.pause != nil && b.pause(now)
	switch {
	case now.Before(b.begin):
		return -1
	case len(b.again) > 0:
		return b.again[0]
	case paused && b.probes > 0: // a lost tail is found out all the same
		return slices.Index(b.acked[:min(b.fresh, b.pieces)], false)
	case paused:
		return -1
	case b.fresh < b.pieces+b.parity:
		return b.fresh
	case b.probes > 0:
		return slices.Index(b.acked[:b.pieces], false)
	}
	return -1
}

func (b *bulk) poll(now time.Time) []byte {
	piece := b.piece(now)
	if piece < 0 {
		b.ctl.Limited(b.inFlight)
		return nil
	}
	at, ok := b.ctl.Next(now, charged, b.inFlight)
	if !ok || at.After(now) && b.probes == 0 {
		return nil
	}
	b.probes = 0
	switch {
	case len(b.again) > 0:
		b.again = b.again[1:]
	case piece == b.fresh:
		b.fresh++
	}
	if b.inFlight == 0 {
		b.backoff = 0
	}
	b.sent = append(b.sent, record{piece: piece, size: charged, at: now, sample: b.ctl.Sent(now, charged, b.inFlight)})
	if b.inFlight += charged; b.backoff == 0 {
		b.arm(now)
	}
	b.bytes += sealed
	return frame(b.index, uint64(len(b.sent)-1), sealed)
}

func (b *bulk) wait() time.Time {
	var next time.Time
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if b.unacked > 0 {
		earlier(b.ackAt)
	}
	if b.now.Before(b.begin) {
		earlier(b.begin)
	}
	if b.inFlight > 0 {
		earlier(b.probe)
	}
	if b.piece(b.now) >= 0 {
		if at, ok := b.ctl.Next(b.now, charged, b.inFlight); ok {
			earlier(at)
		}
	}
	return next
}
