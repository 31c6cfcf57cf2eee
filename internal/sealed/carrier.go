package sealed

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/udp"
)

// maxIDs is the number of this end's ids that are valid at a time. When more are issued, the oldest is retired.
const maxIDs = 8

// directTurns is how many turns others take in place of the carrier's goroutine. In the second they find what came during the first.
const directTurns = 2

// directBytes is how much others send in place of the carrier's goroutine: what a tick of play makes. A transfer that begins has queued its
// first part when the goroutine comes, and so goes behind the play of the same step.
const directBytes = 8 << 10

// Config holds the settings of a carrier. Its functions must not block. Changed, Ping and Ended are called on the carrier's own goroutine, the
// others on any that takes a turn: whoever unlocks the source, or reads the socket.
type Config struct {
	SessionConfig

	// Addrs returns the addresses to which and from which the QUIC connection sends now: the carrier sends nowhere else. It is called
	// each followBulk beside bulk, else each followPlay, and when packets come from elsewhere.
	Addrs func() (remote, local net.Addr)
	// MaxPacket returns the largest packet in bytes that the path takes, as QUIC has found. nil = SafePacket.
	MaxPacket func() int
	// NoJumbo keeps packets at MaxPacket. Else bulk on a fast path tries larger ones (see JumboPacket), where the kernel cuts what is sent.
	NoJumbo bool

	// Ping makes QUIC send a packet that is acked: when nothing was heard for a PTO, since only QUIC can find out where the peer is,
	// each PingTime while there is traffic, so that QUIC does not go idle, and beside bulk each five round trips until QUIC has found the
	// largest packet. nil = never.
	Ping     func()
	PingTime time.Duration // 0 = pings for traffic alone never leave
	// Observe is called under the lock, while there is work, to see what the controller knows of the path: at most once a millisecond
	// beside bulk, and else each 100 ms. nil = not called.
	Observe func(now time.Time, c *pace.Controller)
	// Mutex guards session and source; the source's owner may use it, too. nil = the carrier has one of its own.
	Mutex Mutex
	// Turned is called under the lock at the end of each turn; when it returns true, Woken is called without the lock. nil = not
	// called.
	Turned func() bool
	Woken  func()
	// Changed is called without the lock when the state has changed. nil = not called.
	Changed func(State)
	// Ended is called without the lock when Done has been closed, so that an owner need not wait for that. nil = not called.
	Ended func()
}

// Mutex is a lock for which who only tries need not wait.
type Mutex interface {
	sync.Locker
	TryLock() bool
}

// Carrier runs a session over a socket. All methods may be called concurrently.
type Carrier struct {
	config Config
	socket *Socket
	inbox  *inbox // packets that the socket has routed here

	mu      Mutex // guards session and issued
	session *Session
	issued  []ID // this end's valid ids, the oldest first
	first   []ID // the peer's first ids, for Start; not changed after NewCarrier

	worker worker        // says who takes the turns
	blocks bool          // the socket's writes may block
	bulk   atomic.Bool   // is in flight, or waits: set under the lock
	done   chan struct{} // closed when the session has closed

	run    runner
	counts carrierCounts
}

type carrierCounts struct{ writes, writeErrors atomic.Uint64 }

// CarrierStats counts what a carrier did.
type CarrierStats struct {
	Stats
	Writes      uint64 // calls that sent packets
	WriteErrors uint64 // calls of those that failed; their packets will count as lost
	Full        uint64 // packets dropped because the inbox was full
	Elsewhere   uint64 // packets dropped because too many came from other addresses
	Goroutines  uint64 // how many were started

	Rate      float64 // at which the controller paces, in bytes a second
	Window    int     // bytes that it lets be in flight
	MaxPacket int     // bytes of the largest packet with payloads that may leave now
}

// NewCarrier makes a carrier. It listens at once, and sends nothing before Start. The owner must close it before the connection
// or the socket.
func NewCarrier(socket *Socket, config Config) (*Carrier, error) {
	session, err := NewSession(config.SessionConfig)
	if err != nil {
		return nil, err
	}
	if config.Mutex == nil {
		config.Mutex = new(sync.Mutex)
	}
	c := &Carrier{config: config, mu: config.Mutex, socket: socket, session: session, done: make(chan struct{})}
	c.run.writer = udp.NewWriter(socket.sys)
	c.run.pinger.every = config.PingTime
	c.inbox = newInbox(c.arrived)
	c.blocks = socket.sys.Blocks()
	c.worker = worker{hand: c.hand, work: c.loop, empty: c.inbox.empty, real: socket.real, token: bell.New(), queue: socket.timers}
	c.worker.later.Fire = c.worker.expired
	c.inbox.lent = &socket.lent
	remote, _ := config.Addrs()
	c.inbox.setRemote(udp.AddrPort(remote))
	ours, theirs := toClient, toServer
	if !config.Client {
		ours, theirs = theirs, ours
	}
	if c.first, err = exportIDs(config.Exporter, config.Instance, theirs); err != nil {
		return nil, err
	}
	if c.issued, err = exportIDs(config.Exporter, config.Instance, ours); err != nil {
		return nil, err
	}
	if err = socket.register(c.inbox, c.issued...); err != nil {
		return nil, err
	}
	return c, nil
}

// Issue makes one more id for the peer, which has used one up, and retires the oldest when there are too many.
func (c *Carrier) Issue() ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.State() == Closed {
		return NewID() // of no carrier: its packets are dropped
	}
	c.issued = append(c.issued, c.socket.issue(c.inbox))
	if over := len(c.issued) - maxIDs; over > 0 {
		c.socket.retire(c.issued[:over]...)
		c.issued = slices.Delete(c.issued, 0, over)
	}
	return c.issued[len(c.issued)-1]
}

