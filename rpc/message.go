package rpc

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/drops"
)

// controlReserve entries of the control channel's reliable buffer are kept for what the framework itself says there.
const controlReserve = 16

// mail are the messages of the game on a connection's control channel.
type mail struct {
	out   control.Outgoing // under the link's lock
	in    control.Incoming // of the world's goroutine, as limit
	limit budget.Bucket    // of Config.MessageRate
}

// SendMessage sends a message of the game's to the other side's Config.OnMessage: reliably, in the order of all of them, on the control
// channel, before any actor exists: from OnConnect on, and on a client from Dial on. id says what it is, payload is at most 4,096
// bytes and is copied. It is for what a framework must say of itself, not for play: at most 16 messages are under way, which the other
// side has not run, and it runs Config.MessageRate a second; one more is an error that wraps [ErrBacklogFull], and nothing was sent. It is
// safe from any goroutine. UE: NMT_GameSpecific.
func (c *Conn) SendMessage(id uint8, payload []byte) error {
	switch {
	case len(payload) > control.MaxMessage:
		return fmt.Errorf("rpc: message %d for %v: %d bytes, the limit is %d: %w", id, c, len(payload), control.MaxMessage, bunch.ErrBunchTooLarge)
	case !c.joined.Load() && !c.closing.Load() && !c.ended.Load():
		return fmt.Errorf("rpc: message %d for %v: it has not joined yet; OnConnect is the first place for messages to it", id, c)
	case !c.usable():
		return fmt.Errorf("rpc: message %d for %v: %w", id, c, c.closeError())
	}
	c.link.Lock()
	defer c.link.Unlock()
	out, slots := c.machine.Reliable(0)
	if c.mail.out.Full() || out+bunch.Entries(len(payload)+2)+controlReserve > slots {
		return fmt.Errorf("rpc: message %d for %v: as many as may be (%d, or the reliable buffer of the control channel) are under way that the other side has not run: %w",
			id, c, control.Window, ErrBacklogFull)
	}
	if err := c.machine.Send(0, bunch.Reliable, control.AppendMessage(nil, control.Message{ID: id, Payload: payload})); err != nil {
		return fmt.Errorf("rpc: message %d for %v: %w", id, c, err)
	}
	c.mail.out.Sent()
	return nil
}

// onMessage runs a message of the peer's.
func (c *Conn) onMessage(m control.Message) *CloseError {
	w := c.world
	switch {
	case !c.mail.in.Receive():
		return violationf(ControlChannelMessageFail, "message %d arrived while %d were under way", m.ID, control.Window)
	case w.config.OnMessage == nil:
		c.dropMessage(drops.Message, m.ID, "Config.OnMessage is nil")
		return nil
	}
	w.doing = activity{what: "Config.OnMessage"}
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

// onTaken makes room for more messages of ours.
func (c *Conn) onTaken(t control.Taken) *CloseError {
	c.link.Lock()
	defer c.link.Unlock()
	if !c.mail.out.Taken(t) {
		return violationf(ControlChannelMessageFail, "the peer took %d messages that were not sent", t.Count)
	}
	return nil
}

// dropMessage counts a message that came to nothing, and warns, once a second at most.
func (c *Conn) dropMessage(reason drops.Reason, id uint8, why string) {
	if hidden, ok := c.drops.Pass(reason, c.world.now); ok {
		c.world.log.Warn("message dropped", "conn", c, "id", id, "reason", why, "more", hidden)
	}
}

// takeMessages tells peers that messages of theirs have run, as many as Config.MessageRate lets them send more.
func (w *World) takeMessages() {
	for _, c := range w.conns {
		owed := c.mail.in.Owed()
		if owed == 0 || !c.usable() {
			continue
		}
		now, t := time.Now(), control.Taken{} // the game's clock may stand still
		for t.Count < owed && c.mail.limit.Allow(w.config.messageRate(), now) {
			t.Count++
		}
		if t.Count == 0 {
			continue
		}
		c.mail.in.Told(t)
		c.link.Lock()
		w.cork(c)
		_ = c.machine.Send(0, bunch.Reliable, control.AppendTaken(nil, t)) // which fails with the connection only
		c.link.Unlock()
	}
}
