package bunch

import "slices"

// maxPieces is the maximum number of pieces that an entry may be cut into. It's also the
// maximum number of separate ranges of an entry that a receiver keeps (WIRE.md, Pieces).
const maxPieces = 6

// A piece is a range of an entry's bytes that is sent in one packet. It's never cut while it's in
// flight, but may be cut once it counts as lost. A late ack then covers all of the resulting
// pieces.
type piece struct {
	off, end uint16 // from off to end-1
	copies   uint16 // packets in flight that contain it; at most as many as sentPackets holds
	queued   bool   // is to be sent, for the first time or again
	sent     bool   // was sent at least once
	acked    bool
}

// An entry is a slot of the reliable buffer. It holds either a whole bunch, which is one or more
// complete messages, or a part of a long message.
type entry struct {
	payload  []byte // in a pooled block
	flags    byte   // of the bunch's header
	started  bool   // some of it was sent, so it was charged and no message may be added
	inResend bool   // it's in its channel's resend
	pieces   [maxPieces]piece
	npieces  uint8 // in use, at least 1; they cover the payload in order
	messages uint8 // number of messages in a whole bunch; otherwise 1
	runCost  int32 // cost of all entries of a long message, kept in the first of them
}

// init sets up an entry, with a single piece that is to be sent.
func (e *entry) init(flags byte, payload []byte) {
	*e = entry{payload: payload, flags: flags, npieces: 1, messages: 1}
	e.pieces[0] = piece{end: uint16(len(payload)), queued: true}
}

func (e *entry) all() []piece { return e.pieces[:e.npieces] }

// nextQueued returns the index of the first piece that is waiting to be sent, or -1 if there's
// none.
func (e *entry) nextQueued() int {
	return slices.IndexFunc(e.all(), func(p piece) bool { return p.queued && !p.acked })
}

// onlyCopy returns the index of the piece that an item refers to, provided that exactly one
// copy of the piece is in flight and none is queued. Otherwise, or if the piece has been cut
// since the item was sent, it returns -1.
func (e *entry) onlyCopy(it item) int {
	return slices.IndexFunc(e.all(), func(p piece) bool {
		return p.off == it.off && p.end == it.end && p.copies == 1 && !p.queued && !p.acked
	})
}

// isAcked reports whether all of the entry is acknowledged.
func (e *entry) isAcked() bool {
	return !slices.ContainsFunc(e.all(), func(p piece) bool { return !p.acked })
}

// cost returns the number of bytes that are charged to the peer's limit when the first piece
// of the entry is sent.
//
// The first entry of a long message pays for all of its entries, so that the rest of the message is
// never blocked. Otherwise it might be blocked forever, because the peer only raises the limit when
// its owner takes whole messages.
func (e *entry) cost() int {
	switch e.flags & flagWhole {
	case flagWhole:
		return costOf(e.flags, len(e.payload), int(e.messages))
	case flagBegin:
		return int(e.runCost)
	}
	return 0
}

// entryMemory is approximately the most memory that an entry takes here in addition to its payload:
// its slot, and as much again because half of a ring may be unused.
const entryMemory = 2 * 96

// memory returns the number of bytes that are held here until the entry is acknowledged. A close
// also keeps its channel.
func (e *entry) memory() int {
	if e.flags&flagClose != 0 {
		return entryMemory + cap(e.payload) + channelCost
	}
	return entryMemory + cap(e.payload)
}

// cut cuts piece i in two and gives the first of the two size bytes. It does nothing and
// returns false if the piece is in flight, if one of the two would be empty, or if there would
// be more than maxPieces pieces.
func (e *entry) cut(i, size int) bool {
	p := &e.pieces[i]
	if e.npieces == maxPieces || p.copies > 0 || size <= 0 || size >= int(p.end-p.off) {
		return false
	}
	copy(e.pieces[i+2:], e.pieces[i+1:e.npieces])
	e.npieces++
	mid := p.off + uint16(size)
	e.pieces[i+1] = piece{off: mid, end: p.end, queued: p.queued, sent: p.sent}
	p.end = mid
	return true
}
