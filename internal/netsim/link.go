package netsim

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// maxInFlight limits the bytes in flight in a link, so that a sender can't use up all memory on a
// path without a bottleneck. It drops packets beyond the limit as LostQueue. 256 MiB is 2 s at
// 1 Gbit/s.
const maxInFlight = 256 << 20

// A Link is one direction of an emulated path. It decides a packet's fate and its time of arrival
// as soon as the packet is sent, and holds the packet until then.
//
// A Link is a pure value without clock or goroutine. It takes the time from its caller, who may
// use any clock; a time earlier than the latest one counts as the latest. It is not safe for
// concurrent use.
type Link struct {
	cfg        Config
	dice       dice
	bottleneck *bottleneck
	now        time.Time
	count      uint64 // packets passed to Send

	// Packets in flight.
	held     arrivals  // packets delayed by Reorder or Alternate
	prompt   arrivals  // all other packets
	inFlight int       // bytes of both
	newest   time.Time // latest arrival of a packet that is neither held nor a copy

	// What changes over time.
	dark []span        // interruptions, set by Dark
	mtu  timeline[int] // in bytes; 0 = no limit

	stats Stats
}

// A span is a half-open interval of time, without until itself.
type span struct{ from, until time.Time }

// NewLink returns a link. It panics if the Config is not valid.
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

	// Roll for every packet, even one that the bottleneck will drop. A packet's luck then
	// depends only on the seed and its number.
	r := l.dice.roll()
	depart, fate := l.enter(packet)
	if fate == Carried {
		fate = l.survive(depart, packet, r)
	}
	l.count++
	if fate != Carried {
		l.stats.drop(fate)
		return fate
	}
	l.fly(depart, packet, addr, r)
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
	from := &l.prompt
	if held, ok := l.held.next(); ok && held.Equal(at) {
		// If packets of both kinds arrive now, the held one was sent first.
		from = &l.held
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
	first.Add(l.held.next())
	first.Add(l.prompt.next())
	return first.Time()
}

// Dark interrupts the path: packets that leave the bottleneck between from and until are
// lost. Packets sent before the call keep their fates.
func (l *Link) Dark(from, until time.Time) {
	l.dark = slices.DeleteFunc(l.dark, func(s span) bool { return !s.until.After(l.now) })
	l.dark = append(l.dark, span{from, until})
}

// SetMTU sets the path's MTU for packets sent at time at or later. 0 = no limit.
func (l *Link) SetMTU(at time.Time, mtu int) { l.mtu.set(at, mtu) }

// SetRate sets the bottleneck's rate to rate bit/s, starting at time at. Packets sent before the
// call still leave as planned. SetRate panics if the link has no Config.Rate.
func (l *Link) SetRate(at time.Time, rate int64) {
	if l.cfg.Rate == 0 || rate <= 0 || rate > maxRate {
		panic(fmt.Sprintf("netsim: SetRate to %d bit/s on a link of %d", rate, l.cfg.Rate))
	}
	l.bottleneck.setRate(at, rate)
}

// SetConfig changes the path for packets sent from now on. Packets in flight, including those
// in the bottleneck's queue, keep their fates. Seed is ignored. SetConfig panics if the
// Config is not valid.
func (l *Link) SetConfig(cfg Config) {
	l.SetBehind(cfg)
	l.bottleneck.reset(cfg)
}

// SetBehind is SetConfig for everything except the bottleneck, which other links may share.
func (l *Link) SetBehind(cfg Config) {
	cfg.mustValidate()
	l.cfg = cfg
	l.mtu = always(cfg.MTU)
	if cfg.Burst.Enter == 0 {
		l.dice.bad = false // otherwise nothing would end the current burst
	}
}

// ShareBottleneck makes the link use the bottleneck of with. It must be called before either link
// has carried a packet.
func (l *Link) ShareBottleneck(with *Link) { l.bottleneck = with.bottleneck }

// MTU returns the current MTU in bytes. 0 = no limit.
func (l *Link) MTU(now time.Time) int {
	l.tick(now)
	return l.mtu.advance(l.now)
}

// Backlog returns the number of bytes in the bottleneck's queue, with overhead.
func (l *Link) Backlog(now time.Time) int { return l.bottleneck.backlog(now) }

// Stats returns a copy of the counters.
func (l *Link) Stats() Stats { return l.stats }

// tick advances the link's clock, which never goes backwards.
func (l *Link) tick(now time.Time) {
	if now.After(l.now) {
		l.now = now
	}
}

// enter sends a packet into the path's first part, which is the MTU and the bottleneck. depart is
// when the packet leaves the bottleneck.
func (l *Link) enter(packet []byte) (depart time.Time, f Fate) {
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

// survive sends a packet through the lossy part, which comes after the bottleneck.
func (l *Link) survive(depart time.Time, packet []byte, r roll) Fate {
	// Do this even if the packet can't be lost in a burst, because it may begin or end one.
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

// fly puts a packet in flight, and a copy of it as well if it is to be duplicated.
func (l *Link) fly(depart time.Time, packet []byte, addr *net.UDPAddr, r roll) {
	at := l.clumped(l.inOrder(depart.Add(l.cfg.Delay + r.jitterOf(0, l.cfg.Jitter))))
	if held := l.heldBack(r); held > 0 {
		l.held.push(arrival{at.Add(held), packet, addr})
		l.stats.Reordered++
	} else {
		l.prompt.push(arrival{at, packet, addr})
		l.newest = at
	}
	l.inFlight += len(packet)
	if r.duplicate < l.cfg.Duplicate {
		at = l.clumped(l.inOrder(depart.Add(l.cfg.Delay + r.jitterOf(1, l.cfg.Jitter))))
		l.prompt.push(arrival{at, slices.Clone(packet), addr})
		l.stats.Duplicated++
		l.inFlight += len(packet)
	}
}

// heldBack returns the delay that Reorder and Alternate add to a packet.
func (l *Link) heldBack(r roll) (held time.Duration) {
	if r.reorder < l.cfg.Reorder {
		held = l.cfg.reorderDelay()
	}
	if l.count%2 == 0 {
		held += l.cfg.Alternate
	}
	return held
}

// inOrder returns when a packet arrives that would arrive at time at by itself. Jitter must not
// reorder packets, so that is no earlier than the newest packet.
func (l *Link) inOrder(at time.Time) time.Time {
	if at.Before(l.newest) {
		return l.newest
	}
	return at
}

// clumped rounds a time of arrival up to the next multiple of Config.Clump.
func (l *Link) clumped(at time.Time) time.Time {
	if l.cfg.Clump == 0 {
		return at
	}
	return at.Add(l.cfg.Clump - 1).Truncate(l.cfg.Clump)
}
