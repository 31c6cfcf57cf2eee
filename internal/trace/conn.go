package trace

import (
	"maps"
	"slices"
)

// conn is an encoder's state of one connection: its tracks, and the calls and packets whose
// fate is open. A fate says whether a packet or call was acknowledged, lost or dropped.
type conn struct {
	track    uint64 // the connection's track; the others are below it
	received uint64
	acks     uint64
	losses   uint64
	out      lanes // tracks of packets sent

	// Tracks of counters.
	queue, inFlight, rate, rtt uint64

	gaps         int     // encoder.gaps at the connection's last event
	building     []*call // calls with bytes in the packet being built
	packets      map[uint64]*packet
	channels     map[uint64]*channel
	actors       map[actorKey]*actor
	pending      int       // number of calls being followed
	actorsKept   int       // number of actors after the last retire
	channelsKept int       // number of channels after the last clean-up in channel
	spare        []*packet // for newPacket
}

// actorKey identifies an actor.
type actorKey struct {
	class string
	actor uint64
}

// actor holds the tracks of the calls on one actor, sent and received.
type actor struct{ out, in lanes }

// channel holds the calls that wait for acks, oldest first.
type channel struct{ reliable, unreliable []*call }

// call is a call whose fate is open. It waits for its packet or for acks.
type call struct {
	flow        uint64
	name        string
	actor       *actor
	lane        int
	channel     uint64
	first, last uint64 // sequences of its first and last entry if it is reliable
	left        bool   // all of it is in packets; used if it is unreliable
}

// packet is a packet in flight.
type packet struct {
	lane  int
	calls []*call
}

// newConn makes the conn of an event's connection and declares its tracks.
func (e *encoder) newConn(ev *Event) *conn {
	if len(e.conns) >= maxConns {
		maps.DeleteFunc(e.conns, func(_ uint32, c *conn) bool { return c.gaps < e.gaps })
	}
	c := &conn{
		track: e.id(), received: e.id(), acks: e.id(), losses: e.id(),
		queue: e.id(), inFlight: e.id(), rate: e.id(), rtt: e.id(),
		packets:  make(map[uint64]*packet),
		channels: make(map[uint64]*channel),
		actors:   make(map[actorKey]*actor),
	}
	e.conns[ev.Conn] = c
	name := ev.Name
	if ev.Kind != Begun {
		name = "a connection"
	}
	e.declare(c.track, e.world, name)
	e.declare(c.received, c.track, "packets in")
	e.declare(c.acks, c.track, "acks")
	e.declare(c.losses, c.track, "losses")
	e.declareCounter(c.queue, c.track, "send queue", unitBytes, "")
	e.declareCounter(c.inFlight, c.track, "in flight", unitBytes, "")
	e.declareCounter(c.rate, c.track, "rate out", unitNone, "B/s")
	e.declareCounter(c.rtt, c.track, "RTT", unitTime, "")
	c.out = lanes{parent: c.track, name: "packets out"}
	return c
}

// actor returns the tracks of an event's actor. It makes them for the actor's first event.
func (e *encoder) actor(c *conn, ev *Event) *actor {
	key := actorKey{ev.Class, ev.Actor}
	a := c.actors[key]
	if a == nil {
		// Let the number double first, because retire walks over all actors.
		if len(c.actors) >= max(maxActors, 2*c.actorsKept) {
			c.retire()
		}
		name := actorName(ev)
		a = &actor{
			out: lanes{parent: c.track, name: name + " out"},
			in:  lanes{parent: c.track, name: name + " in"},
		}
		c.actors[key] = a
	}
	return a
}

// retire removes the actors without an open slice. A later event declares their tracks again.
func (c *conn) retire() {
	maps.DeleteFunc(c.actors, func(_ actorKey, a *actor) bool { return a.out.idle() && a.in.idle() })
	c.actorsKept = len(c.actors)
}

// channel returns a channel and makes it if there is none.
func (c *conn) channel(number uint64) *channel {
	ch := c.channels[number]
	if ch == nil {
		if len(c.channels) >= max(maxActors, 2*c.channelsKept) {
			c.retireChannels()
		}
		ch = new(channel)
		c.channels[number] = ch
	}
	return ch
}

