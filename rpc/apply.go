package rpc

import (
	"slices"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/state"
)

// pending are the replicas that the newest packet has changed on a client, and of which OnRep has not run.
type pending struct {
	replicas []replica // from next on
	next     int
	packet   uint64
}

// applyUpdate takes an update of an actor's state from the server.
func (w *World) applyUpdate(c *Conn, a *Actor, m bunch.Message) *CloseError {
	fields, rest, err := state.ReadMask(m.Payload, a.class.fields)
	if err == nil {
		rest, err = w.readFields(c, a, fields, rest, m.Number)
	}
	if err != nil {
		return violationf(PayloadFail, "state of %v, %d bytes: %v", a, len(m.Payload), err)
	}
	if len(rest) > 0 {
		return violationf(PayloadFail, "state of %v: %d bytes left over of %d", a, len(rest), len(m.Payload))
	}
	return nil
}

// readFields fills in those of the fields of which nothing newer has come: packets overtake each other, and each field is as
// new as the packet that brought it.
func (w *World) readFields(c *Conn, a *Actor, fields state.Mask, b []byte, packet uint64) (rest []byte, err error) {
	for i := 0; fields>>i != 0; i++ {
		if fields&(1<<i) == 0 {
			continue
		}
		d := a.class.stateOf(i)
		r := a.replica(d)
		if d.isList() { // it stands alone and takes the rest
			return nil, c.readList(r, b, packet)
		}
		if r == nil || packet < a.newest[i] {
			b, err = d.plan.Skip(b, i-d.first)
		} else {
			c.touch(r)
			a.newest[i] = packet
			b, err = r.read(b, i-d.first)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// readList takes an update of a list; nobody keeps it here when r is nil.
func (c *Conn) readList(r replica, b []byte, packet uint64) error {
	if r == nil {
		return nil
	}
	c.touch(r)
	return r.(keeper).readItems(b, packet)
}

// replica returns the actor's replica of a declared state, nil when nothing keeps it here.
func (a *Actor) replica(d *declaredState) replica {
	if a.replicas == nil {
		return nil
	}
	return a.replicas[d.id]
}

// touch remembers what a state was before a packet changes it.
func (c *Conn) touch(r replica) {
	for _, other := range c.reps.replicas {
		if other == r {
			return
		}
	}
	r.remember()
	c.reps.replicas = append(c.reps.replicas, r)
}

// tellReps runs OnRep for all that a packet has changed.
func (w *World) tellReps(c *Conn) {
	p := &c.reps
	for p.next < len(p.replicas) {
		r := p.replicas[p.next]
		p.next++ // before the call: one that does not return is not repeated
		r.file(c.referrers, true)
		r.tell(w, 0)
	}
	clear(p.replicas)
	p.replicas, p.next = p.replicas[:0], 0
}

// tellReferrers runs OnRep for the states that name an actor which has just opened, or ended, here.
func (w *World) tellReferrers(c *Conn, ref Ref) {
	for _, r := range c.referrers.of(ref) {
		if slices.Contains(c.reps.replicas, r) { // a packet has changed it, and OnRep is about to run
			continue
		}
		r.remember()
		r.tell(w, ref)
	}
}

// unfile forgets what the states of an actor that has ended name.
func (a *Actor) unfile(c *Conn) {
	for _, r := range a.replicas {
		if r != nil {
			r.file(c.referrers, false)
		}
	}
}
