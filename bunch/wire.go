package bunch

import (
	"encoding/binary"
	"errors"
)

// Packet flags. The other bits are reserved and must be zero.
const (
	flagAcks   = 1 << 0
	flagLimit  = 1 << 1
	flagPing   = 1 << 2
	flagAckNow = 1 << 3

	packetFlags = flagAcks | flagLimit | flagPing | flagAckNow
)

// Bunch flags. The two low bits are the delivery. A tracked bunch has only flagTracked and
// the delivery Unreliable. flagTracked and flagPiece together mark a repair bunch.
const (
	deliveryMask = 0x03
	flagOpen     = 1 << 2
	flagClose    = 1 << 3
	flagBegin    = 1 << 4
	flagEnd      = 1 << 5
	flagPiece    = 1 << 6
	flagTracked  = 1 << 7
	flagWhole    = flagBegin | flagEnd
	trackedFlags = flagTracked | byte(Unreliable)

	// flagRepair marks a repair bunch, which may also have BEGIN, END and a delivery.
	flagRepair = flagTracked | flagPiece
)

const (
	packetHeaderBytes = 6  // protocol, flags, number
	maxHeaderBytes    = 52 // maximum before the bunches: header, acks and limit
	// Of a repair bunch. The header of an entry takes 9 bytes: flags, channel (4),
	// sequence, length. The header of a piece takes 13, but its entry is cut.
	maxBunchHeader   = 11
	pieceBytes       = 4   // offset and total of a piece
	repairFields     = 6   // bytes of a repair bunch between its channel number and its shard
	maxBunches       = 255 // maximum in a packet; Teeworlds' limit
	maxAckRuns       = 64
	maxChannelNumber = 1<<30 - 1 // the largest varint of four bytes
	maxLimitKiB      = 1<<52 - 1 // 2^62 bytes, the largest varint
	ackDelayUnit     = 64        // in microseconds
)

var errTruncated = errors.New("truncated")

// A packetHeader is everything in a packet before its bunches.
type packetHeader struct {
	flags  byte
	number uint32 // low 32 bits

	// With flagAcks.
	largest uint32             // low 32 bits of the largest number received
	delay   uint16             // time from the arrival of largest to this ack, in units of ackDelayUnit
	runs    [maxAckRuns]uint64 // lengths of received and missing runs alternately, from largest down
	nruns   int                // runs in use; always odd

	// With flagLimit: reliable bytes that the receiver of this packet may send, counted
	// from the start, in KiB.
	limit uint64
}

// appendVarint appends v as in RFC 9000, section 16.
func appendVarint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<6:
		return append(b, byte(v))
	case v < 1<<14:
		return binary.BigEndian.AppendUint16(b, uint16(v)|1<<14)
	case v < 1<<30:
		return binary.BigEndian.AppendUint32(b, uint32(v)|2<<30)
	}
	return binary.BigEndian.AppendUint64(b, v|3<<62)
}

// varintLen returns the number of bytes that appendVarint appends for v.
func varintLen(v uint64) int {
	switch {
	case v < 1<<6:
		return 1
	case v < 1<<14:
		return 2
	case v < 1<<30:
		return 4
	}
	return 8
}

// consumeVarint returns the varint at the beginning of b and its length. The length is 0 if
// b is too short.
func consumeVarint(b []byte) (v uint64, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	n = 1 << (b[0] >> 6)
	if len(b) < n {
		return 0, 0
	}
	v = uint64(b[0] & 0x3f)
	for _, c := range b[1:n] {
		v = v<<8 | uint64(c)
	}
	return v, n
}

// parsePacketHeader parses everything before the bunches of a packet into h, and returns
// the bunches.
func parsePacketHeader(b []byte, h *packetHeader) (rest []byte, err error) {
	if len(b) < packetHeaderBytes || b[0] != Protocol {
		return nil, errTruncated
	}
	h.flags = b[1]
	h.number = binary.BigEndian.Uint32(b[2:])
	h.nruns = 0
	if h.flags&^packetFlags != 0 {
		return nil, errors.New("reserved packet flags")
	}
	b = b[packetHeaderBytes:]

	if h.flags&flagAcks != 0 {
		if b, err = parseAcks(b, h); err != nil {
			return nil, err
		}
	}
	if h.flags&flagLimit != 0 {
		v, n := consumeVarint(b)
		if n == 0 {
			return nil, errTruncated
		}
		if v > maxLimitKiB {
			return nil, errors.New("limit over 2^62-1 bytes")
		}
		h.limit, b = v, b[n:]
	}
	return b, nil
}

