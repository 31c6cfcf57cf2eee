package rpc

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/clock"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/tasks"
	"github.com/quivernet/quiver/internal/words"
)

// This file handles channel 0 after Join. The channel carries the framework's own messages, the
// game's messages (Conn.SendMessage), and requests for the server's time (Conn.ServerTime).

// control handles a message on channel 0.
func (c *Conn) control(payload []byte) *CloseError {
	message, err := control.Parse(payload)
	if err != nil {
		return violation(err)
	}
	switch m := message.(type) {
	case control.Missed:
		if c.server {
			// The client has dropped updates and needs all states again.
			c.shown.state.resync = true
			return nil
		}
	case control.AskTime:
		return c.onAskTime()
	case control.Time:
		return c.onTime(m)
	case control.Message:
		return c.onMessage(m)
	case control.Taken:
		return c.onTaken(m)
	case control.Sealed:
		if s := c.sealed; s.agreed() {
			return s.control(m)
		}
	}
	return violationf(ControlChannelMessageFail, "%s arrived after Join", control.Name(payload[0]))
}

// sendAtOnce sends a message on channel 0 that belongs to the handshake or concerns carriers.
// Unlike sendControl, it doesn't wait for Flush. If sending fails, it ends the connection.
func (c *Conn) sendAtOnce(message []byte) {
	c.link.Lock()
	err := c.machine.Send(0, bunch.Reliable, message)
	c.link.Unlock()
	if err != nil {
		// The peer may have broken a rule, in which case err names the rule.
		c.abort(closeErrorOf(fmt.Errorf("control message of %s: %w", words.Bytes(len(message)), err)))
	}
}

// sendControl sends a message on channel 0 at the next Flush.
func (c *Conn) sendControl(message []byte) {
	c.link.Lock()
	defer c.link.Unlock()
	c.world.frame.cork(c)
	_ = c.machine.Send(0, bunch.Reliable, message) // fails only if the connection fails
}

// controlReserve is the number of entries in the control channel's reliable buffer that
// SendMessage leaves free, so that the framework can still send its own messages.
const controlReserve = 16

// mail limits the game's messages on a connection's control channel.
type mail struct {
	out   control.Mail  // our messages that the peer hasn't run yet; guarded by the link's lock
	in    control.Mail  // the peer's messages; like limit, used only by the world's goroutine
	limit budget.Bucket // for Config.MessageRate
}

// SendMessage sends one of the game's own messages, which the other side's Config.OnMessage
// receives. It is reliable, and in order with the connection's other messages. It is safe for
// concurrent use. UE: NMT_GameSpecific.
//
// No actor is needed. A server may call SendMessage from OnConnect on, and a client once Dial has
// returned. The meaning of id is up to the game. payload may have up to 4,096 bytes and is
// copied.
//
// SendMessage is meant for a game framework rather than for regular game traffic. The other side
// runs Config.MessageRate messages a second. Up to 16 messages, or 11 of the maximum size, may be
// in flight, that is, sent but not yet run. Beyond that, SendMessage sends nothing and returns an
// error that wraps [ErrBacklogFull].
//
// If the connection has begun to close, SendMessage returns [ErrClosed], even before
// OnDisconnect has run.
func (c *Conn) SendMessage(id uint8, payload []byte) error {
	switch {
	case c == nil:
		return fmt.Errorf("rpc: message %d for a nil *Conn: a call made in this world has no connection", id)
	case len(payload) > control.MaxMessage:
		return errorf("rpc: message %d for %v: %d bytes; the limit is %d: %w",
			id, c, len(payload), control.MaxMessage, bunch.ErrBunchTooLarge)
	case c.life.beforeJoin():
		return fmt.Errorf("rpc: message %d for %v: the connection has not joined yet: send the message in OnConnect or later",
			id, c)
	case !c.usable():
		return errorf("rpc: message %d for %v: %w", id, c, c.closeError())
	}
	c.link.Lock()
	defer c.link.Unlock()
	// The window limits the messages that the peer has to hold, but the reliable buffer may fill
	// up first.
	out, slots := c.machine.Reliable(0)
	if c.mail.out.Full() || out+bunch.Entries(len(payload)+2)+controlReserve > slots {
		return errorf("rpc: message %d for %v: %d messages are in flight, or the reliable buffer of the control channel is full: %w",
			id, c, control.Window, ErrBacklogFull)
	}
	message := control.AppendMessage(nil, control.Message{ID: id, Payload: payload})
	if err := c.machine.Send(0, bunch.Reliable, message); err != nil {
		return errorf("rpc: message %d for %v: %w", id, c, err)
	}
	c.mail.out.Add()
	return nil
}

// onMessage passes a message from the peer to Config.OnMessage, and handles its error as
// described there.
func (c *Conn) onMessage(m control.Message) *CloseError {
	w := c.world
	if !c.mail.in.Add() {
		return violationf(ControlChannelMessageFail, "message %d exceeds the limit of %d in flight", m.ID, control.Window)
	}
	if w.config.OnMessage == nil {
		c.dropMessage(drops.Message, m.ID, "Config.OnMessage is nil")
		return nil
	}
	w.game.Doing = tasks.Doing{What: "Config.OnMessage"}
	err := w.config.OnMessage(w, c, m.ID, m.Payload)
	if err != nil && c.server {
		return &CloseError{Code: ValidationFailed, Reason: fmt.Sprintf("message %d refused: %v", m.ID, err), cause: err}
	}
	if err != nil {
		// A client trusts its server, so it just drops the message.
		c.dropMessage(drops.Invalid, m.ID, err.Error())
	}
	return nil
}

