package bunch

import "slices"

// maxPieces is the maximum number of pieces into which an entry is cut. It is also the
// maximum number of separate ranges of an entry that a receiver keeps (WIRE.md, Pieces).
const maxPieces = 6

// A piece is a range of an entry's bytes. A piece in flight is never cut, so a late ack of
// an earlier, larger range always covers complete pieces.
type piece struct {
	off, end uint16 // from off to end-1
	copies   uint16 // packets in flight that carry it; at most as many as sentPackets holds
	queued   bool   // waits to be sent, for the first time or again
	sent     bool   // was sent at least once
	acked    bool
}

// An entry is one slot of the reliable buffer: a whole bunch of one or more messages, or a
// part of a long message.
type entry struct {
	payload  []byte // from Conn.blocks
	flags    byte   // of the bunch's header
	started  bool   // a piece was sent: the entry is charged and takes no more messages
	resend   bool   // in its channel's resend queue
	pieces   [maxPieces]piece
	n        uint8 // pieces in use, at least 1; they cover the payload in order
	messages uint8 // messages in a whole bunch; otherwise 1
	runPrice int32 // in the first entry of a long message: the price of all its entries
}

// init makes the entry one piece that waits to be sent.
func (e *entry) init(flags byte, payload []byte) {
	*e = entry{payload: payload, flags: flags, n: 1, messages: 1}
	e.pieces[0] = piece{end: uint16(len(payload)), queued: true}
}

func (e *entry) all() []piece { return e.pieces[:e.n] }

// queued returns the index of the first piece waiting to be sent, or -1.
func (e *entry) queued() int {
	return slices.IndexFunc(e.all(), func(p piece) bool { return p.queued && !p.acked })
}

// onlyCopy returns the index of the piece that an item names, if exactly one packet in
// flight carries it and it is not queued to be sent again. Otherwise it returns -1,
// including if the item's bytes were cut into several pieces since.
func (e *entry) onlyCopy(it item) int {
	return slices.IndexFunc(e.all(), func(p piece) bool {
		return p.off == it.off && p.end == it.end && p.copies == 1 && !p.queued && !p.acked
	})
}

// acked reports whether the peer has acknowledged every piece.
func (e *entry) acked() bool {
	return !slices.ContainsFunc(e.all(), func(p piece) bool { return !p.acked })
}

// cost returns the bytes that are charged to the peer's limit when the first piece of the
// entry is sent.
//
// The first entry of a long message pays for all of its entries. The others can then always
// follow, which they must, because the peer does not raise the limit for half a message.
func (e *entry) cost() int {
	switch e.flags & flagWhole {
	case flagWhole:
		return price(e.flags, len(e.payload), int(e.messages))
	case flagBegin:
		return int(e.runPrice)
	}
	return 0
}

// cut splits piece i so that its first part has size bytes. It returns false, and changes
// nothing, if the piece is in flight, if the entry already has maxPieces, or if a part
// would be empty.
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
