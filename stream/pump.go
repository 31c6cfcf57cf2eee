package stream

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// A Channel is a reliable channel as a pump sees it. An rpc.Channel is one, and a program may
// implement its own.
//
// A Channel may have two more methods. QueueTime() time.Duration returns how long its queued
// bytes take to send. Watch(out int, queued time.Duration) asks for another tick when fewer
// than out entries are outstanding and QueueTime is at most queued.
type Channel interface {
	// Reliable returns the number of entries of the reliable buffer that are in use, and the
	// total number of entries. UE: NumOutRec, RELIABLE_BUFFER.
	Reliable() (out, slots int)
}

// Defaults of the fields of a Gate.
const (
	defaultShare     = 0.5 // the article's half of the reliable buffer
	defaultQueueTime = 20 * time.Millisecond
)

// A Gate decides whether a channel may take one more RPC of bulk data. The zero Gate allows the
// article's half of the reliable buffer, and a queue of at most 20 ms.
//
// A limit on entries alone is not enough. On a slow path, half a buffer takes seconds to send,
// and everything that shares the path has to wait for it.
type Gate struct {
	// Share is the part of the reliable buffer that may be in use, above 0 and below 1. The
	// default is 1/2.
	Share float64
	// QueueTime is how long the queued bytes may take to send. The default is 20 ms. If it is
	// negative, there is no limit.
	QueueTime time.Duration
}

// Open reports whether one more RPC may be sent now. If nothing is outstanding, the queue
// doesn't matter, so that one RPC can always be sent.
func (g Gate) Open(ch Channel) bool {
	out, slots := ch.Reliable()
	if out >= g.limit(slots) {
		return false
	}
	return out == 0 || g.queueTime() < 0 || queueTime(ch) <= g.queueTime()
}

// Check returns an error unless RPCs of the given number of entries are safe with this gate.
//
// The gate is tested before an RPC, so at most limit-1+entries entries can ever be outstanding.
// This must not exceed slots-1, because the last slot is reserved for a close.
func (g Gate) Check(slots, entries int) error {
	limit := g.limit(slots)
	switch {
	case !(g.Share >= 0 && g.Share < 1): // true for NaN
		return fmt.Errorf("stream: share %v of the reliable buffer is not above 0 and below 1", g.Share)
	case limit < 1:
		return fmt.Errorf("stream: share %v of a reliable buffer of %d entries is less than one entry; "+
			"raise Share or ReliableBuffer", g.share(), slots)
	case entries < 1:
		return fmt.Errorf("stream: an RPC of %d entries of the reliable buffer: it takes one at least, "+
			"as bunch.Entries says", entries)
	case entries > slots-limit: // rather than limit-1+entries > slots-1, where the sum may overflow
		return fmt.Errorf("stream: RPCs of %d entries each behind a gate at %d of %d could reach %d outstanding, "+
			"but %d are usable; at most %d entries an RPC are safe: lower MaxBytesPerRPC or Share, or raise ReliableBuffer",
			entries, limit, slots, uint(limit-1+entries), slots-1, slots-limit) // as an int the sum may overflow
	}
	return nil
}

// watch asks for a tick when the gate opens again, if the channel can do that. If it can't, the
// pump just waits for its next Tick.
func (g Gate) watch(ch Channel) {
	watcher, ok := ch.(interface {
		Watch(out int, queued time.Duration)
	})
	if !ok {
		return
	}
	_, slots := ch.Reliable()
	queued := g.queueTime()
	if queued < 0 {
		queued = math.MaxInt64
	}
	watcher.Watch(g.limit(slots), queued)
}

func (g Gate) share() float64 {
	return cmp.Or(g.Share, defaultShare)
}

// limit returns the number of outstanding entries at which the gate closes.
func (g Gate) limit(slots int) int { return int(float64(slots) * g.share()) }

func (g Gate) queueTime() time.Duration {
	return cmp.Or(g.QueueTime, defaultQueueTime)
}

func queueTime(ch Channel) time.Duration {
	if q, ok := ch.(interface{ QueueTime() time.Duration }); ok {
		return q.QueueTime()
	}
	return 0
}

// A Pump runs the article's algorithm over any reliable channel: in each tick, it sends RPCs for
// as long as the gate is open. After the last one, a closing RPC says that everything was sent.
// It waits for the same gate.
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
// largest of these RPCs takes (see [Gate.Check]).
func NewPump(ch Channel, gate Gate, rpcs, entries int, emit func(rpc int) error, end func() error) (*Pump, error) {
	switch {
	case rpcs < 0:
		return nil, fmt.Errorf("stream: a pump of %d RPCs", rpcs)
	case ch == nil:
		return nil, errors.New("stream: a pump of no channel; actor.Channel(conn) is one")
	}
	_, slots := ch.Reliable()
	if err := gate.Check(slots, entries); err != nil {
		return nil, err
	}
	if emit == nil && rpcs > 0 {
		return nil, fmt.Errorf("stream: a pump of %d RPCs and no function that sends them", rpcs)
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
		return errStuck
	}
	return nil
}

// errStuck ends a pump whose channel has no entry outstanding right after an RPC. The gate of
// such a channel never closes, so the pump would send everything at once.
var errStuck = errors.New("stream: the channel counts no entry after a reliable RPC; " +
	"is it the channel that the RPCs use, and is it open?")
