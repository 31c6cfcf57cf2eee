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

// After Join, channel 0 carries messages of the framework, messages of the game
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

// sendAtOnce sends a handshake message, or a message about carriers, on channel
// 0 without waiting for Flush. If that fails, it ends the connection.
func (c *Conn) sendAtOnce(message []byte) {
	c.link.Lock()
	err := c.machine.Send(0, bunch.Reliable, message)
	c.link.Unlock()
	if err != nil {
		// err may be a violation by the peer.
		c.abort(closeErrorOf(fmt.Errorf("control message of %d bytes: %w", len(message), err)))
	}
}

// sendControl sends a message on channel 0, at the next Flush.
func (c *Conn) sendControl(message []byte) {
	c.link.Lock()
	defer c.link.Unlock()
	c.world.frame.cork(c)
	_ = c.machine.Send(0, bunch.Reliable, message) // fails only if the connection fails
}

// controlReserve is how many entries of the control channel's reliable buffer
// SendMessage leaves free for the framework's messages.
const controlReserve = 16

// mail limits the game's messages on a connection's control channel.
type mail struct {
	out   control.Mail  // messages that the peer has not run yet; under the link's lock
	in    control.Mail  // messages of the peer; like limit, used only by the world's goroutine
	limit budget.Bucket // of Config.MessageRate
}

