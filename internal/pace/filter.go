package pace

import (
	"slices"
	"time"
)

const (
	minimumSlots = 4

	// maximumSlots is the number of rounds over which the estimate is a maximum. A single round
	// with losses or too little data must not lower the estimate. But the estimate must soon follow
	// when cruising corrects the rate, and give back what a look took from others. With BBR's 10
	// rounds we would keep that until the next look.
	maximumSlots = 3
)

// A minimum is a windowed minimum over the last 10 s (minimumLife).
//
// It keeps a minimum for each quarter of that time, so a duration is dropped when it is 7.5 to 10 s
// old. If nothing is added any more, the latest durations stay.
type minimum struct {
	slots [minimumSlots]minDuration // one for each quarter
	index int64                     // number of the newest slot, counted from the epoch
	min   time.Duration             // minimum of all slots
	known bool                      // a duration was added
}

// add adds a duration measured now.
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

// A maximum is a windowed maximum of rates over the last maximumSlots rounds.
type maximum struct {
	slots [maximumSlots]float64
	round int64
}

// add adds a rate measured in a round.
func (m *maximum) add(round int64, rate float64) {
	for i := max(m.round+1, round-maximumSlots+1); i <= round; i++ {
		m.slots[i%maximumSlots] = 0
	}
	m.round = max(m.round, round)
	at := m.round % maximumSlots
	m.slots[at] = max(m.slots[at], rate)
}

// set drops all rates and starts over with this one.
func (m *maximum) set(round int64, rate float64) {
	*m = maximum{round: round}
	m.slots[round%maximumSlots] = rate
}

// value returns the maximum, or 0 if there is no rate.
func (m *maximum) value() float64 { return slices.Max(m.slots[:]) }

// A minDuration is the minimum of the durations noted.
type minDuration struct {
	value time.Duration
	known bool
}

// note adds a duration.
func (m *minDuration) note(d time.Duration) {
	if !m.known || d < m.value {
		*m = minDuration{d, true}
	}
}

const (
	ringSize    = 256 // capacity of a ring
	minRingSize = 16  // its room at first
)

// A ring keeps the last ringSize values of a sequence, numbered from 0. It allocates memory only as
// it fills, because every connection has a controller and most of them carry little.
type ring[T any] struct {
	places []T // its length is a power of two, or 0
	next   int // number of the next value
}

// add adds the next value.
func (r *ring[T]) add(v T) {
	if n := len(r.places); r.next == n && n < ringSize {
		places := make([]T, max(minRingSize, 2*n))
		copy(places, r.places)
		r.places = places
	}
	r.places[r.next&(len(r.places)-1)] = v
	r.next++
}

// at returns value number i, which must be one of the last ringSize.
func (r *ring[T]) at(i int) *T { return &r.places[i&(len(r.places)-1)] }

// secondsSlot is how long each slot of a lastSeconds lasts.
const secondsSlot = time.Second

// A lastSeconds keeps the minimum and the maximum of the durations in the last one or two seconds.
type lastSeconds struct {
	slot        int64 // number of the second that now covers
	now, before struct {
		min minDuration
		max time.Duration
	}
}

// note adds a duration, and reports whether it is below all the others.
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
