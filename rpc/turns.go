package rpc

import (
	"cmp"
	"context"
	"log/slog"
	"math/bits"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/tasks"
)

const (
	// turnCalls is the maximum number of messages of a connection that run before the others
	// have their turn. They are taken together under the link's lock. There are enough of
	// them for the lock and the turn to take less than a tenth of the calls' time.
	turnCalls = 32

	// turnParts is the minimum number of turns into which the share of a prompt connection is
	// divided. If a turn were as long as the share, clients that begin to flood would make
	// all others wait in the Dispatch in which they begin.
	turnParts = 8

	// Reading the clock takes a third of the time of a small call. If less than quickTime
	// passed between two readings, the next reading is quickCalls messages later.
	quickTime  = 4 * time.Microsecond
	quickCalls = 4

	// aloneShares times Config.DispatchTime is the share of a connection if no other has
	// messages. This is 8 ms by default, a quarter of a tick at 30 Hz. With less, a client
	// would wait for many ticks if the server sends it very much.
	aloneShares = 4

	// worldShares times Config.DispatchTime is the time of all connections together. This is
	// 24 ms by default. It leaves 9 ms of a tick at 30 Hz to a call that begins just before
	// the end, to hooks, posts and the game itself.
	worldShares = 12

	// endedTime is how long messages may wait for a turn after their connection ended. An honest
	// client leaves few, and a flooding client must not keep its place and memory for minutes.
	endedTime = time.Second
)

// turns shares the time of a Dispatch among the connections that have
// messages. It is used only by the world's goroutine.
//
// First, round by round, the prompt connections have turns: those whose messages all ran
// in the last Dispatch. Then the late ones have turns. The one that has waited longest
// is first, so none waits forever. The others follow, those with the fewest messages
// first, because they are the least to blame.
//
// Messages that may not run in this Dispatch stay in the machine.
// There, flow control makes the peer wait.
type turns struct {
	// Connections whose messages all ran in the last Dispatch. A connection
	// that has had its turns is replaced by nil.
	prompt []*Conn

	late   []*Conn // connections with messages that did not run in the last Dispatch; nil as in prompt
	served []*Conn // connections that used up their share of this Dispatch and have more messages
	number uint64  // of this Dispatch

	began   time.Time     // start of this Dispatch
	elapsed time.Duration // time since began, at the last reading of the clock
	share   time.Duration // time for one connection in a Dispatch; 0 = no limit
	total   time.Duration // time for all connections in a Dispatch; 0 = no limit

	// Memory for the messages that the connection whose turn it is takes from the machine.
	messages [turnCalls]bunch.Message
}

// turn is a connection's part of a Dispatch. It is used only by the world's goroutine.
type turn struct {
	// Messages that were taken from the machine and have not run, at most turnCalls. During
	// the turn they are in the memory of turns.messages.
	taken []bunch.Message

	waiting int           // number of messages that may run in this Dispatch, including those in taken
	used    time.Duration // time that the connection has used of this Dispatch
	longest time.Duration // longest time between two readings of the clock in this Dispatch
	slowest tasks.Doing   // what ran in that time
	late    bool          // not all messages ran in the last Dispatch
	last    uint64        // number of the Dispatch in which the connection last had a turn
	ended   time.Time     // time when the world learned of the connection's end; zero = it has not ended
}

// hasMessages reports whether there are more messages that may run in this Dispatch.
func (c *Conn) hasMessages() bool { return c.turn.waiting > 0 && !c.closing.Load() }

// takeTurns runs the messages that have arrived, as far as time allows. Messages that arrive
// in the meantime wait for the next Dispatch. If cork is true, takeTurns looks at all
// connections and corks them. Otherwise it looks only at the active ones.
func (w *World) takeTurns(cork bool) {
	t := &w.turns
	t.settle() // needed if a panic ended the last Dispatch early
	conns := w.frame.active
	if cork {
		conns = w.announced
	}
	for _, c := range conns {
		if !c.turn.late && w.countMessages(c) {
			t.prompt = append(t.prompt, c)
		}
	}
	for _, c := range t.late {
		w.countMessages(c)
	}
	// tellAcked follows countMessages, so OnOpenAcked of an actor runs before the calls that
	// arrived with the ack or after it.
	w.tellAcked()
	t.begin(w.config.DispatchTime)
	promptEnd := t.total
	if len(t.late) > 0 {
		t.order()
		// Otherwise prompt connections that use up every Dispatch
		// would keep the late ones waiting forever.
		promptEnd -= t.total / 4
	}
	w.serve(&t.prompt, t.share/turnParts, promptEnd)
	w.serve(&t.late, t.share, t.total)
	t.settle()
	for _, c := range t.late {
		c.noteLate()
	}
}

