package rpc

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/relevancy"
	"github.com/quivernet/quiver/internal/tasks"
)

// relevantTime is how long an actor stays open for a connection after it was last relevant to
// it. Without this time, actors at the edge of the cull distance would be closed and opened
// all the time. UE: NetDriver RelevantTimeout.
const relevantTime = 5 * time.Second

// relevancyRule is what determines for which connections an actor is open.
type relevancyRule uint8

const (
	byHand  relevancyRule = iota // the game's calls of OpenTo and CloseTo, and AlwaysRelevant
	byGrid                       // the distance (At)
	byGame                       // a function of the game (Relevant)
	byOwner                      // nothing; the actor is for its owner alone
)

// actorRelevancy is the part of an actor, on a server, that determines for which connections
// it is open. Spawn sets it before the constructor runs.
type actorRelevancy struct {
	always, onlyOwner, asOwner bool // the options of Spawn
	named                      bool // OpenTo was called, so the game decides

	fresh bool                   // no Multicast of it was called since it was spawned: see showNew
	rule  relevancyRule          // byHand again after the actor has ended or was torn off
	slot  int                    // index in relevance.placed or asked; changes when others are removed
	place relevancy.Place[Actor] // in the grid, if the rule is byGrid
	here  *opening               // during a survey: on the surveyed connection, if it is open there
}

const (
	// surveyPeriod is the interval at which all positions are read and all connections
	// surveyed. In that time a runner at 10 m/s moves by a metre, which is little compared to
	// a cull distance, and each tick at 30 Hz does a third of the work.
	surveyPeriod = 100 * time.Millisecond

	// askPeriod is the interval at which the game's function (Relevant) is called for each pair
	// of an actor and a connection. It is longer than surveyPeriod, because the number of pairs
	// is the product of both numbers. UE calls IsNetRelevantFor at each update of the actor.
	askPeriod = time.Second

	// maxAsked is the maximum number of pairs for which a Flush calls that function. They
	// take 1 ms, at the 50 ns that a look at two structs takes.
	maxAsked = 20_000

	// maxOpened is the maximum number of actors that a Flush opens. They
	// take 3 ms, at 3 µs each. Without a limit, a hundred viewers that
	// join at once would take many times as long.
	maxOpened = 1000

	// openPause is how long a connection opens nothing after an actor could not be opened.
	openPause = time.Second
)

// relevance determines, on a server at each Flush, for which connections the actors of
// classes with At or Relevant are open. It is used only by the world's goroutine.
type relevance struct {
	grid    relevancy.Grid[Actor]
	members int                    // number of actors whose rule is not byHand
	placed  relevancy.Slots[Actor] // byGrid
	asked   relevancy.Slots[Actor] // byGame

	// The rounds, which are spread over the Flushes.
	places  relevancy.Sweep // over the slots of placed, to read positions
	surveys relevancy.Sweep // over World.announced
	asking  askRound
	toOpen  int       // number of actors that this Flush may still open
	last    time.Time // time of the last Flush

	// The clock of relevancy, which never runs back: time since the first
	// Flush. That Flush itself counts for askPeriod.
	elapsed time.Duration

	warned map[*Class]bool // classes for which warnOwnerOnly has logged its warning

	// Scratch memory of one survey.
	found  []relevancy.Found[Actor] // actors near the view
	wanted []wish                   // actors to open
	unseen []*opening               // openings whose actors were not found
}

// askRound is the round that asks the game about pairs of a connection and a slot of
// relevance.asked. It takes the connections in turn, and asks about all slots for each.
type askRound struct {
	round relevancy.Round
	left  int // number of pairs that this Flush has still to ask about
	asker int // index in World.announced of the connection whose turn it is
	slot  int // the next slot to ask about
}

// A wish is an actor that is relevant to a connection but not open there.
type wish struct {
	actor *Actor
	far   float32 // squared distance, as in opening.far
}

// showNew is called before each Multicast. It has an effect only before the first one of an
// actor: it opens the actor for the connections to which the actor is relevant, because the
// next survey of each would be too late. UE: a NetMulticast opens the actor's channel.
//
// If only the game decides about the actor, warnOwnerOnly checks whether any
// client besides the owner's will get the call.
func (r *relevance) showNew(a *Actor) {
	if !a.relevancy.fresh {
		return
	}
	a.relevancy.fresh = false
	if a.relevancy.rule == byHand {
		r.warnOwnerOnly(a)
		return
	}
	for _, c := range a.world.announced {
		a.world.game.During(tasks.Doing{}, func() { r.showTo(a, c) })
	}
}

// warnOwnerOnly logs a warning, once for each class, that a Multicast reaches
// only the owner because nothing says who else sees the actor. In Unreal,
// everybody within NetCullDistanceSquared sees it. Here that requires an At,
// which is easily missed when a class is ported.
func (r *relevance) warnOwnerOnly(a *Actor) {
	if v := &a.relevancy; v.always || v.asOwner || v.named || a.tornOff || r.warned[a.class] {
		return
	}
	if r.warned == nil {
		r.warned = make(map[*Class]bool)
	}
	r.warned[a.class] = true
	a.world.log.Warn("a Multicast reaches nobody but the owner: no At, Relevant, AlwaysRelevant or OpenTo says who else sees the actor; if nobody, spawn it OnlyRelevantToOwner",
		"actor", a)
}