// onTaken is called when the peer has run some of our messages. We may then send the same number
// again.
func (c *Conn) onTaken(t control.Taken) *CloseError {
	c.link.Lock()
	defer c.link.Unlock()
	if !c.mail.out.Taken(t) {
		return violationf(ControlChannelMessageFail, "peer reported running %d messages that were not sent", t.Count)
	}
	return nil
}

// dropMessage counts a dropped message. It also logs a warning, but at most once a second.
func (c *Conn) dropMessage(reason drops.Reason, id uint8, why string) {
	if hidden, ok := c.drops.Pass(reason, c.world.frame.now); ok {
		c.world.log.Warn("message dropped", "conn", c, "id", id, "reason", why, "more", hidden)
	}
}

// sendTaken tells the peer how many of its messages have run, so that it may send the same number
// again. To enforce Config.MessageRate, we delay this report rather than the messages.
func (c *Conn) sendTaken() {
	unreported := c.mail.in.Open()
	if unreported == 0 || !c.usable() {
		return
	}
	// Use real time, because the game's clock may stand still.
	now := time.Now()
	var t control.Taken
	for t.Count < unreported && c.mail.limit.Allow(c.world.config.MessageRate, now, now) {
		t.Count++
	}
	if t.Count > 0 {
		c.mail.in.Taken(t)
		c.sendControl(control.AppendTaken(nil, t))
	}
}

// times estimates the server's game clock on a client, and answers requests for the time on a
// server. Only the world's goroutine may use it, except for the counters, which Stats reads.
type times struct {
	ask            clock.Questions // client: asks the server, and keeps the resulting estimate
	steps, refused atomic.Uint64   // client: see Stats.ServerTime
	// Server: when the request that the next Flush answers arrived, in real time. Zero if there is
	// none.
	askedAt time.Time
}

// handleAnswer handles an answer from the server. arrived is when it arrived, in real time.
func (t *times) handleAnswer(answer control.Time, arrived time.Time) {
	if !t.ask.Answer(answer.Now, answer.Held, arrived) {
		t.refused.Add(1)
	}
	t.steps.Store(t.ask.Steps())
}

// ServerTime returns t, the server's game time at the moment when this world's clock shows
// now. UE: AGameState::GetServerWorldTimeSeconds.
//
// t is off by at most bound if the server's clock runs at real speed, within 500 ppm, even if the
// two directions of the path differ in delay. ok is false until the server has answered for the
// first time. On a server, t is now. ServerTime must be called on the world's goroutine, with a
// now close to the time of the last Dispatch.
//
// Both worlds' clocks are the times that their games pass to Dispatch. A game may run a tick up to
// a second late and pass the time at which it was due, provided that one tick in a second is on
// time.
//
// A client doesn't ask the server for its time until ServerTime is first called. Call it early, in
// OnConnect, because the first answer takes a round trip and an accurate one takes a second. From
// then on the client asks once a second, but only while other messages are exchanged. bound is
// about half of the shortest round trip, and grows by 0.5 ms a second while the client isn't
// asking.
//
// As now increases, t never decreases except at a step, when the server's clock was set or stood
// still. [Stats].ServerTime counts steps. The client accepts a step of more than a round trip after
// three answers that agree, and a smaller step after a few seconds. A server whose clock is outside
// the years 1823 to 2116 doesn't answer.
func (c *Conn) ServerTime(now time.Time) (t time.Time, bound time.Duration, ok bool) {
	if c.server {
		return now, 0, true
	}
	if c.times.ask.Want(time.Now()) {
		// Run may be sleeping. Wake it, so that it sends the request.
		c.world.drive.Signal()
	}
	return c.times.ask.At(c.world.frame.game.Of(now))
}

// exchangeTimes sends requests for the time and answers to such requests. It runs at the very end
// of a Flush, because the work done between an answer and its sending would make it less accurate.
func (w *World) exchangeTimes() {
	for _, c := range w.frame.attended(w.announced) {
		switch {
		case !c.times.askedAt.IsZero():
			c.answerTime(time.Now())
		case c.times.ask.Wanted() && c.usable():
			if c.times.ask.Ask(time.Now()) {
				c.sendControl(control.AppendAskTime(nil))
			}
		}
	}
}

// answerTime answers the pending request with the game clock's time at moment.
func (c *Conn) answerTime(moment time.Time) {
	t := &c.times
	now := c.world.frame.game.At(moment)
	if far := int64(clock.Farthest / time.Second); now.Unix() < -far || now.Unix() >= far {
		// The time doesn't fit into the message, so don't answer. A client that is waiting for an
		// answer doesn't ask again.
		return
	}
	held := max(0, moment.Sub(t.askedAt))
	t.askedAt = time.Time{}
	c.sendControl(control.AppendTime(nil, control.Time{Now: now.UnixNano(), Held: held}))
}

// onAskTime handles a client's request for the time. A client must not have more than one
// outstanding.
func (c *Conn) onAskTime() *CloseError {
	if !c.server || !c.times.askedAt.IsZero() {
		return violationf(ControlChannelMessageFail, "AskTime before the previous one was answered, or from the server")
	}
	c.times.askedAt = c.world.messageArrived()
	return nil
}

// onTime handles the server's answer to our request for the time.
func (c *Conn) onTime(answer control.Time) *CloseError {
	if !c.times.ask.Asking() {
		return violationf(ControlChannelMessageFail, "unsolicited Time")
	}
	c.times.handleAnswer(answer, c.world.messageArrived())
	return nil
}

// messageArrived returns when the message that we're handling arrived, in real time.
func (w *World) messageArrived() time.Time { return w.frame.beat.Of(w.handling.arrived) }
