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

const (
	// maxIDs is the maximum number of our connection IDs that are valid at a time. When another
	// ID is issued, the oldest is retired. Twice as many as firstIDs leave time for packets with
	// an ID that the peer has just stopped using to arrive.
	maxIDs = 2 * firstIDs

	// inlineTurns is the maximum number of turns that takeTurns takes. The second turn handles
	// packets that arrived during the first.
	inlineTurns = 2

	// inlineBytes is the maximum number of waiting bytes that runInline sends itself. It's about
	// six full packets, which is enough for a tick of play. The first part of a transfer is
	// larger, so it's left to the carrier's own goroutine, and the play of the same step is sent
	// first.
	inlineBytes = 8 << 10
)

// Config holds the settings of a carrier. Its functions must not block. Changed, Ping and
// Ended are called on the carrier's own goroutine. The others are called on any goroutine
// that takes a turn, including the caller of Unlock and the socket's reader.
type Config struct {
	SessionConfig

	// Addrs returns the addresses to which and from which the QUIC connection currently
	// sends. The carrier uses only these. Addrs is called every followBulk while bulk is in
	// flight, every followPlay otherwise, and when packets arrive from another address.
	Addrs func() (remote, local net.Addr)
	// PathLimit returns the largest packet size, in bytes, that QUIC has confirmed for the
	// path. If PathLimit is nil, the size is SafePacket.
	PathLimit func() int
	// NoJumbo limits packets to FullPacket. Otherwise, if the kernel supports GSO, the carrier
	// tries larger packets for bulk on a fast path (see JumboPacket).
	NoJumbo bool

	// Ping, if not nil, makes QUIC send an ack-eliciting packet. It is called:
	//
	//   - if no ack has arrived for a PTO, because only QUIC can detect a new peer address;
	//   - every PingTime while there is traffic, so that QUIC does not become idle;
	//   - every searchTrips round trips while bulk is in flight, until QUIC has found the
	//     largest size that the path carries.
	Ping     func()
	PingTime time.Duration // 0 means that traffic alone causes no pings
	// Observe, if not nil, is called under the lock while there is work, so that the owner can
	// query the controller. It is called at most once per observeBulk while bulk is in flight,
	// and at most once per observePlay otherwise.
	Observe func(now time.Time, c *pace.Controller)
	// Mutex guards session and source. The source's owner may lock it as well. If it is nil,
	// the carrier creates its own.
	Mutex Mutex
	// AfterTurn, if not nil, is called under the lock at the end of each turn. If it returns
	// true, WakeOwner is called after the lock has been released.
	AfterTurn func() (wake bool)
	WakeOwner func()
	// Changed, if not nil, is called without the lock after the state has changed.
	Changed func(State)
	// Ended, if not nil, is called without the lock after Done was closed, so the owner
	// needs no goroutine to wait for Done.
	Ended func()
}

// A Mutex is a lock that can be tried without waiting for it.
type Mutex interface {
	sync.Locker
	TryLock() bool
}

// A Carrier runs a session over a socket. All methods may be called concurrently.
//
// It works in turns. In each turn it passes the packets that have arrived to the session, runs
// the timers that are due, and sends what the session has to send. Only one goroutine at a time
// takes turns for the carrier, and the worker decides which.
//
// A turn with play (the game's own traffic) alone handles a packet or two and doesn't block, so
// it may be taken inline, on the goroutine that brings the work. Waking another goroutine and
// switching back costs as much as the turn itself. A turn with bulk (the traffic of transfers)
// handles whole bursts and may block. It's taken on a goroutine of the carrier's own.
type Carrier struct {
	config Config
	socket *Socket
	inbox  *inbox // packets that the socket has routed to us

	mu      Mutex // guards session and issued
	session *Session
	issued  []ID // our valid ids, oldest first
	peerIDs []ID // the peer's first ids, for Start; set by NewCarrier

	worker   worker
	mayBlock bool          // the socket's writes may block; set by NewCarrier
	bulk     atomic.Bool   // bulk is in flight or waiting; written under mu
	done     chan struct{} // closed once the carrier no longer uses the socket

	run    runner // used by the goroutine that takes turns
	counts carrierCounts
}

// carrierCounts are the counters of flush.
type carrierCounts struct{ writes, writeErrors atomic.Uint64 }

