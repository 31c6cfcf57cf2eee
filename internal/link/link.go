package link

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config holds the settings of a link. The zero value of each field is valid.
type Config struct {
	// Wake is called after a machine's Wake returns true, and once more after Done is closed.
	// It may be called from any goroutine, without the link's lock, and must not block.
	Wake func()

	// Ended is called once, after Done is closed and Wake has returned for the last time. It
	// may block, even to wait for other users of the link, because it runs on a goroutine of
	// its own.
	Ended func()

	// Rate limits unreliable data and bulk. If it's nil, there is no limit.
	Rate Rate

	// Logger gets a message when a path shrinks and when we drop datagrams. If it's nil,
	// nothing is logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Wake == nil {
		c.Wake = func() {}
	}
	if c.Ended == nil {
		c.Ended = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Link runs the protocol machines of one connection over its carrier. Its methods are safe for
// concurrent use.
type Link struct {
	config  Config
	carrier Carrier

	// Guarded by mu, like the machines themselves.
	mu       sync.Mutex
	play     Play         // the first machine, which carries the game's own traffic
	slots    []slot       // all machines, in priority order
	sealed   sealed       // the second carrier
	failed   error        // a machine's violation; after one, we call no machine again
	uncorked bool         // a Close has uncorked play
	limiter  limiter      // until when Config.Rate delays unreliable data and bulk
	queued   carrierQueue // the datagrams that may be in the carrier's queue
	mtu      mtu          // the maximum size of the next datagram
	pacer    pacer        // when the next datagram may be sent
	heard    time.Time    // when a machine last received a datagram; at first, when the link started

	// The sleeping writer, which has no goroutine. Guarded by mu.
	parked bool  // the writer found nothing to do, and doesn't look again until it's woken
	alarm  alarm // wakes the writer

	// Shared by the reader, the writer and the callers of Unlock. Each is safe for concurrent use,
	// except for the fields of writer that say otherwise.
	ring     ring // datagrams received while the writer was busy
	writer   writer
	warned   atomic.Bool  // we logged that the ring was full
	expected atomic.Int64 // bytes of bulk that Expect has announced
	counts   counters

	// The end.
	draining atomic.Bool // Close was called, and waits for the peer to acknowledge all reliable data
	closing  closing
	ctx      context.Context    // ends the reader and the writer
	cancel   context.CancelFunc // cancels ctx
	reading  sync.WaitGroup     // waits for the reader's goroutine
	done     chan struct{}      // returned by Done
}

// New starts a link and its reader, which runs until the connection ends. The link then owns the
// carrier and calls the machines in priority order, always with the lock held.
func New(c Carrier, cfg Config, play Play, extensions ...Extension) *Link {
	l := &Link{
		config:  cfg.withDefaults(),
		carrier: c,
		play:    play,
		slots:   []slot{{Machine: play, first: play.FirstByte(), second: play.FirstByte()}},
		done:    make(chan struct{}),
		heard:   time.Now(),
	}
	for _, e := range extensions {
		l.slots = append(l.slots, slot{
			Machine: e, extension: e,
			first: e.FirstByte(), second: e.OtherFirstByte(),
		})
	}
	l.limiter.rate = cfg.Rate
	l.writer.init(l)
	l.alarm.init(l.writer.onTimer)
	l.queued.capacity = c.SendQueue()
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.reading.Go(l.read)
	l.writer.signal()
	return l
}

// Lock locks the machines. Nothing is sent or received until Unlock, so the caller must not
// block. While holding the lock, it may call Close, Abort, Err and Stats.
func (l *Link) Lock() { l.mu.Lock() }

// LockNow calls Lock and then returns the time. The order matters, because machines rely on a time
// that never goes backward, and only times that are read with the lock held are in order.
func (l *Link) LockNow() time.Time {
	l.mu.Lock()
	return time.Now()
}

// Expect announces the number of bytes of bulk (transfers) that the machines will be given later,
// in addition to what they already hold. Each call replaces the previous announcement. It is safe
// for concurrent use, but the caller must not hold the lock.
func (l *Link) Expect(bytes int64) {
	before := l.expected.Swap(bytes)
	if (before > 0) == (bytes > 0) {
		// The machines only need to know whether there is more to come.
		return
	}
	now := l.LockNow()
	defer l.Unlock()
	if l.failed != nil {
		return
	}
	l.sealed.path.More = l.expected.Load() > 0
	for i := range l.slots {
		l.slots[i].SetPath(now, l.sealed.path)
	}
}

// Unlock releases the lock. If there is something to send, Unlock sends it, and wakes the sleeping
// writer or the sealed carrier's goroutine only if sending might block.
func (l *Link) Unlock() {
	switch {
	case l.sealed.inUse():
		if l.takeChanges() {
			l.sealed.carrier.Unlock() // releases l.mu, which the carrier shares (see Source)
		} else {
			l.mu.Unlock()
		}
	case l.parked && l.takeChanges():
		o := l.sendDirect()
		l.mu.Unlock()
		l.carryOut(o)
	default:
		// Nothing changed, or the writer is awake and will find what changed.
		l.mu.Unlock()
	}
	l.emptyRing()
}

// UnlockLater is like Unlock, for a caller that unlocks many links in a row. It leaves sealed
// packets to the carrier's goroutine instead of sending them itself.
func (l *Link) UnlockLater() {
	if !l.sealed.inUse() {
		l.Unlock()
		return
	}
	if l.takeChanges() {
		l.sealed.wake()
	}
	l.mu.Unlock()
	l.emptyRing()
}

// drainSealed uncorks play and wakes the sealed carrier, so that the drain of a Close can begin.
// The writer would do this too, but it may be blocked in the first carrier for a long time.
func (l *Link) drainSealed() {
	l.mu.Lock()
	l.uncork()
	l.sealed.wake()
	l.mu.Unlock()
	l.emptyRing()
}

// takeChanges reports whether any machine has changed since the last call. It asks every machine,
// even after one has said yes, because asking clears the answer.
func (l *Link) takeChanges() (changed bool) {
	for i := range l.slots {
		if l.slots[i].Changed() {
			changed = true
		}
	}
	return changed
}

// takeWakeUps reports whether any machine wants its owner woken. Like takeChanges, it asks every
// machine.
func (l *Link) takeWakeUps() (woken bool) {
	for i := range l.slots {
		if l.slots[i].Wake() {
			woken = true
		}
	}
	return woken
}

// Silence returns the time since a machine last received a datagram. It takes the lock.
func (l *Link) Silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.heard)
}
