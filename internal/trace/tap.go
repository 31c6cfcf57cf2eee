package trace

import (
	"sync"
	"time"

	"github.com/quivernet/quiver/bunch"
)

// samplePeriod is the time between two samples of a connection's counters. A viewer hardly
// shows finer detail.
const samplePeriod = 100 * time.Millisecond

// A Tap converts the events of one connection to events of a [Writer]. The methods of a nil
// Tap do nothing.
type Tap struct {
	id     uint32
	out    *Writer
	start  int64             // zero of the machine's clock, on the trace's clock
	others func(bunch.Event) // Trace of the user's config, also called for all events; nil if there is none

	// Guarded by the machine's lock.
	calling    Event // Name, Class and Actor of the next message passed to the machine
	states     int   // state updates in the packet being built
	stateBytes int   // their size in bytes

	// Used only by the goroutine that delivers messages.
	arrived arrival   // arrival of the message being delivered
	sampled time.Time // when the last sample was taken; zero if there is none
	sent    uint64    // Stats.BytesSent at the last sample

	mu       sync.Mutex // guards arrivals; locked last
	arrivals []arrival  // of messages in the machine, and of messages taken from it but not delivered
}

// arrival records when a message was complete and which packet completed it.
type arrival struct {
	at     int64
	packet uint64
}

// Tap returns a Tap for a connection whose machine starts at now. The Tap replaces
// config.Trace and calls the replaced function from then on. Tap returns nil if w is nil.
func (w *Writer) Tap(id uint64, name string, now time.Time, config *bunch.Config) *Tap {
	if w == nil {
		return nil
	}
	t := &Tap{id: uint32(id), out: w, start: w.Time(now), others: config.Trace}
	config.Trace = t.hear
	t.add(&Event{Kind: Begun, At: t.start, Name: name})
	return t
}

// add adds an event of this connection.
func (t *Tap) add(e *Event) {
	e.Conn = t.id
	t.out.Add(e)
}

// Joined records that the connection has joined, with its identity. Ended records that it has
// ended, with the reason.
func (t *Tap) Joined(identity string) { t.note(Joined, identity) }
func (t *Tap) Ended(why string)       { t.note(Ended, why) }

// note records an event with a name.
func (t *Tap) note(kind Kind, name string) {
	if t != nil {
		t.add(&Event{Kind: kind, At: t.out.Time(time.Now()), Name: name})
	}
}

// About sets the call that is passed to the machine next. Without it, the next message is not
// a call. The caller holds the machine's lock.
func (t *Tap) About(name, class string, actor uint64) {
	if t != nil {
		t.calling = Event{Name: name, Class: class, Actor: actor}
	}
}

// heard maps the machine's events to events of a trace. Other events are not recorded.
var heard = map[string]Kind{
	"queued": Queued, "bunch": Bunch,
	"sent": Sent, "unsent": Unsent, "acked": Acked, "lost": Lost,
	"freed": Freed, "dropped": Dropped, "received": Received,
}

// hear converts an event of the machine to an event of the trace. The caller holds the
// machine's lock.
func (t *Tap) hear(b bunch.Event) {
	if t.others != nil {
		t.others(b)
	}
	kind, known := heard[b.Kind]
	e := Event{
		Kind: kind, At: t.start + int64(b.At),
		Number: b.Number, Channel: b.Channel, Sequence: b.Sequence, Bytes: uint32(b.Bytes),
		Reliable: b.Delivery <= bunch.ReliableUnordered, Again: b.Again, Asks: b.Asks,
	}
	switch {
	case b.Kind == "ready":
		t.mu.Lock()
		t.arrivals = append(t.arrivals, arrival{e.At, b.Number})
		t.mu.Unlock()
		return
	case !known: // a viewer would not show it
		return
	case kind == Bunch && b.Delivery == bunch.Tracked: // a state update; there are too many to record each
		t.states++
		t.stateBytes += b.Bytes
		return
	case kind == Queued:
		t.queued(&e)
	case kind == Sent:
		e.SetStates(t.states, t.stateBytes)
		t.states = 0
		t.stateBytes = 0
	}
	t.add(&e)
}

// queued fills in the call set by About.
func (t *Tap) queued(e *Event) {
	e.Entries = uint16(bunch.Entries(int(e.Bytes)))
	e.Name = t.calling.Name
	e.Class = t.calling.Class
	e.Actor = t.calling.Actor
	t.calling = Event{}
	if e.Name == "" {
		e.Name, e.Class = "message", "control"
	}
}

// Took is called right before the oldest message taken from the machine is delivered.
func (t *Tap) Took() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrived = t.arrivals[0]
	t.arrivals = t.arrivals[1:]
	if len(t.arrivals) == 0 {
		t.arrivals = nil
	}
}

// Begin returns the time at which a handler begins, for Handled, or zero for a nil Tap.
func (t *Tap) Begin() (at time.Time) {
	if t != nil {
		at = time.Now()
	}
	return at
}

// Handled is called when the handler of a call has returned. The call is in the message being
// delivered and takes bytes bytes. Its handler began at began.
func (t *Tap) Handled(name, class string, actor uint64, bytes int, began time.Time) {
	if t == nil {
		return
	}
	ran := t.out.Time(began)
	t.add(&Event{
		Kind: Handled, At: t.out.Time(time.Now()),
		Name: name, Class: class, Actor: actor,
		Number: t.arrived.packet, Bytes: uint32(bytes),
		Arrived: min(ran, t.arrived.at), Ran: ran,
	})
}

// Due reports whether samplePeriod has passed since the last Sample.
func (t *Tap) Due(now time.Time) bool { return t != nil && now.Sub(t.sampled) >= samplePeriod }

// Sample records the counters of the connection.
func (t *Tap) Sample(now time.Time, s *bunch.Stats) {
	rate := 0.0
	if elapsed := now.Sub(t.sampled); !t.sampled.IsZero() {
		rate = max(0, float64(s.BytesSent)-float64(t.sent)) / elapsed.Seconds()
	}
	t.sampled = now
	t.sent = s.BytesSent
	e := Event{Kind: Sampled, At: t.out.Time(now)}
	e.SetSample(s.Queued, s.InFlight, int(rate), int64(s.SmoothedRTT))
	t.add(&e)
}
