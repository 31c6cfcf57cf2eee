package stream

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// A Channel is a reliable channel as a [Pump] sees it. An rpc.Channel is one, and a program may
// implement its own.
//
// A Channel may have two more methods, which rpc.Channel has. QueueTime() time.Duration returns how
// long it takes to send what is queued. Watch(out int, queued time.Duration) asks for another tick
// when fewer than out entries are outstanding and QueueTime is at most queued.
type Channel interface {
	// Reliable returns the number of entries of the reliable buffer that are in use, and the
	// total number of entries. Unreal Engine calls them NumOutRec and RELIABLE_BUFFER.
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
	defaultShare     = 0.5 // the article's half of the reliable buffer
	defaultQueueTime = 20 * time.Millisecond
)

// A Gate decides whether another RPC of bulk data may be sent on a channel. The zero Gate allows
// the article's half of the reliable buffer, and a queue of at most 20 ms.
//
// A limit on entries alone is not enough, because half a buffer takes seconds to send on a slow
// path, and everything that shares the path has to wait for it.
type Gate struct {
	// Share is the part of the reliable buffer that may be in use, above 0 and below 1. The
	// default is 1/2.
	Share float64
	// QueueTime is how long the queued bytes may take to send. The default is 20 ms. If it is
	// negative, there is no limit.
	QueueTime time.Duration
}

// Open reports whether another RPC may be sent now. If nothing is outstanding, the queue doesn't
// matter, so that one RPC can always be sent.
func (g Gate) Open(ch Channel) bool {
	out, slots := ch.Reliable()
	if out >= g.limit(slots) {
		return false
	}
	return out == 0 || g.queueTime() < 0 || queueTime(ch) <= g.queueTime()
}

// Check returns an error unless RPCs of the given number of entries are safe with this gate.
//
// The gate is tested before each RPC, so at most limit-1+entries entries can ever be outstanding.
// This must not exceed slots-1, because the last slot is reserved for a close.
func (g Gate) Check(slots, entries int) error {
	limit := g.limit(slots)
	switch {
	case !(g.Share >= 0 && g.Share < 1): // true for NaN
		return fmt.Errorf("stream: Share is %v; it must be above 0 and below 1", g.Share)
	case limit < 1:
		return fmt.Errorf("stream: Share %v of a reliable buffer of %d entries is less than one entry: "+
			"raise Share or ReliableBuffer", g.share(), slots)
	case entries < 1:
		return fmt.Errorf("stream: RPC has %d entries; it must have at least 1 (see bunch.Entries)", entries)
	case entries > slots-limit: // rather than limit-1+entries > slots-1, where the sum may overflow
		return fmt.Errorf("stream: RPCs of %d entries with a gate at %d of %d could have %d outstanding, "+
			"but only %d are usable; the limit for an RPC is %d: lower MaxBytesPerRPC or Share, or raise ReliableBuffer",
			entries, limit, slots, uint(limit-1+entries), slots-1, slots-limit) // as an int the sum may overflow
	}
	return nil
}

// watch asks for a tick when the gate opens again. If the channel has no Watch, the pump waits for
// its next Tick.
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

// A Pump runs the article's algorithm over any reliable channel: each tick sends RPCs as long as
// the gate is open. A closing RPC, which waits for the same gate, then says that everything was
// sent.
//
// A Pump is not safe for concurrent use. Call it on the goroutine that makes the channel's
// RPCs.
type Pump struct {
	gate Gate
	ch   Channel
	emit func(rpc int) error // sends an RPC
	end  func() error        // sends the closing RPC; nil if there is none

	rpcs  int   // number of RPCs, excluding the closing one
	steps int   // number of RPCs, including the closing one
	next  int   // index of the next RPC
	err   error // sticky error of emit or end
}

// NewPump returns a pump that sends RPCs 0 to rpcs-1 with emit, and then the closing one with
// end, unless end is nil. entries is the number of entries of the reliable buffer that the
// largest of these RPCs uses (see [Gate.Check]).
func NewPump(ch Channel, gate Gate, rpcs, entries int, emit func(rpc int) error, end func() error) (*Pump, error) {
	switch {
	case rpcs < 0:
		return nil, fmt.Errorf("stream: NewPump: negative number of RPCs %d", rpcs)
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
	p := &Pump{gate: gate, ch: ch, emit: emit, end: end, rpcs: rpcs, steps: rpcs}
	if end != nil {
		p.steps++
	}
	return p, nil
}

// Tick sends what the gate allows now. done is true once the last RPC has been sent. An error of
// emit or end ends the pump, and every later Tick returns it again.
func (p *Pump) Tick() (done bool, err error) {
	for p.err == nil && p.next < p.steps {
		if !p.gate.Open(p.ch) {
			p.gate.watch(p.ch)
			return false, nil
		}
		p.err = p.step()
	}
	return p.err == nil, p.err
}

// Sent returns how many RPCs have been sent, not counting the closing one.
func (p *Pump) Sent() int { return min(p.next, p.rpcs) }

// step sends the next RPC, which may be the closing one.
func (p *Pump) step() error {
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

// errNotCounted ends a pump whose channel has no entry outstanding right after an RPC. The gate of
// such a channel never closes, so the pump would send everything at once.
var errNotCounted = errors.New("stream: channel has no entry outstanding after a reliable RPC: " +
	"check that it is open, and that it is the one the RPCs use")
