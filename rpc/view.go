package rpc

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/logs"
)

// shown is a server's record of the actors that one client has, is about to get, or is about to
// lose. It is used only by the world's goroutine.
//
// A copy at the client is open while it has a channel. A copy is detached if its channel has closed
// but the client keeps the copy, as it does for dormant and placed actors.
type shown struct {
	owned actors // only actors that the connection owns directly, not those that they own in turn
	view  view   // the point from which the client sees

	// The actors that the game has opened for the client with OpenTo. The client keeps these when
	// another client becomes their owner.
	opened map[*Actor]bool

	// Actors that are open for the client.
	openings map[*Actor]*opening
	unacked  []*opening  // OnOpenAcked runs for these once the client has acknowledged the open
	state    stateOutbox // the openings' states, on the way to the client

	// Actors whose channel is closed.
	detached       map[*Actor]CloseReason // why each detached copy lost its channel; never Destroyed
	dismissals     []dismissal            // copies that must end, but are waiting for a free channel
	closedChannels closedChannels         // may still be open at the client; guarded by the link's lock

	openWarn logs.Gate // limits warnings about failed opens of actors to one a second
}

func newShown() shown {
	return shown{
		opened:         make(map[*Actor]bool),
		openings:       make(map[*Actor]*opening),
		detached:       make(map[*Actor]CloseReason),
		closedChannels: closedChannels{byRef: make(map[Ref]uint64)},
	}
}

// add adds an opening.
func (s *shown) add(o *opening) {
	s.openings[o.actor] = o
	if o.actor.awaitsAcks() {
		s.unacked = append(s.unacked, o)
	}
	s.view.add(o)
}

// remove removes an opening that has closed. It leaves unacked to takeAcked.
func (s *shown) remove(o *opening) {
	delete(s.openings, o.actor)
	s.view.remove(o)
}

// takeAcked removes the openings that the client has acknowledged from unacked and returns them.
// The caller holds the link's lock.
func (s *shown) takeAcked(machine *bunch.Conn) (acked []*opening) {
	s.unacked = slices.DeleteFunc(s.unacked, func(o *opening) bool {
		switch {
		case o.closed:
			return true
		case o.closePending:
			// The client has lost the actor to another owner. The opening closes once the client
			// has acknowledged it, but keep it here because that close may still be canceled.
			return false
		case !machine.Opened(o.channel):
			return false
		}
		acked = append(acked, o)
		return true
	})
	return acked
}

// hasDetached reports whether the client has a copy of a whose channel is closed.
func (s *shown) hasDetached(a *Actor) bool {
	_, ok := s.detached[a]
	return ok
}

// hasDormant reports whether the actor is dormant and the client has a dormant copy of it.
func (s *shown) hasDormant(a *Actor) bool { return a.dormancy.on && s.detached[a] == Dormancy }

// noteDetached records that the channel on c was closed but that the client keeps its copy.
func (a *Actor) noteDetached(c *Conn, reason CloseReason) {
	a.dormancy.detachedAt = append(a.dormancy.detachedAt, c)
	c.shown.detached[a] = reason
}

// forgetDetached undoes noteDetached when the copy has a channel again, or when the copy or its
// connection has ended.
func (a *Actor) forgetDetached(c *Conn) {
	if c.shown.hasDetached(a) {
		delete(c.shown.detached, a)
		a.dormancy.detachedAt = slices.DeleteFunc(a.dormancy.detachedAt, func(other *Conn) bool {
			return other == c
		})
	}
}

// A dismissal is the pending end of a client's detached copy.
type dismissal struct {
	actor  *Actor
	reason CloseReason
}

// dismiss ends the copy that the client of c keeps although its channel has closed. If there is no
// free channel to tell the client, each Flush tries again.
func (a *Actor) dismiss(c *Conn, reason CloseReason) {
	a.forgetDetached(c)
	delete(c.shown.opened, a)
	if !c.usable() {
		return
	}
	if err := a.openAndClose(c, reason); err != nil {
		c.shown.dismissals = append(c.shown.dismissals, dismissal{a, reason})
		a.logNotOpened(c, fmt.Errorf("end of its copy is waiting for a free channel: %w", err))
	}
}

