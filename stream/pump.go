package stream

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// A Channel is what a [Pump] needs to know about a reliable channel. rpc.Channel implements it, and
// so can a program's own type.
//
// rpc.Channel also has two methods that are optional. QueueTime() time.Duration returns how long it
// takes to send what is queued. Watch(out int, queued time.Duration) asks for another tick when
// fewer than out entries are outstanding and QueueTime is at most queued.
type Channel interface {
	// Reliable returns how many entries of the reliable buffer are outstanding (sent but not
	// acked), and how many the buffer has. Unreal Engine calls them NumOutRec and RELIABLE_BUFFER.
	Reliable() (out, slots int)
}

// The optional methods of a Channel.
type (
	queueTimer interface{ QueueTime() time.Duration }
	watcher    interface {
		Watch(out int, queued time.Duration)
	}
)

// Defaults of the fields of a Gate.
const (
	// Half of the reliable buffer, as in the article on streaming large data over Unreal's reliable
	// RPCs (see the package comment).
	defaultShare = 0.5
	// Slightly more than a tick at 60 Hz, so that the queue doesn't run empty between ticks.
	defaultQueueTime = 20 * time.Millisecond
)

// A Gate decides whether another RPC with bulk data may be sent on a channel. The zero Gate is open
// while less than half of the reliable buffer is outstanding and sending the queued bytes takes at
// most 20 ms.
//
// A limit on entries alone isn't enough: on a slow path, half a buffer takes seconds to send, and
// everything else on the path would have to wait for it.
type Gate struct {
	// Share is the share of the reliable buffer that may be outstanding, above 0 and below 1. If it
	// is 0, it defaults to 1/2.
	Share float64
	// QueueTime is the maximum time that the queued bytes may take to send. If it is 0, it defaults
	// to 20 ms. If it is negative, there is no limit.
	QueueTime time.Duration
}

// Open reports whether another RPC may be sent now. If nothing is outstanding, Open ignores the
// queue, so that one RPC can always be sent.
func (g Gate) Open(ch Channel) bool {
	out, slots := ch.Reliable()
	if out >= g.limit(slots) {
		return false
	}
	return out == 0 || g.queueTime() < 0 || queueTime(ch) <= g.queueTime()
}

// Check returns an error if RPCs of up to the given number of entries could overflow a reliable
// buffer of slots entries despite the gate, or if the gate would never open.
//
// If the gate closes at limit outstanding entries, at most limit-1+entries can ever be outstanding,
// because the gate is tested before each RPC. This must not exceed slots-1, because the last entry
// is reserved for closing the channel.
func (g Gate) Check(slots, entries int) error {
	if !(g.Share >= 0 && g.Share < 1) { // true for NaN
		return fmt.Errorf("stream: Share is %v; it must be above 0 and below 1, or 0 for the default", g.Share)
	}
	limit := g.limit(slots)
	switch {
	case limit < 1:
		return fmt.Errorf("stream: Share %v of a reliable buffer of %d entries is less than one entry: "+
			"raise Share or ReliableBuffer", g.share(), slots)
	case entries < 1:
		return fmt.Errorf("stream: RPC has %d entries; it must have at least 1 (see bunch.Entries)", entries)
	case entries > slots-limit: // rather than limit-1+entries > slots-1, where the sum may overflow
		return fmt.Errorf("stream: RPC may have %d entries; the limit is %d with a Share of %v: "+
			"lower MaxBytesPerRPC or Share, or raise ReliableBuffer", entries, slots-limit, g.share())
	}
	return nil
}

// watch asks for a tick when the gate opens again. If the channel has no Watch method, the pump has
// to wait for the program's next call of Tick.
func (g Gate) watch(ch Channel) {
	w, ok := ch.(watcher)
	if !ok {
		return
	}
	_, slots := ch.Reliable()
	queued := g.queueTime()
	if queued < 0 {
		queued = math.MaxInt64
	}
	w.Watch(g.limit(slots), queued)
}

func (g Gate) share() float64           { return cmp.Or(g.Share, defaultShare) }
func (g Gate) queueTime() time.Duration { return cmp.Or(g.QueueTime, defaultQueueTime) }

// limit returns the number of outstanding entries at which the gate closes.
func (g Gate) limit(slots int) int { return int(float64(slots) * g.share()) }

// queueTime returns how long it takes to send what is queued on ch, or 0 if ch can't tell.
func queueTime(ch Channel) time.Duration {
	if q, ok := ch.(queueTimer); ok {
		return q.QueueTime()
	}
	return 0
}

// A Pump sends RPCs on any reliable channel without overflowing its buffer: each tick sends RPCs as
// long as the gate is open. A closing RPC, which also waits for the gate, then tells the receiver
// that everything was sent.
//
// A Pump is not safe for concurrent use. Call it on the goroutine that makes the channel's RPCs.
type Pump struct {
	gate Gate
	ch   Channel
	emit func(rpc int) error // sends an RPC
	end  func() error        // sends the closing RPC; nil if there is none

	rpcs  int   // number of RPCs, excluding the closing one
	total int   // number of RPCs, including the closing one
	next  int   // index of the next RPC
	err   error // the error that stopped the pump
}

// NewPump returns a pump that calls emit to send each of the RPCs 0 to rpcs-1, and then calls end
// to send the closing one. If end is nil, there is no closing RPC. entries is the number of entries
// that the largest of all these RPCs needs in the reliable buffer (see [Gate.Check]).
func NewPump(ch Channel, gate Gate, rpcs, entries int, emit func(rpc int) error, end func() error) (*Pump, error) {
	switch {
	case rpcs < 0:
		return nil, fmt.Errorf("stream: NewPump: number of RPCs is %d; it must not be negative", rpcs)
	case ch == nil:
		return nil, errors.New("stream: NewPump: channel is nil: use actor.Channel(conn)")
	}
	_, slots := ch.Reliable()
	if err := gate.Check(slots, entries); err != nil {
		return nil, err
	}
	if emit == nil && rpcs > 0 {
		return nil, errors.New("stream: NewPump: emit is nil")
	}
	p := &Pump{gate: gate, ch: ch, emit: emit, end: end, rpcs: rpcs, total: rpcs}
	if end != nil {
		p.total++
	}
	return p, nil
}

// Tick sends what the gate allows now. done is true once the last RPC has been sent. If emit or end
// fails, the pump stops, and Tick returns that error from then on.
func (p *Pump) Tick() (done bool, err error) {
	for p.err == nil && p.next < p.total {
		if !p.gate.Open(p.ch) {
			p.gate.watch(p.ch)
			return false, nil
		}
		p.err = p.sendNext()
	}
	return p.err == nil, p.err
}

// Sent returns how many RPCs have been sent, excluding the closing one.
func (p *Pump) Sent() int { return min(p.next, p.rpcs) }

// sendNext sends the next RPC, which may be the closing one.
func (p *Pump) sendNext() error {
	if p.next == p.rpcs {
		p.next++
		return p.end()
	}
	if err := p.emit(p.next); err != nil {
		return err
	}
	p.next++
	if out, _ := p.ch.Reliable(); out == 0 {
		return errNotCounted
	}
	return nil
}

// errNotCounted stops a pump if its channel has no outstanding entry right after an RPC. The gate
// would never close, so the pump would send everything at once.
var errNotCounted = errors.New("stream: channel has no outstanding entry after a reliable RPC: " +
	"check that it is open and that the RPCs use it")
