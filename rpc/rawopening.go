package rpc

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/raw"
)

const (
	// rawRetryTime is how long a carrier stays closed before the next one is tried.
	rawRetryTime = 10 * time.Second
	// A client may open so many instances at once, and one more in each time: half of what it is to wait, for messages
	// travel together after a dark time.
	freeRawInstances = 8
	rawInstanceTime  = rawRetryTime / 2
	// fewSpares is when more ids are asked for, moreIDs how many are given.
	fewSpares = 2
	moreIDs   = 2
)

// rawOpening is how far the two ends have agreed on carriers.
type rawOpening struct {
	source   RawSource
	began    time.Time
	instance uint32 // of the newest carrier, 0 before the first
	live     bool   // it is to be used
	started  bool   // with the peer's ids
	asked    bool   // for more of them
	ended    time.Time
	sought   bool // the server asked for the next carrier, or was asked for it
	state    raw.State
}

// begin makes the source; the client opens the first carrier.
func (r *RawCarrier) begin() {
	r.source, r.began = r.conn.world.onRaw(r.conn), time.Now()
	if !r.conn.server && r.source != nil {
		r.open()
	}
}

// open opens the next carrier of a client.
func (r *RawCarrier) open() {
	if carrier := r.replace(r.instance + 1); carrier != nil {
		r.send(appendRaw(nil, idRawOpen, r.instance, carrier.IDs()...))
	}
}

// replace begins an instance.
func (r *RawCarrier) replace(instance uint32) *raw.Carrier {
	carrier, err := r.renew(instance)
	if err != nil {
		r.conn.world.log.Error("no raw carrier", "conn", r.conn, "instance", instance, "error", err)
	}
	if carrier == nil {
		return nil
	}
	r.instance, r.live, r.started, r.asked, r.sought, r.state = instance, true, false, false, false, raw.Opening
	return carrier
}

// tend looks after the carrier on the world's goroutine, when something has changed.
func (r *RawCarrier) tend() {
	carrier := r.current()
	if carrier == nil || !r.conn.usable() {
		return
	}
	state := carrier.State()
	if state != r.state {
		r.state = state
		r.conn.world.log.Info("raw carrier is "+state.String(), "conn", r.conn, "instance", r.instance)
	}
	if r.live && state == raw.Closed {
		r.send(appendRaw(nil, idRawShut, r.instance))
		r.end()
	}
	switch {
	case r.live && r.started && !r.asked && carrier.Spares() < fewSpares:
		r.asked = true
		r.send(appendRaw(nil, idRawAsk, r.instance))
	case !r.live:
		r.seek()
	}
}

// end notes that the carrier is to be used no more.
func (r *RawCarrier) end() {
	r.live, r.ended = false, time.Now()
}

// seek has the next carrier opened, in due time, when one of both ends has use for it.
func (r *RawCarrier) seek() {
	wanted := r.wanted.Load()
	switch wait := rawRetryTime - time.Since(r.ended); {
	case r.conn.server && wanted && !r.sought:
		r.sought = true
		r.send(appendRaw(nil, idRawWant, r.instance))
	case r.conn.server || !wanted && !r.sought:
	case wait <= 0:
		r.open()
	default:
		r.attendAfter(wait)
	}
}

func (r *RawCarrier) attendAfter(wait time.Duration) {
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
	message, err := parseControl(payload)
	if err != nil {
		return violation(err)
	}
	r := c.Raw()
	if r == nil {
		return violationf(ControlChannelMessageFail, "%s arrived after Join", messageName(payload[0]))
	}
	switch m := message.(type) {
	case rawOpen:
		return r.onOpen(m)
	case rawShut:
		return r.onShut(m)
	case rawWant:
		return r.onWant(m)
	case rawAsk:
		return r.onAsk(m)
	case rawIDs:
		return r.onIDs(m)
	case rawPing:
		return nil
	}
	return violationf(ControlChannelMessageFail, "%s arrived after Join", messageName(payload[0]))
}

// onOpen makes the server's carrier, or starts the client's.
func (r *RawCarrier) onOpen(m rawOpen) *CloseError {
	if !r.conn.server {
		if m.Instance != r.instance || r.started {
			return r.misplaced(idRawOpen, m.Instance)
		}
		r.started = true
		if r.live {
			r.current().Start(m.IDs...)
		}
		return nil
	}
	most := freeRawInstances + uint64(max(0, time.Since(r.began)/rawInstanceTime))
	if m.Instance != r.instance+1 || r.live || uint64(m.Instance) > most {
		return r.misplaced(idRawOpen, m.Instance)
	}
	if r.source != nil {
		if carrier := r.replace(m.Instance); carrier != nil {
			r.send(appendRaw(nil, idRawOpen, m.Instance, carrier.IDs()...))
			r.started = true
			carrier.Start(m.IDs...)
			return nil
		}
	}
	r.instance = m.Instance
	r.send(appendRaw(nil, idRawShut, m.Instance))
	r.end()
	return nil
}

// onShut ends a carrier that the peer has ended.
func (r *RawCarrier) onShut(m rawShut) *CloseError {
	if m.Instance > r.instance {
		return r.misplaced(idRawShut, m.Instance)
	}
	if m.Instance == r.instance && r.live {
		r.end()
		r.current().Close()
		r.attend()
	}
	return nil
}

// onWant has the client open the next carrier.
func (r *RawCarrier) onWant(m rawWant) *CloseError {
	if r.conn.server || m.Instance > r.instance || m.Instance == r.instance && r.live {
		return r.misplaced(idRawWant, m.Instance)
	}
	if m.Instance == r.instance && r.source != nil {
		r.sought = true
		r.attend()
	}
	return nil
}

// onAsk issues spare ids.
func (r *RawCarrier) onAsk(m rawAsk) *CloseError {
	if m.Instance > r.instance {
		return r.misplaced(idRawAsk, m.Instance)
	}
	if m.Instance == r.instance && r.live {
		carrier := r.current()
		ids := make([]raw.ID, moreIDs)
		for i := range ids {
			ids[i] = carrier.Issue()
		}
		r.send(appendRaw(nil, idRawIDs, m.Instance, ids...))
	}
	return nil
}

// onIDs takes the spare ids that were asked for.
func (r *RawCarrier) onIDs(m rawIDs) *CloseError {
	if m.Instance > r.instance || m.Instance == r.instance && !r.asked {
		return r.misplaced(idRawIDs, m.Instance)
	}
	if m.Instance == r.instance && r.live {
		r.asked = false
		r.current().AddIDs(m.IDs...)
		r.attend()
	}
	return nil
}

func (r *RawCarrier) misplaced(id byte, instance uint32) *CloseError {
	return violationf(ControlChannelMessageFail, "%s of carrier %d arrived at carrier %d", messageName(id), instance, r.instance)
}

func (r *RawCarrier) send(message []byte) {
	c := r.conn
	c.link.Lock()
	err := c.machine.Send(0, bunch.Reliable, message)
	c.link.Unlock()
	if err != nil && !c.closing.Load() {
		c.abort(closeErrorOf(fmt.Errorf("control message of %d bytes: %w", len(message), err)))
	}
}
