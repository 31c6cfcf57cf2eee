package rpc

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/sealed"
)

const (
	// leastRetryTime is how long a carrier stays closed before the client opens the next one. It doubles while none opens, up
	// to mostRetryTime: a path that takes no sealed packets at all is not to be asked for ever.
	leastRetryTime = 10 * time.Second
	mostRetryTime  = 10 * time.Minute
	// A client may open so many instances at once, and one more in each time: half of what it is to wait, for messages
	// travel together after a dark time.
	freeInstances = 8
	instanceTime  = leastRetryTime / 2
	// beginDelay has QUIC's goroutines send Welcome and Join before the train, behind which they would wait: 170 ms at 1 Mbit/s.
	beginDelay = 2 * time.Millisecond
	// fewSpares is when more ids are asked for, moreIDs how many are given.
	fewSpares = 2
	moreIDs   = 2
)

// sealedOpening is how far the two ends have agreed on carriers.
type sealedOpening struct {
	began    time.Time
	instance uint32 // of the newest carrier, 0 before the first
	live     bool   // it is to be used
	asked    bool   // for more ids
	ended    time.Time
	pause    time.Duration // before the next
	state    sealed.State
}

// begin begins the first carrier, once QUIC has sent what it was given. The world has not seen the connection yet.
func (r *sealedCarrier) begin() {
	r.began, r.pause = time.Now(), leastRetryTime
	if !r.replace(1) {
		r.instance = 1
		r.end()
		return
	}
	time.AfterFunc(beginDelay, r.current().Start)
}

// open opens the next carrier of a client.
func (r *sealedCarrier) open() {
	if r.replace(r.instance + 1) {
		r.send(control.AppendSealed(nil, control.IDSealedOpen, r.instance))
		r.current().Start()
	}
}

// replace begins an instance. Not ok: there is none, and the log says why.
func (r *sealedCarrier) replace(instance uint32) (ok bool) {
	carrier, err := r.renew(instance)
	if err != nil {
		r.conn.world.log.Error("no sealed carrier", "conn", r.conn, "instance", instance, "error", err)
	}
	if carrier == nil {
		return false
	}
	r.instance, r.live, r.asked, r.state = instance, true, false, sealed.Opening
	return true
}

// maintain looks after the carrier on the world's goroutine, when something has changed.
func (r *sealedCarrier) maintain() {
	carrier := r.current()
	if carrier == nil || !r.conn.usable() {
		return
	}
	state := carrier.State()
	if state != r.state {
		r.state = state
		r.conn.world.log.Info("sealed carrier is "+state.String(), "conn", r.conn, "instance", r.instance)
	}
	if state == sealed.Open {
		r.pause = leastRetryTime
	}
	switch {
	case r.live && state == sealed.Closed:
		r.send(control.AppendSealed(nil, control.IDSealedShut, r.instance))
		r.end()
		r.seek()
	case !r.live:
		r.seek()
	case !r.asked && carrier.Spares() < fewSpares:
		r.asked = true
		r.send(control.AppendSealed(nil, control.IDSealedAsk, r.instance))
	}
}

// end notes that the carrier is to be used no more.
func (r *sealedCarrier) end() {
	r.live, r.ended = false, time.Now()
}

// seek has a client open the next carrier in due time.
func (r *sealedCarrier) seek() {
	if r.conn.server {
		return
	}
	if left := r.pause - time.Since(r.ended); left > 0 {
		r.attendAfter(left)
		return
	}
	r.pause = min(2*r.pause, mostRetryTime)
	r.open()
}

func (r *sealedCarrier) attendAfter(wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
	case r.retry == nil:
		r.retry = time.AfterFunc(wait, r.attend)
	default:
		r.retry.Reset(wait)
	}
}

// control handles a message on channel 0 after Join.
func (c *Conn) control(payload []byte) *CloseError {
	message, err := control.Parse(payload)
	if err != nil {
		return violation(err)
	}
	switch m := message.(type) {
	case control.Missed:
		if c.server {
			c.state.all = true
			return nil
		}
	case control.AskTime, control.Time:
		return c.onTime(m)
	case control.Message:
		return c.onMessage(m)
	case control.Taken:
		return c.onTaken(m)
	}
	r := c.sealed
	if r == nil || !r.agreed.Load() {
		return violationf(ControlChannelMessageFail, "%s arrived after Join", control.Name(payload[0]))
	}
	switch m := message.(type) {
	case control.SealedOpen:
		return r.onOpen(m)
	case control.SealedShut:
		return r.onShut(m)
	case control.SealedAsk:
		return r.onAsk(m)
	case control.SealedIDs:
		return r.onIDs(m)
	}
	return violationf(ControlChannelMessageFail, "%s arrived after Join", control.Name(payload[0]))
}

// onOpen begins the next carrier of a server.
func (r *sealedCarrier) onOpen(m control.SealedOpen) *CloseError {
	most := freeInstances + uint64(max(0, time.Since(r.began)/instanceTime))
	if !r.conn.server || m.Instance != r.instance+1 || r.live || uint64(m.Instance) > most {
		return r.misplaced(control.IDSealedOpen, m.Instance)
	}
	if r.replace(m.Instance) {
		r.current().Start()
		return nil
	}
	r.instance = m.Instance
	r.send(control.AppendSealed(nil, control.IDSealedShut, m.Instance))
	r.end()
	return nil
}

// onShut ends a carrier that the peer has ended.
func (r *sealedCarrier) onShut(m control.SealedShut) *CloseError {
	if m.Instance > r.instance {
		return r.misplaced(control.IDSealedShut, m.Instance)
	}
	if m.Instance == r.instance && r.live {
		r.end()
		r.current().Close()
		r.attend()
	}
	return nil
}

// onAsk issues spare ids.
func (r *sealedCarrier) onAsk(m control.SealedAsk) *CloseError {
	if m.Instance > r.instance {
		return r.misplaced(control.IDSealedAsk, m.Instance)
	}
	if m.Instance == r.instance && r.live {
		carrier := r.current()
		ids := make([]sealed.ID, moreIDs)
		for i := range ids {
			ids[i] = carrier.Issue()
		}
		r.send(control.AppendSealed(nil, control.IDSealedIDs, m.Instance, ids...))
	}
	return nil
}

// onIDs takes the spare ids that were asked for.
func (r *sealedCarrier) onIDs(m control.SealedIDs) *CloseError {
	if m.Instance > r.instance || m.Instance == r.instance && !r.asked {
		return r.misplaced(control.IDSealedIDs, m.Instance)
	}
	if m.Instance == r.instance && r.live {
		r.asked = false
		r.current().AddIDs(m.IDs...)
		r.attend()
	}
	return nil
}

func (r *sealedCarrier) misplaced(id byte, instance uint32) *CloseError {
	return violationf(ControlChannelMessageFail, "%s of carrier %d arrived at carrier %d", control.Name(id), instance, r.instance)
}

func (r *sealedCarrier) send(message []byte) {
	c := r.conn
	c.link.Lock()
	err := c.machine.Send(0, bunch.Reliable, message)
	c.link.Unlock()
	if err != nil && !c.closing.Load() {
		c.abort(closeErrorOf(fmt.Errorf("control message of %d bytes: %w", len(message), err)))
	}
}
