package sealed

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// reportAfter is the number of packets asking for feedback soon that make it due at
	// once.
	reportAfter = 4
	// maxReportDelay is the maximum time that feedback for bulk may wait, whatever the
	// round trip: QUIC's default max_ack_delay (RFC 9000, section 18.2).
	maxReportDelay = 25 * time.Millisecond
	// minReportDelay is the minimum time that it waits, because clocks and timers may be
	// coarser than the round trip.
	minReportDelay = 100 * time.Microsecond
	// maxReportGap bounds the minimum time between two reports. One report per millisecond
	// takes 0.9 Mbit/s, more than many return paths carry.
	maxReportGap = 2 * time.Millisecond
	// If the last round trips all exceed the minimum by more than longWait, the reports
	// themselves may be filling the return path, which can be a hundred times slower than
	// the forward path. Two reports are then at least 1/waitParts of the excess over
	// longWait apart, as RFC 5690 asks of acks.
	//
	// fullGap bounds that time, because a path may have been interrupted for seconds and be
	// as fast as before.
	longWait  = 100 * time.Millisecond
	waitParts = 8
	fullGap   = 200 * time.Millisecond
	// reportMemory is the number of reports that acknowledge each packet, at least. Every
	// reportMemory-th report repeats everything that the peer may not know.
	reportMemory = 8
	// Every pingAfter-th consecutive report in a packet of its own asks for an ack. After
	// that ack, reports need not repeat the packets that the peer knows were received.
	pingAfter = 16

	// arrivalSlots is the maximum number of arrivals that a session remembers.
	// initialArrivals is the number for which it has room at first.
	arrivalSlots    = 256
	initialArrivals = 32
)

// An arrival is the time at which a packet arrived, by the receiver's clock.
type arrival struct {
	number uint64
	at     time.Duration
}

// clockZero is the zero of the clock by which arrivals are reported to peers. All carriers
// share it, so that arrivals can be compared. It is a whole second. Every process then
// rounds times for the wire in the same way, and tests in virtual time are repeatable.
var clockZero = wholeSecond(time.Now())

// wholeSecond rounds t down to a second.
func wholeSecond(t time.Time) time.Time { return t.Add(-time.Duration(t.Nanosecond())) }

// report decides when feedback is sent to the peer and which packets it lists.
type report struct {
	// By number modulo length. The length grows with the number of packets since rest, up
	// to arrivalSlots.
	arrivals []arrival
	noted    int           // number of packets since rest
	zero     time.Duration // the session's time plus zero is the receiver's clock

	// When feedback is due.
	pending int           // unreported packets that ask for feedback soon
	since   time.Duration // arrival of the oldest packet in pending
	play    int           // unreported packets whose feedback may wait for a packet with other content
	begun   time.Duration // arrival of the oldest packet in play
	urgent  bool          // a ping, the end of a train or a gap is among pending
	alone   bool          // the last packet had no room for feedback, which needs its own packet
	last    time.Duration // when the last feedback was built
	gap     time.Duration // minimum time between two feedbacks
	delay   time.Duration // maximum wait of a packet in pending
	patient time.Duration // maximum wait of a packet in play

	// The round trips of pings.
	least  time.Duration    // minimum on this path; 0 = unknown
	queued [4]time.Duration // excess of the last round trips over least; a ring, at trips modulo 4
	trips  int              // number of round trips

	// What the peer knows.
	floor uint64 // the peer knows whether each smaller number was received
	// A number below others was received since the last report. The peer may count it as
	// lost.
	late  bool
	marks [reportMemory]uint64 // one above the largest number in each of the last reports
	count uint64               // number of reports built, except those of older numbers
	bare  int                  // consecutive reports, including the last, that asked for no ack
	// A report had no room for numbers below this, down to those that the peer knows. 0 =
	// there was room for all.
	left  uint64
	older bool // the last report was one of numbers below left
}

func newReport(patient time.Duration) report {
	r := report{last: -time.Hour, patient: patient}
	r.pace(0)
	return r
}

// pace sets gap and delay according to the round trip rtt; 0 = unknown.
func (r *report) pace(rtt time.Duration) {
	if rtt <= 0 {
		rtt = 8 * time.Millisecond
	}
	backoff := min((slices.Min(r.queued[:])-longWait)/waitParts, fullGap)
	r.gap = max(min(rtt/16, maxReportGap), backoff)
	r.delay = min(max(rtt/8, minReportDelay), maxReportDelay)
}

// trip records the round trip of a ping.
func (r *report) trip(rtt time.Duration) {
	if r.least == 0 || rtt < r.least {
		r.least = rtt
	}
	r.queued[r.trips%len(r.queued)] = rtt - r.least
	r.trips++
}

// moved is called when the path has changed. It forgets the round trips of the previous
// one.
func (r *report) moved() {
	r.least = 0
	r.queued = [4]time.Duration{}
}

// asking is how soon a packet asks for feedback.
type asking uint8

const (
	never      asking = iota
	whenShared        // in a packet with other content, if one is sent soon
	soon
	atOnce
)

// note records a packet that arrived at the time came and was handled at t. Between these
// times it waited at this end rather than on the path.
func (r *report) note(t, came time.Duration, number uint64, asks asking) {
	r.makePlace()
	if a := r.arrival(number); a.number <= number { // a late packet must not replace a newer one
		*a = arrival{number: number, at: r.zero + came}
	}
	switch asks {
	case never:
		return
	case whenShared:
		if r.play == 0 {
			r.begun = t
		}
		r.play++
		return
	}
	if r.pending == 0 {
		r.since = t
	}
	r.pending++
	r.urgent = r.urgent || asks == atOnce
}

