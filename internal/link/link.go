package link

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config adjusts a link; fields that are zero take the default named beside them.
type Config struct {
	// Wake is called without the lock, on any goroutine, after a machine's Wake was true, and once more after Done is closed.
	// It must not block. Default: nothing.
	Wake func()

	// Ended is called once, after Done is closed and the last Wake, on a goroutine of its own. It may block, and wait for others
	// who use the link. Default: nothing.
	Ended func()

	// Rate holds back unreliable data and bulk. Default: nothing is held back.
	Rate Rate

	// Logger logs paths that shrink and datagrams that are dropped. Default: nothing is logged.
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

// Link drives the machines of one connection. All methods may be called concurrently.
type Link struct {
	config  Config
	carrier Carrier

	// mu guards this group.
	mu       sync.Mutex
	play     Play      // the first machine
	slots    []slot    // all machines, in order of priority
	sealed   sealed    // the second carrier
	failed   error     // a machine's violation; no machine is called after it
	uncorked bool      // a Close has uncorked play
	rated    rated     // what Config.Rate holds back
	queued   queued    // bounds the datagrams in the carrier's queue
	mtu      mtu       // how large the next datagram may be
	pacer    pacer     // when it may leave
	heard    time.Time // when a machine last got something, or when the link began

	// The writer's sleep, in which it has no goroutine. Guarded by mu too.
	parked bool        // the writer has found nothing to do, and will not look again unless it is woken
	timer  *time.Timer // wakes the writer at wakeAt
	wakeAt time.Time   // in the past: timer is not set

	// Shared by the reader, the writer and the callers of Unlock. Each has a lock of its own or is atomic, but writer is its goroutine's.
	ring    ring          // datagrams that came while the writer was busy
	state   atomic.Int32  // of the writer: asleep, awake, again or stopped
	writing chan struct{} // holds a token while the writer's goroutine runs
	writer  writer
	write   func()      // writer.write, bound once, so that waking the writer allocates no closure
	sending atomic.Bool // the writer is in SendDatagram
	warned  atomic.Bool // a full ring was logged
	counts  counters

	expected atomic.Int64 // see Expect

	// The end.
	draining atomic.Bool // Close waits until the peer has acknowledged all reliable data
	closing  closing
	ctx      context.Context    // ends the reader and the writer
	cancel   context.CancelFunc // of ctx
	reading  sync.WaitGroup     // the reader's goroutine
	done     chan struct{}      // Done returns it
}

// New starts a link and its reader, which ends with the connection. From now on the link owns c. It calls the machines, in order of
// priority, only under its lock.
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
		l.slots = append(l.slots, slot{Machine: e, first: e.FirstByte(), second: e.SecondByte(), extension: e})
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

// Lock takes the lock around the machines. Until Unlock the connection stands still, so the caller must not block. It may call Close, Abort,
// Err and Stats.
func (l *Link) Lock() { l.mu.Lock() }

// LockNow is Lock, and returns the time. What reads the clock under the lock never sees it run back, as the machines ask for.
func (l *Link) LockNow() time.Time {
	l.mu.Lock()
	return time.Now()
}

// Expect says how many bytes of bulk the machines will be given later, besides those that they hold. The newest call counts. It is safe
// from any goroutine that does not hold the lock.
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

// Unlock releases the lock, and sends what may leave now, if that cannot block: in place of the writer when it sleeps, or of the sealed
// carrier. Otherwise it wakes them.
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

// UnlockLater is Unlock for a caller that unlocks many links in a row: the sealed carrier sends on another goroutine.
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

// release releases the lock. With look it first sends what may leave, in place of the writer, which sleeps.
func (l *Link) release(look bool) {
	if !look {
		l.mu.Unlock()
		return
	}
	o := l.sendDirect()
	l.mu.Unlock()
	l.conclude(o)
}

// drainSealed uncorks play and wakes the sealed carrier when Close begins to drain. Otherwise the writer does so, but it may be blocked in the
// first carrier.
func (l *Link) drainSealed() {
	l.mu.Lock()
	l.uncork()
	if l.sealed.carrier != nil {
		l.sealed.carrier.Wake()
	}
	l.mu.Unlock()
	l.relieve()
}

// changed reports whether a machine's Changed is true. It asks every machine, because the answer clears it.
func (l *Link) changed() (changed bool) {
	for i := range l.slots {
		changed = l.slots[i].Changed() || changed
	}
	return changed
}

// woken reports whether a machine's Wake is true. It asks every machine, because the answer clears it.
func (l *Link) woken() (woken bool) {
	for i := range l.slots {
		woken = l.slots[i].Wake() || woken
	}
	return woken
}

// Silence returns for how long nothing has come for a machine. It takes the lock.
func (l *Link) Silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.heard)
}
