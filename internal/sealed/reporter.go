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
	backoffAfter = 100 * time.Millisecond
	backoffParts = 8
	maxBackoff   = 200 * time.Millisecond
	// reportMemory is the number of reports that acknowledge each packet, at least. Every
	// reportMemory-th report repeats everything that the peer may not know.
	reportMemory = 8
	// Every pingAfter-th consecutive report in a packet of its own asks for an ack. After
	// that ack, reports need not repeat the packets that the peer knows were received.
	pingAfter = 16

	// arrivalSlots is the maximum number of arrivals that a session remembers.
	// initialArrivals is the number for which it has room at first.
	maxArrivals     = 256
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
var clockOrigin = wholeSecond(time.Now())

// wholeSecond rounds t down to a second.
func wholeSecond(t time.Time) time.Time { return t.Add(-time.Duration(t.Nanosecond())) }

// report decides when feedback is sent to the peer and which packets it lists.
type reporter struct {
	// By number modulo length. The length grows with the number of packets since rest, up
	// to arrivalSlots.
	arrivals    []arrival
	received    int           // number of packets since rest
	clockOffset time.Duration // the session's time plus zero is the receiver's clock

	// When feedback is due.
	pending        int           // unreported packets that ask for feedback soon
	pendingSince   time.Duration // arrival of the oldest packet in pending
	playPending    int           // unreported packets whose feedback may wait for a packet with other content
	playSince      time.Duration // arrival of the oldest packet in play
	urgent         bool          // a ping, the end of a train or a gap is among pending
	needsOwnPacket bool          // the last packet had no room for feedback, which needs its own packet
	lastBuilt      time.Duration // when the last feedback was built
	minGap         time.Duration // minimum time between two feedbacks
	maxDelay       time.Duration // maximum wait of a packet in pending
	playDelay      time.Duration // maximum wait of a packet in play

	// The round trips of pings.
	least  time.Duration    // minimum on this path; 0 = unknown
	queued [4]time.Duration // excess of the last round trips over least; a ring, at trips modulo 4
	trips  int              // number of round trips

	// What the peer knows.
	knownBelow uint64 // the peer knows whether each smaller number was received
	// A number below others was received since the last report. The peer may count it as
	// lost.
	hasLate    bool
	ends       [reportMemory]uint64 // one above the largest number in each of the last reports
	reports    uint64               // number of reports built, except those of older numbers
	sinceAsked int                  // consecutive reports, including the last, that asked for no ack
	// A report had no room for numbers below this, down to those that the peer knows. 0 =
	// there was room for all.
	backlogEnd uint64
	wasBacklog bool // the last report was one of numbers below left
}

func newReporter(patient time.Duration) reporter {
	r := reporter{lastBuilt: -time.Hour, playDelay: patient}
	r.pace(0)
	return r
}

// pace sets gap and delay according to the round trip rtt; 0 = unknown.
func (r *reporter) pace(rtt time.Duration) {
	if rtt <= 0 {
		rtt = 8 * time.Millisecond
	}
	backoff := min((slices.Min(r.queued[:])-backoffAfter)/backoffParts, maxBackoff)
	r.minGap = max(min(rtt/16, maxReportGap), backoff)
	r.maxDelay = min(max(rtt/8, minReportDelay), maxReportDelay)
}

// trip records the round trip of a ping.
func (r *reporter) trip(rtt time.Duration) {
	if r.least == 0 || rtt < r.least {
		r.least = rtt
	}
	r.queued[r.trips%len(r.queued)] = rtt - r.least
	r.trips++
}

// moved is called when the path has changed. It forgets the round trips of the previous
// one.
func (r *reporter) moved() {
	r.least = 0
	r.queued = [4]time.Duration{}
}

// asking is how soon a packet asks for feedback.
type urgency uint8

const (
	askNever  urgency = iota
	askShared         // in a packet with other content, if one is sent soon
	askSoon
	askNow
)

// note records a packet that arrived at the time came and was handled at t. Between these
// times it waited at this end rather than on the path.
func (r *reporter) note(t, came time.Duration, number uint64, asks urgency) {
	r.growArrivals()
	if a := r.arrival(number); a.number <= number { // a late packet must not replace a newer one
		*a = arrival{number: number, at: r.clockOffset + came}
	}
	switch asks {
	case askNever:
		return
	case askShared:
		if r.playPending == 0 {
			r.playSince = t
		}
		r.playPending++
		return
	}
	if r.pending == 0 {
		r.pendingSince = t
	}
	r.pending++
	r.urgent = r.urgent || asks == askNow
}

