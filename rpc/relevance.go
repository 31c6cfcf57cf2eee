package rpc

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/relevancy"
	"github.com/quivernet/quiver/internal/tasks"
)

// relevantTime is how long an actor stays open for a connection after it was last relevant to it, so that what comes and goes at the
// edge is not closed and opened all the time. UE: NetDriver RelevantTimeout.
const relevantTime = 5 * time.Second

// relevancyRule says who decides for whom an actor is open.
type relevancyRule uint8

const (
	byHand  relevancyRule = iota // the game: OpenTo, CloseTo, AlwaysRelevant
	byGrid                       // where it stands: At
	byGame                       // a function of the game: Relevant
	byOwner                      // it is for its owner alone
)

// actorRelevancy says, on a server, for whom an actor is open.
type actorRelevancy struct {
	always, onlyOwner, asOwner bool // as the game spawned it

	rule relevancyRule
	slot int // its place in slots(), while a rule other than byHand decides
}

const (
	// surveyPeriod is how often all positions are read, and all surroundings looked at. What runs at 10 m/s moves by a metre in it,
	// which is little beside a cull distance, and a tick at 30 Hz has a third of the work.
	surveyPeriod = 100 * time.Millisecond
	// askPeriod is how often each pair of an actor and a connection is asked about, of classes with a function of their own. There are
	// as many as the product of both.
	askPeriod = time.Second
	// maxAsked pairs are asked about at a Flush: at 50 ns each, which a look at two structs takes, 1 ms.
	maxAsked = 20_000
	// maxOpened actors are opened at a Flush: at 3 µs each, 3 ms, which a hundred viewers that come at once would else take many
	// times of.
	maxOpened = 1000
	// openPause is how long a connection waits after an actor could not be opened.
	openPause = time.Second
)

// relevance decides, on a server at each Flush, for which connections the actors of classes with At or Relevant are open.
type relevance struct {
	grid    relevancy.Grid
	members int   // actors whose rule is not byHand
	placed  slots // byGrid; slots are the grid's ids
	asked   slots // byGame

	last    time.Time     // the last Flush
	elapsed time.Duration // since the first one; time stamps of relevancy are such

	// What is left of this Flush. A panic of a function of the game leaves the rest to the next.
	toPlace, toSurvey, toAsk, toOpen int

	// Where the rounds are.
	places, surveys, questions relevancy.Round
	place, question            int // slots
	surveyor, asker            int // among the world's connections

	// Scratch of one survey.
	found  []relevancy.Found
	wanted []wish
	unseen []*opening
}

// wish is an actor that is relevant to a connection and not open there.
type wish struct {
	actor *Actor
	far   float32
}

// slots have the actors that one rule decides on, and, while a connection is looked at, its openings of them.
type slots struct {
	relevancy.Slots[Actor, opening]
}

// mark notes what a connection has, for as long as it is looked at.
func (r *slots) mark(openings []*opening) {
	for _, o := range openings {
		if o.actor.slots() == r {
			r.Here[o.actor.relevancy.slot] = o
		}
	}
}

func (r *slots) unmark(openings []*opening) {
	for _, o := range openings {
		if o.actor.slots() == r {
			r.Here[o.actor.relevancy.slot] = nil
		}
	}
}

// forget is called when something closes; a function of the game may do that while its connection is looked at. r may be nil.
func (r *slots) forget(o *opening) {
	if r != nil && r.Here[o.actor.relevancy.slot] == o {
		r.Here[o.actor.relevancy.slot] = nil
	}
}

// slots returns those that the actor is in, nil when in none.
func (a *Actor) slots() *slots {
	switch a.relevancy.rule {
	case byGrid:
		return &a.world.relevance.placed
	case byGame:
		return &a.world.relevance.asked
	}
	return nil
}

