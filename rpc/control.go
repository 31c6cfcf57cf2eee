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
)

// After Join, channel 0 carries the framework's own messages, those of the game
// (Conn.SendMessage), and requests for the server's time (Conn.ServerTime).

// control handles a message on channel 0 after Join.
func (c *Conn) control(payload []byte) *CloseError {
	message, err := control.Parse(payload)
	if err != nil {
		return violation(err)
	}
	switch m := message.(type) {
	case control.Missed:
		if c.server {
			c.shown.state.resync = true
			return nil
		}
	case control.AskTime, control.Time:
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

// sendAtOnce sends a message of the handshake or about carriers on channel 0,
// without waiting for Flush. If that fails, it ends the connection.
func (c *Conn) sendAtOnce(message []byte) {
	c.link.Lock()
	err := c.machine.Send(0, bunch.Reliable, message)
	c.link.Unlock()
	if err != nil {
		c.abort(closeErrorOf(fmt.Errorf("control message of %d bytes: %w", len(message), err))) // err may be the peer's violation
	}
}

// sendControl sends a message on channel 0, at the next Flush.
func (c *Conn) sendControl(message []byte) {
	c.link.Lock()
	defer c.link.Unlock()
	c.world.frame.cork(c)
	_ = c.machine.Send(0, bunch.Reliable, message) // it fails only if the connection fails
}

// controlReserve is how many entries of the control channel's reliable buffer
// SendMessage leaves free for the framework's messages.
const controlReserve = 16

// mail limits the messages of the game on a connection's control channel.
type mail struct {
	out   control.Mail  // messages that the peer has not run yet; under the link's lock
	in    control.Mail  // messages of the peer; used only by the world's goroutine, like limit
	limit budget.Bucket // of Config.MessageRate
}

// SendMessage sends a message of the game to the other side's Config.OnMessage,
// reliably and in order with the connection's other messages. It needs no
// actor, and may be called from OnConnect on, and on a client from Dial on. id
// is chosen by the game. payload has at most 4,096 bytes and is copied.
//
// SendMessage is meant for a game framework, not for play: the other side runs
// Config.MessageRate messages a second, and at most 16, or 11 of the largest, may wait
// for that. If more do, SendMessage sends nothing and returns an error that wraps
// [ErrBacklogFull]. If the connection has begun to close, it returns [ErrClosed], even
// before OnDisconnect has run. It is safe for concurrent use. UE: NMT_GameSpecific.
func (c *Conn) SendMessage(id uint8, payload []byte) error {
	switch {
	case c == nil:
		return fmt.Errorf("rpc: message %d for a nil *Conn: the call that a handler answers was made in this world", id)
	case len(payload) > control.MaxMessage:
		return errorf("rpc: message %d for %v: %d bytes, the limit is %d: %w", id, c, len(payload), control.MaxMessage, bunch.ErrBunchTooLarge)
	case !c.joined.Load() && !c.closing.Load() && !c.ended.Load():
		return fmt.Errorf("rpc: message %d for %v: it has not joined yet; OnConnect is the first place for messages to it", id, c)
	case !c.usable():
		return errorf("rpc: message %d for %v: %w", id, c, c.closeError())
	}
	c.link.Lock()
	defer c.link.Unlock()
	out, slots := c.machine.Reliable(0)
	if c.mail.out.Full() || out+bunch.Entries(len(payload)+2)+controlReserve > slots {
		return errorf("rpc: message %d for %v: as many as may be (%d, or the reliable buffer of the control channel) are under way that the other side has not run: %w",
			id, c, control.Window, ErrBacklogFull)
	}
	if err := c.machine.Send(0, bunch.Reliable, control.AppendMessage(nil, control.Message{ID: id, Payload: payload})); err != nil {
		return errorf("rpc: message %d for %v: %w", id, c, err)
	}
	c.mail.out.Add()
	return nil
}

// onMessage passes a message of the peer to Config.OnMessage. If that returns
// an error, a server closes the connection, and a client drops the message.
func (c *Conn) onMessage(m control.Message) *CloseError {
	w := c.world
	switch {
	case !c.mail.in.Add():
		return violationf(ControlChannelMessageFail, "message %d arrived while %d were under way", m.ID, control.Window)
	case w.config.OnMessage == nil:
		c.dropMessage(drops.Message, m.ID, "Config.OnMessage is nil")
		return nil
	}
	w.game.Doing = tasks.Doing{What: "Config.OnMessage"}
	err := w.config.OnMessage(w, c, m.ID, m.Payload)
	switch {
	case err == nil:
	case c.server:
		return &CloseError{Code: ValidationFailed, Reason: fmt.Sprintf("message %d refused: %v", m.ID, err), cause: err}
	default:
		c.dropMessage(drops.Invalid, m.ID, err.Error())
	}
	return nil
}

// onTaken is called when the peer reports that it has run some of our messages,
// after which as many more may be sent.
func (c *Conn) onTaken(t control.Taken) *CloseError {
	c.link.Lock()
	defer c.link.Unlock()
	if !c.mail.out.Taken(t) {
		return violationf(ControlChannelMessageFail, "the peer took %d messages that were not sent", t.Count)
	}
	return nil
}

// dropMessage counts a message that was dropped, and logs a warning at most once a second.
func (c *Conn) dropMessage(reason drops.Reason, id uint8, why string) {
	if hidden, ok := c.drops.Pass(reason, c.world.frame.now); ok {
		c.world.log.Warn("message dropped", "conn", c, "id", id, "reason", why, "more", hidden)
	}
}

// tellTaken reports to the peer, at the rate of Config.MessageRate, how many of
// its messages have run. The peer may then send as many more.
func (c *Conn) tellTaken() {
	owed := c.mail.in.Open()
	if owed == 0 || !c.usable() {
		return
	}
	now, t := time.Now(), control.Taken{} // real time, because the game's clock may stand still
	for t.Count < owed && c.mail.limit.Allow(c.world.config.MessageRate, now, now) {
		t.Count++
	}
	if t.Count > 0 {
		c.mail.in.Taken(t)
		c.sendControl(control.AppendTaken(nil, t))
	}
}

// times estimates the server's game clock on a client, and answers requests for it on the
// server. It is used only by the world's goroutine, except for the counters, which Stats reads.
type times struct {
	ask            clock.Questions // client: the requests, and what the answers have shown
	steps, refused atomic.Uint64   // client: for Stats
	// Server: when the request that waits for Flush arrived, in real time; zero = none waits.
	question time.Time
}

// take handles the server's answer.
func (t *times) take(answer control.Time, arrived time.Time) {
	if !t.ask.Answer(answer.Now, answer.Held, arrived) {
		t.refused.Add(1)
	}
	t.steps.Store(t.ask.Steps())
}

// ServerTime returns t, the time of the server's game clock when this world's clock shows now.
// t is off by at most bound, even if the paths to the server and back differ in length. ok is
// false while the client has no answer from the server. On a server, t is now. ServerTime must
// be called on the world's goroutine, with a now near the time of the last Dispatch.
//
// The client asks the server for its time from the first call of ServerTime on. So call it early,
// in OnConnect: the first answer takes a round trip, and a good one takes a second. After that
// the client asks once a second, but only while other messages are exchanged. bound is about half
// of the shortest round trip, and grows by 0.5 ms a second while the client does not ask.
//
// t never decreases as now increases, except at a step, which [Stats].ServerTime counts: the
// server's clock was set, or stood still. The client accepts a step of more than a round trip
// after three answers that agree, and a smaller one after some seconds. A server whose clock is
// outside the years 1823 to 2116 does not answer. UE: AGameState::GetServerWorldTimeSeconds.
func (c *Conn) ServerTime(now time.Time) (t time.Time, bound time.Duration, ok bool) {
	if c.server {
		return now, 0, true
	}
	if c.times.ask.Want(time.Now()) {
		c.world.drive.Signal() // otherwise Run may sleep, and the request is not sent
	}
	return c.times.ask.At(c.world.frame.beat.Of(now))
}

// exchangeTimes sends requests for the time and answers to them. It runs at the end of a
// Flush, because the simulation before it takes time, which would make the answer less exact.
func (w *World) exchangeTimes() {
	for _, c := range w.frame.attended(w.announced) {
		switch {
		case !c.times.question.IsZero():
			c.answerTime(time.Now())
		case c.times.ask.Wanted() && c.usable():
			if c.times.ask.Ask(time.Now()) {
				c.sendControl(control.AppendAskTime(nil))
			}
		}
	}
}

// answerTime answers the request that waits, at moment.
func (c *Conn) answerTime(moment time.Time) {
	t := &c.times
	now := c.world.frame.beat.At(moment)
	if far := int64(clock.Farthest / time.Second); now.Unix() < -far || now.Unix() >= far {
		return // the message cannot hold this time; the client waits for the answer and does not ask again
	}
	held := max(0, moment.Sub(t.question))
	t.question = time.Time{}
	c.sendControl(control.AppendTime(nil, control.Time{Now: now.UnixNano(), Held: held}))
}

// onTime handles a request for the time or an answer to one. A client has at
// most one request outstanding.
func (c *Conn) onTime(message any) *CloseError {
	t, arrived := &c.times, c.world.frame.beat.Of(c.world.handling.arrived)
	answer, isAnswer := message.(control.Time)
	switch {
	case isAnswer && t.ask.Asking():
		t.take(answer, arrived)
		return nil
	case !isAnswer && c.server && t.question.IsZero():
		t.question = arrived
		return nil
	case isAnswer:
		return violationf(ControlChannelMessageFail, "Time that was not asked for")
	}
	return violationf(ControlChannelMessageFail, "AskTime before the last one was answered, or from the server")
}