// Start begins to open the carrier.
func (c *Carrier) Start() {
	now := c.Lock()
	c.session.Start(now, c.first...)
	c.Unlock()
}

// AddIDs adds spare ids that the peer has issued.
func (c *Carrier) AddIDs(ids ...ID) {
	c.Lock()
	c.session.AddIDs(ids...)
	c.Unlock()
}

// Lock takes the lock of session and source, and returns the time for their methods. Until Unlock the carrier stands still, so
// the caller must not block.
func (c *Carrier) Lock() time.Time {
	c.mu.Lock()
	return time.Now()
}

// Unlock releases the lock and sends what the source may have to send now: at once, in place of the carrier's goroutine, if that takes no
// longer than play does and cannot block.
func (c *Carrier) Unlock() {
	c.mark()
	c.mu.Unlock()
	c.direct()
}

// Wake wakes the carrier, because its source has something to send. The caller holds the lock.
func (c *Carrier) Wake() {
	c.mark()
	c.worker.wake()
}

// mark notes that the source may have something to send, and whether that is bulk.
func (c *Carrier) mark() {
	c.session.Wake()
	if c.bulkWaits() {
		c.bulk.Store(true)
	}
}

// bulkWaits reports whether more than play waits to be sent. The caller holds the lock.
func (c *Carrier) bulkWaits() bool { return c.session.source.Waiting() > directBytes }

// stays reports whether there is bulk, for whose next packets the carrier's own goroutine stays. Only the goroutine that works calls it.
func (c *Carrier) stays() bool { return c.bulk.Load() || c.run.heavy() }

// Spares returns how many ids of the peer are left for changes of address. The owner asks the peer for more over QUIC.
func (c *Carrier) Spares() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.session.spares)
}

// Session returns the session, which may be used only under the lock.
func (c *Carrier) Session() *Session { return c.session }

// State returns the carrier's state.
func (c *Carrier) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.State()
}

// Err returns why the carrier is closed, an *[Error]; nil while it is not.
func (c *Carrier) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.Err()
}

// Stats returns a copy of the counters. It does not wake the carrier.
func (c *Carrier) Stats() CarrierStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CarrierStats{
		Stats:       c.session.Stats(),
		Writes:      c.counts.writes.Load(),
		WriteErrors: c.counts.writeErrors.Load(),
		Full:        c.inbox.full.Load(),
		Elsewhere:   c.inbox.elsewhere.Load(),
		Goroutines:  c.worker.started.Load(),
		Rate:        c.session.control.Rate(),
		Window:      c.session.control.Window(),
		MaxPacket:   c.maxPacket(),
	}
}

// maxPacket returns the size in bytes of the largest packet that collect could build for bulk now. The caller holds the lock, under which
// follow sets most.
func (c *Carrier) maxPacket() int {
	return c.session.limit(forPayload, max(SafePacket, c.run.most), !c.config.NoJumbo && c.socket.sys.GSO.Load())
}

// Close ends the carrier and returns at once. The source is told that payloads in flight are lost. Done is closed when the
// goroutine has ended.
func (c *Carrier) Close() {
	c.Lock()
	c.session.Close()
	c.Unlock()
}

// end closes the session because of err; the next turn cleans up.
func (c *Carrier) end(err error) {
	c.mu.Lock()
	c.session.end(err)
	c.mu.Unlock()
	c.worker.wake()
}

// loop is the goroutine.
func (c *Carrier) loop() {
	for !c.settle() {
		next, idle := c.heavyTurn()
		switch {
		case c.run.owes() || !idle || c.run.heavy() && c.worker.poll(next):
		case c.stays():
			if c.worker.sleep(next) {
				return
			}
		case c.worker.rest(next):
			return
		}
	}
}

// heavyTurn takes a turn of the goroutine. While others wait for processors it first waits until less bulk moves. A goroutine whose bulk has
// left still takes turns for play, which waits for nobody.
func (c *Carrier) heavyTurn() (next time.Time, idle bool) {
	if c.worker.crowded() && c.run.heavy() {
		heavyTurns.Take(nil)
		defer heavyTurns.End()
	}
	c.run.writer.MayWait = c.stays()
	return c.turn()
}

// arrived looks into the inbox. At once it does so on the caller's goroutine, the socket's reader, if nobody has the lock: its owner may wait
// for a processor, and all other carriers would wait with the reader.
func (c *Carrier) arrived(atOnce bool) {
	if atOnce && c.mu.TryLock() {
		c.mu.Unlock()
		c.direct()
	} else {
		c.worker.wake()
	}
}

// direct works on the caller's goroutine, if nobody works and that takes no longer than play does. Two switches of goroutines cost as much
// as a turn with play.
func (c *Carrier) direct() {
	switch {
	case !c.worker.enter():
	case c.light():
		c.play()
	default:
		c.worker.start()
	}
}

// hand has another goroutine work: one that takes turns for many carriers, or with bulk this carrier's own.
func (c *Carrier) hand() {
	if c.light() {
		c.socket.crew.Add(c)
	} else {
		c.worker.start()
	}
}

// light reports whether a turn takes no longer than play does, and never blocks. Only the goroutine that works calls it.
func (c *Carrier) light() bool { return !c.blocks && !c.run.owes() && !c.stays() }

// play takes a turn or two. When there is more to do the carrier's own goroutine does it.
func (c *Carrier) play() {
	c.run.writer.MayWait = false
	for range directTurns {
		next, idle := c.turn()
		if !idle || !c.light() {
			break
		}
		if c.worker.rest(next) {
			return
		}
	}
	c.worker.start()
}

// Done is closed when the carrier has ended, by Close or by itself, and no longer uses the socket.
func (c *Carrier) Done() <-chan struct{} { return c.done }