// join begins to decide about a new actor, before its constructor runs.
func (r *relevance) join(a *Actor) {
	if a.relevancy.rule = a.ruleOf(); a.relevancy.rule == byHand {
		return
	}
	r.members++
	if in := a.slots(); in != nil {
		a.relevancy.slot = in.Add(a)
	}
}

// leave ends it. The actor is open nowhere any more.
func (r *relevance) leave(a *Actor) {
	if a.relevancy.rule == byHand {
		return
	}
	r.members--
	if a.relevancy.rule == byGrid {
		r.grid.Remove(a.relevancy.slot)
	}
	if in := a.slots(); in != nil {
		in.Remove(a.relevancy.slot)
	}
	a.relevancy.rule = byHand
}

// expel is called before a connection leaves the world's list, so that the rounds miss none of the others.
func (r *relevance) expel(conns []*Conn, c *Conn) {
	at := slices.Index(conns, c)
	if at < 0 {
		return
	}
	if at <= r.surveyor { // which the last look was at
		r.surveyor--
	}
	if at == r.asker {
		r.question = 0
	} else if at < r.asker {
		r.asker--
	}
}

// relate does a Flush's part of all rounds.
func (w *World) relate(now time.Time) {
	r := &w.relevance
	passed := max(now.Sub(r.last), 0)
	if r.last.IsZero() {
		passed = askPeriod
	}
	r.last = now
	r.elapsed += passed
	if r.members == 0 {
		return
	}
	r.toPlace = r.places.Take(len(r.placed.Items), passed, surveyPeriod)
	r.toSurvey = r.surveys.Take(len(w.announced), passed, surveyPeriod)
	r.toAsk = min(r.questions.Take(len(w.announced)*len(r.asked.Items), passed, askPeriod), maxAsked)
	r.toOpen = maxOpened
	for r.toPlace > 0 || r.toSurvey > 0 || r.toAsk > 0 {
		w.relateGuarded()
	}
}

func (w *World) relateGuarded() {
	defer w.game.Catch(nil)
	r := &w.relevance
	for r.toPlace > 0 {
		r.toPlace--
		r.place = (r.place + 1) % len(r.placed.Items)
		if a := r.placed.Items[r.place]; a != nil {
			a.locate()
		}
	}
	for r.toSurvey > 0 {
		r.toSurvey--
		r.surveyor = (r.surveyor + 1) % len(w.announced)
		if c := w.announced[r.surveyor]; c.usable() {
			c.survey()
		}
	}
	for r.toAsk > 0 {
		if r.question >= len(r.asked.Items) {
			r.question = 0
			r.asker++
		}
		r.asker %= len(w.announced)
		if r.toOpen == 0 { // an answer would be forgotten until the next round
			r.toAsk = 0
			return
		}
		w.announced[r.asker].ask(min(r.toAsk, r.toOpen, len(r.asked.Items)-r.question))
	}
}

// survey finds out what is near to a connection's view, and what was not for too long.
func (c *Conn) survey() {
	r := &c.world.relevance
	x, y, z, ok := c.viewpoint()
	defer c.settle(&r.placed)
	r.placed.mark(c.shown.view.openings)
	if r.found = r.found[:0]; ok {
		r.found = r.grid.Near(r.found, x, y, z)
	}
	for _, f := range r.found {
		if o := r.placed.Here[f.ID]; o != nil {
			o.relevant, o.far = r.elapsed, f.Far
		} else {
			c.want(r.placed.Items[f.ID], f.Far)
		}
	}
	if a := c.shown.view.target; a != nil && !a.dead && a.relevancy.rule != byHand && a.openingOn(c) == nil {
		c.want(a, 0)
	}
	for _, o := range c.shown.view.openings {
		switch {
		case o.actor.concerns(c):
			o.relevant, o.far = r.elapsed, 0
		case o.actor.relevancy.rule == byGame || o.relevant == r.elapsed:
		case r.elapsed-o.relevant >= relevantTime:
			r.unseen = append(r.unseen, o)
		default:
			o.far = 1
		}
	}
}

