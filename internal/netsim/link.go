package netsim

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// maxInFlight limits the bytes in flight in a link, so that a sender can't use up all memory on a
// path without a bottleneck. Packets beyond the limit are dropped as LostQueue. 256 MiB last for 2
// s at 1 Gbit/s.
const maxInFlight = 256 << 20

// A Link is one direction of an emulated path. It decides a packet's fate and its time of arrival
// as soon as the packet is sent, and holds the packet until then.
//
// A Link has no clock and no goroutine. The caller passes the time, which may be that of any clock,
// and a time earlier than the latest one counts as the latest. A Link isn't safe for concurrent
// use.
type Link struct {
	cfg        Config
	dice       dice
	bottleneck *bottleneck
	now        time.Time
	count      uint64 // packets passed to Send

	// Packets in flight.
	delayed  arrivals  // those delayed by Reorder or Alternate
	ordered  arrivals  // all others, which never overtake each other
	inFlight int       // bytes of both
	newest   time.Time // latest arrival of a packet that is neither delayed nor a copy

	// What changes over time.
	dark []span        // interruptions, set by Dark
	mtu  timeline[int] // in bytes; 0 if there is no limit

	stats Stats
}

// A span is a half-open interval of time, without until itself.
type span struct{ from, until time.Time }

// NewLink returns a link. It panics if the Config is invalid.
func NewLink(cfg Config) *Link { return newLink(cfg, 0) }

// newLink returns a link that draws from the given stream of random numbers. Links of equal
// Configs lose different packets if their streams differ.
func newLink(cfg Config, stream uint64) *Link {
	cfg.mustValidate()
	return &Link{
		cfg:        cfg,
		dice:       newDice(cfg.Seed, stream),
		bottleneck: newBottleneck(cfg),
		mtu:        always(cfg.MTU),
	}
}

// Send puts a packet into the link. If its fate is Carried, the link owns the bytes until
// Deliver returns them. Otherwise they still belong to the caller.
func (l *Link) Send(now time.Time, packet []byte) Fate { return l.send(now, packet, nil) }

// send is Send for a packet with an address, either its source or its destination, which deliver
// returns along with the packet.
func (l *Link) send(now time.Time, packet []byte, addr *net.UDPAddr) Fate {
	l.tick(now)
	l.stats.Packets++
	l.stats.Bytes += uint64(len(packet))

	// Roll for every packet, even for one that the bottleneck drops, so that a packet's random
	// values depend only on the seed and its number.
	r := l.dice.roll()
	depart, fate := l.passBottleneck(packet)
	if fate == Carried {
		fate = l.passLoss(depart, packet, r)
	}
	l.count++
	if fate != Carried {
		l.stats.countLoss(fate)
		return fate
	}
	l.launch(depart, packet, addr, r)
	return Carried
}

// Deliver returns the next packet that has arrived by now. The bytes belong to the caller.
func (l *Link) Deliver(now time.Time) (packet []byte, ok bool) {
	packet, _, ok = l.deliver(now)
	return packet, ok
}

// deliver is Deliver with the packet's address.
func (l *Link) deliver(now time.Time) (packet []byte, addr *net.UDPAddr, ok bool) {
	l.tick(now)
	at, ok := l.NextTimeout()
	if !ok || at.After(l.now) {
		return nil, nil, false
	}
	from := &l.ordered
	if delayed, ok := l.delayed.next(); ok && delayed.Equal(at) {
		// If packets of both kinds arrive now, the delayed one was sent first.
		from = &l.delayed
	}
	a := from.Take()
	l.inFlight -= len(a.packet)
	l.stats.Delivered++
	l.stats.DeliveredBytes += uint64(len(a.packet))
	return a.packet, a.addr, true
}

// NextTimeout returns the arrival time of the next packet. ok is false if none is in flight.
func (l *Link) NextTimeout() (at time.Time, ok bool) {
	var first recovery.Earliest
	first.Add(l.delayed.next())
	first.Add(l.ordered.next())
	return first.Time()
}

// Dark interrupts the path, so that packets that leave the bottleneck between from and until are
// lost. Packets sent before the call keep their fates.
func (l *Link) Dark(from, until time.Time) {
	l.dark = slices.DeleteFunc(l.dark, func(s span) bool { return !s.until.After(l.now) })
	l.dark = append(l.dark, span{from, until})
}

// SetMTU sets the path's MTU for packets sent at time at or later. 0 means no limit.
func (l *Link) SetMTU(at time.Time, mtu int) { l.mtu.set(at, mtu) }

// SetRate sets the bottleneck's rate to rate bit/s, starting at time at. Packets sent before the
// call still leave as planned. SetRate panics if the link has no Config.Rate or if the rate is
// invalid.
func (l *Link) SetRate(at time.Time, rate int64) {
	if l.cfg.Rate == 0 {
		panic("netsim: SetRate of a link without Config.Rate")
	}
	if rate <= 0 || rate > maxRate {
		panic(fmt.Sprintf("netsim: SetRate to %d bit/s; the rate must be from 1 to %.0f", rate, maxRate))
	}
	l.bottleneck.setRate(at, rate)
}

