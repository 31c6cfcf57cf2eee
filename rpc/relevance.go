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

// relevantTime is how long an actor stays open for a connection after it was last relevant to it.
// Without this delay, actors at the edge of the cull distance would close and open all the time.
// UE (Unreal Engine's counterpart): RelevantTimeout of UNetDriver.
const relevantTime = 5 * time.Second

// A relevancyRule says what decides which connections have an actor.
type relevancyRule uint8

const (
	byHand  relevancyRule = iota // the game's calls of OpenTo and CloseTo, or AlwaysRelevant
	byGrid                       // distance (At)
	byGame                       // a function of the game (Relevant)
	byOwner                      // ownership: the actor is open for its owner only
)

// actorRelevancy is a server's record of the relevancy of one actor. Spawn sets it before the
// constructor runs.
type actorRelevancy struct {
	always, onlyOwner, asOwner bool // options of Spawn
	openedByGame               bool // OpenTo was called for some client

	fresh bool                   // no Multicast has been called on the actor yet: see showNew
	rule  relevancyRule          // back to byHand once the actor has ended or was torn off
	slot  int                    // index in gridActors or gameActors; removing others changes it
	place relevancy.Place[Actor] // in the grid, if the rule is byGrid
	here  *opening               // during a survey of a connection, the actor's opening there, if any
}

const (
	// surveyPeriod is the time in which we read all positions and survey all connections once. In
	// that time, a runner at 10 m/s moves by a meter, which is little compared to a cull distance.
	// At 30 Hz, each tick does a third of the work.
	surveyPeriod = 100 * time.Millisecond

	// queryPeriod is the time in which we call the game's function (Relevant) once for each pair of
	// an actor and a connection. Since there are so many pairs, it is longer than surveyPeriod.
	// UE calls IsNetRelevantFor at each update of the actor.
	queryPeriod = time.Second

	// maxQueries is the maximum number of pairs for which a Flush calls that function. If a call
	// takes 50 ns, which is enough to look at two structs, all of them take 1 ms.
	maxQueries = 20_000

	// maxOpened is the maximum number of actors that a Flush opens, which takes 3 ms at 3 µs
	// each. Without a limit, opening actors for a hundred viewers that join at once would take
	// many times as long.
	maxOpened = 1000

	// openPause is the time for which we open no more actors on a connection after an open has
	// failed. An open usually fails because a buffer or a limit is full, and the client needs at
	// least a round trip to make room.
	openPause = time.Second
)

// relevance is the server's interest management. At each Flush, it decides which connections have
// the actors of classes with At or Relevant.
//
// Looking at every actor and every connection in each Flush would be too much work. Instead,
// relevance makes rounds that take a certain period, and each Flush does its share of every round:
// one round reads the actors' positions into a grid, another surveys the connections to find the
// actors near each connection's view, and a third asks the game about pairs of an actor and a
// connection.
//
// relevance is used only by the world's goroutine.
type relevance struct {
	grid       relevancy.Grid[Actor]
	members    int                    // number of actors whose rule is not byHand
	gridActors relevancy.Slots[Actor] // byGrid
	gameActors relevancy.Slots[Actor] // byGame

	// The rounds, which are spread over the Flushes.
	places  relevancy.Sweep // over the slots of gridActors, to read positions
	surveys relevancy.Sweep // over World.announced
	queries queryRound
	toOpen  int // number of actors that this Flush may still open

	// The clock of relevancy, which never goes back: the time since the first Flush, plus
	// queryPeriod for that Flush itself.
	elapsed time.Duration
	last    time.Time // time of the last Flush

	warned map[*Class]bool // classes that warnOwnerOnly has warned about

	// Scratch space for a survey.
	found      []relevancy.Found[Actor] // actors near the view
	wanted     []candidate              // actors to open
	outOfSight []*opening               // openings to close
}

// A queryRound asks the game about all pairs of a connection and a slot of gameActors. It goes
// through all slots for one connection before it moves on to the next connection.
type queryRound struct {
	round  relevancy.Round
	due    int // number of pairs that this Flush still has to ask about
	viewer int // index in World.announced of the connection that comes next
	slot   int // the next slot to ask about
}

// A candidate is an actor that is relevant to a connection but not open there.
type candidate struct {
	actor *Actor
	far   float32 // squared distance, as in opening.far
}

