package sealed

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// Once reportAfter packets want feedback soon, a report is due at once. RFC 9000, section
	// 13.2.2, recommends 2 packets, but it permits more. A report lists the arrival time of each
	// packet, so one for four packets tells the peer as much as two for two each.
	reportAfter = 4
	// Feedback for bulk waits for 1/delayParts of the round trip, so that the sender's window
	// advances in small steps. Between two reports there is at least half of that, 1/gapParts.
	delayParts = 8
	gapParts   = 2 * delayParts
	// maxReportDelay is the maximum time that feedback for bulk may wait, even if the round
	// trip is long. It is QUIC's default max_ack_delay (RFC 9000, section 18.2).
	maxReportDelay = 25 * time.Millisecond
	// minReportDelay is a lower bound for that time, because clocks and timers may be coarser
	// than a short round trip.
	minReportDelay = 100 * time.Microsecond
	// maxReportGap limits the minimum time between two reports, unless the return path is filling
	// up. It can't be much shorter, because one report per millisecond takes 0.9 Mbit/s, which is
	// more than many return paths can carry.
	maxReportGap = 2 * time.Millisecond

	// If the last round trips have all exceeded the minimum by more than backoffAfter, our own
	// reports may be filling the return path, which can be a hundred times slower than the
	// forward path. In that case, the minimum time between two reports is the excess beyond
	// backoffAfter, divided by backoffParts. RFC 5690 slows down acks in a similar way.
	//
	// That minimum is at most maxBackoff, because a path that was merely interrupted for seconds
	// may be as fast as before.
	backoffAfter = 100 * time.Millisecond
	backoffParts = 8
	maxBackoff   = 200 * time.Millisecond

	// Each packet is listed in at least reportMemory reports. In addition, every
	// reportMemory-th report repeats everything that the peer may not know.
	reportMemory = 8
	// Every pingAfter-th consecutive packet that carries only a report asks for an ack. The ack
	// tells us what the peer knows, so that later reports needn't repeat it. A smaller number
	// would cause more acks, and a larger one would make the reports longer.
	pingAfter = 16

	// unknownReportRTT is the round trip that pace assumes until one has been measured. It is
	// short, so that the first reports aren't held back for longer than the path warrants.
	unknownReportRTT = 8 * time.Millisecond
)

// An urgency is how soon a packet wants feedback.
type urgency uint8

const (
	askNever  urgency = iota
	askShared         // in a packet with other content, if one is sent within playDelay
	askSoon           // within maxDelay
	askNow            // at once
)

// A reporter decides when the peer gets a report (a feedback frame) and which packets the report
// lists.
//
// A packet with bulk (the traffic of transfers) is reported within an eighth of a round trip,
// or sooner if several have arrived. Feedback for play (the game's other traffic) may wait
// longer for a packet to piggyback on.
//
// Reports are never retransmitted. Instead, every packet is listed in reportMemory reports, and
// every so often a report repeats everything that the peer may not know. Once the peer has
// acked one of these complete reports, we needn't repeat what was in it.
type reporter struct {
	arrivals arrivalLog

	// When the next report is due. A packet is pending until it has been reported.
	pending      int           // packets that want feedback soon or now
	pendingSince time.Duration // when the oldest of them was handled
	playPending  int           // packets whose feedback may wait for a packet to piggyback on
	playSince    time.Duration // when the oldest of them was handled
	urgent       bool          // one of the pending packets wants feedback now
	ownPacket    bool          // the last packet had no room, so the report gets its own packet
	lastBuilt    time.Duration // when the last report was built
	minGap       time.Duration // minimum time between two reports; set by pace
	maxDelay     time.Duration // maximum wait of a pending packet; set by pace
	playDelay    time.Duration // maximum wait of a packet in playPending

	returnPath returnPathMonitor

	// What the peer knows.
	knownBelow uint64               // the peer knows whether each number below this was received
	reports    uint64               // reports built, not counting those of a backlog
	ends       [reportMemory]uint64 // one above the largest number of each of the last reports
	hasLate    bool                 // a packet has arrived out of order since the last report
	sinceAsked int                  // reports since the last one whose packet asked for an ack

	// The backlog consists of the numbers for which reports had no room, from knownBelow to
	// backlogEnd-1.
	backlogEnd uint64 // 0 if there's no backlog
	wasBacklog bool   // the last report listed numbers of the backlog
}