// parseAcks parses the acks of a packet into h and returns the rest.
func parseAcks(b []byte, h *packetHeader) (rest []byte, err error) {
	if len(b) < ackHeaderBytes {
		return nil, errTruncated
	}
	h.largest = binary.BigEndian.Uint32(b)
	h.delay = binary.BigEndian.Uint16(b[4:])
	h.nruns = int(b[6])
	if h.nruns > maxAckRuns || h.nruns%2 == 0 {
		return nil, errors.New("number of ack runs is even or over 64")
	}
	b = b[ackHeaderBytes:]
	for i := range h.nruns {
		v, n := consumeVarint(b)
		if n == 0 {
			return nil, errTruncated
		}
		if v == 0 || v >= 1<<32 {
			return nil, errors.New("ack run of no packets, or of 2^32 and more")
		}
		h.runs[i], b = v, b[n:]
	}
	return b, nil
}

// A header is the header of a bunch.
type header struct {
	flags   byte
	channel uint64
	// Low 16 bits of the sequence of a reliable entry, or of the number of an unreliable
	// message in parts.
	sequence uint16
	part     uint8  // of an unreliable message in parts, from 0
	offset   uint16 // of a piece: its first byte within its entry
	total    uint16 // of a piece: the size of its entry in bytes
}

func (h header) delivery() Delivery { return Delivery(h.flags & deliveryMask) }
func (h header) reliable() bool     { return h.delivery() <= ReliableUnordered }
func (h header) whole() bool        { return h.flags&flagWhole == flagWhole }
func (h header) inParts() bool      { return !h.reliable() && !h.whole() && !h.tracked() }
func (h header) tracked() bool      { return h.flags&flagTracked != 0 }
func (h header) repairs() bool      { return h.flags&flagRepair == flagRepair }

// numbered reports whether the bunch has a sequence. A whole unreliable bunch needs none,
// because its packet's number orders it.
func (h header) numbered() bool { return h.reliable() || h.inParts() }

// size returns the size of the header in bytes. For a tracked bunch, use trackedHeader
// instead.
func (h header) size() int {
	n := 1 + varintLen(h.channel) + 2
	if h.numbered() {
		n += 2
	}
	if h.inParts() {
		n++
	}
	if h.flags&flagPiece != 0 {
		n += pieceBytes
	}
	return n
}

// trackedHeader returns the size of the header of a tracked bunch in bytes.
func trackedHeader(channel uint64, length int) int {
	return 1 + varintLen(channel) + varintLen(uint64(length))
}

