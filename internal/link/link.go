package link

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config holds what a link may be told; zero fields take the default named beside them.
type Config struct {
	// Wake is called without the lock, from any goroutine, when a machine's Wake said true, and once more after Done is
	// closed. It must not block. Default: nothing.
	Wake func()

	// Ended is called once, after Done is closed and the last Wake, on a goroutine of its own that nobody waits for: so it may
	// block, and wait for others who use the link. Default: nothing.
	Ended func()

	// Rate holds back what is not urgent. Default: nothing is held.
	Rate Rate

	// Now is the clock of the machines. Default: time.Now.
	Now func() time.Time

	// Logger hears of shrunken paths and dropped datagrams. Default: nothing is logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Wake == nil {
		c.Wake = func() {}
	}
	if c.Ended == nil {
		c.Ended = func() {}
	}
	if c.Now == nil {
		c.Now = time.Now
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

	// The machines, in order of priority, and what goes with them.
	mu       sync.Mutex
	slots    []slot
	last     time.Time // the clock never runs back
	mtu      mtu
	pacer    pacer
	queued   queued
	rated    rated
	sealed   sealed
	failed   error // a machine's violation, after which none is called
	uncorked bool

	// The writer's sleep, in which it is no goroutine.
	parked bool // the writer found nothing to do
	timer  *time.Timer
	wakeAt time.Time // when timer wakes it; it does not when that is past

	// Between the goroutines.
	ring    ring
	state   atomic.Int32  // of the writer
	writing chan struct{} // holds a token while the writer writes
	writer  writer
	write   func()      // the writer's, made once
	sending atomic.Bool // the writer is inside SendDatagram
	warned  atomic.Bool // of a full ring
	counts  counters

	expected atomic.Int64 // bytes of bulk that the machines will yet be given

	// The end.
	closing  closing
	draining atomic.Bool
	ctx      context.Context
	cancel   context.CancelFunc
	reading  sync.WaitGroup
	done     chan struct{}
}

// New starts the reader of a link, which ends with the connection. The link owns c from here and calls the machines, which
// stand in order of priority, only under its lock.
func New(c Carrier, cfg Config, machines ...Machine) *Link {
	l := &Link{
		config:  cfg.withDefaults(),
		carrier: c,
		slots:   make([]slot, len(machines)),
		writing: make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	for i, m := range machines {
		l.slots[i] = newSlot(m)
	}
	l.rated.rate = cfg.Rate
	l.writer = writer{Link: l, burst: burst{size: maxBurst}}
	l.write = l.writer.write
	l.timer = time.AfterFunc(time.Hour, l.writer.expired)
	l.timer.Stop()
	if q, ok := c.(Queuer); ok {
		l.queued.capacity = q.SendQueue()
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.reading.Go(l.read)
	l.signal()
	return l
}

// Lock takes the lock around the machines and returns the link's clock, which never runs back. Its holder stops the
// connection and must not block. Close, Abort, Err and Stats are allowed under the lock.
func (l *Link) Lock() time.Time {
	l.mu.Lock()
	return l.lockedNow()
}

// lockedNow reads the clock. The lock is held.
func (l *Link) lockedNow() time.Time {
	now := l.config.Now()
	if now.Before(l.last) {
		now = l.last
	}
	l.last = now
	return now
}

// Expect says how many bytes of bulk the machines will yet be given beside what they hold. The newest word counts. It may be called on
// any goroutine.
func (l *Link) Expect(bytes int64) { l.expected.Store(bytes) }

// Unlock releases the lock. What may leave now does so at once while the writer sleeps and the carrier cannot block;
// otherwise the writer is woken.
func (l *Link) Unlock() {
	if l.sealed.carrier == nil {
		l.release(l.parked && l.changed())
	} else {
		if l.changed() {
			l.sealed.carrier.Wake()
		}
		l.mu.Unlock()
	}
	l.relieve()
}

// release releases the lock. Look: something may leave, and the writer sleeps.
func (l *Link) release(look bool) {
	if !look {
		l.mu.Unlock()
		return
	}
	d := l.sendDirect()
	l.mu.Unlock()
	l.conclude(d)
}

// drainSealed has the sealed carrier look, whatever the writer is stuck in.
func (l *Link) drainSealed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uncork()
	if l.sealed.carrier != nil {
		l.sealed.carrier.Wake()
	}
}

// changed asks every machine, because each forgets when it was asked.
func (l *Link) changed() bool {
	changed := false
	for i := range l.slots {
		changed = l.slots[i].changed() || changed
	}
	return changed
}

// woken asks every machine, because each forgets when it was asked.
func (l *Link) woken() bool {
	woken := false
	for i := range l.slots {
		woken = l.slots[i].Wake() || woken
	}
	return woken
}