// want has settle open an actor that is not open for the connection. It leaves out actors whose copy sleeps there, which would take the turn
// of others at each look.
func (c *Conn) want(a *Actor, far float32) {
	if !a.restsAt(c) {
		c.world.relevance.wanted = append(c.world.relevance.wanted, wish{a, far})
	}
}

// ask asks the game about the next actors and one connection.
func (c *Conn) ask(count int) {
	r := &c.world.relevance
	if !c.usable() {
		r.question += count
		r.toAsk -= count
		return
	}
	defer c.settle(&r.asked)
	r.asked.mark(c.shown.view.openings)
	for range count {
		a := r.asked.Items[r.question]
		r.question++ // before the call: one that does not return is not repeated
		r.toAsk--
		if a == nil {
			continue
		}
		relevant := a.seenBy(c)
		if a.dead { // the game has destroyed it, and another may have its place
			continue
		}
		o := r.asked.Here[a.relevancy.slot]
		switch {
		case relevant && o == nil:
			c.want(a, 0)
		case relevant:
			o.relevant = r.elapsed
		case o != nil && r.elapsed-o.relevant >= relevantTime:
			r.unseen = append(r.unseen, o)
		}
	}
}

// seenBy asks the game.
func (a *Actor) seenBy(c *Conn) bool {
	if a.concerns(c) {
		return true
	}
	if a.own.object == nil {
		return false
	}
	a.world.game.Doing = tasks.Doing{What: "Relevant of ", Of: a.class}
	return a.own.binding.relevant(a.own.object, c)
}

// settle ends a look at a connection: it closes what was not seen for too long, and then opens what is seen now, the nearest first.
func (c *Conn) settle(of *slots) {
	r := &c.world.relevance
	of.unmark(c.shown.view.openings)
	for _, o := range r.unseen {
		if !o.closed {
			c.world.logs.Actor(logs.Relevancy, "no longer relevant", c, o.actor)
			o.actor.CloseTo(c)
		}
	}
	if r.elapsed >= c.shown.view.pause {
		slices.SortStableFunc(r.wanted, func(a, b wish) int { return cmp.Compare(a.far, b.far) })
		c.openWanted(r.wanted)
	}
	clear(r.unseen)
	clear(r.wanted)
	r.unseen, r.wanted = r.unseen[:0], r.wanted[:0]
}

// openWanted opens as many actors as this Flush may, until one can not be for a reason that the others share.
func (c *Conn) openWanted(wanted []wish) {
	r := &c.world.relevance
	for _, wish := range wanted[:min(len(wanted), r.toOpen)] {
		r.toOpen--
		c.world.logs.Actor(logs.Relevancy, "relevant", c, wish.actor)
		err := c.world.openAlways(wish.actor, c)
		if err != nil {
			c.shown.view.pause = r.elapsed + openPause
		}
		if err != nil && !errors.Is(err, bunch.ErrBunchTooLarge) {
			return
		}
		if o := wish.actor.openingOn(c); o != nil {
			o.far = wish.far
		}
	}
}

// ruleOf finds out who decides for whom a new actor is open.
func (a *Actor) ruleOf() relevancyRule {
	switch {
	case a.relevancy.always:
		return byHand
	case a.relevancy.onlyOwner:
		return byOwner
	case a.relevancy.asOwner:
		return byGrid
	case a.own.binding == nil:
		return byHand
	case a.own.binding.relevant != nil:
		return byGame
	case a.own.binding.at != nil:
		return byGrid
	}
	return byHand
}

// position returns where the actor stands, if that is known.
func (a *Actor) position() (x, y, z float32, ok bool) {
	if a == nil || a.dead || a.own.object == nil || a.own.binding.at == nil {
		return 0, 0, 0, false
	}
	a.world.game.Doing = tasks.Doing{What: "At of ", Of: a.class}
	x, y, z = a.own.binding.at(a.own.object)
	return x, y, z, true
}

