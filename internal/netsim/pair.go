package netsim

import (
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Limits of a Pair. They make its runs end whatever the machines do.
const (
	maxPacketsAtOnce = 1 << 18 // packets sent by one side at one time: 256 MiB
	maxRounds        = 1 << 16 // rounds of packets back and forth at one time, over links without delay
	maxStaleRounds   = 4       // rounds without a packet while a timeout is not in the future
	maxIdleSteps     = 1 << 16 // clock steps in a row without a packet or a tick
	maxSteps         = 1 << 26 // clock steps in one run
)

// Epoch is the time at which a Pair starts unless its config sets Start. It is also for
// machines that need a time when they are made.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

var (
	// ErrLimit is returned when the virtual time of a run is used up.
	ErrLimit = errors.New("netsim: time limit reached")
	// ErrIdle is returned if nothing is in flight and no machine has a timeout, but the run's
	// condition is not true.
	ErrIdle = errors.New("netsim: nothing left to happen")
	// ErrSpin is returned if a machine keeps the driver busy without progress.
	ErrSpin = errors.New("netsim: machine spins")
)

// PairConfig describes the path between two machines and what a test observes.
type PairConfig struct {
	// The two directions may have equal configs. Their fates differ even with the same seed.
	AtoB, BtoA Config
	Start      time.Time // zero = Epoch

	Max    int // Side.Max of both sides
	Window int // if positive, passed once to SetWindow(bytes int) of machines that have it

	// OnStep, if not nil, is called at each time at which something happened. By then the
	// machines have received what arrived and have run their timers, but have not yet built
	// packets.
	OnStep func(now time.Time)
	// OnTick, if not nil, is called every Tick, after OnStep.
	Tick   time.Duration
	OnTick func(now time.Time)
	// OnPacket, if not nil, is called for each packet put into a link. It must not change or
	// retain the packet.
	OnPacket func(from *Side, packet []byte, fate Fate)
}

// A Pair drives two machines over two links in virtual time. Every run ends, at the latest by
// its time limit or with ErrSpin.
type Pair struct {
	A, B *Side

	cfg  PairConfig
	now  time.Time
	tick time.Time // next call of OnTick; zero = never

	// For detecting machines that spin.
	idle  int // steps since the last packet or tick
	stale int // rounds at this time without a packet in which a timeout was in the past
}

// NewPair returns a Pair. It panics if a link's Config is not valid.
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

// Dark interrupts both directions from now on for d.
func (p *Pair) Dark(d time.Duration) {
	p.A.Link.Dark(p.now, p.now.Add(d))
	p.B.Link.Dark(p.now, p.now.Add(d))
}

// SetMTU sets the MTU of both directions from now on; 0 = no limit.
func (p *Pair) SetMTU(bytes int) {
	p.A.Link.SetMTU(p.now, bytes)
	p.B.Link.SetMTU(p.now, bytes)
}

// Step does everything that happens now and advances the clock to the next event. If there is
// none, more is false and the clock stays unchanged. The error is a machine's (see Side.Err)
// or ErrSpin.
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

// Run steps until done returns true after a step, for at most limit of virtual time.
// Otherwise it returns ErrLimit, ErrIdle or the error of Step, with the packet counts of both
// sides.
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

// RunUntilIdle steps until nothing is in flight and no machine has a timeout, for at most
// limit of virtual time. A Pair with OnTick is never idle.
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
	return fmt.Errorf("%w at %v: A sent %d packets and took %d, B sent %d and took %d",
		err, p.now.Format(time.StampNano), p.A.Sent, p.A.Received, p.B.Sent, p.B.Received)
}

// settle repeats rounds until nothing more happens at this time.
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
		if again, err := p.again(); !again || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: both sides exchanged packets without delay for %d rounds", ErrSpin, maxRounds)
}

// round runs both machines and the test's functions once.
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

// again reports whether something else happens at this time. It returns an error if a timeout
// stays in the past.
func (p *Pair) again() (bool, error) {
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
			return false, fmt.Errorf("%w: side %s: NextTimeout stays at %v before now and no packet is ready",
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

// moveTo sets the clock and counts the steps without a packet.
func (p *Pair) moveTo(t time.Time) error {
	p.now = t
	p.idle++
	if p.idle > maxIdleSteps {
		return fmt.Errorf("%w: %d timeouts in a row without a packet", ErrSpin, p.idle)
	}
	return nil
}