// showTo opens an actor for a connection that has no copy of it, if the actor is relevant
// there. A panic of the game's function is reported, and does not end the Multicast.
func (r *relevance) showTo(a *Actor, c *Conn) {
	defer a.world.game.Catch(nil)
	mayOpen := c.usable() && a.openingOn(c) == nil && !c.shown.hasDormant(a) && r.elapsed >= c.shown.view.pause
	if mayOpen && r.decide(a, c) {
		_ = a.world.openAlways(a, c)
	}
}

// decide reports whether the actor's rule makes it relevant to a connection now.
func (r *relevance) decide(a *Actor, c *Conn) bool {
	switch {
	case a.dead: // the game's function ended it
		return false
	case a.relevancy.rule == byGame:
		return a.seenBy(c) && !a.dead
	case a.relevancy.rule == byGrid:
		x, y, z, ok := c.viewpoint()
		return ok && a.relevancy.place.IsNear(x, y, z)
	}
	return false
}

// join adds a new actor before its constructor runs.
func (r *relevance) join(a *Actor) {
	a.relevancy.rule = a.ruleOf()
	if a.relevancy.rule == byHand {
		return
	}
	r.members++
	switch a.relevancy.rule {
	case byGrid:
		a.relevancy.slot = r.placed.Add(a)
		a.relevancy.place.Item = a
	case byGame:
		a.relevancy.slot = r.asked.Add(a)
	}
}

// leave removes an actor that is no longer open for any connection.
func (r *relevance) leave(a *Actor) {
	if a.relevancy.rule == byHand {
		return
	}
	r.members--
	moved := func(other *Actor, to int) { other.relevancy.slot = to }
	slot := a.relevancy.slot
	switch a.relevancy.rule {
	case byGrid:
		r.grid.Remove(&a.relevancy.place)
		r.places.GoOn(r.placed.Remove(slot, r.places.Upcoming(), moved))
	case byGame:
		r.asking.slot = r.asked.Remove(slot, r.asking.slot, moved)
	}
	a.relevancy.rule = byHand
}

// connLeaves is called before c is removed from conns, which is World.announced. It adjusts
// the rounds, so they do not skip any other connection.
func (r *relevance) connLeaves(conns []*Conn, c *Conn) {
	at := slices.Index(conns, c)
	if at < 0 {
		return
	}
	r.surveys.Removed(at)
	if at == r.asking.asker {
		r.asking.slot = 0
	} else if at < r.asking.asker {
		r.asking.asker--
	}
}

// updateRelevancy is called in Flush. It does the next part of each round:
// it reads positions, surveys connections and asks the game. Its cost per
// second does not depend on the number of Flushes.
func (w *World) updateRelevancy(now time.Time) {
	r := &w.relevance
	passed := max(now.Sub(r.last), 0)
	if r.last.IsZero() { // the first Flush does whole rounds
		passed = askPeriod
	}
	r.last = now
	r.elapsed += passed
	if r.members == 0 {
		return
	}

	r.places.Begin(len(r.placed.Items), passed, surveyPeriod)
	r.surveys.Begin(len(w.announced), passed, surveyPeriod)
	pairs := len(w.announced) * len(r.asked.Items)
	r.asking.left = min(r.asking.round.Take(pairs, passed, askPeriod), maxAsked)
	r.toOpen = maxOpened
	for r.places.More(len(r.placed.Items)) || r.surveys.More(len(w.announced)) || r.asking.left > 0 {
		w.continueRounds()
	}
}

// continueRounds continues the rounds until this Flush's part of them is done. If a
// function of the game panics, it returns early, and updateRelevancy calls it again. The
// round goes on after the turn that panicked.
func (w *World) continueRounds() {
	defer w.game.Catch(nil)
	r := &w.relevance
	for r.places.More(len(r.placed.Items)) {
		r.placed.Items[r.places.Next(len(r.placed.Items))].locate()
	}
	for r.surveys.More(len(w.announced)) {
		c := w.announced[r.surveys.Next(len(w.announced))]
		if c.usable() {
			c.survey()
		}
	}

	// Ask the game about all slots, for each connection in turn.
	for q := &r.asking; q.left > 0; {
		if q.slot >= len(r.asked.Items) {
			q.slot = 0
			q.asker++
		}
		q.asker %= len(w.announced)
		// With toOpen at 0, an answer would be lost until the next round.
		if r.toOpen == 0 || len(r.asked.Items) == 0 {
			q.left = 0
			return
		}
		w.announced[q.asker].ask(min(q.left, r.toOpen, len(r.asked.Items)-q.slot))
	}
}

