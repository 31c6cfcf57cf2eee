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

// dosWatch measures the cost of clients' calls on a server with Config.DoS, and acts on the
// detector's reports.
type dosWatch struct {
	detector *dos.Detector // nil without Config.DoS; used only by the world's goroutine

	// mu guards counts, and also usages and severity of each connection. We never call a function
	// of the game while holding mu.
	mu     sync.Mutex
	counts map[string]*dos.Count // sums over all clients, by method name
}

// watched is dosWatch's record of one connection. It is used only by the world's goroutine,
// except for the fields guarded by World.dos.mu.
type watched struct {
	peer         *dos.Peer
	answersTaken uint64             // number of answers to the server's questions that have arrived
	logged       logs.Gate          // limits the log records of state changes
	usages       map[*method]*usage // written under World.dos.mu; other goroutines read it under that lock
	severity     string             // guarded by World.dos.mu
}

// A usage counts the calls of one method by one connection.
type usage struct {
	method  *dos.Method // for the detector
	ofConn  *dos.Count  // for Conn.Stats
	ofWorld *dos.Count  // for World.MethodStats, which sums up all clients
}

// Messages from a client that don't call a method count as calls of these pseudo-methods. They
// are never blocked, because the protocol needs them.
var (
	usageAnswer  = &method{name: "(answer)"}         // answers to the server's closes and messages; no quota
	usageControl = &method{name: "(control)"}        // messages on channel 0
	usageClosed  = &method{name: "(closed channel)"} // calls that arrived after their channel was closed
	usageOther   = &method{name: "(other)"}          // messages on an actor's channel that name no declared method
)

// beginFrame begins a frame of the detector. It doesn't use the game's clock, which may jump.
func (d *dosWatch) beginFrame() {
	if d.detector != nil {
		d.detector.Frame(time.Now())
	}
}

// noteIdle tells the detector that Run is about to wait for an event, so that the detector doesn't
// mistake the wait for a hitch.
func (d *dosWatch) noteIdle() {
	if d.detector != nil {
		d.detector.Idle(time.Now())
	}
}

// watch starts watching a client that has joined.
func (d *dosWatch) watch(c *Conn) {
	if d.detector != nil && c.server {
		peer := d.detector.Join(c.identity)
		d.mu.Lock()
		defer d.mu.Unlock()
		c.watched = &watched{peer: peer, usages: make(map[*method]*usage), severity: peer.State()}
	}
}

// deliverWatched delivers one message from a client, unless it is a call that is blocked, and
// counts the cost of the message.
func (w *World) deliverWatched(c *Conn, message bunch.Message) {
	a := c.channels.of(message.Channel)
	called := calledBy(a, message)
	isAnswer := c.acceptAnswer(called, a, message)
	u := w.dos.usageOf(c.watched, called, a, message, isAnswer)
	peer := c.watched.peer
	if !isAnswer && !countLoad(peer, u, called, message.Payload) {
		w.block(c, a, called, message.Payload)
		w.countMessage(c, u, len(message.Payload), 0, false)
		return
	}

	start := time.Since(w.turns.began)
	w.deliver(c, message)
	took := time.Since(w.turns.began) - start
	if isAnswer {
		peer.Serve(took)
	} else {
		peer.Done(u.method, took)
	}
	w.countMessage(c, u, len(message.Payload), took, true)
}

// countLoad counts a message towards the client's load, and reports whether it may run.
func countLoad(peer *dos.Peer, u *usage, called *method, payload []byte) bool {
	if blockable(called, payload) {
		return peer.Call(u.method, len(payload))
	}
	peer.Count(u.method, len(payload))
	return true
}

// countMessage counts a message for Stats, and acts on the detector's report if the message has
// caused one.
func (w *World) countMessage(c *Conn, u *usage, bytes int, took time.Duration, ran bool) {
	w.dos.count(u, bytes, took, ran)
	if r, ok := c.watched.peer.Report(); ok {
		w.applyReport(c, r)
	}
}

// acceptAnswer reports whether a message is an answer to something that the server has sent. Such
// a message doesn't count towards the client's load.
//
// A client can't evade detection with unsolicited answers. acceptAnswer accepts only as many
// answers as the server has asked questions, or as extensions are waiting for. Any further answers
// count as calls.
func (c *Conn) acceptAnswer(called *method, a *Actor, message bunch.Message) bool {
	switch {
	case called != nil && called.role == isAnswer:
		c.watched.answersTaken++
		return c.watched.answersTaken <= c.requests.asked.Added()
	case called != nil && c.extended.Owed > 0 && slices.Contains(called.class.extended.Answers, called.name):
		c.extended.Owed--
		return true
	case message.Channel == 0:
		// The client reports that it has run messages of the game. Reporting more than we have
		// sent would be a violation.
		return control.IsTaken(message.Payload)
	}
	// The client closes a channel that we have closed, which it can do only once.
	return a == nil && message.Close
}