// retireChannels removes the channels without calls, most of which are closed.
func (c *conn) retireChannels() {
	maps.DeleteFunc(c.channels, func(_ uint64, ch *channel) bool {
		return len(ch.reliable)+len(ch.unreliable) == 0
	})
	c.channelsKept = len(c.channels)
}

// queued begins the slice of a call that waits for its packet. If maxPending calls are
// already being followed, it writes an instant instead and does not follow the call.
func (e *encoder) queued(c *conn, ev *Event) {
	a := e.actor(c, ev)
	call := &call{
		flow: e.id(), name: ev.Name, actor: a, channel: ev.Channel,
		first: ev.Sequence + 1 - uint64(ev.Entries), last: ev.Sequence,
	}
	follow := c.pending < maxPending
	if follow {
		call.lane = e.open(&a.out, ev.At, ev.Name)
		e.event = appendFixed(e.event, eventFlow, call.flow)
	} else {
		e.begin(instant, a.out.parent, ev.At, ev.Name)
	}
	e.note("bytes", uint64(ev.Bytes))
	e.note("channel", ev.Channel)
	if ev.Reliable {
		e.note("entries", uint64(ev.Entries))
	}
	e.end()
	if !follow {
		return
	}
	c.pending++
	ch := c.channel(ev.Channel)
	if ev.Reliable {
		ch.reliable = append(ch.reliable, call)
	} else {
		ch.unreliable = append(ch.unreliable, call)
	}
}

// settle ends the slice of a call. how is the call's fate: "acked", "lost", "dropped", or the
// reason why the fate is unknown.
func (e *encoder) settle(c *conn, call *call, at int64, how string) {
	c.pending--
	e.close(&call.actor.out, call.lane, at, how)
	track := c.losses
	if how == "acked" {
		track = c.acks
	}
	e.begin(instant, track, at, call.name)
	e.text("fate", how)
	e.event = appendFixed(e.event, eventFlowEnd, call.flow)
	e.end()
}

// bunch records the calls with bytes in the packet being built.
func (e *encoder) bunch(c *conn, ev *Event) {
	ch := c.channels[ev.Channel]
	if ch == nil {
		return
	}
	if !ev.Reliable {
		if len(ch.unreliable) > 0 {
			call := ch.unreliable[0]
			c.building = append(c.building, call)
			call.left = ev.Sequence == 0
			if call.left {
				ch.unreliable = shift(ch.unreliable, 1)
			}
		}
		return
	}
	for _, call := range ch.reliable {
		if call.first > ev.Sequence {
			break
		}
		if call.last < ev.Sequence {
			continue
		}
		c.building = append(c.building, call)
		if ev.Again {
			e.begin(instant, c.losses, ev.At, "resend")
			e.text("what", call.name)
			e.note("bytes", uint64(ev.Bytes))
			e.end()
		}
	}
}

// sent begins the slice of a packet and adds the flows of its calls.
func (e *encoder) sent(c *conn, ev *Event) {
	if !ev.Asks {
		e.begin(instant, c.acks, ev.At, "ack sent")
		e.note("number", ev.Number)
		e.end()
		c.building = c.building[:0]
		return
	}
	p := c.newPacket()
	p.lane = e.open(&c.out, ev.At, "packet")
	e.note("number", ev.Number)
	e.note("bytes", uint64(ev.Bytes))
	if ev.Sequence > 0 {
		e.note("states", ev.Sequence)
		e.note("state bytes", ev.Actor)
	}
	for i, call := range c.building {
		if i == 0 || call != c.building[i-1] {
			e.event = appendFixed(e.event, eventFlow, call.flow)
			p.calls = append(p.calls, call)
		}
	}
	e.end()
	clear(c.building)
	c.building = c.building[:0]
	if len(c.packets) >= maxPending { // too many packets are open, so this one is not followed
		e.endPacket(c, p, ev.At, "unknown")
		return
	}
	c.packets[ev.Number] = p
}

// newPacket returns an empty packet.
func (c *conn) newPacket() *packet {
	if n := len(c.spare); n > 0 {
		p := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return p
	}
	return new(packet)
}

