package netsim

import (
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Limits of a Pair, so that its runs end whatever the machines do. Each is far above what a machine
// without a bug needs.
const (
	maxPacketsAtOnce = 1 << 18 // packets sent by one side at one time: 256 MiB
	maxRounds        = 1 << 16 // rounds of packets back and forth at one time, over links without delay
	maxStaleRounds   = 4       // rounds without a packet while a timeout is due
	maxIdleSteps     = 1 << 16 // clock steps in a row without a packet or a call of OnTick
	maxSteps         = 1 << 26 // clock steps in one run
)

// Epoch is when a Pair starts, unless its config sets Start. Machines that need a time before the
// Pair exists may use it too.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

var (
	// ErrLimit is returned when a run reaches its limit of virtual time.
	ErrLimit = errors.New("netsim: time limit reached")
	// ErrIdle is returned if the run's condition is still false although nothing is in flight and
	// no machine waits for a timeout, so that nothing can happen any more.
	ErrIdle = errors.New("netsim: no packet in flight and no timeout pending")
	// ErrSpin is returned if a machine keeps the Pair busy without progress.
	ErrSpin = errors.New("netsim: machine makes no progress")
)

// PairConfig describes the path between two machines and what a test observes.
type PairConfig struct {
	// Both directions may have the same Config, including its seed. They still lose different
	// packets.
	AtoB, BtoA Config
	Start      time.Time // Epoch if zero

	Max    int // Side.Max of both sides
	Window int // if positive, passed once to SetWindow(bytes int) of machines that have it

	// OnStep, if not nil, is called whenever something happens, after both machines have
	// received their packets and run their timers but before they build new packets.
	OnStep func(now time.Time)
	// OnTick, if not nil, is called every Tick, after OnStep.
	Tick   time.Duration
	OnTick func(now time.Time)
	// OnPacket, if not nil, is called for each packet put into a link. It must not change or
	// retain the packet.
	OnPacket func(from *Side, packet []byte, fate Fate)
}

// A Pair drives two machines over two links in virtual time, in which it jumps from one event to
// the next without waiting. Every run ends, because a run that reaches neither its condition nor
// its limit of virtual time fails with ErrSpin.
//
// A Pair isn't safe for concurrent use.
type Pair struct {
	A, B *Side

	cfg  PairConfig
	now  time.Time
	tick time.Time // next call of OnTick; zero if there is none

	// To detect a machine that spins.
	idle  int // steps since the last packet or call of OnTick
	stale int // rounds at this time in which no packet moved although a timeout was due
}

// NewPair returns a Pair. It panics if a link's Config is invalid.
func NewPair(a, b Machine, cfg PairConfig) *Pair {
	p := &Pair{
		A:   &Side{Name: "A", Machine: a, Link: newLink(cfg.AtoB, 1), Max: cfg.Max},
		B:   &Side{Name: "B", Machine: b, Link: newLink(cfg.BtoA, 2), Max: cfg.Max},
		cfg: cfg,
		now: cfg.Start,
	}
	if p.now.IsZero() {
		p.now = Epoch
	}
	if cfg.Tick > 0 && cfg.OnTick != nil {
		p.tick = p.now.Add(cfg.Tick)
	}
	for _, m := range []Machine{a, b} {
		if w, ok := m.(windower); ok && cfg.Window > 0 {
			w.SetWindow(cfg.Window)
		}
	}
	return p
}

// Now returns the virtual time.
func (p *Pair) Now() time.Time { return p.now }

// Dark interrupts both directions for d, starting now.
func (p *Pair) Dark(d time.Duration) {
	p.A.Link.Dark(p.now, p.now.Add(d))
	p.B.Link.Dark(p.now, p.now.Add(d))
}

// SetMTU sets the MTU of both directions from now on. 0 means no limit.
func (p *Pair) SetMTU(bytes int) {
	p.A.Link.SetMTU(p.now, bytes)
	p.B.Link.SetMTU(p.now, bytes)
}

// Step does everything that happens now, and then advances the clock to the next event. If there is
// none, more is false and the clock doesn't move. The error comes from a machine (see Side.Err) or
// is ErrSpin.
func (p *Pair) Step() (more bool, err error) {
	if err := p.settle(); err != nil {
		return false, err
	}
	next, ok := p.next()
	if ok {
		err = p.moveTo(next)
	}
	return ok, err
}

// Run steps until done returns true, which it checks after each step. If that doesn't happen within
// limit of virtual time, it returns ErrLimit, ErrIdle or the error of Step, together with the
// packet counts of both sides.
func (p *Pair) Run(limit time.Duration, done func() bool) error {
	return p.run(p.now.Add(limit), done)
}

// RunFor runs for exactly d of virtual time.
func (p *Pair) RunFor(d time.Duration) error {
	end := p.now.Add(d)
	err := p.run(end, func() bool { return false })
	if errors.Is(err, ErrLimit) || errors.Is(err, ErrIdle) {
		p.now = end
		return nil
	}
	return err
}

// RunUntilIdle steps until nothing is in flight and no machine waits for a timeout. It returns an
// error if that doesn't happen within limit of virtual time, as for any Pair with OnTick.
func (p *Pair) RunUntilIdle(limit time.Duration) error {
	err := p.Run(limit, func() bool { return false })
	if errors.Is(err, ErrIdle) {
		return nil
	}
	return err
}

// run is Run with an end time instead of a duration.
func (p *Pair) run(end time.Time, done func() bool) error {
	for range maxSteps {
		if err := p.settle(); err != nil {
			return p.explain(err)
		}
		if done() {
			return nil
		}
		next, ok := p.next()
		if !ok {
			return p.explain(ErrIdle)
		}
		if next.After(end) {
			p.now = end
			return p.explain(ErrLimit)
		}
		if err := p.moveTo(next); err != nil {
			return p.explain(err)
		}
	}
	return p.explain(fmt.Errorf("%w: %d steps in one run", ErrSpin, maxSteps))
}

// explain adds the time and the packet counts of both sides to err.
func (p *Pair) explain(err error) error {
	return fmt.Errorf("%w at %v: A sent %d packets and received %d, B sent %d and received %d",
		err, p.now.Format(time.StampNano), p.A.Sent, p.A.Received, p.B.Sent, p.B.Received)
}

// settle repeats rounds until nothing more happens at this time. One round may not be enough,
// because packets over a link without delay arrive at once.
func (p *Pair) settle() error {
	p.stale = 0
	for range maxRounds {
		moved, err := p.round()
		if err != nil {
			return err
		}
		if moved {
			p.idle = 0
			p.stale = 0
		}
		more, err := p.checkDue()
		if !more || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %d rounds of packets without delay", ErrSpin, maxRounds)
}

// round lets both machines receive and run their timers, calls the test's functions, and then lets
// both machines send. moved is true if any packet was received or sent.
func (p *Pair) round() (moved bool, err error) {
	for _, s := range []struct{ to, from *Side }{{p.A, p.B}, {p.B, p.A}} {
		got, err := s.to.receive(p.now, s.from)
		if err != nil {
			return true, err
		}
		moved = moved || got
		if err := s.to.advance(p.now); err != nil {
			return true, err
		}
	}
	p.callHooks()
	for _, s := range []*Side{p.A, p.B} {
		sent, err := s.send(p.now, p.cfg.OnPacket)
		if err != nil {
			return true, err
		}
		moved = moved || sent
	}
	return moved, nil
}

// callHooks calls OnStep, and OnTick if it is due.
func (p *Pair) callHooks() {
	if p.cfg.OnStep != nil {
		p.cfg.OnStep(p.now)
	}
	if !p.tick.IsZero() && !p.tick.After(p.now) {
		p.tick = p.tick.Add(p.cfg.Tick)
		p.idle = 0
		p.cfg.OnTick(p.now)
	}
}

// checkDue reports whether another round is needed at this time, because a packet has arrived or a
// timeout is due. It counts the rounds in which no packet moved, and returns an error if a
// machine's timeout is still due after maxStaleRounds of them.
func (p *Pair) checkDue() (more bool, err error) {
	for _, s := range []*Side{p.A, p.B} {
		if at, ok := s.Link.NextTimeout(); ok && !at.After(p.now) {
			return true, nil
		}
	}
	for _, s := range []*Side{p.A, p.B} {
		at, ok := s.timeout()
		if !ok || at.After(p.now) {
			continue
		}
		p.stale++
		if p.stale > maxStaleRounds {
			return false, fmt.Errorf("%w: side %s: NextTimeout stays %v in the past and no packet is ready",
				ErrSpin, s.Name, p.now.Sub(at))
		}
		return true, nil
	}
	return false, nil
}

// next returns the time of the next event.
func (p *Pair) next() (at time.Time, ok bool) {
	var first recovery.Earliest
	for _, s := range []*Side{p.A, p.B} {
		first.Add(s.Link.NextTimeout())
		first.Add(s.timeout())
	}
	first.Add(p.tick, !p.tick.IsZero())
	return first.Time()
}

// moveTo advances the clock to t. It returns an error after maxIdleSteps in which nothing happened.
func (p *Pair) moveTo(t time.Time) error {
	p.now = t
	p.idle++
	if p.idle > maxIdleSteps {
		return fmt.Errorf("%w: %d timeouts in a row without a packet", ErrSpin, p.idle)
	}
	return nil
}