// SetConfig changes the path for packets sent from now on. Packets in flight, including those in
// the bottleneck's queue, keep their fates. Config.Seed is ignored. SetConfig panics if the Config
// is invalid.
func (l *Link) SetConfig(cfg Config) {
	l.SetBehind(cfg)
	l.bottleneck.reset(cfg)
}

// SetBehind is SetConfig for everything behind the bottleneck, which other links may share.
func (l *Link) SetBehind(cfg Config) {
	cfg.mustValidate()
	l.cfg = cfg
	l.mtu = always(cfg.MTU)
	if cfg.Burst.Enter == 0 {
		l.dice.bad = false // because Leave, which would end the current burst, may be 0 too
	}
}

// ShareBottleneck makes the link use the bottleneck of another one. It must be called before either
// link has carried a packet.
func (l *Link) ShareBottleneck(with *Link) { l.bottleneck = with.bottleneck }

// MTU returns the current MTU in bytes, or 0 if there is no limit.
func (l *Link) MTU(now time.Time) int {
	l.tick(now)
	return l.mtu.advance(l.now)
}

// Backlog returns the number of bytes in the bottleneck's queue, with overhead.
func (l *Link) Backlog(now time.Time) int { return l.bottleneck.backlog(now) }

// Stats returns a copy of the counters.
func (l *Link) Stats() Stats { return l.stats }

// tick advances the link's time, which never goes backward.
func (l *Link) tick(now time.Time) {
	if now.After(l.now) {
		l.now = now
	}
}

// passBottleneck sends a packet through the path's first part, which is the MTU and the bottleneck.
// depart is when the packet leaves the bottleneck.
func (l *Link) passBottleneck(packet []byte) (depart time.Time, f Fate) {
	if mtu := l.mtu.advance(l.now); mtu > 0 && len(packet) > mtu {
		return time.Time{}, LostMTU
	}
	if l.inFlight+len(packet) > maxInFlight {
		return time.Time{}, LostQueue
	}
	wire := len(packet) + l.cfg.overhead()
	depart, ok := l.bottleneck.offer(l.now, wire)
	if !ok {
		return time.Time{}, LostQueue
	}
	l.stats.Carried++
	l.stats.CarriedBytes += uint64(wire)
	return depart, Carried
}

// passLoss sends a packet through the lossy part, which comes after the bottleneck.
func (l *Link) passLoss(depart time.Time, packet []byte, r roll) Fate {
	// A packet that can't be lost in a burst may still begin or end one.
	burst := l.dice.stepBurst(l.cfg.Burst, r, depart)
	losable := l.cfg.losable(len(packet))
	switch {
	case l.isDark(depart):
		return LostDark
	case burst && losable:
		return LostBurst
	case r.loss < l.cfg.lossOf(losable), l.cfg.Lose != nil && l.cfg.Lose(l.count, packet):
		return Lost
	}
	return Carried
}

// isDark reports whether the path is interrupted at t.
func (l *Link) isDark(t time.Time) bool {
	return slices.ContainsFunc(l.dark, func(s span) bool { return !t.Before(s.from) && t.Before(s.until) })
}

// launch puts a packet in flight, and a copy of it as well if it is to be duplicated.
func (l *Link) launch(depart time.Time, packet []byte, addr *net.UDPAddr, r roll) {
	at := l.arrivalTime(depart, r.jitter[0])
	if extra := l.extraDelay(r); extra > 0 {
		l.delayed.push(arrival{at.Add(extra), packet, addr})
		l.stats.Reordered++
	} else {
		l.ordered.push(arrival{at, packet, addr})
		l.newest = at
	}
	l.inFlight += len(packet)
	if r.duplicate < l.cfg.Duplicate {
		at = l.arrivalTime(depart, r.jitter[1])
		l.ordered.push(arrival{at, slices.Clone(packet), addr})
		l.stats.Duplicated++
		l.inFlight += len(packet)
	}
}

// extraDelay returns the delay that Reorder and Alternate add to a packet.
func (l *Link) extraDelay(r roll) (extra time.Duration) {
	if r.reorder < l.cfg.Reorder {
		extra = l.cfg.reorderDelay()
	}
	if l.count%2 == 0 {
		extra += l.cfg.Alternate
	}
	return extra
}

// arrivalTime returns when a packet arrives that leaves the bottleneck at depart and draws the
// given part of Config.Jitter. It is no earlier than the arrival of the newest packet, because
// jitter must not reorder packets, and it is rounded up to a multiple of Config.Clump.
func (l *Link) arrivalTime(depart time.Time, jitter float64) time.Time {
	at := depart.Add(l.cfg.Delay + time.Duration(jitter*float64(l.cfg.Jitter)))
	if at.Before(l.newest) {
		at = l.newest
	}
	if l.cfg.Clump == 0 {
		return at
	}
	return at.Add(l.cfg.Clump - 1).Truncate(l.cfg.Clump)
}
