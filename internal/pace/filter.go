package pace

import (
	"slices"
	"time"
)

const (
	minimumSlots = 4
	// maximumSlots is how many rounds the estimate is the greatest rate of. One round with losses
	// or too little data must not lower it, but it must soon follow what cruising corrects, and
	// return what a look took from others. BBR's 10 rounds would keep that until the next look.
	maximumSlots = 3
)

// A minimum is the least of the durations that were added in the last 10 s. It
// keeps one for each quarter of that time, so it forgets them when they are 7.5
// to 10 s old. If none is added it keeps the last ones.
type minimum struct {
	slots [minimumSlots]least // the least of each quarter
	index int64               // number of the newest slot, counted from the epoch
	least time.Duration       // the least of all slots
	known bool                // a duration was added
}

func (m *minimum) add(now instant, d time.Duration) {
	index := int64(now / (minimumLife / minimumSlots))
	for i := max(m.index+1, index-minimumSlots+1); i <= index; i++ {
		m.slots[i%minimumSlots] = least{}
	}
	m.index = max(m.index, index)
	m.slots[m.index%minimumSlots].note(d)
	m.least, m.known = d, true
	for _, slot := range m.slots {
		if slot.known {
			m.least = min(m.least, slot.value)
		}
	}
}

// A maximum is the greatest of the rates added in the last maximumSlots rounds.
type maximum struct {
	slots [maximumSlots]float64
	round int64
}

func (m *maximum) add(round int64, rate float64) {
	for i := max(m.round+1, round-maximumSlots+1); i <= round; i++ {
		m.slots[i%maximumSlots] = 0
	}
	m.round = max(m.round, round)
	at := m.round % maximumSlots
	m.slots[at] = max(m.slots[at], rate)
}

// set forgets all rounds but this one, which gets this rate.
func (m *maximum) set(round int64, rate float64) {
	*m = maximum{round: round}
	m.slots[round%maximumSlots] = rate
}

func (m *maximum) value() float64 { return slices.Max(m.slots[:]) }

// A least is the least of some durations.
type least struct {
	value time.Duration
	known bool
}

func (l *least) note(d time.Duration) {
	if !l.known || d < l.value {
		*l = least{d, true}
	}
}

const (
	// kept is how many values a latest keeps: points of the curve, and neighbours of lost packets.
	kept = 256
	// leastPlaces is how many places a latest begins with.
	leastPlaces = 16
)

// A latest keeps the last kept values of a sequence, numbered from 0. Its memory grows with
// their number, because each connection has a controller, and most of them carry little.
type latest[T any] struct {
	places []T // the length is a power of two, or 0
	next   int // number of the next value
}

// add adds the next value.
func (l *latest[T]) add(v T) {
	if n := len(l.places); l.next == n && n < kept {
		places := make([]T, max(leastPlaces, 2*n))
		copy(places, l.places)
		l.places = places
	}
	*l.at(l.next) = v
	l.next++
}

// at returns the value with number i, which must still be kept.
func (l *latest[T]) at(i int) *T { return &l.places[i&(len(l.places)-1)] }

// secondsSlot is how long a slot of lastSeconds lasts.
const secondsSlot = time.Second

// lastSeconds holds the least and the greatest of the durations of the last one to two seconds.
type lastSeconds struct {
	slot        int64 // number of the second that now is about
	now, before struct {
		least least
		most  time.Duration
	}
}

// note adds a duration, and reports whether it is less than all others.
func (l *lastSeconds) note(t instant, d time.Duration) (lowest bool) {
	switch slot := int64(t / secondsSlot); slot {
	case l.slot:
	case l.slot + 1:
		*l = lastSeconds{slot: slot, before: l.now}
	default:
		*l = lastSeconds{slot: slot}
	}
	before := l.now.least
	if l.before.least.known {
		before.note(l.before.least.value)
	}
	l.now.least.note(d)
	l.now.most = max(l.now.most, d)
	return before.known && d < before.value
}

// most returns the greatest duration.
func (l *lastSeconds) most() time.Duration { return max(l.now.most, l.before.most) }
