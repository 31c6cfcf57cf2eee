package tracetest

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Wire types of protobuf.
const (
	varint  = 0
	fixed64 = 1
	bytes   = 2
)

// field is a field of a message in Perfetto's schema.
type field struct {
	name     string
	wire     uint64
	repeated bool
	text     bool
	message  schema // of a message in bytes; nil = none
}

// schema is a message's fields, by number.
type schema map[uint64]field

// Messages of perfetto.protos (protos/perfetto/trace/trace.proto, trace_packet.proto,
// interned_data/interned_data.proto, and in track_event: track_event.proto, track_descriptor.proto,
// process_descriptor.proto, counter_descriptor.proto, debug_annotation.proto).
var (
	named = schema{1: {name: "iid"}, 2: {name: "name", wire: bytes, text: true}} // EventName, DebugAnnotationName

	internedData = schema{
		2: {name: "event_names", wire: bytes, repeated: true, message: named},
		3: {name: "debug_annotation_names", wire: bytes, repeated: true, message: named},
	}
	debugAnnotation = schema{
		1: {name: "name_iid"}, 3: {name: "uint_value"}, 6: {name: "string_value", wire: bytes, text: true},
	}
	trackEvent = schema{
		4: {name: "debug_annotations", wire: bytes, repeated: true, message: debugAnnotation},
		9: {name: "type"}, 10: {name: "name_iid"}, 11: {name: "track_uuid"}, 30: {name: "counter_value"},
		47: {name: "flow_ids", wire: fixed64, repeated: true}, 48: {name: "terminating_flow_ids", wire: fixed64, repeated: true},
	}
	processDescriptor = schema{1: {name: "pid"}, 6: {name: "process_name", wire: bytes, text: true}}
	counterDescriptor = schema{3: {name: "unit"}, 6: {name: "unit_name", wire: bytes, text: true}}
	trackDescriptor   = schema{
		1: {name: "uuid"}, 2: {name: "name", wire: bytes, text: true}, 5: {name: "parent_uuid"},
		3: {name: "process", wire: bytes, message: processDescriptor}, 8: {name: "counter", wire: bytes, message: counterDescriptor},
	}
	tracePacket = schema{
		8: {name: "timestamp"}, 10: {name: "trusted_packet_sequence_id"}, 13: {name: "sequence_flags"},
		11: {name: "track_event", wire: bytes, message: trackEvent}, 12: {name: "interned_data", wire: bytes, message: internedData},
		60: {name: "track_descriptor", wire: bytes, message: trackDescriptor},
	}
	traceFile = schema{1: {name: "packet", wire: bytes, repeated: true, message: tracePacket}}
)

// message is a decoded message: numbers, texts and messages by the names of their fields.
type message struct {
	numbers  map[string][]uint64
	texts    map[string]string
	messages map[string][]*message
}

// has reports whether the message has a field.
func (m *message) has(name string) bool {
	_, text := m.texts[name]
	return text || len(m.numbers[name])+len(m.messages[name]) > 0
}

// number returns a field's value, or 0 if there is none.
func (m *message) number(name string) uint64 {
	if v := m.numbers[name]; len(v) > 0 {
		return v[0]
	}
	return 0
}

// one returns a field's message, or nil if there is none.
func (m *message) one(name string) *message {
	if v := m.messages[name]; len(v) > 0 {
		return v[0]
	}
	return nil
}

// decode decodes b, which must be one message.
func decode(b []byte, s schema) (*message, error) {
	m := &message{make(map[string][]uint64), make(map[string]string), make(map[string][]*message)}
	for len(b) > 0 {
		tag, rest, err := number(b)
		if err != nil {
			return nil, err
		}
		f, ok := s[tag>>3]
		switch {
		case !ok:
			return nil, fmt.Errorf("no field has number %d", tag>>3)
		case tag&7 != f.wire:
			return nil, fmt.Errorf("%s has wire type %d, not %d", f.name, tag&7, f.wire)
		case !f.repeated && m.has(f.name):
			return nil, fmt.Errorf("%s stands twice", f.name)
		}
		if b, err = m.take(f, rest); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return m, nil
}

// take decodes a field's value, and returns the rest.
func (m *message) take(f field, b []byte) (rest []byte, err error) {
	if f.wire == fixed64 {
		if len(b) < 8 {
			return nil, fmt.Errorf("%d bytes of 8", len(b))
		}
		m.numbers[f.name] = append(m.numbers[f.name], binary.LittleEndian.Uint64(b))
		return b[8:], nil
	}
	n, b, err := number(b)
	switch {
	case err != nil:
		return nil, err
	case f.wire == varint:
		m.numbers[f.name] = append(m.numbers[f.name], n)
		return b, nil
	case n > uint64(len(b)):
		return nil, fmt.Errorf("%d bytes of %d", len(b), n)
	}
	if f.text {
		m.texts[f.name] = string(b[:n])
		if !utf8.Valid(b[:n]) {
			return nil, fmt.Errorf("%q is no UTF-8", b[:n])
		}
		return b[n:], nil
	}
	inner, err := decode(b[:n], f.message)
	m.messages[f.name] = append(m.messages[f.name], inner)
	return b[n:], err
}

// number decodes a varint, which must have the shortest form.
func number(b []byte) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, nil, fmt.Errorf("a varint is cut short, too long or padded")
	}
	return v, b[n:], nil
}