// blockable reports whether a message may be blocked. Calls and questions may be blocked. Answers
// and cancels must get through, because they end requests that are open here. Any other message
// either isn't a call or closes the connection.
func blockable(called *method, payload []byte) bool {
	if called == nil || called.kind != serverRPC || called.role == isAnswer {
		return false
	}
	_, cancel, _ := questionIn(called, payload)
	return !cancel
}

// block drops a call instead of running it. If it is a question, the asker gets an error.
func (w *World) block(c *Conn, a *Actor, called *method, payload []byte) {
	c.trace.Took()
	if number, _, ok := questionIn(called, payload); ok && !a.dead {
		w.dropQuestion(c, a, called, number, drops.Blocked)
		return
	}
	c.drop(drops.Blocked, a, called)
}

// questionIn returns the number of the question that a message asks or cancels. ok is false if it
// does neither.
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

// usageOf returns the usage that counts a message. isAnswer is the result of acceptAnswer.
func (d *dosWatch) usageOf(w *watched, called *method, a *Actor, message bunch.Message, isAnswer bool) *usage {
	if called == nil {
		called = pseudoMethod(a, message, isAnswer)
	}
	if u := w.usages[called]; u != nil {
		return u
	}
	return d.newUsage(w, called)
}

// pseudoMethod returns the pseudo-method for a message that calls no method.
func pseudoMethod(a *Actor, message bunch.Message, isAnswer bool) *method {
	switch {
	case isAnswer:
		return usageAnswer
	case message.Channel == 0:
		return usageControl
	case a == nil || message.Open || message.Close:
		return usageClosed
	}
	return usageOther
}

// newUsage starts counting a method when the connection calls it for the first time.
func (d *dosWatch) newUsage(w *watched, m *method) *usage {
	name := m.String()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts[name] == nil {
		d.counts[name] = &dos.Count{Method: name}
	}
	u := &usage{
		method:  w.peer.Method(name),
		ofConn:  &dos.Count{Method: name},
		ofWorld: d.counts[name],
	}
	w.usages[m] = u
	return u
}

// count counts a message for Stats. It is called on the world's goroutine.
func (d *dosWatch) count(u *usage, bytes int, took time.Duration, ran bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u.ofConn.Add(bytes, took, ran)
	u.ofWorld.Add(bytes, took, ran)
}

// applyReport acts on a change of a client's state. If the client is to be kicked, it closes all
// connections of its identity.
func (w *World) applyReport(c *Conn, r dos.Report) {
	if r.Log {
		w.logReport(c, r)
	}

	// All connections of an identity share a peer, and therefore its state.
	for _, other := range w.announced {
		if other.watched == nil || other.watched.peer != c.watched.peer {
			continue
		}
		w.dos.mu.Lock()
		other.watched.severity = r.To
		w.dos.mu.Unlock()
		if r.Kick {
			w.closeForViolation(other, violationf(RPCDoS, "Config.DoS: %s", r.Reason))
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
		log.Warn("calls of a client exceeded a limit of rpc.Config.DoS")
		return
	}
	log.Info("calls of a client are back within a limit of rpc.Config.DoS")
}

// MethodStats returns how much all clients have called each method since the world was made,
// ordered by method name. It returns nothing without Config.DoS. A name in parentheses counts
// messages that aren't calls: see [Stats].Methods.
func (w *World) MethodStats() []dos.Count {
	w.dos.mu.Lock()
	defer w.dos.mu.Unlock()
	counts := make([]dos.Count, 0, len(w.dos.counts))
	for _, count := range w.dos.counts {
		counts = append(counts, *count)
	}
	return sortedCounts(counts)
}

// stats returns the counts of one connection, and the state of its identity.
func (d *dosWatch) stats(c *Conn) (severity string, counts []dos.Count) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.watched == nil {
		return "", nil
	}
	for _, u := range c.watched.usages {
		counts = append(counts, *u.ofConn)
	}
	return c.watched.severity, sortedCounts(counts)
}

func sortedCounts(counts []dos.Count) []dos.Count {
	slices.SortFunc(counts, func(a, b dos.Count) int { return cmp.Compare(a.Method, b.Method) })
	return counts
}