// showNew is called before each Multicast, but has an effect only before an actor's first. It then
// opens the actor for every connection to which it is relevant, because the connection's next
// survey would be too late for the call. UE: a NetMulticast opens the actor's channel.
//
// If the rule is byHand, there's nothing to open. Instead, showNew calls warnOwnerOnly to check
// that anybody but the owner gets the call.
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

// warnOwnerOnly logs a warning, once for each class, if a Multicast reaches only the owner because
// nothing makes the actor relevant to anybody else. In Unreal, everybody within
// NetCullDistanceSquared sees the actor. Here, the class needs an At for that, which is easily
// forgotten when a class is ported.
func (r *relevance) warnOwnerOnly(a *Actor) {
	v := &a.relevancy
	seenByOthers := v.always || v.asOwner || v.openedByGame
	if seenByOthers || a.tornOff || r.warned[a.class] {
		return
	}
	if r.warned == nil {
		r.warned = make(map[*Class]bool)
	}
	r.warned[a.class] = true
	a.world.log.Warn("Multicast reaches only the owner: use At, Relevant, AlwaysRelevant or OpenTo to show the actor to others, or spawn it OnlyRelevantToOwner",
		"actor", a)
}

// showTo opens an actor for a connection if it is relevant there and not open yet.
func (r *relevance) showTo(a *Actor, c *Conn) {
	// A panic of the game's function must not end the Multicast.
	defer a.world.game.Catch(nil)

	hasCopy := a.openingOn(c) != nil || c.shown.hasDormant(a)
	pausing := r.elapsed < c.shown.view.pauseUntil // because an open has failed
	if c.usable() && !hasCopy && !pausing && r.decide(a, c) {
		_ = a.tryOpen(c)
	}
}

// decide decides, by the actor's rule, whether the actor is relevant to a connection now. It may
// call the game's function.
func (r *relevance) decide(a *Actor, c *Conn) bool {
	switch {
	case a.dead:
		// The game's function has destroyed the actor when asked about another connection.
		return false
	case a.relevancy.rule == byGame:
		relevant := a.askRelevant(c)
		return relevant && !a.dead
	case a.relevancy.rule == byGrid:
		x, y, z, ok := c.viewpoint()
		return ok && a.relevancy.place.IsNear(x, y, z)
	}
	return false
}

// add adds a new actor. It is called before the actor's constructor runs.
func (r *relevance) add(a *Actor) {
	a.relevancy.rule = a.ruleOf()
	if a.relevancy.rule == byHand {
		return
	}
	r.members++
	switch a.relevancy.rule {
	case byGrid:
		a.relevancy.slot = r.gridActors.Add(a)
		a.relevancy.place.Item = a
	case byGame:
		a.relevancy.slot = r.gameActors.Add(a)
	}
}

// remove removes an actor that is no longer open for any connection.
func (r *relevance) remove(a *Actor) {
	if a.relevancy.rule == byHand {
		return
	}
	r.members--
	moved := func(other *Actor, to int) { other.relevancy.slot = to }
	slot := a.relevancy.slot
	switch a.relevancy.rule {
	case byGrid:
		r.grid.Remove(&a.relevancy.place)
		r.places.GoOn(r.gridActors.Remove(slot, r.places.Upcoming(), moved))
	case byGame:
		r.queries.slot = r.gameActors.Remove(slot, r.queries.slot, moved)
	}
	a.relevancy.rule = byHand
}

// removeConn is called before c is removed from conns, which is World.announced. It adjusts the
// rounds so that they don't skip another connection.
func (r *relevance) removeConn(conns []*Conn, c *Conn) {
	at := slices.Index(conns, c)
	if at < 0 {
		return
	}
	r.surveys.Removed(at)
	switch {
	case at == r.queries.viewer:
		// The next connection takes its place, and starts with the first slot.
		r.queries.slot = 0
	case at < r.queries.viewer:
		r.queries.viewer--
	}
}

// updateRelevancy is called in Flush to do the next part of each round. Its cost per second doesn't
// depend on the number of Flushes.
func (w *World) updateRelevancy(now time.Time) {
	r := &w.relevance
	passed := max(now.Sub(r.last), 0)
	if r.last.IsZero() {
		// Do whole rounds in the first Flush.
		passed = queryPeriod
	}
	r.last = now
	r.elapsed += passed
	if r.members == 0 {
		return
	}

	r.places.Begin(len(r.gridActors.Items), passed, surveyPeriod)
	r.surveys.Begin(len(w.announced), passed, surveyPeriod)
	pairs := len(w.announced) * len(r.gameActors.Items)
	r.queries.due = min(r.queries.round.Take(pairs, passed, queryPeriod), maxQueries)
	r.toOpen = maxOpened
	for r.places.More(len(r.gridActors.Items)) || r.surveys.More(len(w.announced)) || r.queries.due > 0 {
		w.continueRounds()
	}
}