// appendBunch appends a bunch: its header and payload.
func appendBunch(b []byte, h header, payload []byte) []byte {
	b = append(b, h.flags)
	b = appendVarint(b, h.channel)
	if h.tracked() {
		return appendMessage(b, payload)
	}
	if h.numbered() {
		b = binary.BigEndian.AppendUint16(b, h.sequence)
	}
	if h.inParts() {
		b = append(b, h.part)
	}
	if h.flags&flagPiece != 0 {
		b = binary.BigEndian.AppendUint16(b, h.offset)
		b = binary.BigEndian.AppendUint16(b, h.total)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	return append(b, payload...)
}

// appendMessage appends a message and its length: a message of a whole bunch or that of a
// tracked bunch.
func appendMessage(b, message []byte) []byte {
	return append(appendVarint(b, uint64(len(message))), message...)
}

// parseBunch parses the bunch at the beginning of b and returns the rest. payload aliases
// b.
func parseBunch(b []byte) (h header, payload, rest []byte, err error) {
	if len(b) == 0 {
		return h, nil, nil, errTruncated
	}
	h.flags = b[0]
	n := 0
	if h.channel, n = consumeVarint(b[1:]); n == 0 {
		return h, nil, nil, errTruncated
	}
	b = b[1+n:]
	switch {
	case h.repairs():
		return splitRepair(h, b)
	case h.tracked():
		return parseTracked(h, b)
	}

	// The rest of the header. A single check of its size is enough.
	if len(b) < h.size()-1-varintLen(h.channel) {
		return h, nil, nil, errTruncated
	}
	if h.numbered() {
		h.sequence, b = binary.BigEndian.Uint16(b), b[2:]
	}
	if h.inParts() {
		h.part, b = b[0], b[1:]
	}
	if h.flags&flagPiece != 0 {
		h.offset = binary.BigEndian.Uint16(b)
		h.total = binary.BigEndian.Uint16(b[2:])
		b = b[pieceBytes:]
	}

	length := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if len(b) < length {
		return h, nil, nil, errTruncated
	}
	return h, b[:length], b[length:], h.check(length)
}

// parseTracked parses the rest of a tracked bunch after its channel number.
func parseTracked(h header, b []byte) (_ header, payload, rest []byte, err error) {
	length, n := consumeVarint(b)
	if n == 0 || length > uint64(len(b)-n) {
		return h, nil, nil, errTruncated
	}
	b = b[n:]
	return h, b[:length], b[length:], h.check(int(length))
}

// check returns an error if no correct sender sends such a header.
func (h header) check(length int) error {
	switch {
	case h.tracked() && h.flags != trackedFlags:
		return errors.New("tracked bunch with another flag")
	case h.channel > maxChannelNumber:
		return errors.New("channel number over 2^30-1")
	case !h.reliable() && h.flags&(flagOpen|flagClose|flagPiece) != 0:
		return errors.New("unreliable bunch that opens, closes or comes in pieces")
	case h.flags&flagClose != 0 && h.flags&flagEnd == 0:
		return errors.New("close before the end of a run")
	case h.inParts() && (h.part == 0) != (h.flags&flagBegin != 0):
		return errors.New("part number 0 without the begin flag, or another with it")
	case length > EntryBytes || h.total > EntryBytes:
		return errors.New("entry over 1,100 bytes")
	case h.flags&flagPiece != 0 && (length == 0 || int(h.offset)+length > int(h.total)):
		return errors.New("piece that is empty or goes beyond its entry")
	}
	return nil
}

// A group is a number of consecutive entries of a run that share repair bunches.
type group struct {
	channel uint64
	flags   byte   // flagRepair, the delivery, and the BEGIN and END flags of its entries
	first   uint64 // sequence of its first entry
	count   int    // number of entries
	total   int    // number of repair bunches, 1 to 16
	last    int    // size of its last entry in bytes; EntryBytes unless that entry ends the run
}

// A repair is a repair bunch: one of the parity shards of a group. A group of count entries
// can be restored from any count of its entries and repair bunches. A receiver that gets
// too few loses nothing, because lost entries are sent again.
type repair struct {
	group
	index int    // of this bunch, below total
	shard []byte // EntryBytes of parity; the last entry counts as padded with zeros
}

// appendRepair appends a repair bunch.
func appendRepair(b []byte, r repair) []byte {
	b = appendVarint(append(b, r.flags), r.channel)
	b = binary.BigEndian.AppendUint16(b, uint16(r.first))
	b = append(b, byte(r.count-1), byte((r.total-1)<<4|r.index))
	b = binary.BigEndian.AppendUint16(b, uint16(r.last))
	return append(b, r.shard...)
}

// splitRepair separates the rest of a repair bunch after its channel number. The payload is
// for parseRepair.
func splitRepair(h header, b []byte) (_ header, payload, rest []byte, err error) {
	const size = repairFields + EntryBytes
	switch {
	case h.flags&^(flagRepair|flagWhole|byte(ReliableUnordered)) != 0:
		return h, nil, nil, errors.New("repair bunch with another flag")
	case h.channel > maxChannelNumber:
		return h, nil, nil, errors.New("channel number over 2^30-1")
	case len(b) < size:
		return h, nil, nil, errTruncated
	}
	return h, b[:size], b[size:], nil
}

// parseRepair parses the payload returned by splitRepair. The shard aliases b. The result's
// first has only the low 16 bits of the sequence.
func parseRepair(h header, b []byte) (r repair, err error) {
	r.channel = h.channel
	r.flags = h.flags
	r.first = uint64(binary.BigEndian.Uint16(b))
	r.count = int(b[2]) + 1
	r.total = int(b[3]>>4) + 1
	r.index = int(b[3] & 0x0f)
	r.last = int(binary.BigEndian.Uint16(b[4:]))
	r.shard = b[repairFields:]
	if r.count > maxRepaired || r.index >= r.total ||
		r.last > EntryBytes || r.last < EntryBytes && r.flags&flagEnd == 0 {
		return r, errors.New("repair bunch of a group that cannot be")
	}
	return r, nil
}