// openAndClose opens a channel just to close it again with a reason, which the client then applies
// to its copy of the actor.
func (a *Actor) openAndClose(c *Conn, reason CloseReason) error {
	c.link.Lock()
	defer c.link.Unlock()
	a.world.frame.cork(c)
	if reason == Destroyed {
		// A single message opens and closes the channel.
		channel, err := a.channelOn(c)
		if err != nil {
			return err
		}
		return c.machine.Close(channel, a.openHead(c, 0))
	}
	channel, err := a.openOn(c, a.openHead(c, 0))
	if err != nil {
		return err
	}
	return a.sendClose(c, channel, reason, []byte{byte(reason)})
}

// retryDismissals is called in Flush to end the copies that were waiting for a free channel.
func (c *Conn) retryDismissals() {
	for c.usable() && len(c.shown.dismissals) > 0 {
		d := c.shown.dismissals[0]
		// Since dismiss was called, the actor may have been opened for the client again, and
		// perhaps closed once more.
		replaced := d.actor.openingOn(c) != nil || c.shown.hasDetached(d.actor)
		if !replaced && d.actor.openAndClose(c, d.reason) != nil {
			return
		}
		c.shown.dismissals = c.shown.dismissals[1:]
	}
}

// closedChannels remembers, for each actor that was closed for a client and may open again, the
// actor's last channel.
//
// If the actor opens again before the client has acknowledged the close, its new channel has to
// wait for the old one (see channelOn). An entry is therefore kept at least until the close is
// acknowledged, and later removed in a sweep of all acknowledged entries.
//
// The link's lock guards all fields.
type closedChannels struct {
	byRef   map[Ref]uint64
	sweepAt int // size of byRef at which the next add sweeps
}

// minSweep is the smallest map size worth sweeping. Any number of this order will do, because that
// many entries take only a few KiB.
const minSweep = 64

// add records the channel of an actor that was just closed.
func (s *closedChannels) add(ref Ref, channel uint64, machine *bunch.Conn) {
	if len(s.byRef) >= s.sweepAt {
		maps.DeleteFunc(s.byRef, func(_ Ref, channel uint64) bool {
			unacked, _ := machine.Reliable(channel)
			return unacked == 0
		})
		// Don't sweep again until the map has doubled, so that sweeping costs little per close.
		s.sweepAt = max(minSweep, 2*len(s.byRef))
	}
	s.byRef[ref] = channel
}

// take removes the entry of an actor that opens again and returns its last channel.
func (s *closedChannels) take(ref Ref) (channel uint64, ok bool) {
	channel, ok = s.byRef[ref]
	delete(s.byRef, ref)
	return channel, ok
}

// A view is, on a server, the position that a connection sees from, and the openings that depend on
// this position. It is used only by the world's goroutine.
type view struct {
	// The position that the connection sees from.
	target  *Actor // set by SetView; if nil, see viewTarget
	fixed   bool   // set by SetViewPoint: the view stays at x, y, z
	x, y, z float32

	// The actor that the connection sees from by default, as last found by Conn.pawn.
	pawn       *Actor        // nil if there was none
	searched   bool          // Conn.pawn has searched at least once
	searchedAt time.Duration // relevance.elapsed at the last search

	openings []*opening // of actors whose relevancyRule isn't byHand, in no particular order

	// After an open has failed, no further actors are opened until relevance.elapsed reaches
	// pauseUntil.
	pauseUntil time.Duration
}

