package bunch

import "slices"

// maxPieces is the most pieces into which an entry is cut, and the most ranges of one that a receiver keeps apart (WIRE.md, Pieces).
const maxPieces = 6

// piece is a range of an entry's bytes. A piece in flight is never cut, so that a late ack of an earlier, larger range
// always covers whole pieces.
type piece struct {
	off, end uint16 // from off to end-1
	copies   uint16 // until it is acked, packets in flight that carry it: no more than sentPackets holds
	queued   bool   // it waits to leave, for the first time or again
	sent     bool   // it left at least once
	acked    bool
}

// entry is one slot of the reliable buffer: a whole bunch with one or more messages, or a part of a long message.
type entry struct {
	payload  []byte // from Conn.blocks
	flags    byte   // of the bunch's header
	started  bool   // a piece was sent: no message merges into the entry any more, and its cost is charged
	resend   bool   // it stands in its channel's resend queue
	pieces   [maxPieces]piece
	n        uint8 // pieces in use, at least 1; they cover the payload in order
	messages uint8 // messages in a whole bunch; else 1
	runPrice int32 // in the first entry of a long message: the price of all its entries
}

// init makes the entry one piece that waits to leave.
func (e *entry) init(flags byte, payload []byte) {
	*e = entry{payload: payload, flags: flags, n: 1, messages: 1}
	e.pieces[0] = piece{end: uint16(len(payload)), queued: true}
}

func (e *entry) all() []piece { return e.pieces[:e.n] }

// queued returns the index of the first piece that waits to leave, or -1.
func (e *entry) queued() int {
	return slices.IndexFunc(e.all(), func(p piece) bool { return p.queued && !p.acked })
}

// onlyCopy returns the index of the piece that an item names, if just one packet in flight carries it and it does not wait to leave again; else
// -1, also when the item's bytes were cut into several pieces since.
func (e *entry) onlyCopy(it item) int {
	return slices.IndexFunc(e.all(), func(p piece) bool {
		return p.off == it.off && p.end == it.end && p.copies == 1 && !p.queued && !p.acked
	})
}

// acked reports whether the peer has acknowledged every piece.
func (e *entry) acked() bool {
	return !slices.ContainsFunc(e.all(), func(p piece) bool { return !p.acked })
}

// cost returns the bytes that are charged to the peer's limit when the first piece of the entry leaves. The first entry of a long message
// pays for all of its entries, so that the others may always follow: the peer raises no limit for half a message.
func (e *entry) cost() int {
	switch e.flags & flagWhole {
	case flagWhole:
		return price(e.flags, len(e.payload), int(e.messages))
	case flagBegin:
		return int(e.runPrice)
	}
	return 0
}

// cut splits piece i so that its first part has size bytes. It is false, and changes nothing, if the piece is in flight, the entry has maxPieces,
// or one part would be empty.
func (e *entry) cut(i, size int) bool {
	p := &e.pieces[i]
	if e.n == maxPieces || p.copies > 0 || size <= 0 || size >= int(p.end-p.off) {
		return false
	}
	copy(e.pieces[i+2:], e.pieces[i+1:e.n])
	e.n++
	mid := p.off + uint16(size)
	e.pieces[i+1] = piece{off: mid, end: p.end, queued: p.queued, sent: p.sent}
	p.end = mid
	return true
}
