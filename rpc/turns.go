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
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/tasks"
)

const (
	// turnCalls is the maximum number of messages in a turn, after which the next connection has
	// its turn. All of them are taken together under the link's lock. With this many, the lock and
	// the turn take less than a tenth of the time of the calls themselves.
	turnCalls = 32

	// turnParts is the minimum number of turns that a prompt connection needs to use up its share.
	// If a turn could be as long as the share, clients that start flooding would delay all other
	// clients in the same Dispatch.
	turnParts = 8

	// Reading the clock takes a third as long as a small call. Therefore, if less than quickTime
	// has passed between two readings, quickCalls messages run before the next one.
	quickTime  = 4 * time.Microsecond
	quickCalls = 4

	// aloneShares times Config.DispatchTime is the share of a connection if no other connection has
	// messages. By default, this is 8 ms, a quarter of a tick at 30 Hz. With less, a client that
	// receives a lot from the server would need many ticks to handle it.
	aloneShares = 4

	// worldShares times Config.DispatchTime is the time that all connections may use together. By
	// default, this is 24 ms, which leaves 9 ms of a tick at 30 Hz for the game itself, for hooks
	// and posts, and for a call that begins just before the time is up.
	worldShares = 12

	// lateReserve is the part of that time, as a divisor, that is reserved for late connections.
	// It need only be enough for them to make progress, because each is no longer late once it
	// has caught up.
	lateReserve = 4

	// endedTime is the maximum time that messages may wait for a turn after their connection has
	// ended. An honest client leaves few messages behind, but a flooding client must not keep its
	// place in the queue and its memory for minutes.
	endedTime = time.Second
)

// turns divides the time of a Dispatch among the connections that have messages.
//
// A connection whose messages all ran in the last Dispatch is prompt, and otherwise it is late. The
// prompt connections have their turns first, round by round, and then the late connections. The
// late connection that has waited longest comes first, so that none waits forever. The others are
// sorted by their number of messages, because those with few messages are the least to blame.
//
// Messages that can't run in this Dispatch stay in the machine, where flow control makes the
// peer wait.
//
// turns is used only by the world's goroutine.
type turns struct {
	// The queues. Once a connection has had its turns, its entry is nil.
	prompt    []*Conn
	late      []*Conn
	exhausted []*Conn // have more messages, but no time left in this Dispatch

	number  uint64        // of this Dispatch
	began   time.Time     // start of this Dispatch
	elapsed time.Duration // from began to the last reading of the clock
	share   time.Duration // limit for one connection in a Dispatch; 0 if there is none
	total   time.Duration // limit for all connections together; 0 if there is none

	// The messages of the connection whose turn it is, taken from the machine. Each turn reuses the
	// array.
	messages [turnCalls]bunch.Message
}

// A turn is a connection's part in a Dispatch. It is used only by the world's goroutine.
type turn struct {
	// Up to turnCalls messages that were taken from the machine and haven't run. During the turn,
	// they are part of turns.messages. After it, they are a copy.
	taken []bunch.Message

	isLate     bool      // not all messages ran in the last Dispatch
	lateWarn   logs.Gate // limits warnings about late messages to one per second
	lastNumber uint64    // of the Dispatch in which the connection last had a turn
	ended      time.Time // when waitForLate first found messages late; zero until then

	// In this Dispatch.
	waiting     int           // messages that may still run, including those in taken
	used        time.Duration // the part of the connection's share that is used up
	slowest     tasks.Doing   // what ran in the longest time between two readings of the clock
	slowestTime time.Duration // that time
}

// hasMessages reports whether there are more messages that may run in this Dispatch.
func (c *Conn) hasMessages() bool { return c.turn.waiting > 0 && !c.life.closing.Load() }

// takeTurns runs messages that have arrived, for as long as there is time. Messages that arrive
// while it runs wait for the next Dispatch. It looks only at the connections that of includes, and
// corks them.
func (w *World) takeTurns(of reach) {
	t := &w.turns
	t.settle() // in case a panic cut the last Dispatch short
	conns := w.frame.active
	if of == allConns {
		conns = w.announced
	}
	for _, c := range conns {
		if !c.turn.isLate && w.countMessages(c) {
			t.prompt = append(t.prompt, c)
		}
	}
	for _, c := range t.late {
		w.countMessages(c)
	}

	// Look for acks of opens only after counting messages. If an ack arrived before or together
	// with a call that was counted, OnOpenAcked then runs before the call.
	w.runOpenAcked()

	t.begin(w.config.DispatchTime)
	promptEnd := t.total
	if len(t.late) > 0 {
		t.orderLate()
		// Reserve some time for the late connections. Otherwise prompt connections that use up
		// every Dispatch would keep them waiting forever.
		promptEnd -= t.total / lateReserve
	}
	w.serve(&t.prompt, t.share/turnParts, promptEnd)
	w.serve(&t.late, t.share, t.total)
	t.settle()
	for _, c := range t.late {
		c.noteLate()
	}
}