// countMessages counts the messages that c may run in this Dispatch,
// and reports whether there are any.
func (w *World) countMessages(c *Conn) bool {
	c.link.Lock()
	w.frame.cork(c)
	c.turn.waiting = len(c.turn.taken) + c.machine.Ready()
	c.link.Unlock()
	c.turn.used = 0
	c.turn.longest = 0
	c.turn.slowest = tasks.Doing{}
	return c.hasMessages()
}

// begin sets the time limits of a Dispatch. share is
// Config.DispatchTime. A share of 0 means no limits.
func (t *turns) begin(share time.Duration) {
	t.number++
	t.began = time.Now()
	t.elapsed = 0
	t.share = share
	t.total = worldShares * share
	if len(t.prompt)+len(t.late) == 1 {
		t.share *= aloneShares
	}
}

// order sorts the late connections. The one that has waited longest is first. The others
// follow by their number of messages, compared to a factor of two.
func (t *turns) order() {
	slices.SortStableFunc(t.late, func(a, b *Conn) int {
		return cmp.Compare(bits.Len(uint(a.turn.waiting)), bits.Len(uint(b.turn.waiting)))
	})
	oldest := slices.MinFunc(t.late, func(a, b *Conn) int { return cmp.Compare(a.turn.last, b.turn.last) })
	copy(t.late[1:], t.late[:slices.Index(t.late, oldest)])
	t.late[0] = oldest
}

// serve gives the connections of a queue turns of at most limit each, round by round. It ends
// when no connection has more messages, or when the Dispatch has lasted for until.
//
// A connection stays in the queue during its turn, so settle finds it
// if a function of the game panics.
func (w *World) serve(queue *[]*Conn, limit, until time.Duration) {
	t := &w.turns
	for i := 0; i < len(*queue) && (until == 0 || t.elapsed < until); i++ {
		c := (*queue)[i]
		if c.hasMessages() {
			w.runTurn(c, limit)
		}
		(*queue)[i] = nil
		switch {
		case !c.hasMessages():
			c.turn.late = false
		case t.share > 0 && c.turn.used >= t.share:
			t.served = append(t.served, c)
		default:
			*queue = append(*queue, c)
		}
	}
}

// settle ends a Dispatch. All connections that have more messages are late in the next one.
func (t *turns) settle() {
	t.late = append(append(t.late, t.prompt...), t.served...)
	t.late = slices.DeleteFunc(t.late, func(c *Conn) bool { return c == nil })
	for _, c := range t.late {
		c.turn.late = true
	}
	clear(t.prompt)
	clear(t.served)
	t.prompt = t.prompt[:0]
	t.served = t.served[:0]
}

// runTurn runs messages of c until none are left, turnCalls have run, or
// limit has passed. It does not interrupt a call.
func (w *World) runTurn(c *Conn, limit time.Duration) {
	t := &w.turns
	defer t.pass(c, t.elapsed)
	defer w.game.Catch(c)
	w.game.Doing = tasks.Doing{}
	c.turn.last = t.number
	end := t.elapsed + min(limit, t.share-c.turn.used)
	nextLook := 1 // the message after which the clock is read again
	for n := 1; n <= turnCalls; n++ {
		message, ok := w.nextMessage(c)
		if !ok {
			w.callRepNotifies(c)
			return
		}
		if c.watched == nil {
			w.deliver(c, message)
		} else {
			w.deliverWatched(c, message)
		}
		if !c.hasMessages() {
			w.callRepNotifies(c)
		} else if n < nextLook {
			continue
		}

		// Read the clock. Quick calls share one reading.
		before := t.elapsed
		t.elapsed = time.Since(t.began)
		c.turn.note(w.game.Doing, t.elapsed-before)
		if t.share > 0 && t.elapsed >= end {
			break
		}
		nextLook = n + 1
		if t.elapsed-before < quickTime {
			nextLook = n + quickCalls
		}
	}
	w.finishPacket(c)
}

// finishPacket applies the remaining states of a packet after some were applied. The game
// must see all states of a packet or none.
func (w *World) finishPacket(c *Conn) {
	for len(c.copies.reps.replicas) > 0 {
		message := w.peek(c)
		if message == nil || message.Delivery != bunch.Tracked || message.Number != c.copies.reps.packet {
			w.callRepNotifies(c)
			return
		}
		next, _ := w.nextMessage(c)
		w.deliver(c, next)
	}
}

// note records the longest time between two readings of the clock, and what ran in that time.
// If several quick calls ran, it records the last one.
func (u *turn) note(doing tasks.Doing, took time.Duration) {
	if took > u.longest {
		u.slowest = doing
		u.longest = took
	}
}

// pass ends a turn of c that began at start, even after a panic of the game. It copies the
// messages that did not run, because the next turn uses the same memory.
func (t *turns) pass(c *Conn, start time.Duration) {
	t.elapsed = time.Since(t.began)
	c.turn.used += t.elapsed - start
	left := c.turn.taken
	c.turn.taken = slices.Clone(left)
	clear(left)
}