// CarrierStats holds the counters and the current limits of a carrier.
type CarrierStats struct {
	Stats
	Writes      uint64 // calls that sent packets
	WriteErrors uint64 // writes that failed; their packets will count as lost
	InboxFull   uint64 // packets dropped because the inbox was full
	FromOthers  uint64 // packets dropped because too many came from other addresses than the peer's
	Goroutines  uint64 // goroutines started

	Rate      float64 // the controller's pacing rate, in bytes per second
	Window    int     // bytes that the controller allows in flight
	MaxPacket int     // size in bytes of the largest packet with payloads that may be sent now
}

// NewCarrier returns a carrier that receives packets from now on but sends nothing before
// Start. The owner must close it before it closes the connection and the socket.
func NewCarrier(socket *Socket, config Config) (*Carrier, error) {
	session, err := NewSession(config.SessionConfig)
	if err != nil {
		return nil, err
	}
	if config.Mutex == nil {
		config.Mutex = new(sync.Mutex)
	}
	c := &Carrier{
		config:   config,
		mu:       config.Mutex,
		socket:   socket,
		session:  session,
		mayBlock: socket.sys.Blocks(),
		done:     make(chan struct{}),
	}
	c.run = runner{
		writer: udp.NewWriter(socket.sys),
		pinger: pinger{every: config.PingTime},
	}
	c.inbox = socket.newInbox(c.packetsArrived)
	remote, _ := config.Addrs()
	c.inbox.setRemote(udp.AddrPort(remote))
	c.initWorker()
	err = c.deriveIDs()
	if err != nil {
		return nil, err
	}
	// Packets for our ids may be arriving already, so register last.
	err = socket.register(c.inbox, c.issued...)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// initWorker connects the worker to the carrier.
func (c *Carrier) initWorker() {
	w := &c.worker
	w.handOff = c.handOff
	w.work = c.loop
	w.inboxEmpty = c.inbox.empty
	w.realTime = c.socket.realTime
	w.queue = c.socket.timers
	w.wakeups = bell.New()
	w.alarm.Fire = w.alarmFired
}

// deriveIDs derives the first ids of both ends.
func (c *Carrier) deriveIDs() error {
	in, out := toClient, toServer
	if !c.config.Client {
		in, out = out, in
	}
	issued, err := exportIDs(c.config.Exporter, c.config.Instance, in)
	if err != nil {
		return err
	}
	peerIDs, err := exportIDs(c.config.Exporter, c.config.Instance, out)
	if err != nil {
		return err
	}
	c.issued = issued
	c.peerIDs = peerIDs
	return nil
}

// Issue returns another id for a peer that has used one. If that makes more than maxIDs, the
// oldest is retired.
func (c *Carrier) Issue() ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.State() == Closed {
		// This id isn't registered, so packets for it are dropped.
		return NewID()
	}
	c.issued = append(c.issued, c.socket.issue(c.inbox))
	if over := len(c.issued) - maxIDs; over > 0 {
		c.socket.unregister(c.issued[:over]...)
		c.issued = slices.Delete(c.issued, 0, over)
	}
	return c.issued[len(c.issued)-1]
}

// Start begins to open the carrier.
func (c *Carrier) Start() {
	now := c.Lock()
	c.session.Start(now, c.peerIDs...)
	c.Unlock()
}

// AddIDs adds spare ids issued by the peer.
func (c *Carrier) AddIDs(ids ...ID) {
	c.Lock()
	c.session.AddIDs(ids...)
	c.Unlock()
}

// SpareIDs returns the number of the peer's ids that are left for changes of address. The
// owner asks the peer for more over QUIC.
func (c *Carrier) SpareIDs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.spareIDs()
}

// Lock locks session and source and returns the time to pass to their methods. The carrier
// cannot take a turn before Unlock, so the caller must not block.
func (c *Carrier) Lock() time.Time {
	c.mu.Lock()
	return time.Now()
}

// Unlock releases the lock and sends what the source has to send. With play alone it does so
// on the calling goroutine, unless the socket may block. Otherwise it leaves the work to the
// carrier's own goroutine.
func (c *Carrier) Unlock() {
	c.noteWork()
	c.mu.Unlock()
	c.runInline()
}

// Wake wakes the carrier because its source has something to send. The caller holds the lock.
func (c *Carrier) Wake() {
	c.noteWork()
	c.worker.wake()
}

// noteWork makes the next turn ask the source for payloads, and records whether there's bulk
// among them. The caller holds the lock.
func (c *Carrier) noteWork() {
	c.session.Wake()
	if c.bulkWaits() {
		c.bulk.Store(true)
	}
}

// bulkWaits reports whether more than a tick of play is waiting to be sent. The caller holds
// the lock.
func (c *Carrier) bulkWaits() bool { return c.session.source.Waiting() > inlineBytes }

