package rpc

import (
	"fmt"
	"time"
)

// view is, on a server, the position from which a connection sees, and the openings that
// depend on it. It is used only by the world's goroutine.
type view struct {
	// The position of the view.
	target  *Actor // set by SetView; nil = see viewTarget
	fixed   bool   // set by SetViewPoint: the view is at x, y, z
	x, y, z float32

	// The actor from which the connection sees if SetView was not called.
	pawn     *Actor        // the last result of Conn.pawn; nil = none
	searched time.Duration // relevance.elapsed + 1 at the time of that result; 0 = never

	// The actors that are open for the connection.
	openings []*opening    // of actors about which relevancy decides, in no order
	pause    time.Duration // after a failed open: no actor is opened before relevance.elapsed reaches this
}

// SetView makes the connection see from the position of a. UE: SetViewTarget, and the pawn
// that the player controller possesses.
//
// From then on, a is open for the connection, and so are actors of classes with [At] that are
// near enough to a. SetView takes effect within 0.1 s. It is for the server only, and must be
// called on the world's goroutine.
//
// If a is nil or ends later, the connection sees as without SetView: from the
// first actor with an At that it owns. It owns that actor directly or, failing
// that, through a chain, such as the pawn of its controller. A connection that
// owns no such actor sees only its own actors.
func (c *Conn) SetView(a *Actor) error {
	switch {
	case !c.server:
		return onClient("SetView")
	case a == nil:
	case !a.valid():
		return fmt.Errorf("rpc: SetView to %s", noActor)
	case a.world != c.world:
		return errorf("rpc: SetView to %v of another world: %w", a, ErrWrongRole)
	case a.dead:
		return errorf("rpc: SetView to %v: %w", a, ErrClosed)
	case !a.own.binding.hasAt():
		return fmt.Errorf("rpc: SetView to %v: its class has no At", a)
	}
	c.shown.view.target = a
	c.shown.view.fixed = false
	return nil
}

// SetViewPoint makes the connection see from a point, as spectators do, until the next
// SetView or SetViewPoint. It is for the server only, and must be called on the world's
// goroutine. UE: FNetViewer::ViewLocation.
func (c *Conn) SetViewPoint(x, y, z float32) error {
	if !c.server {
		return onClient("SetViewPoint")
	}
	v := &c.shown.view
	v.target = nil
	v.fixed = true
	v.x, v.y, v.z = x, y, z
	return nil
}

// View returns the actor from which the connection sees and its position. After SetViewPoint the
// actor is nil. ok is false if the connection has no view. View is for the server only, and must
// be called on the world's goroutine. UE: ViewTarget and SrcLocation of IsNetRelevantFor.
func (c *Conn) View() (target *Actor, x, y, z float32, ok bool) {
	x, y, z, ok = c.viewpoint()
	if ok && !c.shown.view.fixed {
		target = c.viewTarget()
	}
	return target, x, y, z, ok
}

// viewTarget returns the actor from which the connection sees, or nil
// if there is none. c may be nil.
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

// pawn returns the actor from which the connection sees if SetView was not called. It
// searches at most once a Flush unless that actor ends or changes its owner.
//
// locate calls pawn for each actor that is RelevantAsOwner. If each call searched, the cost
// would grow with the square of their number.
func (c *Conn) pawn() *Actor {
	v := &c.shown.view
	now := c.world.relevance.elapsed + 1
	gone := v.pawn != nil && (v.pawn.dead || v.pawn.conn != c)
	if v.searched != now || gone {
		v.searched = now
		v.pawn = firstPawn(&c.shown.owned)
	}
	return v.pawn
}

// firstPawn returns the first actor of the list whose class has At. If there is none, it
// searches the actors that these own, and so on.
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

// viewpoint returns the position from which the connection sees. ok is false if it has none.
func (c *Conn) viewpoint() (x, y, z float32, ok bool) {
	if c.shown.view.fixed {
		return c.shown.view.x, c.shown.view.y, c.shown.view.z, true
	}
	return c.viewTarget().position()
}

// add adds an opening if relevancy decides about its actor.
func (v *view) add(o *opening) {
	if o.actor.relevancy.rule != byHand {
		o.viewIndex = len(v.openings)
		v.openings = append(v.openings, o)
	}
}

// remove removes an opening that has closed.
func (v *view) remove(o *opening) {
	if o.actor.relevancy.rule == byHand {
		return
	}
	last := len(v.openings) - 1 // the last opening takes the place of o
	v.openings[o.viewIndex] = v.openings[last]
	v.openings[o.viewIndex].viewIndex = o.viewIndex
	v.openings[last] = nil
	v.openings = v.openings[:last]
	if o.actor.relevancy.here == o { // a function of the game closed it during a survey
		o.actor.relevancy.here = nil
	}
}

// mark sets relevancy.here in the actors of all openings, until finishSurvey. A survey can then
// find the opening of an actor without a map.
func (v *view) mark() {
	for _, o := range v.openings {
		o.actor.relevancy.here = o
	}
}
