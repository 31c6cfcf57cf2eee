package rpc

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/rpc/dos"
)

// dosWatch measures what clients' calls cost, on a server with Config.DoS.
type dosWatch struct {
	detector *dos.Detector // nil = off; used only by the world's goroutine

	// mu guards counts, and usages and severity of each watched. No function of the game
	// runs while it is held.
	mu     sync.Mutex
	counts map[string]*dos.Count // by method name: the sums over all clients
}

// watched is the part of dosWatch that concerns one connection. It is used only by the
// world's goroutine, except for the fields under World.dos.mu.
type watched struct {
	peer     *dos.Peer
	answers  uint64             // number of answers so far to questions of the server
	logged   logs.Gate          // limits the log records of state changes
	usages   map[*method]*usage // written under World.dos.mu; other goroutines read it under that lock
	severity string             // under World.dos.mu
}

// usage counts the calls of one method by one connection. method counts for the
// detector, count for Conn.Stats, and world for World.MethodStats.
type usage struct {
	method       *dos.Method
	count, world *dos.Count
}

// Client messages that call no method are counted as calls of these. They are never
// blocked, because the protocol needs them.
var (
	usageAnswer  = &method{name: "(answer)"}         // answers to the server's closes and messages; no quota
	usageControl = &method{name: "(control)"}        // messages on channel 0
	usageClosed  = &method{name: "(closed channel)"} // calls that arrived after their channel was closed
	usageOther   = &method{name: "(other)"}          // messages on an actor's channel that name no declared method
)

// beginFrame begins a frame of the detector. It uses real time, because a game's
// clock may jump.
func (w *World) beginFrame() {
	if w.dos.detector != nil {
		w.dos.detector.Frame(time.Now())
	}
}

// rest tells the detector that Run waits for something to happen.
func (w *World) rest() {
	if w.dos.detector != nil {
		w.dos.detector.Idle(time.Now())
	}
}

// watchCalls starts watching a client that has joined.
func (w *World) watchCalls(c *Conn) {
	if d := w.dos.detector; d != nil && c.server {
		peer := d.Join(c.identity)
		w.dos.mu.Lock()
		defer w.dos.mu.Unlock()
		c.watched = &watched{peer: peer, usages: make(map[*method]*usage), severity: peer.State()}
	}
}

// deliverWatched delivers one message of a client, unless its call is blocked. It
// counts the cost, and acts on the detector's report.
func (w *World) deliverWatched(c *Conn, message bunch.Message) {
	a := c.actorOf(message.Channel)
	called := calledBy(a, message)
	answers := c.answers(called, a, message)
	u := c.usageOf(called, a, message, answers)
	peer := c.watched.peer
	if !answers && !mayRun(peer, u, called, message.Payload) {
		w.block(c, a, called, message.Payload)
		w.countMessage(c, u, len(message.Payload), 0, false)
		return
	}
	began := time.Since(w.turns.began)
	w.deliver(c, message)
	took := time.Since(w.turns.began) - began
	if answers {
		peer.Serve(took)
	} else {
		peer.Done(u.method, took)
	}
	w.countMessage(c, u, len(message.Payload), took, true)
}

// mayRun tells the detector of a message that is the client's load, and reports whether the
// message may run.
func mayRun(peer *dos.Peer, u *usage, called *method, payload []byte) bool {
	if blockable(called, payload) {
		return peer.Call(u.method, len(payload))
	}
	peer.Count(u.method, len(payload))
	return true
}

// countMessage counts a message of so many bytes for Stats, and acts on the detector's
// report if there is one.
func (w *World) countMessage(c *Conn, u *usage, bytes int, took time.Duration, ran bool) {
	w.dos.note(u, bytes, took, ran)
	if r, ok := c.watched.peer.Report(); ok {
		w.reported(c, r)
	}
}

// answers reports whether a message answers something that the server has sent. Such
// a message is not the client's load.
//
// What the server sends bounds the number of these messages. An answer to no message
// is a violation, and a channel is closed only once. Answers in excess of the
// questions, or of what extensions await, count as calls.
func (c *Conn) answers(called *method, a *Actor, message bunch.Message) bool {
	switch {
	case called != nil && called.role == isAnswer:
		c.watched.answers++
		return c.watched.answers <= c.requests.asked.Added()
	case called != nil && c.extended.Owed > 0 && slices.Contains(called.class.extended.Answers, called.name):
		c.extended.Owed--
		return true
	case message.Channel == 0:
		return control.IsTaken(message.Payload)
	}
	return a == nil && message.Close
}

