package rpc

import (
	"fmt"
	"time"
)

// view holds, on a server, the place from which a connection sees, and the openings that depend on it. It belongs to the world's goroutine.
type view struct {
	// Where the view is.
	target  *Actor // set by SetView; nil = see viewTarget
	fixed   bool   // set by SetViewPoint: the view is at x, y, z
	x, y, z float32

	// What the connection sees from without SetView.
	pawn     *Actor        // what Conn.pawn found last; nil = none
	searched time.Duration // when that was, as relevance.elapsed + 1; 0 = never

	// What is open for it.
	openings []*opening    // of actors about which relevancy decides, in no order
	pause    time.Duration // nothing opens before that relevance.elapsed: an actor could not be opened
}

// SetView makes the connection see from where a stands: a, and actors of classes with [At] that are near enough to it, are open for it.
// When a is nil, or ends later, the connection sees as it does before any SetView: from the first actor that it owns whose class has At,
// itself or else through a chain, as the pawn of its controller. A connection that owns none sees only its own actors. Server only; it
// belongs to the world's goroutine, and takes effect within 0.1 s. UE: SetViewTarget, and what the player controller possesses.
func (c *Conn) SetView(a *Actor) error {
	switch {
	case !c.server:
		return onClient("SetView")
	case a == nil:
	case !a.made():
		return fmt.Errorf("rpc: SetView to %s", noActor)
	case a.world != c.world:
		return errorf("rpc: SetView to %v of another world: %w", a, ErrWrongRole)
	case a.dead:
		return errorf("rpc: SetView to %v: %w", a, ErrClosed)
	case !a.own.binding.hasAt():
		return fmt.Errorf("rpc: SetView to %v: its class has no At", a)
	}
	c.shown.view.target, c.shown.view.fixed = a, false
	return nil
}

// SetViewPoint makes the connection see from a point, as spectators do, until SetView or the next SetViewPoint. Server only; it belongs
// to the world's goroutine. UE: FNetViewer::ViewLocation.
func (c *Conn) SetViewPoint(x, y, z float32) error {
	if !c.server {
		return onClient("SetViewPoint")
	}
	v := &c.shown.view
	v.target, v.fixed, v.x, v.y, v.z = nil, true, x, y, z
	return nil
}

// View returns from where the connection sees: the actor, nil after SetViewPoint, and its position. ok is false if the connection sees
// from nowhere. Server only; it belongs to the world's goroutine. UE: ViewTarget and SrcLocation of IsNetRelevantFor.
func (c *Conn) View() (target *Actor, x, y, z float32, ok bool) {
	x, y, z, ok = c.viewpoint()
	if ok && !c.shown.view.fixed {
		target = c.viewTarget()
	}
	return target, x, y, z, ok
}

// viewTarget returns the actor that the connection sees from, nil if there is none.
func (c *Conn) viewTarget() *Actor {
	if c == nil {
		return nil
	}
	v := &c.shown.view
	switch {
	case v.target != nil && !v.target.dead:
		return v.target
	case v.fixed:
		return nil
	}
	v.target = nil
	return c.pawn()
}

// pawn returns the actor that the connection sees from while nobody has called SetView. It searches once a Flush: locate asks for each actor
// that is RelevantAsOwner, and with a search each would take the square of their number.
func (c *Conn) pawn() *Actor {
	v := &c.shown.view
	if now := c.world.relevance.elapsed + 1; v.searched != now || v.pawn != nil && (v.pawn.dead || v.pawn.conn != c) {
		v.searched, v.pawn = now, firstPawn(&c.shown.owned)
	}
	return v.pawn
}

// firstPawn returns the first actor of the list whose class has At; when there is none, the first that one of them owns, and so on.
func firstPawn(l *actors) *Actor {
	for a := range l.all {
		if !a.relevancy.asOwner && a.own.binding.hasAt() {
			return a
		}
	}
	for a := range l.all {
		if pawn := firstPawn(&a.children); pawn != nil {
			return pawn
		}
	}
	return nil
}

// viewpoint returns from where the connection sees, if it does.
func (c *Conn) viewpoint() (x, y, z float32, ok bool) {
	if c.shown.view.fixed {
		return c.shown.view.x, c.shown.view.y, c.shown.view.z, true
	}
	return c.viewTarget().position()
}

// add notes an opening of an actor about which relevancy decides.
func (v *view) add(o *opening) {
	if o.actor.relevancy.rule != byHand {
		o.at = len(v.openings)
		v.openings = append(v.openings, o)
	}
}

// remove forgets an opening that has closed.
func (v *view) remove(o *opening) {
	if o.actor.relevancy.rule == byHand {
		return
	}
	last := len(v.openings) - 1 // it takes the place of o
	v.openings[o.at] = v.openings[last]
	v.openings[o.at].at = o.at
	v.openings[last] = nil
	v.openings = v.openings[:last]
	if o.actor.relevancy.here == o { // a function of the game has closed it in a survey
		o.actor.relevancy.here = nil
	}
}

// mark notes the openings at their actors, until settle, so that a survey finds the opening of an actor without a map.
func (v *view) mark() {
	for _, o := range v.openings {
		o.actor.relevancy.here = o
	}
}
