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

// maxIDs is how many of this end's ids are valid at a time. When one more is
// issued, the oldest is retired.
const maxIDs = 8

// directTurns is how many turns direct takes in place of the carrier's
// goroutine. The second handles what has arrived during the first.
const directTurns = 2

// directBytes is the most bytes that may wait to be sent if direct is to send
// them: as much as a tick of play. The first part of a transfer is more. So it is
// left to the carrier's goroutine, which sends the play of the same step first.
const directBytes = 8 << 10

// Config holds the settings of a carrier. Its functions must not block. Changed,
// Ping and Ended are called on the carrier's own goroutine, the others on any
// goroutine that takes a turn: also the caller of Unlock, or the socket's reader.
type Config struct {
	SessionConfig

	// Addrs returns the addresses to which and from which the QUIC connection sends now.
	// The carrier sends to and from these only. It is called every followBulk while bulk is
	// in flight, every followPlay otherwise, and when packets arrive from another address.
	Addrs func() (remote, local net.Addr)
	// MaxPacket returns the largest packet, in bytes, that QUIC has found the
	// path to take. nil = SafePacket.
	MaxPacket func() int
	// NoJumbo limits packets to MaxPacket. Otherwise bulk on a fast path probes
	// for larger ones (see JumboPacket), if the kernel has GSO.
	NoJumbo bool

	// Ping makes QUIC send a packet that is acked. It is called if no ack has arrived for
	// a PTO, because only QUIC can find out a new address of the peer; every PingTime
	// while there is traffic, so that QUIC does not become idle; and every five round
	// trips while bulk is in flight, until QUIC has found the largest packet. nil = never.
	Ping     func()
	PingTime time.Duration // 0 = no pings because of traffic alone
	// Observe is called under the lock, while there is work, with what the
	// controller knows of the path: at most once a millisecond while bulk is in
	// flight, and otherwise every 100 ms. nil = not called.
	Observe func(now time.Time, c *pace.Controller)
	// Mutex guards session and source; the source's owner may lock it, too. nil
	// = the carrier makes one.
	Mutex Mutex
	// Turned is called under the lock at the end of each turn. If it returns
	// true, Woken is called without the lock. nil = not called.
	Turned func() bool
	Woken  func()
	// Changed is called without the lock after the state has changed. nil = not called.
	Changed func(State)
	// Ended is called without the lock after Done has been closed, so that the
	// owner needs no goroutine that waits for Done. nil = not called.
	Ended func()
}

// A Mutex is a lock that can be tried without waiting for it.
type Mutex interface {
	sync.Locker
	TryLock() bool
}

// A Carrier runs a session over a socket. All methods may be called concurrently.
type Carrier struct {
	config Config
	socket *Socket
	inbox  *inbox // packets that the socket has routed to this carrier

	mu      Mutex // guards session and issued
	session *Session
	issued  []ID // this end's valid ids, oldest first
	first   []ID // the peer's first ids, for Start; set by NewCarrier

	worker worker        // decides which goroutine takes the turns
	blocks bool          // the socket's writes may block
	bulk   atomic.Bool   // bulk is in flight or waits; written under mu
	done   chan struct{} // closed when the session has closed

	run    runner
	counts carrierCounts
}

// carrierCounts are the counters of flush.
type carrierCounts struct{ writes, writeErrors atomic.Uint64 }

// CarrierStats counts what a carrier did.
type CarrierStats struct {
	Stats
	Writes      uint64 // calls that sent packets
	WriteErrors uint64 // writes that failed; their packets will count as lost
	Full        uint64 // packets dropped because the inbox was full
	Elsewhere   uint64 // packets dropped because too many came from other addresses
	Goroutines  uint64 // how many goroutines were started

	Rate      float64 // the controller's pacing rate, in bytes a second
	Window    int     // bytes that the controller allows in flight
	MaxPacket int     // bytes of the largest packet with payloads that may be sent now
}

// NewCarrier makes a carrier. It receives from now on, and sends nothing before
// Start. The owner must close it before the connection and the socket.
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

// Issue makes one more id for the peer, which has used one, and retires the
// oldest if there are more than maxIDs.
func (c *Carrier) Issue() ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.State() == Closed {
		return NewID() // an id of no carrier, whose packets are dropped
	}
	c.issued = append(c.issued, c.socket.issue(c.inbox))
	if over := len(c.issued) - maxIDs; over > 0 {
		c.socket.retire(c.issued[:over]...)
		c.issued = slices.Delete(c.issued, 0, over)
	}
	return c.issued[len(c.issued)-1]
}

