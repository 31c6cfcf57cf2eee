package rpc

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/relevancy"
	"github.com/quivernet/quiver/internal/tasks"
)

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
	places, surveys, questions spread
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

// slots keep actors in places that never move, so that rounds miss none.
type slots struct {
	actors []*Actor   // by slot; nil = free
	here   []*opening // by slot, during a survey: what its connection has
	free   []int
}

func (r *slots) add(a *Actor) {
	if n := len(r.free); n > 0 {
		a.slot, r.free = r.free[n-1], r.free[:n-1]
		r.actors[a.slot] = a
		return
	}
	a.slot = len(r.actors)
	r.actors = append(r.actors, a)
	r.here = append(r.here, nil)
}

func (r *slots) remove(a *Actor) {
	r.actors[a.slot] = nil
	r.free = append(r.free, a.slot)
}

// mark notes what a connection has, for as long as it is looked at.
func (r *slots) mark(openings []*opening) {
	for _, o := range openings {
		if o.actor.slots() == r {
			r.here[o.actor.slot] = o
		}
	}
}

func (r *slots) unmark(openings []*opening) {
	for _, o := range openings {
		if o.actor.slots() == r {
			r.here[o.actor.slot] = nil
		}
	}
}

// forget is called when something closes; a function of the game may do that while its connection is looked at. r may be nil.
func (r *slots) forget(o *opening) {
	if r != nil && r.here[o.actor.slot] == o {
		r.here[o.actor.slot] = nil
	}
}

// slots returns those that the actor is in, nil when in none.
func (a *Actor) slots() *slots {
	switch a.rule {
	case byGrid:
		return &a.world.relevance.placed
	case byGame:
		return &a.world.relevance.asked
	}
	return nil
}

// join begins to decide about a new actor, before its constructor runs.
func (r *relevance) join(a *Actor) {
	if a.rule = a.ruleOf(); a.rule == byHand {
		return
	}
	r.members++
	if in := a.slots(); in != nil {
		in.add(a)
	}
}

// leave ends it. The actor is open nowhere any more.
func (r *relevance) leave(a *Actor) {
	if a.rule == byHand {
		return
	}
	r.members--
	if a.rule == byGrid {
		r.grid.Remove(a.slot)
	}
	if in := a.slots(); in != nil {
		in.remove(a)
	}
	a.rule = byHand
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

// spread spreads a round of work over the Flushes of its period.
type spread struct{ owed time.Duration } // times the size of a round

// take returns how many of n are due after some time.
func (s *spread) take(n int, passed, period time.Duration) int {
	s.owed += min(passed, period) * time.Duration(n)
	due := s.owed / period
	s.owed -= due * period
	return min(int(due), n)
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
	r.toPlace = r.places.take(len(r.placed.actors), passed, surveyPeriod)
	r.toSurvey = r.surveys.take(len(w.conns), passed, surveyPeriod)
	r.toAsk = min(r.questions.take(len(w.conns)*len(r.asked.actors), passed, askPeriod), maxAsked)
	r.toOpen = maxOpened
	for r.toPlace > 0 || r.toSurvey > 0 || r.toAsk > 0 {
		w.relateGuarded()
	}
}

func (w *World) relateGuarded() {
	defer w.catch(nil)
	r := &w.relevance
	for r.toPlace > 0 {
		r.toPlace--
		r.place = (r.place + 1) % len(r.placed.actors)
		if a := r.placed.actors[r.place]; a != nil {
			a.locate()
		}
	}
	for r.toSurvey > 0 {
		r.toSurvey--
		r.surveyor = (r.surveyor + 1) % len(w.conns)
		if c := w.conns[r.surveyor]; c.usable() {
			c.survey()
		}
	}
	for r.toAsk > 0 {
		if r.question >= len(r.asked.actors) {
			r.question = 0
			r.asker++
		}
		r.asker %= len(w.conns)
		if r.toOpen == 0 { // an answer would be forgotten until the next round
			r.toAsk = 0
			return
		}
		w.conns[r.asker].ask(min(r.toAsk, r.toOpen, len(r.asked.actors)-r.question))
	}
}

// survey finds out what is near to a connection's view, and what was not for too long.
func (c *Conn) survey() {
	r := &c.world.relevance
	x, y, z, ok := c.viewpoint()
	defer c.settle(&r.placed)
	r.placed.mark(c.view.openings)
	if r.found = r.found[:0]; ok {
		r.found = r.grid.Near(r.found, x, y, z)
	}
	for _, f := range r.found {
		if o := r.placed.here[f.ID]; o != nil {
			o.relevant, o.far = r.elapsed, f.Far
		} else {
			c.want(r.placed.actors[f.ID], f.Far)
		}
	}
	if a := c.view.target; a != nil && !a.dead && a.rule != byHand && a.find(c) == nil {
		c.want(a, 0)
	}
	for _, o := range c.view.openings {
		switch {
		case o.actor.concerns(c):
			o.relevant, o.far = r.elapsed, 0
		case o.actor.rule == byGame || o.relevant == r.elapsed:
		case r.elapsed-o.relevant >= relevantTime:
			r.unseen = append(r.unseen, o)
		default:
			o.far = 1
		}
	}
}

// want has settle open an actor that is not open here, but for one that sleeps: it would take a turn of others at each look.
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
	r.asked.mark(c.view.openings)
	for range count {
		a := r.asked.actors[r.question]
		r.question++ // before the call: one that does not return is not repeated
		r.toAsk--
		if a == nil {
			continue
		}
		o, relevant := r.asked.here[a.slot], a.seenBy(c)
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
	if a.object == nil {
		return false
	}
	a.world.doing = tasks.Doing{What: "Relevant of ", Of: a.class}
	return a.binding.relevant(a.object, c)
}

// settle ends a look at a connection: it closes what was not seen for too long, and then opens what is seen now, the nearest first.
func (c *Conn) settle(of *slots) {
	r := &c.world.relevance
	of.unmark(c.view.openings)
	for _, o := range r.unseen {
		if !o.closed {
			c.world.logs.Actor(logs.Relevancy, "no longer relevant", c, o.actor)
			o.actor.CloseTo(c)
		}
	}
	if r.elapsed >= c.view.pause {
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
			c.view.pause = r.elapsed + openPause
		}
		if err != nil && !errors.Is(err, bunch.ErrBunchTooLarge) {
			return
		}
		if o := wish.actor.find(c); o != nil {
			o.far = wish.far
		}
	}
}
