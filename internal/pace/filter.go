package pace

import (
	"slices"
	"time"
)

const (
	minimumSlots = 4

	// maximumSlots is how many rounds the estimate is a maximum of. It mustn't go down because of a
	// single round with losses or too little data. But it has to follow soon when cruising
	// corrects the rate, and give back what a look has taken from others. With BBR's 10 rounds we
	// would keep that until the next look.
	maximumSlots = 3
)

// A minimum is a windowed minimum, over the last 10 s.
//
// It has a minimum for each quarter of that time, so a duration is forgotten when it is 7.5 to 10 s
// old. If nothing is added any more, the latest ones stay.
type minimum struct {
	slots [minimumSlots]minDuration // one for each quarter
	index int64                     // number of the newest slot, counted from the epoch
	min   time.Duration             // minimum of all slots
	known bool                      // something was added
}

func (m *minimum) add(now instant, d time.Duration) {
	index := int64(now / (minimumLife / minimumSlots))
	for i := max(m.index+1, index-minimumSlots+1); i <= index; i++ {
		m.slots[i%minimumSlots] = minDuration{}
	}
	m.index = max(m.index, index)
	m.slots[m.index%minimumSlots].note(d)
	m.min = d
	m.known = true
	for _, slot := range m.slots {
		if slot.known {
			m.min = min(m.min, slot.value)
		}
	}
}

// A maximum is a windowed maximum of rates, over the last maximumSlots rounds.
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

// set starts over with a single round, in which this was the rate.
func (m *maximum) set(round int64, rate float64) {
	*m = maximum{round: round}
	m.slots[round%maximumSlots] = rate
}

func (m *maximum) value() float64 { return slices.Max(m.slots[:]) }

// A minDuration is the minimum of the durations noted.
type minDuration struct {
	value time.Duration
	known bool
}

func (l *minDuration) note(d time.Duration) {
	if !l.known || d < l.value {
		*l = minDuration{d, true}
	}
}

const (
	ringSize    = 256 // how many values a ring holds: points of the curve, or neighbours of lost packets
	minRingSize = 16  // how many it has room for at first
)

// A ring keeps the last ringSize values of a sequence, numbered from 0. Since every connection
// has a controller and most of them carry little, it takes memory only as it gets filled.
type ring[T any] struct {
	places []T // as many as a power of two, or none
	next   int // number of the next value
}

// add adds the next value.
func (l *ring[T]) add(v T) {
	if n := len(l.places); l.next == n && n < ringSize {
		places := make([]T, max(minRingSize, 2*n))
		copy(places, l.places)
		l.places = places
	}
	l.places[l.next&(len(l.places)-1)] = v
	l.next++
}

// at returns the value with number i, which must not have been dropped yet.
func (l *ring[T]) at(i int) *T { return &l.places[i&(len(l.places)-1)] }

// secondsSlot is how long each slot of a lastSeconds lasts.
const secondsSlot = time.Second

// A lastSeconds has the minimum and the maximum of the durations in the last one or two seconds.
type lastSeconds struct {
	slot        int64 // number of the second that now covers
	now, before struct {
		min minDuration
		max time.Duration
	}
}

// note adds a duration, and reports whether it is less than all the others.
func (l *lastSeconds) note(t instant, d time.Duration) (lowest bool) {
	switch slot := int64(t / secondsSlot); slot {
	case l.slot:
	case l.slot + 1:
		*l = lastSeconds{slot: slot, before: l.now}
	default:
		*l = lastSeconds{slot: slot}
	}
	before := l.now.min
	if l.before.min.known {
		before.note(l.before.min.value)
	}
	l.now.min.note(d)
	l.now.max = max(l.now.max, d)
	return before.known && d < before.value
}

// max returns the maximum duration.
func (l *lastSeconds) max() time.Duration { return max(l.now.max, l.before.max) }