// Close closes the carrier and returns without waiting. It calls the source's Lost for the
// payloads in flight. Done is closed once the carrier no longer uses the socket.
func (c *Carrier) Close() {
	c.Lock()
	c.session.Close()
	c.Unlock()
}

// closeWith closes the session with err and wakes the carrier, so that the next turn cleans up.
func (c *Carrier) closeWith(err error) {
	c.mu.Lock()
	c.session.closeWith(err)
	c.mu.Unlock()
	c.worker.wake()
}

// Done returns a channel that is closed when the carrier has ended, for whatever reason, and no
// longer uses the socket.
func (c *Carrier) Done() <-chan struct{} { return c.done }

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
		InboxFull:   c.inbox.droppedFull.Load(),
		FromOthers:  c.inbox.droppedFromOthers.Load(),
		Goroutines:  c.worker.started.Load(),
		Rate:        c.session.control.Rate(),
		Window:      c.session.control.Window(),
		MaxPacket:   c.maxPacket(),
	}
}

// maxPacket returns the size in bytes of the largest packet that collect could build for bulk
// now. The caller holds the lock, which also guards run.pathLimit.
func (c *Carrier) maxPacket() int {
	return c.session.limit(forPayload, max(SafePacket, c.run.pathLimit), c.mayUseJumbo())
}

// mayUseJumbo reports whether jumbo packets may be used if the path carries them.
func (c *Carrier) mayUseJumbo() bool { return !c.config.NoJumbo && c.socket.sys.GSO.Load() }

// packetsArrived is called after packets were put into an empty inbox. If inline is true, they
// may be handled on the calling goroutine, which is the socket's reader.
func (c *Carrier) packetsArrived(inline bool) {
	// If the lock is taken, don't wait for it, because the goroutine that holds it may be waiting
	// for a processor. Meanwhile the reader couldn't read the packets of other carriers.
	if inline && c.mu.TryLock() {
		c.mu.Unlock()
		c.runInline()
	} else {
		c.worker.wake()
	}
}

// runInline takes turns on the calling goroutine if possible, and otherwise leaves them to the
// carrier's own goroutine. If a goroutine is taking turns already, it takes another one.
func (c *Carrier) runInline() {
	if !c.worker.tryEnter() {
		return
	}
	if c.canRunInline() {
		c.takeTurns()
	} else {
		c.worker.start()
	}
}

// handOff makes another goroutine take turns: with play alone, one from the socket's crew, a
// pool that works for all of its carriers, and with bulk, one of the carrier's own.
func (c *Carrier) handOff() {
	if c.canRunInline() {
		c.socket.crew.Add(c)
	} else {
		c.worker.start()
	}
}

// canRunInline reports whether the next turn is short and can't block. Only the goroutine that
// takes turns may call it.
func (c *Carrier) canRunInline() bool {
	return !c.mayBlock && !c.run.callbacksDue() && !c.hasBulk()
}

// hasBulk reports whether there's bulk, which the carrier handles on its own goroutine. Only
// the goroutine that takes turns may call it.
func (c *Carrier) hasBulk() bool { return c.bulk.Load() || c.run.movesBulk() }

// takeTurns takes up to inlineTurns turns. If there's more to do afterward, it leaves that to
// the carrier's own goroutine.
func (c *Carrier) takeTurns() {
	c.run.writer.MayWait = false
	for range inlineTurns {
		next, idle := c.turn()
		if !idle || !c.canRunInline() {
			break
		}
		if c.worker.tryLeave(next) {
			return
		}
	}
	c.worker.start()
}

// loop takes turns on the carrier's own goroutine until it's no longer needed.
func (c *Carrier) loop() {
	for !c.runCallbacks() {
		next, idle := c.bulkTurn()
		if !idle || c.run.callbacksDue() {
			continue // there's more to do right away
		}
		if c.run.movesBulk() && c.worker.poll(next) {
			continue // more work has come up
		}
		var end bool
		if c.hasBulk() {
			end = c.worker.sleep(next) // more bulk may follow soon
		} else {
			end = c.worker.tryLeave(next)
		}
		if end {
			return
		}
	}
}

// bulkTurn takes a turn on the carrier's own goroutine. If there are more such goroutines than
// processors, a goroutine that moves bulk must first get one of the bulkTurns. Once its bulk has
// been sent, it no longer waits for one, since only play is left.
func (c *Carrier) bulkTurn() (next time.Time, idle bool) {
	if c.worker.crowded() && c.run.movesBulk() {
		bulkTurns.Take(nil)
		defer bulkTurns.End()
	}
	c.run.writer.MayWait = c.hasBulk()
	return c.turn()
}