// endPacket ends the slice of a packet and those of the unreliable calls whose last bytes the
// packet carried. It recycles p.
func (e *encoder) endPacket(c *conn, p *packet, at int64, how string) {
	for _, call := range p.calls {
		if call.left {
			call.left = false
			e.settle(c, call, at, how)
		}
	}
	e.close(&c.out, p.lane, at, how)
	clear(p.calls)
	p.calls = p.calls[:0]
	c.spare = append(c.spare, p)
}

// unsent ends the slice of a packet that was not sent after all. Its unreliable calls wait
// again.
func (e *encoder) unsent(c *conn, ev *Event) {
	p := c.packets[ev.Number]
	if p == nil {
		return
	}
	delete(c.packets, ev.Number)
	for _, call := range slices.Backward(p.calls) {
		if call.left {
			call.left = false
			ch := c.channel(call.channel)
			ch.unreliable = slices.Insert(ch.unreliable, 0, call)
		}
	}
	e.endPacket(c, p, ev.At, "did not leave")
}

// decided ends the slice of a packet that was acknowledged or lost.
func (e *encoder) decided(c *conn, ev *Event) {
	how := "acked"
	if ev.Kind == Lost {
		how = "lost"
		e.begin(instant, c.losses, ev.At, "packet lost")
		e.note("number", ev.Number)
		e.note("bytes", uint64(ev.Bytes))
		e.end()
	}
	p := c.packets[ev.Number]
	if p == nil {
		if ev.Again {
			e.begin(instant, c.acks, ev.At, "late ack")
			e.note("number", ev.Number)
			e.end()
		}
		return
	}
	delete(c.packets, ev.Number)
	e.endPacket(c, p, ev.At, how)
}

// freed ends the slices of reliable calls whose entries are all acknowledged.
func (e *encoder) freed(c *conn, ev *Event) {
	ch := c.channels[ev.Channel]
	if ch == nil {
		return
	}
	n := 0
	for n < len(ch.reliable) && ch.reliable[n].last < ev.Sequence {
		e.settle(c, ch.reliable[n], ev.At, "acked")
		n++
	}
	ch.reliable = shift(ch.reliable, n)
}

// dropped ends the slice of the oldest unreliable call that waits in a channel.
func (e *encoder) dropped(c *conn, ev *Event) {
	if ch := c.channels[ev.Channel]; ch != nil && len(ch.unreliable) > 0 {
		e.settle(c, ch.unreliable[0], ev.At, "dropped")
		ch.unreliable = shift(ch.unreliable, 1)
	}
}

// handled writes the slice of a received call, from its arrival until its handler returned.
// Within that slice, it writes a slice for the handler.
func (e *encoder) handled(c *conn, ev *Event) {
	in := &e.actor(c, ev).in
	ran := max(ev.Ran, ev.Arrived)
	place := e.open(in, ev.Arrived, ev.Name)
	e.note("bytes", uint64(ev.Bytes))
	e.note("packet", ev.Number)
	e.end()
	if place < 0 {
		return
	}
	track := in.all[place].track
	e.begin(sliceBegin, track, ran, "handler")
	e.end()
	e.begin(sliceEnd, track, max(ev.At, ran), "")
	e.end()
	e.close(in, place, max(ev.At, ran), "")
}

// forget ends the slices of all calls and packets of a connection. how is their fate.
func (e *encoder) forget(c *conn, how string) {
	for _, number := range slices.Sorted(maps.Keys(c.packets)) {
		e.endPacket(c, c.packets[number], e.at, how)
	}
	for _, number := range slices.Sorted(maps.Keys(c.channels)) {
		ch := c.channels[number]
		for _, call := range append(ch.reliable, ch.unreliable...) {
			e.settle(c, call, e.at, how)
		}
	}
	clear(c.packets)
	clear(c.channels)
	c.building = c.building[:0]
}

// shift removes the first n calls.
func shift(calls []*call, n int) []*call {
	rest := copy(calls, calls[n:])
	clear(calls[rest:])
	return calls[:rest]
}