// survey finds the actors near a connection's view, which settle opens. It also finds those
// that were out of sight for relevantTime, which settle closes.
//
// In each opening it records when the actor was last relevant, and how far away the actor is.
// Flush computes the priority from that distance.
func (c *Conn) survey() {
	r := &c.world.relevance
	x, y, z, ok := c.viewpoint()
	defer c.settle()
	c.shown.view.mark()

	// Near actors are open already, or settle will open them.
	r.found = r.found[:0]
	if ok {
		r.found = r.grid.Near(r.found, x, y, z)
	}
	for _, f := range r.found {
		if o := f.Item.relevancy.here; o != nil {
			o.noteRelevant(f.Far)
		} else {
			c.want(f.Item, f.Far)
		}
	}
	if a := c.shown.view.target; a != nil && !a.dead && a.relevancy.rule != byHand && a.openingOn(c) == nil {
		c.want(a, 0)
	}

	// Open actors are near, are relevant at any distance, or have
	// been out of sight for some time.
	for _, o := range c.shown.view.openings {
		switch {
		case o.actor.concerns(c):
			o.noteRelevant(0)
		case o.actor.relevancy.rule == byGame || o.relevant == r.elapsed:
		case r.elapsed-o.relevant >= relevantTime:
			r.unseen = append(r.unseen, o)
		default:
			o.far = 1 // it stays for relevantTime, at the lowest priority
		}
	}
}

// want makes settle open an actor that is not open for the connection. It
// ignores actors of which the client has a dormant copy. They would not open,
// and would count against maxOpened each time.
func (c *Conn) want(a *Actor, far float32) {
	if !c.shown.hasDormant(a) {
		c.world.relevance.wanted = append(c.world.relevance.wanted, wish{a, far})
	}
}

// ask asks the game whether the next count actors are relevant to the
// connection. It ends with settle, as survey does.
func (c *Conn) ask(count int) {
	r := &c.world.relevance
	q := &r.asking
	if !c.usable() {
		q.slot += count
		q.left -= count
		return
	}

	defer c.settle()
	c.shown.view.mark()
	for ; count > 0 && q.slot < len(r.asked.Items); count-- { // the game may destroy some meanwhile
		a := r.asked.Items[q.slot]
		q.slot++ // before the call, so a call that panics is not repeated
		q.left--
		relevant := a.seenBy(c)
		o := a.relevancy.here
		switch {
		case a.dead:
		case relevant && o == nil:
			c.want(a, 0)
		case relevant: // a parted opening is never here, so noteRelevant is not needed: see onlyAsOwner
			o.relevant = r.elapsed
		case o != nil && r.elapsed-o.relevant >= relevantTime:
			r.unseen = append(r.unseen, o)
		}
	}
}

// seenBy reports whether the actor is relevant to a connection. It asks the game's function
// unless the actor is relevant at any distance.
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

// settle ends a survey or a round of questions. It undoes mark, closes the actors in unseen,
// and then opens the actors in wanted, nearest first.
func (c *Conn) settle() {
	r := &c.world.relevance
	for _, o := range c.shown.view.openings {
		o.actor.relevancy.here = nil
	}

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

	clear(r.unseen) // for the garbage collector
	clear(r.wanted)
	r.unseen = r.unseen[:0]
	r.wanted = r.wanted[:0]
}

// openWanted opens as many actors as this Flush may open. If an actor cannot be opened for a
// reason that applies to all, it stops.
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

// ruleOf returns the rule for a new actor.
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
	case a.own.binding.hasAt():
		return byGrid
	}
	return byHand
}

// position returns the actor's position, as its class's At reports it. ok is
// false if there is no position. a may be nil.
func (a *Actor) position() (x, y, z float32, ok bool) {
	if a == nil || a.dead || a.own.object == nil || !a.own.binding.hasAt() {
		return 0, 0, 0, false
	}
	a.world.game.Doing = tasks.Doing{What: "At of ", Of: a.class}
	x, y, z = a.own.binding.at(a.own.object)
	return x, y, z, true
}

// locate updates the actor's position and cull distance in the grid. An actor that is
// RelevantAsOwner uses those of its owner, if it has one.
func (a *Actor) locate() {
	stands := a
	if a.relevancy.asOwner && (a.owner != nil || a.conn != nil) {
		stands = a.owner
		if stands == nil {
			stands = a.conn.viewTarget()
		}
	}

	grid := &a.world.relevance.grid
	x, y, z, ok := stands.position()
	if a.relevancy.rule != byGrid { // At destroyed it or tore it off
		return
	}
	if !ok || stands.relevancy.rule == byGame {
		grid.Remove(&a.relevancy.place)
		return
	}
	grid.Set(&a.relevancy.place, x, y, z, stands.reach())
}

// reach returns the distance within which others see the actor.
func (a *Actor) reach() float32 {
	if a.relevancy.always {
		return everywhere
	}
	return a.class.cullDistance
}

// concerns reports whether the actor is relevant to a connection at any distance.
func (a *Actor) concerns(c *Conn) bool { return a.conn == c || a == c.shown.view.target }

// everywhere is a cull distance within which every view is.
const everywhere = math.MaxFloat32
