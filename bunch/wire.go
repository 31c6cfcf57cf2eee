package bunch

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Packet flags. A packet with any of the reserved bits set is rejected.
const (
	flagAcks   = 1 << 0
	flagLimit  = 1 << 1
	flagPing   = 1 << 2
	flagAckNow = 1 << 3

	packetFlags = flagAcks | flagLimit | flagPing | flagAckNow
)

// Flags of a bunch, which is what QUIC calls a frame. The two low bits are the delivery.
const (
	deliveryMask = 0x03
	flagOpen     = 1 << 2
	flagClose    = 1 << 3
	flagBegin    = 1 << 4
	flagEnd      = 1 << 5
	flagPiece    = 1 << 6
	flagTracked  = 1 << 7
	flagWhole    = flagBegin | flagEnd

	// trackedFlags are the only flags that a tracked bunch may have.
	trackedFlags = flagTracked | byte(Unreliable)
	// flagRepair marks a repair bunch. It's the only bunch with both of these flags, and it
	// may also have BEGIN, END and a delivery.
	flagRepair = flagTracked | flagPiece
)

const (
	packetHeaderBytes = 6  // protocol, flags, number
	maxHeaderBytes    = 52 // everything before the bunches: header, acks and limit

	// maxBunchHeader is the size of the largest header that a packet must have room for, that
	// of a repair bunch. An entry needs 9 bytes for flags, channel (4), sequence and length. A
	// piece needs 13 bytes, but the entry can be cut so that the piece fits.
	maxBunchHeader = 11

	pieceBytes       = 4   // offset and total of a piece
	repairFieldBytes = 6   // between the channel number of a repair bunch and its shard
	maxBunches       = 255 // in a packet; Teeworlds has the same limit
	maxAckRuns       = 64
	maxChannelNumber = 1<<30 - 1 // largest varint of four bytes
	maxLimitKiB      = 1<<52 - 1 // 2^62 bytes, which is as much as a varint can express
	ackDelayUnit     = 64        // microseconds
)

var (
	errTruncated     = errors.New("truncated")
	errChannelNumber = errors.New("channel number exceeds 2^30-1")
)

// A packetHeader is everything that precedes the bunches in a packet.
type packetHeader struct {
	flags  byte
	number uint32 // low 32 bits

	// The acks. They are valid if flagAcks is set.
	largest uint32             // low 32 bits of the largest number received
	delay   uint16             // how long the ack was delayed, in units of ackDelayUnit
	runs    [maxAckRuns]uint64 // lengths of alternating received and missing runs, downwards
	nruns   int                // runs in use; always odd, as received runs come first and last

	// limit is the amount of reliable bunches, in KiB, that the receiver of this packet may
	// send in total since the start of the connection. It is valid if flagLimit is set.
	limit uint64
}

// appendVarint appends v as a variable-length integer.
// See RFC 9000, section 16.
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

// varintLen returns how many bytes appendVarint needs for v.
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

// consumeVarint parses the varint at the beginning of b and returns it along with its length,
// which is 0 if b is too short.
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

// parsePacketHeader parses the beginning of a packet into h and returns the bunches that
// follow.
func parsePacketHeader(b []byte, h *packetHeader) (rest []byte, err error) {
	if len(b) < packetHeaderBytes {
		return nil, errTruncated
	}
	if b[0] != Protocol {
		return nil, fmt.Errorf("first byte is %#02x instead of %#02x", b[0], Protocol)
	}
	h.flags = b[1]
	h.number = binary.BigEndian.Uint32(b[2:])
	h.nruns = 0
	if h.flags&^packetFlags != 0 {
		return nil, errors.New("packet has reserved flags")
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
			return nil, errors.New("limit exceeds 2^62-1 bytes")
		}
		h.limit, b = v, b[n:]
	}
	return b, nil
}

// parseAcks parses the acks of a packet into h and returns what follows them.
func parseAcks(b []byte, h *packetHeader) (rest []byte, err error) {
	if len(b) < ackHeaderBytes {
		return nil, errTruncated
	}
	h.largest = binary.BigEndian.Uint32(b)
	h.delay = binary.BigEndian.Uint16(b[4:])
	h.nruns = int(b[6])
	if h.nruns > maxAckRuns || h.nruns%2 == 0 {
		return nil, fmt.Errorf("%d ack runs; the number must be odd and below %d", h.nruns, maxAckRuns)
	}
	b = b[ackHeaderBytes:]
	for i := range h.nruns {
		v, n := consumeVarint(b)
		if n == 0 {
			return nil, errTruncated
		}
		if v == 0 || v >= 1<<32 {
			return nil, fmt.Errorf("ack run of %d packets; the number must be from 1 to 2^32-1", v)
		}
		h.runs[i], b = v, b[n:]
	}
	return b, nil
}

// A header is the header of a bunch. Which fields are on the wire depends on the flags.
type header struct {
	flags   byte
	channel uint64

	// sequence is the sequence of a reliable entry, or the number of an unreliable message in
	// parts. Only the low 16 bits are sent.
	sequence uint16

	part   uint8  // index of the part, if an unreliable message is in parts
	offset uint16 // where a piece begins in its entry
	total  uint16 // size of the entry that a piece belongs to
}

func (h header) delivery() Delivery { return Delivery(h.flags & deliveryMask) }
func (h header) reliable() bool     { return h.delivery() <= ReliableUnordered }
func (h header) whole() bool        { return h.flags&flagWhole == flagWhole }
func (h header) inParts() bool      { return !h.reliable() && !h.whole() && !h.tracked() }
func (h header) tracked() bool      { return h.flags&flagTracked != 0 }
func (h header) isRepair() bool     { return h.flags&flagRepair == flagRepair }