// countMessages counts the messages of c that may run in this Dispatch, and reports whether there
// are any. It also corks c.
func (w *World) countMessages(c *Conn) bool {
	c.link.Lock()
	w.frame.cork(c)
	c.turn.waiting = len(c.turn.taken) + c.machine.Ready()
	c.link.Unlock()
	c.turn.used = 0
	c.turn.slowest = tasks.Doing{}
	c.turn.slowestTime = 0
	return c.hasMessages()
}

// begin sets the time limits of a Dispatch. share is Config.DispatchTime, and 0 means that there
// are no limits.
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

// orderLate sorts the late connections: first the one that has waited longest, then the others by
// their number of messages. Numbers with the same bit length are considered equal, so that a few
// messages more or less don't change the order from one Dispatch to the next.
func (t *turns) orderLate() {
	slices.SortStableFunc(t.late, func(a, b *Conn) int {
		return cmp.Compare(bits.Len(uint(a.turn.waiting)), bits.Len(uint(b.turn.waiting)))
	})
	oldest := slices.MinFunc(t.late, func(a, b *Conn) int { return cmp.Compare(a.turn.lastNumber, b.turn.lastNumber) })
	copy(t.late[1:], t.late[:slices.Index(t.late, oldest)])
	t.late[0] = oldest
}

// serve gives the connections of a queue turns of up to limit each, round by round. It stops when
// no connection has more messages, or when the Dispatch has lasted for until.
func (w *World) serve(queue *[]*Conn, limit, until time.Duration) {
	t := &w.turns
	for i := 0; i < len(*queue) && (until == 0 || t.elapsed < until); i++ {
		// Leave the connection in the queue during its turn. If a function of the game panics,
		// settle then finds it there.
		c := (*queue)[i]
		if c.hasMessages() {
			w.runTurn(c, limit)
		}
		(*queue)[i] = nil
		switch {
		case !c.hasMessages():
			c.turn.isLate = false
		case t.share > 0 && c.turn.used >= t.share:
			t.exhausted = append(t.exhausted, c)
		default: // another turn in the next round
			*queue = append(*queue, c)
		}
	}
}

// settle empties the queues at the end of a Dispatch. Connections that still have messages are late
// in the next Dispatch.
func (t *turns) settle() {
	t.late = append(append(t.late, t.prompt...), t.exhausted...)
	t.late = slices.DeleteFunc(t.late, func(c *Conn) bool { return c == nil })
	for _, c := range t.late {
		c.turn.isLate = true
	}
	clear(t.prompt)
	clear(t.exhausted)
	t.prompt = t.prompt[:0]
	t.exhausted = t.exhausted[:0]
}