// locate tells the grid where an actor stands.
func (a *Actor) locate() {
	stands := a
	if a.relevancy.asOwner {
		if stands = a.owner; stands == nil {
			stands = a.conn.viewTarget()
		}
	}
	grid := &a.world.relevance.grid
	x, y, z, ok := stands.position()
	if a.relevancy.rule != byGrid { // the function destroyed it, or tore it off
		return
	}
	if !ok || stands.relevancy.rule == byGame {
		grid.Remove(a.relevancy.slot)
		return
	}
	grid.Set(a.relevancy.slot, x, y, z, stands.reach())
}

// reach returns from how near the actor is seen.
func (a *Actor) reach() float32 {
	if a.relevancy.always {
		return everywhere
	}
	return a.class.cullDistance
}

// concerns reports whether an actor is relevant to a connection whatever the distance.
func (a *Actor) concerns(c *Conn) bool { return a.conn == c || a == c.shown.view.target }

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
	case a.own.binding == nil || a.own.binding.at == nil:
		return fmt.Errorf("rpc: SetView to a %q: its class has no At", a.class.name)
	}
	c.shown.view.target, c.shown.view.fixed = a, false
	return nil
}

// SetViewPoint makes the connection see from a point, as spectators do, until SetView or the next SetViewPoint. Server only; it belongs
// to the world's goroutine. UE: FNetViewer::ViewLocation.
func (c *Conn) SetViewPoint(x, y, z float32) error {
	if !c.server {
		return fmt.Errorf("rpc: SetViewPoint on a client: %w", ErrWrongRole)
	}
	v := &c.shown.view
	v.target, v.fixed, v.x, v.y, v.z = nil, true, x, y, z
	return nil
}

// View returns from where the connection sees: the actor that it sees from, nil after SetViewPoint, and where that is; false when it sees
// from nowhere. Server only; it belongs to the world's goroutine. UE: ViewTarget and SrcLocation of IsNetRelevantFor.
func (c *Conn) View() (target *Actor, x, y, z float32, ok bool) {
	x, y, z, ok = c.viewpoint()
	if ok && !c.shown.view.fixed {
		target = c.viewTarget()
	}
	return target, x, y, z, ok
}

// viewTarget returns the actor that the connection sees from, nil when there is none.
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

// pawn returns the first actor that the connection owns and that stands somewhere. It is searched for once a look at relevancy, or
// what a connection owns and sees as its owner would cost the square of their number.
func (c *Conn) pawn() *Actor {
	v := &c.shown.view
	if now := c.world.relevance.elapsed + 1; v.searched != now || v.pawn != nil && (v.pawn.dead || v.pawn.conn != c) {
		v.searched, v.pawn = now, nil
		for a := range c.shown.owned.all {
			if !a.relevancy.asOwner && a.own.binding != nil && a.own.binding.at != nil {
				v.pawn = a
				break
			}
		}
	}
	return v.pawn
}

// viewpoint returns from where the connection sees, if it does.
func (c *Conn) viewpoint() (x, y, z float32, ok bool) {
	if c.shown.view.fixed {
		return c.shown.view.x, c.shown.view.y, c.shown.view.z, true
	}
	return c.viewTarget().position()
}

// add notes an actor that is open now, if relevancy closes it.
func (v *view) add(o *opening) {
	if o.actor.relevancy.rule != byHand {
		o.at = len(v.openings)
		v.openings = append(v.openings, o)
	}
}

// remove forgets an actor that is closed.
func (v *view) remove(o *opening) {
	if o.actor.relevancy.rule == byHand {
		return
	}
	last := len(v.openings) - 1
	v.openings[o.at] = v.openings[last]
	v.openings[o.at].at = o.at
	v.openings[last] = nil
	v.openings = v.openings[:last]
	o.actor.slots().forget(o)
}