// numbered reports whether the bunch has a sequence. An unreliable message that fits into
// one bunch doesn't need a sequence, because the packet numbers tell which of two
// messages is newer.
func (h header) numbered() bool { return h.reliable() || h.inParts() }

// size returns the size of the header in bytes. It isn't for tracked bunches, whose shorter header
// is measured by trackedHeader.
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

// trackedHeader returns the size of a tracked bunch's header in bytes, given the length of the
// message.
func trackedHeader(channel uint64, length int) int {
	return 1 + varintLen(channel) + varintLen(uint64(length))
}

// appendBunch appends a bunch with the given header and payload.
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

// appendMessage appends a message, preceded by its length. The messages in a whole bunch and
// tracked messages are encoded like this.
func appendMessage(b, message []byte) []byte {
	return append(appendVarint(b, uint64(len(message))), message...)
}

// parseBunch parses the first bunch in b and returns what follows it. payload aliases b.
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
	case h.isRepair():
		return splitRepair(h, b)
	case h.tracked():
		return parseTracked(h, b)
	}

	// The flags alone determine the length of the remaining header, so a single check is
	// enough.
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

// parseTracked parses what follows the channel number in a tracked bunch.
func parseTracked(h header, b []byte) (_ header, payload, rest []byte, err error) {
	length, n := consumeVarint(b)
	if n == 0 || length > uint64(len(b)-n) {
		return h, nil, nil, errTruncated
	}
	b = b[n:]
	return h, b[:length], b[length:], h.check(int(length))
}

// check returns an error if the header is one that no correct sender would produce.
func (h header) check(length int) error {
	switch {
	case h.tracked() && h.flags != trackedFlags:
		return fmt.Errorf("tracked bunch has flags %#02x instead of %#02x", h.flags, trackedFlags)
	case h.channel > maxChannelNumber:
		return errChannelNumber
	case !h.reliable() && h.flags&(flagOpen|flagClose|flagPiece) != 0:
		return errors.New("unreliable bunch opens or closes its channel, or is a piece")
	case h.flags&flagClose != 0 && h.flags&flagEnd == 0:
		return errors.New("bunch closes its channel before the end of a message")
	case h.inParts() && (h.part == 0) != (h.flags&flagBegin != 0):
		return fmt.Errorf("begin flag of part %d is wrong; only part 0 has it", h.part)
	case length > EntryBytes || h.total > EntryBytes:
		return fmt.Errorf("bunch or its entry exceeds %d bytes", EntryBytes)
	case h.flags&flagPiece != 0 && (length == 0 || int(h.offset)+length > int(h.total)):
		return errors.New("piece is empty or extends beyond its entry")
	}
	return nil
}

// A group is a range of consecutive entries of one long message that are protected by the same
// repair bunches.
type group struct {
	channel   uint64
	flags     byte   // flagRepair, the delivery, and whether the message begins and ends in the group
	first     uint64 // sequence of its first entry
	count     int    // entries
	total     int    // repair bunches, 1 to 16
	lastBytes int    // bytes in its last entry: EntryBytes, unless the message ends with it
}

// A repair is a repair bunch: one of the parity shards of a group.
//
// The receiver can restore a group of n entries once any n of its entries and repair bunches
// have arrived. If fewer arrive, nothing but time is lost, because lost entries are
// retransmitted anyway.
type repair struct {
	group
	index int    // which of the group's repair bunches this is, below total
	shard []byte // EntryBytes of parity, computed as if the last entry were padded with zeros
}

// appendRepair appends a repair bunch.
func appendRepair(b []byte, r repair) []byte {
	b = appendVarint(append(b, r.flags), r.channel)
	b = binary.BigEndian.AppendUint16(b, uint16(r.first))
	b = append(b, byte(r.count-1), byte((r.total-1)<<4|r.index))
	b = binary.BigEndian.AppendUint16(b, uint16(r.lastBytes))
	return append(b, r.shard...)
}

// splitRepair splits the data after the channel number of a repair bunch. It returns the
// payload, to be parsed by parseRepair, and the bunches that follow.
func splitRepair(h header, b []byte) (_ header, payload, rest []byte, err error) {
	const size = repairFieldBytes + EntryBytes
	switch {
	case h.flags&^(flagRepair|flagWhole|byte(ReliableUnordered)) != 0:
		return h, nil, nil, fmt.Errorf("repair bunch has flags %#02x", h.flags)
	case h.channel > maxChannelNumber:
		return h, nil, nil, errChannelNumber
	case len(b) < size:
		return h, nil, nil, errTruncated
	}
	return h, b[:size], b[size:], nil
}

// parseRepair parses the payload returned by splitRepair. The shard aliases b. Only the low 16
// bits of r.first are known; the caller fills in the high bits.
func parseRepair(h header, b []byte) (r repair, err error) {
	r.channel = h.channel
	r.flags = h.flags
	r.first = uint64(binary.BigEndian.Uint16(b))
	r.count = int(b[2]) + 1
	r.total = int(b[3]>>4) + 1
	r.index = int(b[3] & 0x0f)
	r.lastBytes = int(binary.BigEndian.Uint16(b[4:]))
	r.shard = b[repairFieldBytes:]
	if r.count > maxGroupEntries || r.index >= r.total ||
		r.lastBytes > EntryBytes || r.lastBytes < EntryBytes && r.flags&flagEnd == 0 {
		return r, fmt.Errorf("repair bunch %d of %d for %d entries, the last of %d bytes, is impossible",
			r.index, r.total, r.count, r.lastBytes)
	}
	return r, nil
}