// continueRounds continues the rounds until this Flush's part of them is done. It reads positions
// before it surveys, so that a survey uses the newest ones. If a function of the game panics,
// continueRounds returns early, and updateRelevancy calls it again to continue after the turn that
// panicked.
func (w *World) continueRounds() {
	defer w.game.Catch(nil)
	r := &w.relevance
	for r.places.More(len(r.gridActors.Items)) {
		r.gridActors.Items[r.places.Next(len(r.gridActors.Items))].locate()
	}
	for r.surveys.More(len(w.announced)) {
		c := w.announced[r.surveys.Next(len(w.announced))]
		if c.usable() {
			c.survey()
		}
	}
	r.continueQueries(w.announced)
}

// continueQueries continues to ask the game about actors, for each of conns in turn.
func (r *relevance) continueQueries(conns []*Conn) {
	q := &r.queries
	for q.due > 0 {
		if q.slot >= len(r.gameActors.Items) {
			q.slot = 0
			q.viewer++
		}
		q.viewer %= len(conns)
		if r.toOpen == 0 || len(r.gameActors.Items) == 0 {
			// Either the game has destroyed all actors that we could ask about, or this Flush
			// can't open any more actors. In the latter case, an answer that an actor is relevant
			// would be lost until the next round.
			q.due = 0
			return
		}
		conns[q.viewer].askGame(min(q.due, r.toOpen, len(r.gameActors.Items)-q.slot))
	}
}

// survey opens the actors that are near a connection's view, and closes those that have been out of
// sight for relevantTime.
//
// It also records in each opening when the actor was last relevant and how far away it is, because
// the priority of the actor's updates depends on the distance.
func (c *Conn) survey() {
	r := &c.world.relevance
	x, y, z, ok := c.viewpoint()
	defer c.finishSurvey()
	c.shown.view.markActors()

	// Collect the actors to open, which are near but not open yet.
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
	target := c.shown.view.target
	if target != nil && !target.dead && target.relevancy.rule != byHand && target.openingOn(c) == nil {
		c.want(target, 0)
	}

	// Collect the actors to close.
	for _, o := range c.shown.view.openings {
		switch {
		case o.actor.relevantAnywhere(c):
			o.noteRelevant(0)
		case o.actor.relevancy.rule == byGame:
			// Distance doesn't matter, because askGame decides.
		case o.relevantAt == r.elapsed:
			// We have just found the actor.
		case r.elapsed-o.relevantAt >= relevantTime:
			r.outOfSight = append(r.outOfSight, o)
		default:
			// The actor stays open a little longer, at the lowest priority.
			o.far = 1
		}
	}
}

// want makes finishSurvey open an actor that is not open for the connection.
func (c *Conn) want(a *Actor, far float32) {
	if c.shown.hasDormant(a) {
		// ensureOpen would do nothing, but the actor would count towards maxOpened each time.
		return
	}
	r := &c.world.relevance
	r.wanted = append(r.wanted, candidate{a, far})
}

// askGame asks the game whether the next count actors are relevant to the connection. Like
// survey, it ends by calling finishSurvey.
func (c *Conn) askGame(count int) {
	r := &c.world.relevance
	q := &r.queries
	if !c.usable() {
		q.slot += count
		q.due -= count
		return
	}

	defer c.finishSurvey()
	c.shown.view.markActors()
	for ; count > 0; count-- {
		if q.slot >= len(r.gameActors.Items) {
			return // the game's function has destroyed some actors
		}
		a := r.gameActors.Items[q.slot]

		// Advance first, so that a function that panics isn't asked again.
		q.slot++
		q.due--
		relevant := a.askRelevant(c)

		o := a.relevancy.here
		switch {
		case a.dead:
			// The game's function has destroyed the actor.
		case relevant && o == nil:
			c.want(a, 0)
		case relevant:
			// Unlike noteRelevant, this needn't cancel a pending close, because an actor with the
			// rule byGame never has one: see onlyAsOwner.
			o.relevantAt = r.elapsed
		case o != nil && r.elapsed-o.relevantAt >= relevantTime:
			r.outOfSight = append(r.outOfSight, o)
		}
	}
}

