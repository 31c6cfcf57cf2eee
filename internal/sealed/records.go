package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// maxRecords is the maximum number of packets that we remember. With packets of SafePacket
	// bytes that's 19 MB, enough for a round trip of 150 ms at 1 Gbit/s.
	maxRecords = 1 << 14
	// reservedRecords is the number of records that packets with payloads leave free for
	// reports.
	reservedRecords = maxRecords / 16
	// maxAckOptional is the maximum number of remembered packets that don't ask for an ack. Once
	// there are 1,792 of them, reports have to wait.
	//
	// At 1 Gbit/s, 84,000 packets arrive per second, and we send a report for every four.
	// The limit is enough for the reports of 85 ms, which is three PTOs on a path with a
	// round trip of 10 ms.
	maxAckOptional = 7 << 8
	// crowdedRecords is the number of records from which on we forget lost packets early,
	// although they may only be late.
	crowdedRecords = maxRecords / 2
	// initialRecords is the initial capacity, which has room for a probe and the train.
	initialRecords = 32

	// maxPayloads limits the payloads in a packet. A jumbo packet has room for seven slices.
	maxPayloads = 8
)

// A fate is what became of a packet number.
type fate uint8

const (
	ackOptional fate = iota // asks for no ack, but may still be acked
	inFlight                // asks for an ack, and is neither acked nor lost
	acked
	lost      // declared lost, though it may still be acked
	abandoned // declared lost because nothing at all was acked for a long time
	skipped   // never sent, so an ack for it is a violation
)

// A record is what we remember of a packet number that was sent or skipped. There may be many
// records, so the small fields are grouped at the end to save padding.
type record struct {
	// Sending.
	sent    time.Duration
	sample  pace.Sample         // the controller's measurements, if it's paced
	tokens  [maxPayloads]uint64 // the source's names for the payloads
	expires time.Duration       // when we may forget the packet even if it wasn't acked

	// What an ack tells us.
	knownBelow uint64 // the peer knows which numbers below this were received (see reporter.fill)
	ackedEnd   uint64 // once it's acked: all numbers from this one to ackedEnd-1 are acked

	size     uint16 // bytes on the wire, with IP and UDP
	payloads uint8  // tokens in use
	fate     fate
	train    bool // it belongs to the train
	paced    bool // the controller counts it
	bulk     bool // there's bulk among the payloads
}

// large reports whether the packet is larger than SafePacket, which every path takes.
func (r *record) large() bool { return r.size > SafePacket+wireOverhead }

// jumbo reports whether the packet is larger than the sizes that QUIC probes.
func (r *record) jumbo() bool { return r.size > FullPacket+wireOverhead }

// frameLimit returns the maximum size of the header and frames. allowed is the limit for a
// packet with bulk. A packet without bulk mustn't become a jumbo packet, because other play
// would have to wait for it.
func (r *record) frameLimit(allowed int) int {
	if r.bulk {
		return allowed
	}
	return min(allowed, FullPacket-tagBytes)
}

// records holds a record for each packet number, from the oldest one whose fate may still
// change.
type records struct {
	recovery.Ring[record]

	ackOptional     int // packets with fate ackOptional
	packetsInFlight int // packets with fate inFlight
	bytesInFlight   int // bytes on the wire of the paced packets among them
	playInFlight    int // the part of bytesInFlight in packets without bulk

	searchFrom uint64 // no smaller number is in flight
}

// push adds the record of the next number.
func (r *records) push(rec record) {
	switch rec.fate {
	case ackOptional:
		r.ackOptional++
	case inFlight:
		r.packetsInFlight++
		r.addInFlight(&rec, int(rec.size))
	}
	*r.Push(initialRecords) = rec
}

// resolve sets the fate of a packet.
func (r *records) resolve(rec *record, f fate) {
	switch rec.fate {
	case ackOptional:
		r.ackOptional--
	case inFlight:
		r.packetsInFlight--
		r.addInFlight(rec, -int(rec.size))
	}
	rec.fate = f
}

// addInFlight adds to the bytes in flight if the packet is paced.
func (r *records) addInFlight(rec *record, bytes int) {
	if !rec.paced {
		return
	}
	r.bytesInFlight += bytes
	if !rec.bulk {
		r.playInFlight += bytes
	}
}

// findFirstInFlight returns the smallest number in flight. ok is false if there is none.
func (r *records) findFirstInFlight() (number uint64, ok bool) {
	if r.packetsInFlight == 0 {
		return 0, false
	}
	// Start where the last search ended, so that all searches together pass each record once.
	r.searchFrom = max(r.searchFrom, r.Oldest)
	for r.At(r.searchFrom).fate != inFlight {
		r.searchFrom++
	}
	return r.searchFrom, true
}

// forget drops the oldest records, up to the first one whose fate may still change.
func (r *records) forget(t time.Duration) {
	for r.Oldest < r.Next {
		rec := r.At(r.Oldest)
		mayBeAcked := rec.fate != acked && rec.expires > t && r.Len() < crowdedRecords
		if rec.fate == inFlight || mayBeAcked {
			return
		}
		if rec.fate == ackOptional {
			r.ackOptional--
		}
		r.Oldest++
	}
}
