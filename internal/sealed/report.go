package sealed

import "time"

const (
	// reportAfter packets that ask for it, feedback is due.
	reportAfter = 4
	// maxReportDelay bounds how long feedback may wait, whatever the round trip; QUIC's max_ack_delay.
	maxReportDelay = 25 * time.Millisecond
	// minReportDelay spares feedback where clocks and timers are coarser than the round trip.
	minReportDelay = 100 * time.Microsecond
	// maxReportGap is the most by which reports are kept apart. One each millisecond is 0.9 Mbit/s: more than many a way
	// back takes.
	maxReportGap = 2 * time.Millisecond
	// reportMemory is in how many reports at least a packet is acked; each reportMemory-th repeats all that the peer may
	// not know.
	reportMemory = 8
	// pingAfter reports that carried nothing else, one asks for an ack, so that the peer need not be told all again.
	pingAfter = 16

	arrivalSlots = 256
	// leastArrivals is how many of them a session begins with.
	leastArrivals = 32
)

// arrival is when a packet came, by this machine's clock as it is told to the peer.
type arrival struct {
	number uint64
	at     time.Duration
}

// clockZero is when the clock that peers are told begins. All carriers of a connection must have the same one, or their
// arrival times could not be compared. It is a whole second, so that times which are rounded for the wire are so in the same
// way in each process: what is played twice in virtual time is the same twice.
var clockZero = wholeSecond(time.Now())

func wholeSecond(t time.Time) time.Time { return t.Add(-time.Duration(t.Nanosecond())) }

// report decides when the peer is told what arrived, and what.
type report struct {
	arrivals []arrival     // by number, modulo: as many places as there were packets since rest, up to arrivalSlots
	noted    int           // packets since rest
	zero     time.Duration // what to add to the session's time for the clock

	// What is due.
	pending int           // packets that ask for feedback and were not reported
	since   time.Duration // arrival of the oldest of them
	play    int           // packets that ask for it, and leave it time
	begun   time.Duration // arrival of the oldest of those
	urgent  bool          // a ping, the end of a train or a gap is among them
	alone   bool          // the last data packet had no room: a packet of its own is needed
	last    time.Duration // when the last one was built
	gap     time.Duration // at least so long between two
	delay   time.Duration // and at most so long after a packet
	patient time.Duration // or after one of play

	// What the peer knows.
	floor uint64               // it knows which of the numbers below were received
	late  bool                 // some was since the last report, that it may take for lost
	marks [reportMemory]uint64 // one above the largest number of the last reports
	count uint64               // reports built
	bare  int                  // of them in a row that asked for no ack
	left  uint64               // one above the numbers for which a report of all had no room; 0 = all had some
	older bool                 // the last report was of those
}

func newReport(patient time.Duration) report {
	r := report{last: -time.Hour, patient: patient}
	r.pace(0)
	return r
}

// pace sets the report's rhythm for a round trip; 0 = unknown.
func (r *report) pace(rtt time.Duration) {
	if rtt <= 0 {
		rtt = 8 * time.Millisecond
	}
	r.gap = min(rtt/16, maxReportGap)
	r.delay = min(max(rtt/8, minReportDelay), maxReportDelay)
}

// asking is how soon a packet wants feedback.
type asking uint8

const (
	never    asking = iota
	ridingOn        // another packet, if one leaves soon
	soon
	atOnce
)

// note takes a packet that opened at t, and came before: it may have waited for us, which is nothing that the path did.
func (r *report) note(t, came time.Duration, number uint64, asks asking) {
	r.makePlace()
	if a := r.arrival(number); a.number <= number { // a late one takes no place of the newest, from which all times are told
		*a = arrival{number: number, at: r.zero + came}
	}
	switch asks {
	case never:
		return
	case ridingOn:
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

// cameLate says that a packet was noted below others. Until the peer knows of it that it knew of the others says nothing.
func (r *report) cameLate(number uint64) {
	r.floor = min(r.floor, number)
	r.late = true
}

// makePlace doubles the places while each holds an arrival.
func (r *report) makePlace() {
	if r.noted++; r.noted <= len(r.arrivals) || len(r.arrivals) == arrivalSlots {
		return
	}
	old := r.arrivals
	r.arrivals = make([]arrival, max(leastArrivals, 2*len(old)))
	for _, a := range old {
		*r.arrival(a.number) = a
	}
}

// rest gives up the arrivals, after a silence: the peer was told of all that it will be told.
func (r *report) rest() { r.arrivals, r.noted = nil, 0 }

// arrival returns the place of a number. Another number in it says that nothing is kept of that one.
func (r *report) arrival(number uint64) *arrival { return &r.arrivals[number%uint64(len(r.arrivals))] }

// waits reports whether there is something to tell.
func (r *report) waits() bool { return r.pending+r.play > 0 }

// dueAt returns when feedback is due.
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

func (r *report) due(t time.Duration) bool {
	at, ok := r.dueAt()
	return ok && at <= t
}

// fill writes what is to be told into f, at most room bytes. It returns one above the largest number, when that is all that the
// peer may not know, and else 0. While a report of all has had too little room, every second one goes on where that ended: packets
// come late below more gaps than one report has room for, and would else be counted as lost.
func (r *report) fill(t time.Duration, f *feedback, w *window, room int) (covers uint64) {
	newest, known := w.next-1, min(max(r.floor, w.floor()), w.next-1)
	r.pending, r.play, r.urgent, r.alone = 0, 0, false, false
	r.last = t
	arrived := r.arrival(newest).at
	f.clock = uint64(arrived/clockUnit) & clockMask
	f.delay = r.zero + t - arrived
	f.ntimes = 0
	room -= feedbackFixed
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
	r.marks[r.count%reportMemory] = w.next
	r.count++
	r.late = false
	switch {
	case floor != known:
		return 0
	case rest == 0:
		return w.next
	case r.left == 0:
		r.left = rest
	}
	return 0
}

// turnToOlder returns the largest number that was received and is to be told of by a report of older ones, if this is to be one.
func (r *report) turnToOlder(w *window, known uint64) (from uint64, ok bool) {
	if r.older = !r.older && r.left > known; !r.older {
		return 0, false
	}
	from = r.left - 1
	if w.has(from) {
		return from, true
	}
	missing := w.run(from, known)
	if r.older = from-known >= missing; !r.older {
		r.left = 0
		return 0, false
	}
	return from - missing, true
}

// fillRuns tells of the numbers from one on down to the floor, as far as there is room for, and for a few times. It returns one above those
// that are left, 0 = none is.
func (r *report) fillRuns(f *feedback, w *window, room int, from, floor uint64) (left int, rest uint64) {
	const keep = 4
	f.largest, f.nruns = uint32(from), 0
	n := from
	for f.nruns < maxRuns {
		run := w.run(n, floor)
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

// fillTimes lists the arrivals since the report before the last, up to the first that came too long before its successor:
// it is acked without a time.
func (r *report) fillTimes(f *feedback, w *window, room int) {
	floor := w.floor()
	if r.count >= 2 {
		floor = max(floor, r.marks[(r.count-2)%reportMemory])
	}
	at := r.arrival(w.next-1).at / clockUnit
	for n := w.next - 1; n > floor && f.ntimes < maxTimes; {
		n--
		a := r.arrival(n)
		switch {
		case !w.has(n):
			continue
		case a.number != n:
			return
		}
		d := int64(at - a.at/clockUnit)
		if room -= varintLen(d); room < 0 || d > maxEarlier || d < -maxEarlier {
			return
		}
		f.earlier[f.ntimes] = d
		f.ntimes++
		at = a.at / clockUnit
	}
}
