package trace

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxPending limits how many calls, and how many packets, the encoder follows at once for
	// each connection. Beyond it, only the beginning of each is in the trace. A connection's
	// history holds as many packets, and a reliable buffer half as many calls.
	maxPending = 4096
	// maxActors limits the actors that the encoder keeps for a connection. Beyond it, those
	// without an open slice are dropped, and declared again at their next event.
	maxActors = 4096
	// maxConns limits the connections that the encoder keeps. It is a world's default maximum.
	// Beyond it, the encoder drops connections that it has not heard from since events were
	// last lost: their end may be among the lost events. A connection that has another event
	// after all is declared again, without its name.
	maxConns = 1024
	// maxText is the maximum length of a name or text in bytes.
	maxText = 256
)

// encoder encodes events as Perfetto's TracePackets. It is not safe for concurrent use. All
// times are those of the events.
type encoder struct {
	out    []byte
	packet []byte // scratch: the TracePacket being built
	event  []byte // scratch: its TrackEvent
	intern []byte // scratch: names first used in this packet

	name     string
	base     uint64            // added to the IDs of tracks and flows; random, so IDs of two traces are unlikely to collide
	ids      uint64            // number of IDs returned by id
	sequence uint64            // ID of the packet sequence
	names    map[string]uint64 // numbers of interned event names
	notes    map[string]uint64 // numbers of interned annotation names
	conns    map[uint32]*conn
	gaps     int    // number of times events were lost
	at       int64  // latest Event.At so far, in ns
	lost     uint64 // number of events lost
	world    uint64 // track of the world
	losses   uint64 // track of the counter of lost events
}

// newEncoder returns an encoder for a trace called name.
func newEncoder(name string) *encoder {
	return &encoder{
		name: name, base: rand.Uint64() &^ (1<<32 - 1), sequence: uint64(rand.Uint32()>>1 | 1),
		names: make(map[string]uint64), notes: make(map[string]uint64), conns: make(map[uint32]*conn),
	}
}

// id returns a new ID for a track or a flow.
func (e *encoder) id() uint64 {
	e.ids++
	return e.base + e.ids
}

// header returns the beginning of the file and declares the world's track.
func (e *encoder) header() []byte {
	e.world = e.id()
	e.losses = e.id()
	// A viewer groups tracks by process, and this process may have several worlds. So each world
	// is shown as a process.
	process := appendUint(nil, processID, e.sequence)
	process = appendBytes(process, processName, cut(e.name))
	d := appendUint(nil, trackUUID, e.world)
	d = appendBytes(d, trackProcess, process)
	b := appendUint(nil, packetSequence, e.sequence)
	b = appendUint(b, packetFlags, stateCleared)
	b = appendBytes(b, packetDescriptor, d)
	e.out = appendBytes(e.out, tracePacket, b)
	e.declareCounter(e.losses, e.world, "events not in this trace", unitNone, "")
	return e.flush()
}

// flush returns the bytes encoded since the last flush. They are valid until the next event.
func (e *encoder) flush() []byte {
	b := e.out
	e.out = e.out[:0]
	return b
}

// finish ends all open slices and returns the end of the file.
func (e *encoder) finish() []byte {
	e.forgetAll("unfinished")
	return e.flush()
}

// gap records that events were lost. It ends all open slices, because their ends may be among
// the lost events.
func (e *encoder) gap(lost uint64) {
	e.forgetAll("unknown")
	e.gaps++
	e.lost += lost
	e.begin(instant, e.world, e.at, "events are missing here: the writer could not keep up")
	e.note("events", lost)
	e.end()
	e.set(e.losses, e.at, e.lost)
}

// forgetAll ends the open slices of all connections, and labels them with how: unfinished or
// unknown. The order is that of their numbers, so that the same events give the same trace.
func (e *encoder) forgetAll(how string) {
	for _, id := range slices.Sorted(maps.Keys(e.conns)) {
		e.forget(e.conns[id], how)
	}
}

// take encodes an event.
func (e *encoder) take(ev *Event) {
	e.at = max(e.at, ev.At)
	c := e.conns[ev.Conn]
	if c == nil {
		c = e.newConn(ev)
	}
	c.gaps = e.gaps
	switch ev.Kind {
	case Begun:
		e.tell(ev, c.track, "begun")
	case Joined:
		e.tell(ev, c.track, "joined")
	case Ended:
		e.forget(c, "unfinished")
		e.tell(ev, c.track, "ended")
		delete(e.conns, ev.Conn)
	case Queued:
		e.queued(c, ev)
	case Bunch:
		e.bunch(c, ev)
	case Sent:
		e.sent(c, ev)
	case Unsent:
		e.unsent(c, ev)
	case Acked, Lost:
		e.decided(c, ev)
	case Freed:
		e.freed(c, ev)
	case Dropped:
		e.dropped(c, ev)
	case Received:
		e.begin(instant, c.received, ev.At, "packet")
		e.note("number", ev.Number)
		e.note("bytes", uint64(ev.Bytes))
		e.end()
	case Handled:
		e.handled(c, ev)
	case Sampled: // its fields hold the queue length, bytes in flight, rate and round trip
		e.set(c.queue, ev.At, ev.Number)
		e.set(c.inFlight, ev.At, ev.Channel)
		e.set(c.rate, ev.At, ev.Sequence)
		e.set(c.rtt, ev.At, uint64(ev.Ran))
	}
}

