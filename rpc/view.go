package rpc

import (
	"fmt"
	"math"
	"time"
)

// everywhere is a cull distance beyond all.
const everywhere = math.MaxFloat32

// view is what a server's connection sees. It belongs to the world's goroutine.
type view struct {
	target  *Actor // by SetView; nil = see viewTarget
	fixed   bool   // by SetViewPoint
	x, y, z float32

	pawn     *Actor        // see Conn.pawn
	searched time.Duration // relevance.elapsed then, and 1

	openings []*opening    // of actors that relevancy closes, in no order
	pause    time.Duration // nothing is opened before: the last could not be
}

// SetView makes the connection see from where a stands: actors of classes with [At] are open for it as long as they are near enough
// to a, and a itself is. Nil, and the death of a, go back to how it begins: from the first of the actors that the connection owns whose
// class has At. A connection that has none sees nothing but what it owns. Server only; it belongs to the world's goroutine, and counts
// within 0.1 s. UE: SetViewTarget, and what the player controller possesses.
func (c *Conn) SetView(a *Actor) error {
	switch {
	case !c.server:
		return fmt.Errorf("rpc: SetView on a client: %w", ErrWrongRole)
	case a == nil:
	case !a.made():
		return fmt.Errorf("rpc: SetView to %s", noActor)
	case a.dead:
		return fmt.Errorf("rpc: SetView to a %q: %w", a.class.name, ErrClosed)
	case a.binding == nil || a.binding.at == nil:
		return fmt.Errorf("rpc: SetView to a %q: its class has no At", a.class.name)
	}
	c.view.target, c.view.fixed = a, false
	return nil
}

// SetViewPoint makes the connection see from a point, as spectators do, until SetView or the next SetViewPoint. Server only; it belongs
// to the world's goroutine. UE: FNetViewer::ViewLocation.
func (c *Conn) SetViewPoint(x, y, z float32) error {
	if !c.server {
		return fmt.Errorf("rpc: SetViewPoint on a client: %w", ErrWrongRole)
	}
	v := &c.view
	v.target, v.fixed, v.x, v.y, v.z = nil, true, x, y, z
	return nil
}

// viewTarget returns the actor that the connection sees from, nil when there is none.
func (c *Conn) viewTarget() *Actor {
	if c == nil {
		return nil
	}
	v := &c.view
	switch {
	case v.target != nil && !v.target.dead:
		return v.target
	case v.fixed:
		return nil
	}
	v.target = nil
	return c.pawn()
}

// pawn returns the first actor that the connection owns and that stands somewhere. It is searched for once a look at relevancy, or
// what a connection owns and sees as its owner would cost the square of their number.
func (c *Conn) pawn() *Actor {
	v := &c.view
	if now := c.world.relevance.elapsed + 1; v.searched != now || v.pawn != nil && (v.pawn.dead || v.pawn.owner != c) {
		v.searched, v.pawn = now, nil
		for a := range c.owned.all {
			if !a.asOwner && a.binding != nil && a.binding.at != nil {
				v.pawn = a
				break
			}
		}
	}
	return v.pawn
}

// viewpoint returns from where the connection sees, if it does.
func (c *Conn) viewpoint() (x, y, z float32, ok bool) {
	if c.view.fixed {
		return c.view.x, c.view.y, c.view.z, true
	}
	return c.viewTarget().position()
}

// add notes an actor that is open now, if relevancy closes it.
func (v *view) add(o *opening) {
	if o.actor.rule != byHand {
		o.at = len(v.openings)
		v.openings = append(v.openings, o)
	}
}

// remove forgets an actor that is closed.
func (v *view) remove(o *opening) {
	if o.actor.rule == byHand {
		return
	}
	last := len(v.openings) - 1
	v.openings[o.at] = v.openings[last]
	v.openings[o.at].at = o.at
	v.openings[last] = nil
	v.openings = v.openings[:last]
	o.actor.slots().forget(o)
}