// SetView makes the connection see from the position of a. UE (Unreal Engine's counterpart):
// SetViewTarget, and the pawn that the player controller possesses.
//
// From then on, a is open for the connection, and so are all actors near a whose class has [At].
// SetView takes effect within 0.1 s. It is for the server only, and must be called on the world's
// goroutine.
//
// If a is nil, or once a has ended, the connection has its default view: it sees from the first
// actor with an At that it owns directly or, if there is none, from one that it owns through a
// chain, such as the pawn of its controller. A connection that owns no such actor sees only its own
// actors.
func (c *Conn) SetView(a *Actor) error {
	switch {
	case !c.server:
		return errOnClient("SetView")
	case a == nil:
	case !a.valid():
		return fmt.Errorf("rpc: SetView to %s", noActor)
	case a.world != c.world:
		return errorf("rpc: SetView to %v: actor belongs to another world: %w", a, ErrWrongRole)
	case a.dead:
		return errorf("rpc: SetView to %v: %w", a, ErrClosed)
	case !a.own.binding.hasAt():
		return fmt.Errorf("rpc: SetView to %v: class has no At", a)
	}
	c.shown.view.target = a
	c.shown.view.fixed = false
	return nil
}

// SetViewPoint makes the connection see from a point until the next SetView or SetViewPoint, as a
// spectator does. It is for the server only, and must be called on the world's goroutine.
// UE: FNetViewer::ViewLocation.
func (c *Conn) SetViewPoint(x, y, z float32) error {
	if !c.server {
		return errOnClient("SetViewPoint")
	}
	v := &c.shown.view
	v.target = nil
	v.fixed = true
	v.x, v.y, v.z = x, y, z
	return nil
}

// View returns the actor that the connection sees from, and its position. After SetViewPoint
// the actor is nil. ok is false if the connection has no view. View is for the server only,
// and must be called on the world's goroutine. UE: ViewTarget and SrcLocation of
// IsNetRelevantFor.
func (c *Conn) View() (target *Actor, x, y, z float32, ok bool) {
	x, y, z, ok = c.viewpoint()
	if ok && !c.shown.view.fixed {
		target = c.viewTarget()
	}
	return target, x, y, z, ok
}

// viewTarget returns the actor that the connection sees from, or nil if there is none. c may
// be nil.
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

// pawn returns the actor that the connection sees from by default.
//
// It is called for each actor that is RelevantAsOwner, so if every call searched, the cost would
// grow with the square of the number of these actors. It therefore searches only once per Flush,
// unless the pawn has ended or got another owner since.
func (c *Conn) pawn() *Actor {
	v := &c.shown.view
	now := c.world.relevance.elapsed
	current := v.searched && v.searchedAt == now
	lost := v.pawn != nil && (v.pawn.dead || v.pawn.conn != c)
	if !current || lost {
		v.pawn = firstPawn(&c.shown.owned)
		v.searched = true
		v.searchedAt = now
	}
	return v.pawn
}

// firstPawn returns the first actor of the list whose class has an At. If there is none, it
// searches the actors that these own in turn.
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

// viewpoint returns the position that the connection sees from. ok is false if there is none.
func (c *Conn) viewpoint() (x, y, z float32, ok bool) {
	if c.shown.view.fixed {
		return c.shown.view.x, c.shown.view.y, c.shown.view.z, true
	}
	return c.viewTarget().position()
}

// add adds an opening, unless only the game opens and closes its actor.
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

	// The last opening takes the place of o.
	last := len(v.openings) - 1
	v.openings[o.viewIndex] = v.openings[last]
	v.openings[o.viewIndex].viewIndex = o.viewIndex
	v.openings[last] = nil
	v.openings = v.openings[:last]
	if o.actor.relevancy.here == o {
		// A function of the game has closed the opening in the middle of a survey.
		o.actor.relevancy.here = nil
	}
}

// markActors points relevancy.here of each actor at its opening, so that a survey doesn't have to
// look up the openings in a map. unmarkActors undoes it.
func (v *view) markActors() {
	for _, o := range v.openings {
		o.actor.relevancy.here = o
	}
}

// unmarkActors undoes markActors at the end of a survey.
func (v *view) unmarkActors() {
	for _, o := range v.openings {
		o.actor.relevancy.here = nil
	}
}