// SendMessage sends a message of the game to the other side's Config.OnMessage. It is
// reliable, and in order with the connection's other messages. It is safe for
// concurrent use. UE: NMT_GameSpecific.
//
// SendMessage needs no actor. A server may call it from OnConnect on, and a client from Dial
// on. The game chooses id. payload has at most 4,096 bytes and is copied.
//
// SendMessage is meant for a game framework, not for regular game traffic. The other
// side runs Config.MessageRate messages a second. At most 16 messages, or 11 of the
// maximum size, may wait for that. If more would wait, SendMessage sends nothing and
// returns an error that wraps [ErrBacklogFull].
//
// If the connection has begun to close, SendMessage returns [ErrClosed], even before
// OnDisconnect has run.
func (c *Conn) SendMessage(id uint8, payload []byte) error {
	switch {
	case c == nil:
		return fmt.Errorf("rpc: message %d for a nil *Conn: the call that a handler answers was made in this world", id)
	case len(payload) > control.MaxMessage:
		return errorf("rpc: message %d for %v: %d bytes, the limit is %d: %w",
			id, c, len(payload), control.MaxMessage, bunch.ErrBunchTooLarge)
	case !c.joined.Load() && !c.closing.Load() && !c.ended.Load():
		return fmt.Errorf("rpc: message %d for %v: it has not joined yet; OnConnect is the first place for messages to it",
			id, c)
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
	message := control.AppendMessage(nil, control.Message{ID: id, Payload: payload})
	if err := c.machine.Send(0, bunch.Reliable, message); err != nil {
		return errorf("rpc: message %d for %v: %w", id, c, err)
	}
	c.mail.out.Add()
	return nil
}

// onMessage passes a message of the peer to Config.OnMessage. If OnMessage returns an error,
// a server closes the connection, and a client drops the message.
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

// onTaken is called when the peer reports that it has run some of our messages.
// SendMessage may then send as many more.
func (c *Conn) onTaken(t control.Taken) *CloseError {
	c.link.Lock()
	defer c.link.Unlock()
	if !c.mail.out.Taken(t) {
		return violationf(ControlChannelMessageFail, "the peer took %d messages that were not sent", t.Count)
	}
	return nil
}

// dropMessage counts a dropped message, and logs a warning at most once a second.
func (c *Conn) dropMessage(reason drops.Reason, id uint8, why string) {
	if hidden, ok := c.drops.Pass(reason, c.world.frame.now); ok {
		c.world.log.Warn("message dropped", "conn", c, "id", id, "reason", why, "more", hidden)
	}
}

// tellTaken reports to the peer how many of its messages have run, at the rate of
// Config.MessageRate. The peer may then send as many more.
func (c *Conn) tellTaken() {
	owed := c.mail.in.Open()
	if owed == 0 || !c.usable() {
		return
	}
	now := time.Now() // real time, because the game's clock may stand still
	var t control.Taken
	for t.Count < owed && c.mail.limit.Allow(c.world.config.MessageRate, now, now) {
		t.Count++
	}
	if t.Count > 0 {
		c.mail.in.Taken(t)
		c.sendControl(control.AppendTaken(nil, t))
	}
}

// times estimates the server's game clock on a client. On the server it answers
// requests for that clock. It is used only by the world's goroutine, except for the
// counters, which Stats reads.
type times struct {
	ask            clock.Questions // client: the requests, and what their answers have shown
	steps, refused atomic.Uint64   // client: for Stats
	// Server: when the request that waits for Flush arrived, in real time; zero = none waits.
	question time.Time
}

// take handles the server's answer, which arrived at the given time.
func (t *times) take(answer control.Time, arrived time.Time) {
	if !t.ask.Answer(answer.Now, answer.Held, arrived) {
		t.refused.Add(1)
	}
	t.steps.Store(t.ask.Steps())
}

// ServerTime returns t, the server's game time when this world's clock shows now.
// UE: AGameState::GetServerWorldTimeSeconds.
//
// The error of t is at most bound, even if the paths to the server and back differ in length.
// ok is false while the client has no answer from the server. On a server, t is now. ServerTime
// must be called on the world's goroutine, with a now near the time of the last Dispatch.
//
// The first call of ServerTime makes the client ask the server for its time. Make this call
// early, in OnConnect: the first answer takes a round trip, and a good one takes a second. The
// client then asks once a second, but only while other messages are exchanged. bound is about
// half of the shortest round trip, and grows by 0.5 ms a second while the client does not ask.
//
// t never decreases as now increases, except at a step. A step means that the server's clock
// was set or stood still; [Stats].ServerTime counts steps. The client accepts a step of more
// than a round trip after three answers that agree, and a smaller step after some seconds. A
// server whose clock is outside the years 1823 to 2116 does not answer.
func (c *Conn) ServerTime(now time.Time) (t time.Time, bound time.Duration, ok bool) {
	if c.server {
		return now, 0, true
	}
	if c.times.ask.Want(time.Now()) {
		c.world.drive.Signal() // otherwise Run may sleep, and the request is not sent
	}
	return c.times.ask.At(c.world.frame.beat.Of(now))
}

// exchangeTimes sends requests for the time and answers to them. It runs at the end of a Flush.
// If it ran before the simulation, the simulation's time would make the answer less exact.
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

// answerTime answers the waiting request, with the time of the game clock at moment.
func (c *Conn) answerTime(moment time.Time) {
	t := &c.times
	now := c.world.frame.beat.At(moment)
	if far := int64(clock.Farthest / time.Second); now.Unix() < -far || now.Unix() >= far {
		// The message can't hold this time. The client waits for the answer and does
		// not ask again.
		return
	}
	held := max(0, moment.Sub(t.question))
	t.question = time.Time{}
	c.sendControl(control.AppendTime(nil, control.Time{Now: now.UnixNano(), Held: held}))
}

// onAskTime handles a client's request for the time. A client has at most one
// request outstanding.
func (c *Conn) onAskTime() *CloseError {
	if !c.server || !c.times.question.IsZero() {
		return violationf(ControlChannelMessageFail, "AskTime before the last one was answered, or from the server")
	}
	c.times.question = c.world.messageArrived()
	return nil
}

// onTime handles the server's answer to a request for the time.
func (c *Conn) onTime(answer control.Time) *CloseError {
	if !c.times.ask.Asking() {
		return violationf(ControlChannelMessageFail, "Time that was not asked for")
	}
	c.times.take(answer, c.world.messageArrived())
	return nil
}

// messageArrived returns when the message being handled arrived, in real time.
func (w *World) messageArrived() time.Time { return w.frame.beat.Of(w.handling.arrived) }