// Start starts to open the carrier.
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

// Lock locks session and source, and returns the time to pass to their methods.
// The carrier can take no turn before Unlock, so the caller must not block.
func (c *Carrier) Lock() time.Time {
	c.mu.Lock()
	return time.Now()
}

// Unlock releases the lock and sends what the source has to send. It does so on
// the calling goroutine if that cannot block and takes no longer than a turn
// with play; otherwise the carrier's goroutine does.
func (c *Carrier) Unlock() {
	c.mark()
	c.mu.Unlock()
	c.direct()
}

// Wake wakes the carrier because its source has something to send. The caller holds the lock.
func (c *Carrier) Wake() {
	c.mark()
	c.worker.wake()
}

// mark records that the source may have something to send, and whether that is
// bulk. The caller holds the lock.
func (c *Carrier) mark() {
	c.session.Wake()
	if c.bulkWaits() {
		c.bulk.Store(true)
	}
}

// bulkWaits reports whether more than play waits to be sent. The caller holds the lock.
func (c *Carrier) bulkWaits() bool { return c.session.source.Waiting() > directBytes }

// stays reports whether there is bulk, for which the carrier's own goroutine
// keeps waiting. It is called only by the goroutine that works.
func (c *Carrier) stays() bool { return c.bulk.Load() || c.run.heavy() }

// Spares returns how many unused ids of the peer are left for changes of
// address. The owner asks the peer for more over QUIC.
func (c *Carrier) Spares() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.session.spares)
}

// Session returns the session. It may be used only under the lock.
func (c *Carrier) Session() *Session { return c.session }

// State returns the carrier's state.
func (c *Carrier) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.State()
}

// Err returns why the carrier is closed, an *[Error], or nil if it is not closed.
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

// maxPacket returns the size in bytes of the largest packet that collect could build
// for bulk now. The caller holds the lock, under which follow writes run.most.
func (c *Carrier) maxPacket() int {
	return c.session.limit(forPayload, max(SafePacket, c.run.most), !c.config.NoJumbo && c.socket.sys.GSO.Load())
}

// Close ends the carrier and returns at once. The source's Lost is called for the
// payloads in flight. Done is closed after the carrier has stopped using the socket.
func (c *Carrier) Close() {
	c.Lock()
	c.session.Close()
	c.Unlock()
}

// end closes the session with err; the next turn cleans up.
func (c *Carrier) end(err error) {
	c.mu.Lock()
	c.session.end(err)
	c.mu.Unlock()
	c.worker.wake()
}

// loop takes turns on a goroutine of the carrier, until that goroutine is not needed any more.
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

// heavyTurn takes a turn of the carrier's goroutine. While there are more such
// goroutines than processors, a carrier that moves bulk first waits for its turn (see
// heavyTurns). A goroutine whose bulk is done takes its turns for play without waiting.
func (c *Carrier) heavyTurn() (next time.Time, idle bool) {
	if c.worker.crowded() && c.run.heavy() {
		heavyTurns.Take(nil)
		defer heavyTurns.End()
	}
	c.run.writer.MayWait = c.stays()
	return c.turn()
}

// arrived is called when packets are in the inbox. If atOnce is true, it handles them on the
// calling goroutine, which is the socket's reader, unless another goroutine holds the lock. That
// one may wait for a processor, and meanwhile the reader could read no packet for other carriers.
func (c *Carrier) arrived(atOnce bool) {
	if atOnce && c.mu.TryLock() {
		c.mu.Unlock()
		c.direct()
	} else {
		c.worker.wake()
	}
}

// direct works on the calling goroutine, if no other one works and a turn takes no longer than one
// with play. That is cheaper, because two switches of goroutines cost as much as a turn with play.
func (c *Carrier) direct() {
	switch {
	case !c.worker.enter():
	case c.light():
		c.play()
	default:
		c.worker.start()
	}
}

// hand has another goroutine work: one of the crew, which take turns for many
// carriers, or with bulk this carrier's own.
func (c *Carrier) hand() {
	if c.light() {
		c.socket.crew.Add(c)
	} else {
		c.worker.start()
	}
}

// light reports whether a turn takes no longer than one with play, and never
// blocks. It is called only by the goroutine that works.
func (c *Carrier) light() bool { return !c.blocks && !c.run.owes() && !c.stays() }

// play takes up to directTurns turns. If there is more to do after them, the
// carrier's own goroutine continues.
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
