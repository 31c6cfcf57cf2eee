package trace

import (
	"sync"
	"time"

	"github.com/quivernet/quiver/bunch"
)

// samplePeriod is how often a connection's counters are noted: a viewer shows hardly more.
const samplePeriod = 100 * time.Millisecond

// Tap hears one connection, and gives a [Writer] what it hears. The methods of a nil Tap do nothing.
type Tap struct {
	id     uint32
	out    *Writer
	start  int64             // of the machine's clock, in the trace's
	others func(bunch.Event) // hear all, too; nil = nobody

	// Under the lock of the machine.
	calling            Event // what the next message is: Name, Class and Actor
	states, stateBytes int   // updates in the packet that is being built

	// Of the goroutine that takes messages.
	arrived arrival // the newest that was taken
	sampled time.Time
	sent    uint64 // bytes at the last sample

	mu       sync.Mutex // guards arrivals, and is taken last
	arrivals []arrival  // of the messages that wait, and that were taken and not delivered
}

// arrival is when a message was complete, and by which packet.
type arrival struct {
	at     int64
	packet uint64
}

// Tap returns one for a connection whose machine begins at now with a config, whose Trace it takes over. It is nil when w is.
func (w *Writer) Tap(id uint64, name string, now time.Time, config *bunch.Config) *Tap {
	if w == nil {
		return nil
	}
	t := &Tap{id: uint32(id), out: w, start: w.Time(now), others: config.Trace}
	config.Trace = t.hear
	t.add(&Event{Kind: Begun, At: t.start, Name: name})
	return t
}

func (t *Tap) add(e *Event) {
	e.Conn = t.id
	t.out.Add(e)
}

// Joined notes that the connection has, and as whom; Ended that it has, and why.
func (t *Tap) Joined(identity string) { t.note(Joined, identity) }
func (t *Tap) Ended(why string)       { t.note(Ended, why) }

func (t *Tap) note(kind Kind, name string) {
	if t != nil {
		t.add(&Event{Kind: kind, At: t.out.Time(time.Now()), Name: name})
	}
}

// About says what the next message is that the machine is given; nothing when it was not given. It is called under the machine's lock.
func (t *Tap) About(name, class string, actor uint64) {
	if t != nil {
		t.calling = Event{Name: name, Class: class, Actor: actor}
	}
}

// heard are the machine's events that become events of a trace.
var heard = map[string]Kind{
	"queued": Queued, "bunch": Bunch, "sent": Sent, "unsent": Unsent, "acked": Acked, "lost": Lost, "freed": Freed, "dropped": Dropped,
	"received": Received,
}

// hear takes an event of the machine. It is called under the machine's lock.
func (t *Tap) hear(b bunch.Event) {
	if t.others != nil {
		t.others(b)
	}
	kind, known := heard[b.Kind]
	e := Event{Kind: kind, At: t.start + int64(b.At), Number: b.Number, Channel: b.Channel, Sequence: b.Sequence, Bytes: uint32(b.Bytes),
		Reliable: b.Delivery <= bunch.ReliableUnordered, Again: b.Again, Asks: b.Asks}
	switch {
	case b.Kind == "ready":
		t.mu.Lock()
		t.arrivals = append(t.arrivals, arrival{e.At, b.Number})
		t.mu.Unlock()
		return
	case !known: // nothing that a viewer shows
		return
	case kind == Bunch && b.Delivery == bunch.Tracked: // of which there are many
		t.states, t.stateBytes = t.states+1, t.stateBytes+b.Bytes
		return
	case kind == Queued:
		t.queued(&e)
	case kind == Sent:
		e.SetStates(t.states, t.stateBytes)
		t.states, t.stateBytes = 0, 0
	}
	t.add(&e)
}

// queued says what a message is.
func (t *Tap) queued(e *Event) {
	e.Entries = uint16(bunch.Entries(int(e.Bytes)))
	e.Name, e.Class, e.Actor = t.calling.Name, t.calling.Class, t.calling.Actor
	if t.calling = (Event{}); e.Name == "" {
		e.Name, e.Class = "message", "control"
	}
}

// Took notes that the oldest message is delivered now.
func (t *Tap) Took() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrived = t.arrivals[0]
	if t.arrivals = t.arrivals[1:]; len(t.arrivals) == 0 {
		t.arrivals = nil
	}
}

// Begin returns when a handler begins.
func (t *Tap) Begin() (at time.Time) {
	if t != nil {
		at = time.Now()
	}
	return at
}

// Handled notes that a call of so many bytes ran, whose message was delivered last.
func (t *Tap) Handled(name, class string, actor uint64, bytes int, began time.Time) {
	if t == nil {
		return
	}
	ran := t.out.Time(began)
	t.add(&Event{Kind: Handled, At: t.out.Time(time.Now()), Name: name, Class: class, Actor: actor, Number: t.arrived.packet,
		Bytes: uint32(bytes), Arrived: min(ran, t.arrived.at), Ran: ran})
}

// Due reports whether Sample is to be called.
func (t *Tap) Due(now time.Time) bool { return t != nil && now.Sub(t.sampled) >= samplePeriod }

// Sample notes counters.
func (t *Tap) Sample(now time.Time, s *bunch.Stats) {
	rate := 0.0
	if elapsed := now.Sub(t.sampled); !t.sampled.IsZero() {
		rate = max(0, float64(s.BytesSent)-float64(t.sent)) / elapsed.Seconds()
	}
	t.sampled, t.sent = now, s.BytesSent
	e := Event{Kind: Sampled, At: t.out.Time(now)}
	e.SetSample(s.Queued, s.InFlight, int(rate), int64(s.SmoothedRTT))
	t.add(&e)
}
