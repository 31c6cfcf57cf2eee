package sealed

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/udp"
)

// maxIDs of ours are valid at a time; the oldest goes when more are issued.
const maxIDs = 8

// Config is what a carrier needs beside its socket. Its functions must not block.
type Config struct {
	SessionConfig

	// Addrs returns where the QUIC connection sends to now and from where: nothing is ever sent elsewhere. Called for
	// every burst.
	Addrs func() (remote, local net.Addr)
	// MaxPacket returns the largest packet in bytes that the path takes, as QUIC has found. nil = SafePacket.
	MaxPacket func() int

	// Ping sends something that is acked over QUIC: when nothing was heard for a PTO, for QUIC must find out where the peer
	// is, and every second while there is traffic, so that QUIC neither goes idle nor loses sight of the path. nil = never.
	Ping func()
	// Observe looks at what the controller knows of the path. Called under the lock, at most once a millisecond while there
	// is work. nil = nobody looks.
	Observe func(now time.Time, c *pace.Controller)
	// Mutex is around session and source; whoever made the source may share it. nil = one of the carrier's own.
	Mutex sync.Locker
	// Turned is called under the lock at the end of each turn, and Woken without it when Turned says so. nil = not.
	Turned func() bool
	Woken  func()
	// Changed hears of the state, without the lock, on the carrier's goroutine. nil = nobody does.
	Changed func(State)
}

// Carrier runs a session over a socket. All methods may be called concurrently.
type Carrier struct {
	config Config
	socket *Socket
	inbox  *inbox

	mu      sync.Locker // around session and issued
	session *Session
	issued  []ID
	first   []ID // of the peer, for Start

	worker worker
	done   chan struct{}

	run    runner // belongs to the goroutine
	counts carrierCounts
}

type carrierCounts struct{ writes, writeErrors atomic.Uint64 }

// CarrierStats counts what a carrier did.
type CarrierStats struct {
	Stats
	Writes      uint64 // calls that sent packets
	WriteErrors uint64 // of them that failed; the packets are as good as lost on the way
	Full        uint64 // packets dropped because the inbox was full
	Elsewhere   uint64 // packets dropped because too many came from other addresses
	Goroutines  uint64 // started

	Rate   float64 // that the controller paces with, bytes a second
	Window int     // bytes in flight that it allows
}

// NewCarrier makes a carrier that listens and does not send before Start. The owner closes it before the connection or the
// socket.
func NewCarrier(socket *Socket, c Config) (*Carrier, error) {
	session, err := NewSession(c.SessionConfig)
	if err != nil {
		return nil, err
	}
	if c.Mutex == nil {
		c.Mutex = new(sync.Mutex)
	}
	r := &Carrier{config: c, mu: c.Mutex, socket: socket, session: session, done: make(chan struct{})}
	r.run.writer = udp.NewWriter(socket.sys)
	r.inbox = newInbox(r.worker.wake)
	r.worker = worker{work: r.loop, empty: r.inbox.empty, real: socket.sys.Raw != nil, token: make(chan struct{}, 1)}
	r.inbox.lent = &socket.lent
	remote, _ := c.Addrs()
	r.inbox.setRemote(udp.AddrPort(remote))
	ours, theirs := ToClient, ToServer
	if !c.Client {
		ours, theirs = theirs, ours
	}
	if r.first, err = exportIDs(c.Exporter, c.Instance, theirs); err != nil {
		return nil, err
	}
	if r.issued, err = exportIDs(c.Exporter, c.Instance, ours); err != nil {
		return nil, err
	}
	if err = socket.register(r.inbox, r.issued...); err != nil {
		return nil, err
	}
	return r, nil
}

// Issue makes one more id for the peer, who has used one up, and forgets the oldest when there are too many.
func (c *Carrier) Issue() ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.State() == Closed {
		return NewID() // leads nowhere
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

// AddIDs takes spare ids that the peer issued.
func (c *Carrier) AddIDs(ids ...ID) {
	c.Lock()
	c.session.AddIDs(ids...)
	c.Unlock()
}

// Lock takes the lock around session and source, and returns the time for their methods. Its holder stops the carrier and
// must not block.
func (c *Carrier) Lock() time.Time {
	c.mu.Lock()
	return time.Now()
}

// Unlock releases the lock and has the session look for work: the source may have got some.
func (c *Carrier) Unlock() {
	c.session.Wake()
	c.mu.Unlock()
	c.worker.wake()
}

// Wake has the session look for work, in which its source has got some. The lock is held.
func (c *Carrier) Wake() {
	c.session.Wake()
	c.worker.wake()
}

// Spares returns how many ids of the peer are left for changes of an address. The owner asks the peer for more
// over QUIC.
func (c *Carrier) Spares() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(len(c.session.ids)-1, 0)
}

// Session returns the session, which is to be used under the lock only.
func (c *Carrier) Session() *Session { return c.session }

// State returns how the carrier stands.
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

// Stats returns a copy of the counters. The session is not woken.
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
	}
}

// Close ends the carrier and returns at once; payloads in flight are reported as lost. Done tells when its goroutine is gone.
func (c *Carrier) Close() {
	c.Lock()
	c.session.Close()
	c.Unlock()
}

// end has the next turn find the session closed, for which err is the reason.
func (c *Carrier) end(err error) {
	c.mu.Lock()
	c.session.end(err)
	c.mu.Unlock()
	c.worker.wake()
}

// Done is closed when the carrier has ended, by Close or by itself, and uses the socket no more.
func (c *Carrier) Done() <-chan struct{} { return c.done }
