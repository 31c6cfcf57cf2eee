package link

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config holds the settings of a link. A zero field takes the default in its comment.
type Config struct {
	// Wake is called without the lock, on any goroutine, after a machine's Wake returned
	// true. It is called once more after Done is closed. It must not block. Default: no call.
	Wake func()

	// Ended is called once, on its own goroutine, after Done is closed and after the last
	// Wake. It may block and may wait for other users of the link. Default: no call.
	Ended func()

	// Rate limits unreliable data and bulk. Default: no limit.
	Rate Rate

	// Logger logs paths that shrink and datagrams that are dropped. Default: no logging.
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

// A Link drives the machines of one connection. All methods may be called concurrently.
type Link struct {
	config  Config
	carrier Carrier

	// mu guards this group.
	mu       sync.Mutex
	play     Play      // the first machine
	slots    []slot    // all machines, in priority order
	sealed   sealed    // the second carrier
	failed   error     // a machine's violation; no machine is called after it
	uncorked bool      // a Close has uncorked play
	rated    rated     // what Config.Rate holds back now
	queued   queued    // bounds the datagrams in the carrier's queue
	mtu      mtu       // size limit of the next datagram
	pacer    pacer     // when the next datagram may be sent
	heard    time.Time // when a machine last received a datagram; at first, when the link started

	// The writer's sleep, during which it has no goroutine. Guarded by mu.
	parked bool        // the writer has nothing to do and will not look again until woken
	timer  *time.Timer // wakes the writer at wakeAt
	wakeAt time.Time   // in the past if timer is not set

	// Shared by the reader, the writer and the callers of Unlock. Each field has its own lock
	// or is atomic, except writer, which only its goroutine uses.
	ring    ring          // datagrams received while the writer was busy
	state   atomic.Int32  // state of the writer: asleep, awake, again or stopped
	writing chan struct{} // holds a token while the writer's goroutine runs
	writer  writer
	write   func()      // writer.write, bound once, so that waking the writer allocates no closure
	sending atomic.Bool // the writer is in SendDatagram
	warned  atomic.Bool // the warning about a full ring was logged
	counts  counters

	expected atomic.Int64 // argument of the last Expect

	// The end.
	draining atomic.Bool // Close waits until the peer has acknowledged all reliable data
	closing  closing
	ctx      context.Context    // ends the reader and the writer
	cancel   context.CancelFunc // of ctx
	reading  sync.WaitGroup     // the reader's goroutine
	done     chan struct{}      // returned by Done
}

// New starts a link and its reader, which runs until the connection ends. The link owns c
// from then on. It calls the machines only under its lock, in priority order.
func New(c Carrier, cfg Config, play Play, extensions ...Extension) *Link {
	l := &Link{
		config:  cfg.withDefaults(),
		carrier: c,
		play:    play,
		slots:   []slot{{Machine: play, first: play.FirstByte(), second: play.FirstByte()}},
		writing: make(chan struct{}, 1),
		done:    make(chan struct{}),
		heard:   time.Now(),
	}
	for _, e := range extensions {
		l.slots = append(l.slots, slot{
			Machine: e, extension: e,
			first: e.FirstByte(), second: e.SecondByte(),
		})
	}
	l.rated.rate = cfg.Rate
	l.writer = writer{Link: l, burst: burst{size: maxBurst}}
	l.write = l.writer.write
	l.timer = time.AfterFunc(time.Hour, l.writer.expired)
	l.timer.Stop()
	l.queued.capacity = c.SendQueue()
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.reading.Go(l.read)
	l.signal()
	return l
}

// Lock locks the machines. The link sends and receives nothing until Unlock, so the caller
// must not block. It may call Close, Abort, Err and Stats.
func (l *Link) Lock() { l.mu.Lock() }

// LockNow calls Lock and returns the time. Times read under the lock never go backwards,
// which the machines require.
func (l *Link) LockNow() time.Time {
	l.mu.Lock()
	return time.Now()
}

// Expect announces the number of bulk bytes that the machines will be given later, in
// addition to those they hold. Each call replaces the last. It may be called concurrently,
// but not by a goroutine that holds the lock.
func (l *Link) Expect(bytes int64) {
	if before := l.expected.Swap(bytes); (before > 0) == (bytes > 0) {
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

// Unlock releases the lock. If that cannot block, it also sends what may be sent now, instead
// of the sleeping writer or the sealed carrier's goroutine. Otherwise it wakes that writer or
// goroutine.
func (l *Link) Unlock() {
	switch by := l.sealed.carrier; {
	case by == nil:
		l.release(l.parked && l.changed())
	case l.changed():
		by.Unlock()
	default:
		l.mu.Unlock()
	}
	l.relieve()
}

// UnlockLater is Unlock for a caller that unlocks many links in a row. The sealed carrier
// sends on another goroutine.
func (l *Link) UnlockLater() {
	if l.sealed.carrier == nil {
		l.Unlock()
		return
	}
	if l.changed() {
		l.sealed.carrier.Wake()
	}
	l.mu.Unlock()
	l.relieve()
}

// release releases the lock. If look is true, it first sends what may be sent, instead of the
// sleeping writer.
func (l *Link) release(look bool) {
	if !look {
		l.mu.Unlock()
		return
	}
	o := l.sendDirect()
	l.mu.Unlock()
	l.conclude(o)
}

// drainSealed uncorks play and wakes the sealed carrier when Close starts to drain. The
// writer cannot be relied on to do this, because it may be blocked in the first carrier.
func (l *Link) drainSealed() {
	l.mu.Lock()
	l.uncork()
	if l.sealed.carrier != nil {
		l.sealed.carrier.Wake()
	}
	l.mu.Unlock()
	l.relieve()
}

// changed reports whether Changed of any machine returns true. It asks every machine, because
// Changed clears its answer.
func (l *Link) changed() (changed bool) {
	for i := range l.slots {
		changed = l.slots[i].Changed() || changed
	}
	return changed
}

// woken reports whether Wake of any machine returns true. It asks every machine, because Wake
// clears its answer.
func (l *Link) woken() (woken bool) {
	for i := range l.slots {
		woken = l.slots[i].Wake() || woken
	}
	return woken
}

// Silence returns the time since a machine last received a datagram. It takes the lock.
func (l *Link) Silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.heard)
}
