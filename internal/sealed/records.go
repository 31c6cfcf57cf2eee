package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// maxRecords bounds the packets whose fate is open: 19 MB of full ones, 1 Gbit/s over 150 ms.
	maxRecords = 1 << 14
	// sparedRecords are left for feedback when data has used up its share.
	sparedRecords = maxRecords / 16
	// silentRecords of packets that ask for no ack are remembered: 1,792. At 1 Gbit/s 84,000 packets come in a second and
	// bring a report for each four, so these are the reports of 85 ms, three PTO on a path of 10 ms. Further feedback waits.
	silentRecords = 7 << 8
	// crowdedRecords are too many to remember packets that may only be late.
	crowdedRecords = maxRecords / 2
	firstRecords   = 32 // a probe and the train
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
	covers   uint64        // one above the largest number that its feedback told of; 0 = had none, or not all
	acked    uint64        // of an acked one: all from it to below this are acked as well
	tokens   [maxPayloads]uint64
	size     uint16 // on the wire, with IP and UDP
	payloads uint8
	fate     fate
	train    bool
	paced    bool // the controller knows of it
	bulk     bool // some of its payloads are
}

// records remembers packet numbers whose fate may still change, and those after them.
type records struct {
	recovery.Ring[record]

	silent int    // packets
	flying int    // packets
	bytes  int    // of those of them that the controller paces, on the wire
	play   int    // of those without bulk
	first  uint64 // no smaller number flies
}

// push adds the record of the next number.
func (r *records) push(rec record) {
	if rec.fate == silent {
		r.silent++
	}
	if rec.fate == flying {
		r.flying++
		r.count(&rec, int(rec.size))
	}
	*r.Push(firstRecords) = rec
}

// land takes a flying packet out of the air.
func (r *records) land(rec *record, f fate) {
	r.flying--
	r.count(rec, -int(rec.size))
	rec.fate = f
}

func (r *records) count(rec *record, bytes int) {
	switch {
	case !rec.paced:
		return
	case !rec.bulk:
		r.play += bytes
	}
	r.bytes += bytes
}

// firstFlying returns the smallest number that flies.
func (r *records) firstFlying() (uint64, bool) {
	if r.flying == 0 {
		r.first = r.Next
		return 0, false
	}
	for r.first = max(r.first, r.Oldest); r.At(r.first).fate != flying; r.first++ {
	}
	return r.first, true
}

// forget drops the oldest records whose fate cannot change any more.
func (r *records) forget(t time.Duration) {
	for r.Oldest < r.Next {
		rec := r.At(r.Oldest)
		held := rec.fate != acked && rec.until > t && r.Len() < crowdedRecords
		if rec.fate == flying || held {
			return
		}
		if rec.fate == silent {
			r.silent--
		}
		r.Oldest++
	}
}