// cameLate is called after note if number is below others that were received. The peer's
// floor may be above number, so cameLate lowers it to number.
func (r *report) cameLate(number uint64) {
	r.floor = min(r.floor, number)
	r.late = true
}

// makePlace doubles the slots for arrivals if all are used.
func (r *report) makePlace() {
	r.noted++
	if r.noted <= len(r.arrivals) || len(r.arrivals) == arrivalSlots {
		return
	}
	old := r.arrivals
	r.arrivals = make([]arrival, max(initialArrivals, 2*len(old)))
	for _, a := range old {
		*r.arrival(a.number) = a
	}
}

// rest frees the memory of arrivals. It is called after a silence, when everything was
// reported.
func (r *report) rest() {
	r.arrivals = nil
	r.noted = 0
}

// arrival returns the slot of a number's arrival. If the slot contains another number, the
// arrival is no longer known.
func (r *report) arrival(number uint64) *arrival { return &r.arrivals[number%uint64(len(r.arrivals))] }

// waits reports whether unreported packets ask for feedback.
func (r *report) waits() bool { return r.pending+r.play > 0 }

// dueAt returns when feedback is due. ok is false if no packet asks for it.
func (r *report) dueAt() (time.Duration, bool) {
	at := r.begun + r.patient
	switch {
	case !r.waits():
		return 0, false
	case r.urgent || r.pending >= reportAfter:
		at = r.since
	case r.play == 0 || r.pending > 0 && r.since+r.delay < at:
		at = r.since + r.delay
	}
	return max(at, r.last+r.gap), true
}

// due reports whether feedback is due at t.
func (r *report) due(t time.Duration) bool {
	at, ok := r.dueAt()
	return ok && at <= t
}

// fill stores a report of at most room bytes in f. If the report covers everything that the
// peer may not know, fill returns one above the largest number. Otherwise it returns 0.
//
// If a report of all numbers does not fit, every second report continues below it. Packets
// that arrived late may be there, and the peer would otherwise count them as lost.
func (r *report) fill(t time.Duration, f *feedback, w *recovery.Window, room int) (covers uint64) {
	newest := w.Next - 1
	known := min(max(r.floor, w.Floor()), newest)
	r.pending = 0
	r.play = 0
	r.urgent = false
	r.alone = false
	r.last = t
	arrived := r.arrival(newest).at
	f.clock = uint64(arrived/clockUnit) & clockMask
	f.delay = r.zero + t - arrived
	f.ndeltas = 0
	room -= maxFeedbackHeader
	if from, ok := r.turnToOlder(w, known); ok {
		_, r.left = r.fillRuns(f, w, room, from, known)
		return 0
	}
	floor := known
	if r.count%reportMemory != 0 && !r.late {
		floor = min(max(known, r.marks[r.count%reportMemory]), newest)
	}
	room, rest := r.fillRuns(f, w, room, newest, floor)
	r.fillTimes(f, w, room)
	r.marks[r.count%reportMemory] = w.Next
	r.count++
	r.late = false
	switch {
	case floor != known:
		return 0
	case rest == 0:
		r.left = 0
		return w.Next
	case r.left <= known:
		r.left = rest
	}
	return 0
}

// turnToOlder reports whether this report must cover older numbers, and returns the largest
// of them that was received.
func (r *report) turnToOlder(w *recovery.Window, known uint64) (from uint64, ok bool) {
	r.older = !r.older && r.left > known
	if !r.older {
		return 0, false
	}
	from = r.left - 1
	if w.Has(from) {
		return from, true
	}
	missing := w.Run(from, known)
	r.older = from-known >= missing
	if !r.older {
		r.left = 0
		return 0, false
	}
	return from - missing, true
}

// fillRuns fills in the runs from the number from down to floor. It reserves room for a few
// times. left is the remaining room. rest is one above the largest number that did not fit,
// or 0 if all did.
func (r *report) fillRuns(
	f *feedback, w *recovery.Window, room int, from, floor uint64,
) (left int, rest uint64) {
	const keep = 4
	f.largest = uint32(from)
	f.nruns = 0
	n := from
	for f.nruns < maxRuns {
		run := w.Run(n, floor)
		if room-uvarintLen(run) < keep {
			break
		}
		f.runs[f.nruns] = run
		f.nruns++
		room -= uvarintLen(run)
		if n-floor < run {
			return room, 0
		}
		n -= run
	}
	return room, n + 1
}

// fillTimes lists the arrivals since the report before the last one. The list ends before a
// distance above longestDelta, and before an arrival that is not known. The packets from
// there on are acked without a time.
//
// Missing numbers are skipped run by run, because a peer may leave out thousands of
// numbers. Checking each took 0.1 ms for one packet of 30 bytes.
func (r *report) fillTimes(f *feedback, w *recovery.Window, room int) {
	floor := w.Floor()
	if r.count >= 2 {
		floor = max(floor, r.marks[(r.count-2)%reportMemory])
	}
	at := r.arrival(w.Next-1).at / clockUnit
	for n := w.Next - 1; n > floor && f.ndeltas < maxDeltas; {
		n--
		if !w.Has(n) {
			n -= w.Run(n, floor) - 1
			continue
		}
		a := r.arrival(n)
		if a.number != n {
			return
		}
		d := int64(at - a.at/clockUnit)
		room -= varintLen(d)
		if room < 0 || d > longestDelta || d < -longestDelta {
			return
		}
		f.deltas[f.ndeltas] = d
		f.ndeltas++
		at = a.at / clockUnit
	}
}