// newReporter returns a reporter whose feedback for play may wait for playDelay.
func newReporter(playDelay time.Duration) reporter {
	// The first report needn't wait for minGap.
	r := reporter{lastBuilt: -time.Hour, playDelay: playDelay}
	r.pace(0)
	return r
}

// pace adapts minGap and maxDelay to the round trip rtt, which is 0 if unknown.
func (r *reporter) pace(rtt time.Duration) {
	if rtt <= 0 {
		rtt = unknownReportRTT
	}
	r.minGap = max(min(rtt/gapParts, maxReportGap), r.returnPath.backoff())
	r.maxDelay = min(max(rtt/delayParts, minReportDelay), maxReportDelay)
}

// note records a packet that arrived at the time arrived and was handled at t. In between, it
// was waiting in our inbox, not on the path. want is how soon the packet wants feedback.
func (r *reporter) note(t, arrived time.Duration, number uint64, want urgency) {
	r.arrivals.add(number, arrived)
	switch want {
	case askNever:
		// We only remember when it arrived.
	case askShared:
		if r.playPending == 0 {
			r.playSince = t
		}
		r.playPending++
	default:
		if r.pending == 0 {
			r.pendingSince = t
		}
		r.pending++
		r.urgent = r.urgent || want == askNow
	}
}

// noteLate is called after note if a larger number arrived before this one. An earlier report
// may have listed it as missing, and the peer may have acked that report, so knownBelow is
// lowered again.
func (r *reporter) noteLate(number uint64) {
	r.knownBelow = min(r.knownBelow, number)
	r.hasLate = true
}

// peerKnows is called when a report is acked. The peer knows whether each number below end was
// received.
func (r *reporter) peerKnows(end uint64) { r.knownBelow = max(r.knownBelow, end) }

// pingDue reports whether a packet that carries only a report should ask for an ack.
func (r *reporter) pingDue() bool { return r.sinceAsked+1 >= pingAfter }

// noteBuilt is called after a report was added to a packet. asked is true if the packet asks for
// an ack.
func (r *reporter) noteBuilt(asked bool) {
	r.sinceAsked++
	if asked {
		r.sinceAsked = 0
	}
}

// freeArrivals frees the memory of the arrivals. There must be no pending packets.
func (r *reporter) freeArrivals() { r.arrivals.free() }

// moved is called when the path has changed. Round trips of the previous path don't count.
func (r *reporter) moved() { r.returnPath.reset() }

// hasPending reports whether any packet is waiting for a report.
func (r *reporter) hasPending() bool { return r.pending+r.playPending > 0 }

// dueAt returns when the next report is due. ok is false if no packet is waiting for one.
func (r *reporter) dueAt() (at time.Duration, ok bool) {
	if !r.hasPending() {
		return 0, false
	}
	pendingAt := r.pendingSince + r.maxDelay
	playAt := r.playSince + r.playDelay
	switch {
	case r.urgent || r.pending >= reportAfter:
		at = r.pendingSince
	case r.playPending == 0:
		at = pendingAt
	case r.pending == 0:
		at = playAt
	default:
		at = min(pendingAt, playAt)
	}
	return max(at, r.lastBuilt+r.minGap), true
}

// due reports whether a report is due at t.
func (r *reporter) due(t time.Duration) bool {
	at, ok := r.dueAt()
	return ok && at <= t
}

// fill sets rp to a report of at most room bytes on the packets in w, which were received, and
// takes note of what it lists.
//
// If the report covers everything that the peer may not know, fill returns one above its
// largest number, because once the report is acked, the peer knows everything below that.
// Otherwise it returns 0.
//
// If not everything fits, the rest becomes a backlog, and every second report lists numbers of
// the backlog instead. They may include packets that arrived late, which the peer would
// consider lost if no report listed them.
func (r *reporter) fill(t time.Duration, rp *report, w *recovery.Window, room int) (covers uint64) {
	r.clearPending(t)
	newest := w.Next - 1
	arrived := r.arrivals.slot(newest).at
	rp.clock = uint64(arrived/clockUnit) & clockMask
	rp.delay = r.arrivals.offset + t - arrived
	rp.ndeltas = 0
	room -= maxReportHeader

	known := min(max(r.knownBelow, w.Floor()), newest)
	if from, ok := r.takeBacklog(w, known); ok {
		_, r.backlogEnd = rp.setRuns(w, room, from, known)
		return 0
	}

	// A report goes back to where the report reportMemory before it ended. But every
	// reportMemory-th report goes all the way back, and so does a report after a late packet.
	floor := known
	if r.reports%reportMemory != 0 && !r.hasLate {
		floor = min(max(known, r.ends[r.reports%reportMemory]), newest)
	}
	room, unlistedEnd := rp.setRuns(w, room, newest, floor)
	r.fillDeltas(rp, w, room)
	r.ends[r.reports%reportMemory] = w.Next
	r.reports++
	r.hasLate = false

	if floor != known {
		return 0
	}
	if unlistedEnd == 0 {
		r.backlogEnd = 0
		return w.Next
	}
	if r.backlogEnd <= known {
		// There's no backlog yet, or the peer knows all of it by now.
		r.backlogEnd = unlistedEnd
	}
	return 0
}

