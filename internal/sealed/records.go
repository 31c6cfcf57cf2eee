package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// maxRecords is the maximum number of packets that are remembered: 19 MB of full
	// packets, which 1 Gbit/s carries in 150 ms.
	maxRecords = 1 << 14
	// sparedRecords is the number of records that packets with payloads leave free for
	// feedback.
	reservedRecords = maxRecords / 16
	// silentRecords is the maximum number of remembered packets that ask for no ack, 1,792.
	// Further feedback has to wait.
	//
	// At 1 Gbit/s, 84,000 packets arrive in a second, with a report for every four. The
	// records are enough for the reports of 85 ms, which are three PTO on a path of 10 ms.
	maxAckOptional = 7 << 8
	// crowdedRecords is the number of records from which lost packets are forgotten,
	// although they may only be late.
	crowdedRecords = maxRecords / 2
	initialRecords = 32 // initial number of records: for a probe and the train
	// maxPayloads is the maximum number of payloads in a packet. A jumbo packet has room
	// for seven slices.
	maxPayloads = 8
)

// A fate is what became of a packet number.
type fate uint8

const (
	ackOptional fate = iota // asks for no ack, but may be acked
	inFlight                // asks for an ack, and is neither acked nor lost
	acked
	lost
	abandoned // declared lost because no packet at all was acked for a long time
	skipped   // never sent; an ack for it is a violation
)

// record describes a packet number that the session has sent or skipped.
type record struct {
	sample pace.Sample   // the controller's measurements for the packet
	sent   time.Duration // time of sending
	// When the record may be dropped although the packet was not acked. Until then an ack
	// may be late.
	expires time.Duration
	// One above the largest number in its feedback. It is 0 if it has no feedback, or one
	// that does not cover everything.
	knownBelow uint64
	ackedEnd   uint64              // if fate is acked: the numbers up to acked-1 are acked as well
	tokens     [maxPayloads]uint64 // the source's names for the payloads
	size       uint16              // bytes on the wire, with IP and UDP
	payloads   uint8               // tokens in use
	fate       fate
	train      bool // the packet belongs to the train
	paced      bool // the controller counts the packet
	bulk       bool // the packet carries bulk
}

// large reports whether a packet is larger than SafePacket, which every path takes.
func (r *record) large() bool { return r.size > SafePacket+overheadUDP }

// jumbo reports whether a packet is larger than those that QUIC looks for.
func (r *record) jumbo() bool { return r.size > MaxPacket+overheadUDP }

// fits returns the maximum size of the packet's frames. allowed is the maximum for a packet
// with bulk. A packet without bulk must not become a jumbo packet, because other play would
// wait for it.
func (r *record) frameLimit(allowed int) int {
	if r.bulk {
		return allowed
	}
	return min(allowed, MaxPacket-tagBytes)
}

// records holds the packet numbers from the oldest whose fate may still change.
type records struct {
	recovery.Ring[record]

	ackOptional     int    // packets with fate silent
	packetsInFlight int    // packets with fate flying
	bytesInFlight   int    // bytes on the wire of paced packets that are flying
	playInFlight    int    // part of bytes in packets without bulk
	searchFrom      uint64 // no smaller number is flying
}

// push adds the record of the next number.
func (r *records) push(rec record) {
	if rec.fate == ackOptional {
		r.ackOptional++
	}
	if rec.fate == inFlight {
		r.packetsInFlight++
		r.addInFlight(&rec, int(rec.size))
	}
	*r.Push(initialRecords) = rec
}

// land sets the fate of a flying packet to f.
func (r *records) resolve(rec *record, f fate) {
	r.packetsInFlight--
	r.addInFlight(rec, -int(rec.size))
	rec.fate = f
}

// count adds bytes to those in flight if the packet is paced.
func (r *records) addInFlight(rec *record, bytes int) {
	switch {
	case !rec.paced:
		return
	case !rec.bulk:
		r.playInFlight += bytes
	}
	r.bytesInFlight += bytes
}

// firstFlying returns the smallest flying number. ok is false if none is flying.
func (r *records) firstInFlight() (uint64, bool) {
	if r.packetsInFlight == 0 {
		return 0, false
	}
	for r.searchFrom = max(r.searchFrom, r.Oldest); r.At(r.searchFrom).fate != inFlight; r.searchFrom++ {
	}
	return r.searchFrom, true
}

// forget drops the oldest records up to the first whose fate may still change.
func (r *records) forget(t time.Duration) {
	for r.Oldest < r.Next {
		rec := r.At(r.Oldest)
		held := rec.fate != acked && rec.expires > t && r.Len() < crowdedRecords
		if rec.fate == inFlight || held {
			return
		}
		if rec.fate == ackOptional {
			r.ackOptional--
		}
		r.Oldest++
	}
}