// cameLate is called after note if number is below others that were received. The peer's
// floor may be above number, so cameLate lowers it to number.
func (r *reporter) noteLate(number uint64) {
	r.knownBelow = min(r.knownBelow, number)
	r.hasLate = true
}

// makePlace doubles the slots for arrivals if all are used.
func (r *reporter) growArrivals() {
	r.received++
	if r.received <= len(r.arrivals) || len(r.arrivals) == maxArrivals {
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
func (r *reporter) freeArrivals() {
	r.arrivals = nil
	r.received = 0
}

// arrival returns the slot of a number's arrival. If the slot contains another number, the
// arrival is no longer known.
func (r *reporter) arrival(number uint64) *arrival {
	return &r.arrivals[number%uint64(len(r.arrivals))]
}

// waits reports whether unreported packets ask for feedback.
func (r *reporter) hasPending() bool { return r.pending+r.playPending > 0 }

// dueAt returns when feedback is due. ok is false if no packet asks for it.
func (r *reporter) dueAt() (time.Duration, bool) {
	at := r.playSince + r.playDelay
	switch {
	case !r.hasPending():
		return 0, false
	case r.urgent || r.pending >= reportAfter:
		at = r.pendingSince
	case r.playPending == 0 || r.pending > 0 && r.pendingSince+r.maxDelay < at:
		at = r.pendingSince + r.maxDelay
	}
	return max(at, r.lastBuilt+r.minGap), true
}

// due reports whether feedback is due at t.
func (r *reporter) due(t time.Duration) bool {
	at, ok := r.dueAt()
	return ok && at <= t
}

// fill stores a report of at most room bytes in f. If the report covers everything that the
// peer may not know, fill returns one above the largest number. Otherwise it returns 0.
//
// If a report of all numbers does not fit, every second report continues below it. Packets
// that arrived late may be there, and the peer would otherwise count them as lost.
func (r *reporter) fill(t time.Duration, f *report, w *recovery.Window, room int) (covers uint64) {
	newest := w.Next - 1
	known := min(max(r.knownBelow, w.Floor()), newest)
	r.pending = 0
	r.playPending = 0
	r.urgent = false
	r.needsOwnPacket = false
	r.lastBuilt = t
	arrived := r.arrival(newest).at
	f.clock = uint64(arrived/clockUnit) & clockMask
	f.delay = r.clockOffset + t - arrived
	f.ndeltas = 0
	room -= maxReportHeader
	if from, ok := r.takeBacklog(w, known); ok {
		_, r.backlogEnd = r.fillRuns(f, w, room, from, known)
		return 0
	}
	floor := known
	if r.reports%reportMemory != 0 && !r.hasLate {
		floor = min(max(known, r.ends[r.reports%reportMemory]), newest)
	}
	room, rest := r.fillRuns(f, w, room, newest, floor)
	r.fillTimes(f, w, room)
	r.ends[r.reports%reportMemory] = w.Next
	r.reports++
	r.hasLate = false
	switch {
	case floor != known:
		return 0
	case rest == 0:
		r.backlogEnd = 0
		return w.Next
	case r.backlogEnd <= known:
		r.backlogEnd = rest
	}
	return 0
}

// turnToOlder reports whether this report must cover older numbers, and returns the largest
// of them that was received.
func (r *reporter) takeBacklog(w *recovery.Window, known uint64) (from uint64, ok bool) {
	r.wasBacklog = !r.wasBacklog && r.backlogEnd > known
	if !r.wasBacklog {
		return 0, false
	}
	from = r.backlogEnd - 1
	if w.Has(from) {
		return from, true
	}
	missing := w.Run(from, known)
	r.wasBacklog = from-known >= missing
	if !r.wasBacklog {
		r.backlogEnd = 0
		return 0, false
	}
	return from - missing, true
}

// fillRuns fills in the runs from the number from down to floor. It reserves room for a few
// times. left is the remaining room. rest is one above the largest number that did not fit,
// or 0 if all did.
func (r *reporter) fillRuns(
	f *report, w *recovery.Window, room int, from, floor uint64,
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
func (r *reporter) fillTimes(f *report, w *recovery.Window, room int) {
	floor := w.Floor()
	if r.reports >= 2 {
		floor = max(floor, r.ends[(r.reports-2)%reportMemory])
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