// clearPending is called when a report is built.
func (r *reporter) clearPending(t time.Duration) {
	r.pending = 0
	r.playPending = 0
	r.urgent = false
	r.ownPacket = false
	r.lastBuilt = t
}

// takeBacklog decides whether the next report is for the backlog, which it never is twice in a
// row. If so, it returns the largest number in the backlog that was received, from which the
// report must work down.
func (r *reporter) takeBacklog(w *recovery.Window, known uint64) (from uint64, ok bool) {
	r.wasBacklog = !r.wasBacklog && r.backlogEnd > known
	if !r.wasBacklog {
		return 0, false
	}
	from = r.backlogEnd - 1
	if w.Has(from) {
		return from, true
	}

	// A report must start with a number that was received, so skip the missing ones.
	missing := w.Run(from, known)
	if from-known < missing {
		// Nothing that was received is left.
		r.wasBacklog = false
		r.backlogEnd = 0
		return 0, false
	}
	return from - missing, true
}

// fillDeltas lists the arrivals since the last report but one, as many as fit. The list ends
// before a packet whose arrival time we have forgotten, or whose arrival is too far from its
// neighbor's for a delta. The remaining packets are acked without a time.
func (r *reporter) fillDeltas(rp *report, w *recovery.Window, room int) {
	floor := w.Floor()
	if r.reports >= 2 {
		floor = max(floor, r.ends[(r.reports-2)%reportMemory])
	}
	above := r.arrivals.slot(w.Next-1).at / clockUnit
	for n := w.Next - 1; n > floor && rp.ndeltas < maxDeltas; {
		n--
		if !w.Has(n) {
			// Skip the whole run of missing numbers, since a peer may leave out thousands.
			// Checking them one by one would take 0.1 ms for a single packet of 30 bytes.
			n -= w.Run(n, floor) - 1
			continue
		}
		a := r.arrivals.slot(n)
		if a.number != n {
			return
		}
		at := a.at / clockUnit
		delta := int64(above - at)
		room -= varintLen(delta)
		if room < 0 || delta > longestDelta || delta < -longestDelta {
			return
		}
		rp.deltas[rp.ndeltas] = delta
		rp.ndeltas++
		above = at
	}
}

// returnTrips is the number of round trips that a returnPathMonitor considers. All of them must
// be long, so a few spikes from jitter don't slow down the reports.
const returnTrips = 4

// A returnPathMonitor detects that our reports are filling the return path. If they are, the
// standing queue there lengthens every one of the last round trips.
type returnPathMonitor struct {
	minRTT  time.Duration              // on this path; 0 if unknown
	excess  [returnTrips]time.Duration // of the last round trips over minRTT; a ring indexed by samples
	samples int                        // round trips so far
}

// sample adds the round trip of a ping.
func (p *returnPathMonitor) sample(rtt time.Duration) {
	if p.minRTT == 0 || rtt < p.minRTT {
		p.minRTT = rtt
	}
	p.excess[p.samples%len(p.excess)] = rtt - p.minRTT
	p.samples++
}

// backoff returns the minimum time between reports that keeps them from filling the return
// path. It's zero or negative if they don't fill it.
func (p *returnPathMonitor) backoff() time.Duration {
	return min((slices.Min(p.excess[:])-backoffAfter)/backoffParts, maxBackoff)
}

// reset forgets the round trips of the previous path.
func (p *returnPathMonitor) reset() {
	p.minRTT = 0
	p.excess = [returnTrips]time.Duration{}
}