// nextMessage takes the next message of c that may run in this Dispatch.
func (w *World) nextMessage(c *Conn) (message bunch.Message, ok bool) {
	next := w.peek(c)
	if next == nil {
		return message, false
	}
	message = *next
	*next = bunch.Message{}
	c.turn.taken = c.turn.taken[1:]
	c.turn.waiting--
	return message, true
}

// pending yields the messages of c that have not run, in order. The caller holds the link's lock.
func (c *Conn) pending(yield func(*bunch.Message) bool) {
	for i := range c.turn.taken {
		if !yield(&c.turn.taken[i]) {
			return
		}
	}
	c.machine.AllReady(yield)
}

// waitingClose returns the close reason of a channel whose close waits for its turn. ok is
// false if none waits. The caller holds the link's lock.
func (c *Conn) waitingClose(channel uint64) (reason CloseReason, ok bool) {
	for message := range c.pending {
		if message.Close && message.Channel == channel {
			reason, _ = parseClose(message.Payload)
			return reason, true
		}
	}
	return Destroyed, false
}

// peek returns the message that nextMessage would take, or nil if there is none.
func (w *World) peek(c *Conn) *bunch.Message {
	u := &c.turn
	if !c.hasMessages() {
		return nil
	}
	if len(u.taken) == 0 {
		n := c.take(w.turns.messages[:min(turnCalls, u.waiting)])
		u.taken = w.turns.messages[:n]
	}
	if len(u.taken) == 0 {
		u.waiting = 0
		return nil
	}
	return &u.taken[0]
}

// take takes messages from the machine. If the ReceiveLimit stops the peer, take raises it.
// If the machine had to drop states, take requests all states from the peer.
func (c *Conn) take(into []bunch.Message) int {
	c.link.Lock()
	n := c.machine.Take(into)
	limited := c.machine.ReceiveLimited()
	if c.machine.Missed() {
		// An error means that the connection has failed.
		_ = c.machine.Send(0, bunch.Reliable, control.AppendMissed(nil))
	}
	c.link.Unlock()
	if limited {
		c.raiseReceiveLimit()
	}
	return n
}

// noteLate is called when the Dispatch ended before all messages of the connection ran. It
// counts this, and logs it at most once a second.
func (c *Conn) noteLate() {
	c.deferred.Add(1)
	hidden, ok := c.lateWarn.Pass(c.world.frame.now)
	if !ok {
		return
	}
	t := &c.world.turns
	u := &c.turn
	log := c.world.log.With("conn", c, "waiting", u.waiting, "used", u.used, "more", hidden)
	if u.longest > 0 { // it had a turn
		log = log.With("slowest", u.slowest.String(), "longest", u.longest)
	}
	if u.used >= t.share {
		log.Warn("messages wait for the next Dispatch: handlers of the connection took what rpc.Config.DispatchTime allows one",
			"limit", t.share)
		return
	}
	log.Warn("messages wait for the next Dispatch: handlers of all connections took what rpc.Config.DispatchTime allows them together",
		"limit", t.total, "all", t.elapsed)
}

// mayStillRun reports whether messages of an ended connection may still run. They may for
// endedTime, if not all ran in the last Dispatch.
func (c *Conn) mayStillRun() bool {
	if !c.turn.late || c.closing.Load() {
		return false
	}
	if c.turn.ended.IsZero() {
		c.turn.ended = time.Now()
	}
	return time.Since(c.turn.ended) < endedTime
}

// discard drops and counts the messages that a connection still has when it is expelled.
func (w *World) discard(c *Conn) {
	t := &w.turns
	t.late = slices.DeleteFunc(t.late, func(other *Conn) bool { return other == c })
	dropped := 0
	names := make(drops.Names)
	drop := func(messages []bunch.Message) {
		for i := range messages {
			names[messageName(c.channels[messages[i].Channel], messages[i])]++
		}
		dropped += len(messages)
		clear(messages)
	}
	drop(c.turn.taken)
	c.turn = turn{}
	for n := c.take(t.messages[:]); n > 0; n = c.take(t.messages[:]) {
		drop(t.messages[:n])
	}
	if dropped > 0 {
		c.drops.Add(drops.Ended, dropped)
		level := slog.LevelWarn
		if c.closing.Load() { // this side closed it, so there is always something in flight
			level = slog.LevelInfo
		}
		w.log.Log(context.Background(), level, "messages dropped with their connection",
			"conn", c, "messages", dropped, "calls", names.String())
	}
}

// messageName returns the name of a message for a log. This is the method that the message
// calls or, in parentheses, what else the message is.
func messageName(a *Actor, message bunch.Message) string {
	called := calledBy(a, message)
	switch {
	case called != nil && message.Delivery != bunch.Tracked:
		return called.String()
	case message.Channel == 0:
		return usageControl.name
	case message.Delivery == bunch.Tracked:
		return "(states)"
	case message.Open:
		return "(open)"
	case message.Close:
		return "(close)"
	case a == nil:
		return usageClosed.name
	}
	return usageOther.name
}
