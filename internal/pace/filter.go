package pace

import (
	"slices"
	"time"
)

const (
	minimumSlots = 4
	// maximumSlots is the number of rounds over which the estimate is the maximum rate.
	// One round with losses or too little data must not lower the estimate. But it must
	// soon follow the corrections of cruising, and return the rate that a look took from
	// others. BBR's 10 rounds would keep that rate until the next look.
	maximumSlots = 3
)

// A minimum is the windowed minimum of the durations added in the last 10 s.
//
// It keeps the minimum of each quarter of that time, so a duration is forgotten when it
// is 7.5 to 10 s old. If no duration is added, the last ones stay.
type minimum struct {
	slots [minimumSlots]minDuration // minimum of each quarter
	index int64                     // number of the newest slot, counted from the epoch
	min   time.Duration             // minimum of all slots
	known bool                      // a duration was added
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

// A maximum is the windowed maximum of the rates added in the last maximumSlots rounds.
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

// set forgets all rounds but the given one, which gets this rate.
func (m *maximum) set(round int64, rate float64) {
	*m = maximum{round: round}
	m.slots[round%maximumSlots] = rate
}

func (m *maximum) value() float64 { return slices.Max(m.slots[:]) }

// A minDuration is the minimum of some durations.
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
	// ringSize is the maximum number of values in a ring: points of the curve, and
	// neighbours of lost packets.
	ringSize = 256
	// minRingSize is the initial size of a ring.
	minRingSize = 16
)

// A ring keeps the last ringSize values of a sequence, numbered from 0. Its memory grows
// with the number of values, because each connection has a controller, and most carry
// little.
type ring[T any] struct {
	places []T // the length is a power of two, or 0
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

// at returns the value with number i, which must still be in the ring.
func (l *ring[T]) at(i int) *T { return &l.places[i&(len(l.places)-1)] }

// secondsSlot is the duration of a slot of lastSeconds.
const secondsSlot = time.Second

// lastSeconds holds the minimum and the maximum of the durations of the last one to two
// seconds.
type lastSeconds struct {
	slot        int64 // number of the second covered by now
	now, before struct {
		min minDuration
		max time.Duration
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