// tell writes an instant. If the event has a name, the name becomes an annotation.
func (e *encoder) tell(ev *Event, track uint64, what string) {
	e.begin(instant, track, ev.At, what)
	if ev.Name != "" {
		e.text("what", ev.Name)
	}
	e.end()
}

// begin starts a TrackEvent at a time in ns, and end completes it. In between no other event
// or descriptor can be written, because they share the scratch buffers. name is empty for the
// end of a slice.
func (e *encoder) begin(kind uint64, track uint64, at int64, name string) {
	e.packet = appendUint(e.packet[:0], packetTimestamp, uint64(at))
	e.packet = appendUint(e.packet, packetSequence, e.sequence)
	e.intern = e.intern[:0]
	e.event = appendUint(e.event[:0], eventType, kind)
	e.event = appendUint(e.event, eventTrack, track)
	if name != "" {
		e.event = appendUint(e.event, eventName, e.interned(e.names, internedNames, name))
	}
}

// end completes the TrackEvent and appends its packet to out.
func (e *encoder) end() {
	e.packet = appendUint(e.packet, packetFlags, needsState)
	if len(e.intern) > 0 {
		e.packet = appendBytes(e.packet, packetInterned, e.intern)
	}
	e.packet = appendBytes(e.packet, packetEvent, e.event)
	e.out = appendBytes(e.out, tracePacket, e.packet)
}

// interned returns the number of a name. When a name is used for the first time, interned
// adds it to the packet.
func (e *encoder) interned(known map[string]uint64, field int, name string) uint64 {
	id, ok := known[name]
	if !ok {
		id = uint64(len(known) + 1)
		known[name] = id
		var entry [maxText + 16]byte
		b := appendUint(entry[:0], entryID, id)
		e.intern = appendBytes(e.intern, field, appendBytes(b, entryName, cut(name)))
	}
	return id
}

// note adds a number to the event as an annotation.
func (e *encoder) note(name string, v uint64) {
	var note [32]byte
	b := appendUint(note[:0], noteName, e.interned(e.notes, internedNotes, name))
	e.event = appendBytes(e.event, eventNote, appendUint(b, noteUint, v))
}

// text adds a text to the event as an annotation.
func (e *encoder) text(name, v string) {
	var note [maxText + 16]byte
	b := appendUint(note[:0], noteName, e.interned(e.notes, internedNotes, name))
	e.event = appendBytes(e.event, eventNote, appendBytes(b, noteText, cut(v)))
}

// set writes the value of a counter.
func (e *encoder) set(counter uint64, at int64, value uint64) {
	e.begin(set, counter, at, "")
	e.event = appendUint(e.event, eventValue, value)
	e.end()
}

// declare writes the descriptor of a track.
func (e *encoder) declare(track, parent uint64, name string) { e.descriptor(track, parent, name, nil) }

// declareCounter writes the descriptor of a counter's track.
func (e *encoder) declareCounter(track, parent uint64, name string, unit uint64, of string) {
	counter := []byte{} // even an empty one makes the track a counter
	if unit != unitNone {
		counter = appendUint(counter, counterUnit, unit)
	}
	if of != "" {
		counter = appendBytes(counter, unitName, of)
	}
	e.descriptor(track, parent, name, counter)
}

// descriptor writes a TrackDescriptor. counter is nil unless the track is a counter.
func (e *encoder) descriptor(track, parent uint64, name string, counter []byte) {
	d := appendUint(e.event[:0], trackUUID, track)
	d = appendUint(d, trackParent, parent)
	d = appendBytes(d, trackName, cut(name))
	if counter != nil {
		d = appendBytes(d, trackCounter, counter)
	}
	e.event = d
	e.packet = appendUint(e.packet[:0], packetSequence, e.sequence)
	e.packet = appendBytes(e.packet, packetDescriptor, d)
	e.out = appendBytes(e.out, tracePacket, e.packet)
}

// cut makes a text valid UTF-8, because protobuf requires it and peers may send anything. It
// also shortens the text to maxText bytes without splitting a character.
func cut(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxText+utf8.UTFMax)], "\uFFFD")
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "")
}

// actorName returns the name of an actor's tracks.
func actorName(ev *Event) string {
	if ev.Actor == 0 {
		return ev.Class
	}
	return fmt.Sprintf("%s %d", ev.Class, ev.Actor)
}
