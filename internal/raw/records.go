package raw

import (
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

const (
	// maxRecords bounds the packets whose fate is open: 39 MB of full ones, 1 Gbit/s over 300 ms.
	maxRecords = 1 << 15
	// sparedRecords are left for feedback when data has used up its share.
	sparedRecords = maxRecords / 16
	// silentRecords of packets that ask for no ack, which a peer's pings bring forth, are remembered: 3 PTO of
	// feedback alone at 1 Gbit/s on a path of 10 ms, where 4 packets bring one. Further feedback waits.
	silentRecords = 7 << 8
	// crowdedRecords are too many to remember packets that may only be late.
	crowdedRecords = maxRecords / 2
	firstRecords   = 64
	// maxPayloads is how many payloads share a packet.
	maxPayloads = 3
)

// fate is what became of a packet number.
type fate uint8

const (
	silent fate = iota // asked for no ack; one may come all the same
	flying             // neither acked nor lost
	acked
	lost
	abandoned // counted as lost because nothing was heard at all
	skipped   // never sent: an ack for it is made up
)

// record is what a packet number leaves behind until its fate is decided.
type record struct {
	sample   pace.Sample
	sent     time.Duration
	until    time.Duration // a record that is decided, but may still be acked, stays until then
	covers   uint64        // one above the largest number that its feedback told of; 0 = had none
	tokens   [maxPayloads]uint64
	size     uint16 // on the wire, with IP and UDP
	payloads uint8
	fate     fate
	train    bool
	paced    bool // the controller knows of it
}

// records is a ring of the packet numbers from oldest to next.
type records struct {
	ring   []record // a power of two, or none
	oldest uint64
	next   uint64

	silent int    // packets
	flying int    // packets
	bytes  int    // of those of them that the controller paces, on the wire
	first  uint64 // no smaller number flies
}

func (r *records) len() int { return int(r.next - r.oldest) }

// at returns the record of a number from oldest to next.
func (r *records) at(n uint64) *record { return &r.ring[n&uint64(len(r.ring)-1)] }

// push adds the record of number next.
func (r *records) push(rec record) {
	if r.len() == len(r.ring) {
		r.grow()
	}
	if rec.fate == silent {
		r.silent++
	}
	if rec.fate == flying {
		r.flying++
		if rec.paced {
			r.bytes += int(rec.size)
		}
	}
	r.next++
	*r.at(r.next - 1) = rec
}

func (r *records) grow() {
	old := *r
	r.ring = make([]record, max(firstRecords, 2*len(r.ring)))
	for n := r.oldest; n < r.next; n++ {
		*r.at(n) = *old.at(n)
	}
}

// land takes a flying packet out of the air.
func (r *records) land(rec *record, f fate) {
	r.flying--
	if rec.paced {
		r.bytes -= int(rec.size)
	}
	rec.fate = f
}

// firstFlying returns the smallest number that flies.
func (r *records) firstFlying() (uint64, bool) {
	if r.flying == 0 {
		r.first = r.next
		return 0, false
	}
	for r.first = max(r.first, r.oldest); r.at(r.first).fate != flying; r.first++ {
	}
	return r.first, true
}

// forget drops the oldest records whose fate cannot change any more, and the memory when it is not needed.
func (r *records) forget(t time.Duration) {
	for r.oldest < r.next {
		rec := r.at(r.oldest)
		held := rec.fate != acked && rec.until > t && r.len() < crowdedRecords
		if rec.fate == flying || held {
			return
		}
		if rec.fate == silent {
			r.silent--
		}
		r.oldest++
	}
	if len(r.ring) > 16*firstRecords {
		r.ring = nil
	}
}