// runTurn runs messages of c until none are left, turnCalls have run, or limit has passed. A call
// that runs longer isn't interrupted.
func (w *World) runTurn(c *Conn, limit time.Duration) {
	t := &w.turns
	defer t.endTurn(c, t.elapsed)
	defer w.game.Catch(c)
	w.game.Doing = tasks.Doing{}
	w.game.Last = tasks.Doing{}
	c.turn.lastNumber = t.number
	end := t.elapsed + min(limit, t.share-c.turn.used)
	nextLook := 1 // the message after which we read the clock again
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

		before := t.elapsed
		t.elapsed = time.Since(t.began)
		c.turn.noteTime(w.game.Doing.Or(w.game.Last), t.elapsed-before)
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

// finishPacket is called when a turn is over. If it has applied some of the states in a packet,
// finishPacket applies the rest, because the game must see all of them or none.
func (w *World) finishPacket(c *Conn) {
	for c.copies.reps.pending() {
		message := w.fetch(c)
		if message == nil || message.Delivery != bunch.Tracked || message.Number != c.copies.reps.packet {
			w.callRepNotifies(c)
			return
		}
		next, _ := w.nextMessage(c)
		w.deliver(c, next)
	}
}

// noteTime keeps track of the longest time between two readings of the clock, and of what ran in
// that time. If several quick calls ran, it records the last one.
func (u *turn) noteTime(doing tasks.Doing, took time.Duration) {
	if took > u.slowestTime {
		u.slowest = doing
		u.slowestTime = took
	}
}

// endTurn ends a turn of c that began at start, even if the game panicked.
func (t *turns) endTurn(c *Conn, start time.Duration) {
	t.elapsed = time.Since(t.began)
	c.turn.used += t.elapsed - start
	// Copy the messages that didn't run, because the next turn reuses their memory.
	remaining := c.turn.taken
	c.turn.taken = slices.Clone(remaining)
	clear(remaining)
}

// nextMessage takes the next message of c. ok is false if no more messages may run in this
// Dispatch.
func (w *World) nextMessage(c *Conn) (message bunch.Message, ok bool) {
	next := w.fetch(c)
	if next == nil {
		return message, false
	}
	message = *next
	*next = bunch.Message{}
	c.turn.taken = c.turn.taken[1:]
	c.turn.waiting--
	return message, true
}

// pending yields the messages of c that haven't run, in order. The caller holds the link's lock.
func (c *Conn) pending(yield func(*bunch.Message) bool) {
	for i := range c.turn.taken {
		if !yield(&c.turn.taken[i]) {
			return
		}
	}
	c.machine.AllReady(yield)
}

// waitingClose returns the reason of a channel's close that has arrived and is waiting for its
// turn. ok is false if there is none. The caller holds the link's lock.
func (c *Conn) waitingClose(channel uint64) (reason CloseReason, ok bool) {
	for message := range c.pending {
		if message.Close && message.Channel == channel {
			reason, _ = parseClose(message.Payload)
			return reason, true
		}
	}
	return Destroyed, false
}

// fetch returns the message that nextMessage would take, or nil. If no message is left in taken,
// it first takes a batch of messages from the machine.
func (w *World) fetch(c *Conn) *bunch.Message {
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

// take takes messages from the machine.
func (c *Conn) take(into []bunch.Message) int {
	c.link.Lock()
	n := c.machine.Take(into)
	limited := c.machine.ReceiveLimited()
	if c.machine.Missed() {
		// The machine had no room for some states and dropped them, so ask the server for all of
		// its states again. An error means that the connection has failed as well.
		_ = c.machine.Send(0, bunch.Reliable, control.AppendMissed(nil))
	}
	c.link.Unlock()
	if limited {
		c.raiseReceiveLimit()
	}
	return n
}

// noteLate is called at the end of a Dispatch if not all messages of the connection have run. It
// counts the delay, and logs it at most once a second.
func (c *Conn) noteLate() {
	c.deferred.Add(1)
	hidden, ok := c.turn.lateWarn.Pass(c.world.frame.now)
	if !ok {
		return
	}
	t := &c.world.turns
	u := &c.turn
	log := c.world.log.With("conn", c, "waiting", u.waiting, "used", u.used, "more", hidden)
	if u.slowestTime > 0 { // it had a turn
		log = log.With("slowest", u.slowest.String(), "longest", u.slowestTime)
	}
	if u.used >= t.share {
		log.Warn("messages delayed to the next Dispatch: handlers of this connection used up its share (rpc.Config.DispatchTime)",
			"limit", t.share)
		return
	}
	log.Warn("messages delayed to the next Dispatch: handlers of all connections used up the total time (rpc.Config.DispatchTime)",
		"limit", t.total, "all", t.elapsed)
}

// waitForLate is called for a connection that has ended, and reports whether its late messages may
// still run. They may for endedTime, counted from the first call of waitForLate.
func (u *turn) waitForLate() (wait bool) {
	if !u.isLate {
		return false
	}
	if u.ended.IsZero() {
		u.ended = time.Now()
	}
	return time.Since(u.ended) < endedTime
}

// discard drops and counts the messages that haven't run when a connection is expelled.
func (w *World) discard(c *Conn) {
	t := &w.turns
	t.late = without(t.late, c)
	dropped := 0
	names := make(drops.Names)
	drop := func(messages []bunch.Message) {
		for i := range messages {
			names[messageName(c.channels.byNumber[messages[i].Channel], messages[i])]++
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
		if c.life.closing.Load() {
			// This side closed it, so it's normal that messages were in flight.
			level = slog.LevelInfo
		}
		w.log.Log(context.Background(), level, "messages dropped with their connection",
			"conn", c, "messages", dropped, "calls", names.String())
	}
}

// messageName returns the name of a message for the log. It's the method that the message calls or,
// in parentheses, the kind of message.
func messageName(a *Actor, message bunch.Message) string {
	m := calledBy(a, message)
	switch {
	case m != nil && message.Delivery != bunch.Tracked:
		return m.String()
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
