package rpc

import (
	"fmt"
	"math"
	"time"

	"github.com/quivernet/quiver/internal/tasks"
)

// relevantTime is how long an actor stays open for a connection after it was last relevant to it, so that what comes and goes at the
// edge is not closed and opened all the time. UE: NetDriver RelevantTimeout.
const relevantTime = 5 * time.Second

// defaultCullDistance is UE's NetCullDistanceSquared of 225,000,000 cm², in metres.
const defaultCullDistance = 150

// relevancyRule says who decides for whom an actor is open.
type relevancyRule uint8

const (
	byHand  relevancyRule = iota // the game: OpenTo, CloseTo, AlwaysRelevant
	byGrid                       // where it stands: At
	byGame                       // a function of the game: Relevant
	byOwner                      // it is for its owner alone
)

// At says where objects of b stand. Their actors are then open for the connections that see them, those whose view is nearer than
// the class's [CullDistance], and close 5 s after they were last seen, with reason [Relevancy]; [Conn.SetView] says from where a
// connection sees. UE: GetActorLocation, as AActor::IsNetRelevantFor asks it.
//
// In Unreal's order: an actor that was spawned with [AlwaysRelevant] is open for everybody; it is relevant to its owner, and to
// a connection whose view it is; [RelevantAsOwner] and [OnlyRelevantToOwner] come next, and the distance last. What is attached or
// hidden is the game's matter: see [Relevant].
//
// fn is asked on the world's goroutine: when an actor is spawned, and at Flush ten times a second for each actor, some of them at each
// Flush; as often each connection's surroundings are looked at. What comes near is so opened 0.3 s later at the latest, the nearest
// first, and at most 1,000 at a Flush. A tick pays for a part of the actors and for what is near, not for all pairs: at 30 Hz 10,000
// actors that stand still take 0.06 ms, and 100 connections near to 200 of them each 0.3 ms. A position that is not finite is nowhere.
// What can not be opened, because the client has no channel left, is told in the log and tried again each second.
//
// OpenTo and CloseTo still work: what OpenTo opened stays until it was out of sight for 5 s, and what CloseTo closed opens again
// if it is near. Where the path does not take all updates, those of what is far wait longer: see [UpdatePriority].
//
// At panics when fn is nil, or b has one.
func At[T any](b *Binding[T], fn func(object T) (x, y, z float32)) {
	u := b.untyped
	switch {
	case fn == nil:
		panic(fmt.Sprintf("rpc: At for class %s: no function", u.class.name))
	case u.at != nil:
		panic(fmt.Sprintf("rpc: At for class %s: it has a function already", u.class.name))
	}
	u.at = func(object any) (x, y, z float32) { return fn(object.(T)) }
}

// Relevant makes fn decide for which connections actors of b are open, instead of distance. Owner, view and the options of Spawn come
// before it, as for [At]: fn can not refuse an actor to its owner, nor to a connection whose view it is. An actor closes 5 s after
// fn last said yes. [Conn.View] says from where viewer sees. UE: overriding AActor::IsNetRelevantFor, but for what comes before.
//
// fn is asked on the world's goroutine at Flush, for each actor and each connection once a second, some pairs at each Flush, and at
// most 20,000 of them: at 30 Hz, 10,000 actors and 100 connections take 1.7 s a round. Let it be quick. At beside it only serves as
// view. It panics when fn is nil, or b has one.
func Relevant[T any](b *Binding[T], fn func(object T, viewer *Conn) bool) {
	u := b.untyped
	switch {
	case fn == nil:
		panic(fmt.Sprintf("rpc: Relevant for class %s: no function", u.class.name))
	case u.relevant != nil:
		panic(fmt.Sprintf("rpc: Relevant for class %s: it has a function already", u.class.name))
	}
	u.relevant = func(object any, viewer *Conn) bool { return fn(object.(T), viewer) }
}

// CullDistance is from how near actors of the class are seen, in the unit of [At]; it is theirs, not the viewer's. The default is 150,
// Unreal's 15,000 cm in metres. Distances that differ much are fine. UE: NetCullDistanceSquared. It panics unless d is above 0.
func CullDistance(d float32) ClassOption {
	if !(d > 0) {
		panic(fmt.Sprintf("rpc: CullDistance(%v) must be above 0", d))
	}
	return func(c *Class) { c.cullDistance = d }
}

// OnlyRelevantToOwner keeps an actor from all but its owner, however near they are, also when its class has neither At nor
// Relevant. The last owner's copy closes 5 s after SetOwner. UE: bOnlyRelevantToOwner.
func OnlyRelevantToOwner() SpawnOption { return func(a *Actor) { a.onlyOwner = true } }

// RelevantAsOwner makes an actor relevant to whom its owner is, as a weapon is to those who see the pawn that bears it: it counts as
// standing where the owner's view stands, see [Conn.SetView], with the cull distance of that actor, or is for all who see from
// somewhere when that one is AlwaysRelevant. Without an owner, and where the owner's view is a point or decided by [Relevant], nobody else has it. UE:
// bNetUseOwnerRelevancy.
func RelevantAsOwner() SpawnOption { return func(a *Actor) { a.asOwner = true } }

// ruleOf finds out who decides for whom a new actor is open.
func (a *Actor) ruleOf() relevancyRule {
	switch {
	case a.always:
		return byHand
	case a.onlyOwner:
		return byOwner
	case a.asOwner:
		return byGrid
	case a.binding == nil:
		return byHand
	case a.binding.relevant != nil:
		return byGame
	case a.binding.at != nil:
		return byGrid
	}
	return byHand
}

// position returns where the actor stands, if that is known.
func (a *Actor) position() (x, y, z float32, ok bool) {
	if a == nil || a.dead || a.object == nil || a.binding.at == nil {
		return 0, 0, 0, false
	}
	a.world.doing = tasks.Doing{What: "At of ", Of: a.class}
	x, y, z = a.binding.at(a.object)
	return x, y, z, true
}

// locate tells the grid where an actor stands.
func (a *Actor) locate() {
	stands := a
	if a.asOwner {
		if stands = a.parent; stands == nil {
			stands = a.owner.viewTarget()
		}
	}
	grid := &a.world.relevance.grid
	x, y, z, ok := stands.position()
	if a.rule != byGrid { // the function destroyed it, or tore it off
		return
	}
	if !ok || stands.rule == byGame {
		grid.Remove(a.slot)
		return
	}
	grid.Set(a.slot, x, y, z, stands.reach())
}

// reach returns from how near the actor is seen.
func (a *Actor) reach() float32 {
	if a.always {
		return everywhere
	}
	return a.class.cullDistance
}

// concerns reports whether an actor is relevant to a connection whatever the distance.
func (a *Actor) concerns(c *Conn) bool { return a.owner == c || a == c.view.target }

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

// View returns from where the connection sees: the actor that it sees from, nil after SetViewPoint, and where that is; false when it sees
// from nowhere. Server only; it belongs to the world's goroutine. UE: ViewTarget and SrcLocation of IsNetRelevantFor.
func (c *Conn) View() (target *Actor, x, y, z float32, ok bool) {
	x, y, z, ok = c.viewpoint()
	if ok && !c.view.fixed {
		target = c.viewTarget()
	}
	return target, x, y, z, ok
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
