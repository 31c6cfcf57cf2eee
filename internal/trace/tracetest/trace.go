package tracetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Types of events.
const (
	Begin   = 1 // of a slice
	End     = 2
	Instant = 3
	Value   = 4 // of a counter
)

// units are the units of counters, by their number in CounterDescriptor.
var units = [...]string{"", "ns", "count", "B"}

// A Trace is a file as a viewer understands it.
type Trace struct {
	Tracks map[uint64]Track
	Events []Event // by time, and at one time in the order of the file
}

// A Track is a row of the viewer.
type Track struct {
	Name, Process, Unit string
	Parent              uint64
	Counter             bool
}

// An Event is a point in time on a track.
type Event struct {
	At, Type, Track uint64
	Name            string
	Numbers         map[string]uint64 // annotations
	Texts           map[string]string
	Value           uint64   // of a counter
	Flows           []uint64 // that begin here or pass through
	Ends            []uint64 // flows that end here
}

// Parse decodes a file, and checks its slices and flows.
func Parse(file []byte) (*Trace, error) {
	whole, err := decode(file, traceFile)
	if err != nil {
		return nil, err
	}
	p := parser{trace: &Trace{Tracks: make(map[uint64]Track)}, names: map[uint64]string{}, notes: map[uint64]string{}}
	for i, packet := range whole.messages["packet"] {
		if err := p.packet(i, packet); err != nil {
			return nil, fmt.Errorf("packet %d: %w", i, err)
		}
	}
	slices.SortStableFunc(p.trace.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return p.trace, errors.Join(p.trace.checkSlices(), p.trace.checkFlows())
}

// parser is the state of decoding a file.
type parser struct {
	trace        *Trace
	names, notes map[uint64]string
	sequence     uint64
}

// packet decodes a TracePacket.
func (p *parser) packet(i int, m *message) error {
	id, flags := m.number("trusted_packet_sequence_id"), m.number("sequence_flags")
	if i == 0 {
		p.sequence = id
	}
	switch {
	case id == 0 || id > 1<<32-1 || id != p.sequence:
		return fmt.Errorf("sequence %d, not %d", id, p.sequence)
	case (i == 0) != (flags == 1):
		return errors.New("the first packet, and no other, says that the state begins")
	case m.has("track_event") == m.has("track_descriptor"):
		return errors.New("neither event nor track, or both")
	}
	if d := m.one("track_descriptor"); d != nil {
		return p.track(d)
	}
	if flags != 2 || !m.has("timestamp") {
		return errors.New("an event without time, or that does not say that it needs the state")
	}
	if in := m.one("interned_data"); in != nil {
		if err := errors.Join(intern(p.names, in.messages["event_names"]), intern(p.notes, in.messages["debug_annotation_names"])); err != nil {
			return err
		}
	}
	return p.event(m.number("timestamp"), m.one("track_event"))
}

// intern adds interned names.
func intern(names map[uint64]string, entries []*message) error {
	for _, e := range entries {
		id, name := e.number("iid"), e.texts["name"]
		if _, known := names[id]; known || id == 0 || name == "" {
			return fmt.Errorf("name %d, %q, is known, empty or has no number", id, name)
		}
		names[id] = name
	}
	return nil
}

// track decodes a TrackDescriptor.
func (p *parser) track(d *message) error {
	id, parent := d.number("uuid"), d.number("parent_uuid")
	t := Track{Name: d.texts["name"], Parent: parent}
	if process := d.one("process"); process != nil {
		if t.Process = process.texts["process_name"]; t.Process == "" || process.number("pid") == 0 || process.number("pid") > 1<<31-1 {
			return errors.New("a process without name or number")
		}
	}
	if counter := d.one("counter"); counter != nil {
		t.Counter = true
		unit := counter.number("unit")
		if unit >= uint64(len(units)) {
			return fmt.Errorf("a counter has unit %d", unit)
		}
		t.Unit = cmp.Or(counter.texts["unit_name"], units[unit])
	}
	_, twice := p.trace.Tracks[id]
	_, known := p.trace.Tracks[parent]
	if id == 0 || twice || (t.Name == "") == (t.Process == "") || !known && parent != 0 || parent == 0 && t.Process == "" {
		return fmt.Errorf("track %d %q below %d: declared twice, without a name, or below nothing", id, t.Name, parent)
	}
	p.trace.Tracks[id] = t
	return nil
}

// event decodes a TrackEvent.
func (p *parser) event(at uint64, m *message) error {
	e := Event{At: at, Type: m.number("type"), Track: m.number("track_uuid"), Name: p.names[m.number("name_iid")], Value: m.number("counter_value"),
		Flows: m.numbers["flow_ids"], Ends: m.numbers["terminating_flow_ids"], Numbers: make(map[string]uint64), Texts: make(map[string]string)}
	t, declared := p.trace.Tracks[e.Track]
	switch {
	case !declared:
		return fmt.Errorf("track %d is not declared", e.Track)
	case t.Counter != (e.Type == Value) || t.Counter != m.has("counter_value"):
		return fmt.Errorf("an event of type %d on %q", e.Type, t.Name)
	case e.Type < Begin || e.Type > Value || (e.Type == Begin || e.Type == Instant) != (e.Name != ""):
		return fmt.Errorf("an event of type %d is called %q", e.Type, e.Name)
	}
	for _, note := range m.messages["debug_annotations"] {
		name := p.notes[note.number("name_iid")]
		if name == "" || note.has("uint_value") == note.has("string_value") {
			return fmt.Errorf("an annotation %q without a value, or with two", name)
		}
		if text, ok := note.texts["string_value"]; ok {
			e.Texts[name] = text
		} else {
			e.Numbers[name] = note.number("uint_value")
		}
	}
	p.trace.Events = append(p.trace.Events, e)
	return nil
}

// checkSlices returns an error if a track has a slice without an end, or an end without a slice.
func (t *Trace) checkSlices() error {
	open := make(map[uint64]int)
	for _, e := range t.Events {
		switch e.Type {
		case Begin:
			open[e.Track]++
		case End:
			if open[e.Track]--; open[e.Track] < 0 {
				return fmt.Errorf("track %q: a slice ends at %d that did not begin", t.Tracks[e.Track].Name, e.At)
			}
		}
	}
	for track, n := range open {
		if n != 0 {
			return fmt.Errorf("track %q: %d slices do not end", t.Tracks[track].Name, n)
		}
	}
	return nil
}

// checkFlows returns an error if a flow does not begin or end, or continues after its end.
func (t *Trace) checkFlows() error {
	const over = -1
	seen := make(map[uint64]int)
	for _, e := range t.Events {
		if len(e.Flows)+len(e.Ends) > 0 && e.Type != Begin && e.Type != Instant {
			return fmt.Errorf("a flow at an event of type %d", e.Type)
		}
		for _, f := range e.Flows {
			if seen[f]++; seen[f] == 0 {
				return fmt.Errorf("flow %d goes on at %q behind its end", f, e.Name)
			}
		}
		for _, f := range e.Ends {
			if seen[f] <= 0 {
				return fmt.Errorf("flow %d ends at %q and did not begin, or twice", f, e.Name)
			}
			seen[f] = over
		}
	}
	for f, n := range seen {
		if n != over {
			return fmt.Errorf("flow %d does not end", f)
		}
	}
	return nil
}

// Under returns the names of a track and of its parents, topmost first.
func (t *Trace) Under(track uint64) (names []string) {
	for at, ok := t.Tracks[track]; ok; at, ok = t.Tracks[at.Parent] {
		names = append([]string{cmp.Or(at.Name, at.Process)}, names...)
	}
	return names
}

// Named returns the events of a type and name.
func (t *Trace) Named(kind uint64, name string) (events []Event) {
	for _, e := range t.Events {
		if e.Type == kind && e.Name == name {
			events = append(events, e)
		}
	}
	return events
}

// Through returns the events of a flow, in order.
func (t *Trace) Through(flow uint64) (events []Event) {
	for _, e := range t.Events {
		if slices.Contains(e.Flows, flow) || slices.Contains(e.Ends, flow) {
			events = append(events, e)
		}
	}
	return events
}
