package trace

import "encoding/binary"

// Field numbers of Perfetto's messages (protos/perfetto/trace) that the encoder writes.
const (
	tracePacket = 1 // of Trace

	// TracePacket
	packetTimestamp  = 8
	packetSequence   = 10
	packetEvent      = 11
	packetInterned   = 12
	packetFlags      = 13
	packetDescriptor = 60

	// TrackDescriptor, ProcessDescriptor, CounterDescriptor
	trackUUID, trackName, trackProcess, trackParent, trackCounter = 1, 2, 3, 5, 8

	processID, processName = 1, 6
	counterUnit, unitName  = 3, 6

	// TrackEvent
	eventNote, eventType, eventName, eventTrack, eventValue = 4, 9, 10, 11, 30
	eventFlow, eventFlowEnd                                 = 47, 48

	// InternedData, and its entries
	internedNames, internedNotes = 2, 3

	entryID, entryName = 1, 2

	// DebugAnnotation
	noteName, noteUint, noteText = 1, 3, 6
)

// Values of TracePacket.sequence_flags, TrackEvent.type and CounterDescriptor.unit.
const (
	stateCleared, needsState           = 1, 2
	sliceBegin, sliceEnd, instant, set = 1, 2, 3, 4
	unitNone, unitTime, unitBytes      = 0, 1, 3
)

// Wire types.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
)

// appendTag appends the tag of a field.
func appendTag(b []byte, field, wire int) []byte {
	return binary.AppendUvarint(b, uint64(field)<<3|uint64(wire))
}

// appendUint appends a varint field.
func appendUint(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(appendTag(b, field, wireVarint), v)
}

// appendFixed appends a fixed64 field.
func appendFixed(b []byte, field int, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(appendTag(b, field, wireFixed64), v)
}

// appendBytes appends a field of bytes, a string or a message.
func appendBytes[T []byte | string](b []byte, field int, v T) []byte {
	return append(binary.AppendUvarint(appendTag(b, field, wireBytes), uint64(len(v))), v...)
}