// blockable reports whether a message may be blocked, because it is a call or the
// question of a request. Answers and cancels end what is open here. Other messages
// are no calls, or close the connection.
func blockable(called *method, payload []byte) bool {
	if called == nil || called.kind != serverRPC || called.role == isAnswer {
		return false
	}
	_, cancel, _ := questionIn(called, payload)
	return !cancel
}

// block drops a call instead of running it. For a question, it tells the asker.
func (w *World) block(c *Conn, a *Actor, called *method, payload []byte) {
	c.trace.Took()
	if number, _, ok := questionIn(called, payload); ok && !a.dead {
		w.dropQuestion(c, a, called, number, drops.Blocked)
		return
	}
	c.drop(drops.Blocked, a, called)
}

// questionIn returns the number of the question that a message asks or cancels. ok
// is false if the message does neither.
func questionIn(called *method, payload []byte) (number uint64, cancel, ok bool) {
	if called.role != isQuestion {
		return 0, false, false
	}
	_, n := binary.Uvarint(payload) // skip the method id
	number, cancel, _, err := ask.ReadQuestion(payload[n:])
	return number, cancel, err == nil
}

// calledBy returns the method that a message calls, or nil if it calls none.
func calledBy(a *Actor, message bunch.Message) *method {
	if a == nil || message.Open || message.Close {
		return nil
	}
	if id, n := binary.Uvarint(message.Payload); n > 0 && id < uint64(len(a.class.methods)) {
		return a.class.methods[id]
	}
	return nil
}

// usageOf returns the usage that counts a message.
func (c *Conn) usageOf(called *method, a *Actor, message bunch.Message, answers bool) *usage {
	switch {
	case called != nil:
	case answers:
		called = usageAnswer
	case message.Channel == 0:
		called = usageControl
	case a == nil || message.Open || message.Close:
		called = usageClosed
	default:
		called = usageOther
	}
	if u := c.watched.usages[called]; u != nil {
		return u
	}
	return c.newUsage(called)
}

// newUsage makes the usage of a method when the connection calls the method for the first time.
func (c *Conn) newUsage(m *method) *usage {
	d, name := &c.world.dos, m.String()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts[name] == nil {
		d.counts[name] = &dos.Count{Method: name}
	}
	u := &usage{
		method: c.watched.peer.Method(name),
		count:  &dos.Count{Method: name},
		world:  d.counts[name],
	}
	c.watched.usages[m] = u
	return u
}

// note counts a message for Stats. It is called on the world's goroutine.
func (d *dosWatch) note(u *usage, bytes int, took time.Duration, ran bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u.count.Add(bytes, took, ran)
	u.world.Add(bytes, took, ran)
}

// reported acts on a report about a client. It logs the report. It then updates the
// severity of all connections of the identity, or closes them.
func (w *World) reported(c *Conn, r dos.Report) {
	if r.Log {
		w.logReport(c, r)
	}
	for _, other := range w.announced {
		if other.watched == nil || other.watched.peer != c.watched.peer {
			continue
		}
		w.dos.mu.Lock()
		other.watched.severity = r.To
		w.dos.mu.Unlock()
		if r.Kick {
			w.violated(other, violationf(RPCDoS, "Config.DoS: %s", r.Reason))
		}
	}
}

// logReport logs a change of a client's state, at most once a second.
func (w *World) logReport(c *Conn, r dos.Report) {
	hidden, ok := c.watched.logged.Pass(time.Now())
	if !ok {
		return
	}
	log := w.log.With("conn", c, "from", r.From, "to", r.To, "reason", r.Reason, "hidden", hidden)
	if r.Up {
		log.Warn("the calls of a client cost more than rpc.Config.DoS allows")
		return
	}
	log.Info("the calls of a client cost less again")
}

// MethodStats returns the calls of all clients since the world was made, ordered by
// method name. It returns none without Config.DoS. A name in parentheses counts
// messages that are no calls: see [Stats].Methods.
func (w *World) MethodStats() []dos.Count {
	w.dos.mu.Lock()
	defer w.dos.mu.Unlock()
	counts := make([]dos.Count, 0, len(w.dos.counts))
	for _, count := range w.dos.counts {
		counts = append(counts, *count)
	}
	return sortedCounts(counts)
}

// methodStats returns the counts of one connection, and the state of its identity.
func (c *Conn) methodStats() (severity string, counts []dos.Count) {
	d := &c.world.dos
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.watched == nil {
		return "", nil
	}
	for _, u := range c.watched.usages {
		counts = append(counts, *u.count)
	}
	return c.watched.severity, sortedCounts(counts)
}

func sortedCounts(counts []dos.Count) []dos.Count {
	slices.SortFunc(counts, func(a, b dos.Count) int { return cmp.Compare(a.Method, b.Method) })
	return counts
}
