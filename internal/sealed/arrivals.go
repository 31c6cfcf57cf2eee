package sealed

import "time"

const (
	// maxArrivals is the maximum number of arrivals that a session remembers, four times as many
	// as fit into a report. At first there is room for initialArrivals.
	maxArrivals     = 4 * maxDeltas
	initialArrivals = 32
)

// An arrival is the time at which a packet arrived, on the receiver's clock.
type arrival struct {
	number uint64
	at     time.Duration
}

// clockOrigin is the zero of the clock on which we report arrivals to peers. All carriers of the
// process share it, so that their arrivals can be compared. It is a whole second, so that every
// process rounds times for the wire in the same way, which makes tests in virtual time repeatable.
var clockOrigin = wholeSecond(time.Now())

// wholeSecond rounds t down to a second.
func wholeSecond(t time.Time) time.Time { return t.Add(-time.Duration(t.Nanosecond())) }

// An arrivalLog remembers when recent packets arrived. The index of a packet's slot is its number
// modulo the number of slots, so newer packets replace older ones.
type arrivalLog struct {
	slots    []arrival     // doubled by grow, up to maxArrivals
	received int           // packets added since free
	offset   time.Duration // what to add to session time to get the time since clockOrigin
}

// add records that packet number arrived at the session time at.
func (l *arrivalLog) add(number uint64, at time.Duration) {
	l.grow()
	if slot := l.slot(number); slot.number <= number { // a late packet must not replace a newer one
		*slot = arrival{number: number, at: l.offset + at}
	}
}

// slot returns the slot for a packet. If the slot holds another packet's number, we no longer
// know when this packet arrived.
func (l *arrivalLog) slot(number uint64) *arrival { return &l.slots[number%uint64(len(l.slots))] }

// grow counts a packet, and doubles the number of slots if more packets were added than there are
// slots.
func (l *arrivalLog) grow() {
	l.received++
	if l.received <= len(l.slots) || len(l.slots) == maxArrivals {
		return
	}
	old := l.slots
	l.slots = make([]arrival, max(initialArrivals, 2*len(old)))
	for _, a := range old {
		*l.slot(a.number) = a
	}
}

// free drops all arrivals and frees their memory. It is called when no packet has arrived for some
// time and everything has been reported.
func (l *arrivalLog) free() {
	l.slots = nil
	l.received = 0
}