// askRelevant reports whether the actor is relevant to a connection. It asks the game's function
// unless the actor is relevant at any distance.
func (a *Actor) askRelevant(c *Conn) bool {
	if a.relevantAnywhere(c) {
		return true
	}
	if a.own.object == nil {
		return false
	}
	a.world.game.Doing = tasks.Doing{What: "Relevant of ", Of: a.class}
	return a.own.binding.relevant(a.own.object, c)
}

// finishSurvey acts on the results of survey or askGame. It closes the actors in outOfSight
// and opens the actors in wanted, nearest first.
func (c *Conn) finishSurvey() {
	r := &c.world.relevance
	c.shown.view.unmarkActors()
	for _, o := range r.outOfSight {
		if !o.closed { // by the game's function
			c.world.logs.Actor(logs.Relevancy, "no longer relevant", c, o.actor)
			o.actor.CloseTo(c)
		}
	}
	if r.elapsed >= c.shown.view.pauseUntil {
		slices.SortStableFunc(r.wanted, func(a, b candidate) int { return cmp.Compare(a.far, b.far) })
		c.openWanted(r.wanted)
	}

	// Empty the scratch space, because it would keep ended actors in memory.
	clear(r.outOfSight)
	clear(r.wanted)
	r.outOfSight = r.outOfSight[:0]
	r.wanted = r.wanted[:0]
}

// openWanted opens as many of the wanted actors as this Flush may still open.
func (c *Conn) openWanted(wanted []candidate) {
	r := &c.world.relevance
	for _, next := range wanted[:min(len(wanted), r.toOpen)] {
		r.toOpen--
		c.world.logs.Actor(logs.Relevancy, "relevant", c, next.actor)
		err := next.actor.tryOpen(c)
		if err != nil {
			c.shown.view.pauseUntil = r.elapsed + openPause
		}
		if err != nil && !errors.Is(err, bunch.ErrBunchTooLarge) {
			// The other actors would fail for the same reason, unless the states of this one are
			// too large.
			return
		}
		if o := next.actor.openingOn(c); o != nil {
			o.far = next.far
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

// position returns the actor's position, as its class's At returns it. ok is false if the actor has
// no position. a may be nil.
func (a *Actor) position() (x, y, z float32, ok bool) {
	if a == nil || a.dead || a.own.object == nil || !a.own.binding.hasAt() {
		return 0, 0, 0, false
	}
	a.world.game.Doing = tasks.Doing{What: "At of ", Of: a.class}
	x, y, z = a.own.binding.at(a.own.object)
	return x, y, z, true
}

// locate updates the actor's position and cull distance in the grid.
func (a *Actor) locate() {
	source := followed(a)
	x, y, z, ok := source.position()
	if a.relevancy.rule != byGrid {
		return // At has destroyed the actor or torn it off
	}
	grid := &a.world.relevance.grid
	if source == nil || source.dead || !seenByDistance(source, ok) {
		grid.Remove(&a.relevancy.place)
		return
	}
	grid.Set(&a.relevancy.place, x, y, z, source.cullDistance())
}

// seenByDistance reports whether an actor is seen by all connections whose view is near.
// hasPosition says whether the actor has a position, without which it is near only if it is
// AlwaysRelevant.
func seenByDistance(a *Actor, hasPosition bool) bool {
	if a.relevancy.rule == byGame || a.relevancy.rule == byOwner {
		return false // the game's function decides, or only the owner sees it
	}
	return hasPosition || a.relevancy.always
}

// followed returns the actor whose position and cull distance count for a. That's a itself, unless
// a is RelevantAsOwner: then it's the actor that counts for a's owner or, if a connection owns a
// directly, the actor from which the connection sees, which may be nil.
func followed(a *Actor) *Actor {
	for a.relevancy.asOwner {
		switch {
		case a.owner != nil:
			a = a.owner
		case a.conn != nil:
			return a.conn.viewTarget()
		default:
			return a
		}
	}
	return a
}

// cullDistance returns the distance within which others see the actor.
func (a *Actor) cullDistance() float32 {
	if a.relevancy.always {
		return everywhere
	}
	return a.class.cullDistance
}

// relevantAnywhere reports whether the actor is relevant to a connection at any distance.
func (a *Actor) relevantAnywhere(c *Conn) bool { return a.conn == c || a == c.shown.view.target }

// everywhere is the cull distance of an actor that every view includes.
const everywhere = math.MaxFloat32
