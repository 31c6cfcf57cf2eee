package pace

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// open sends the first flight when Next allows it, and returns its packets and when each was sent.
func (f flier) open() (flight []Sample, at []time.Duration) {
	now := f.begin
	for (len(flight)+1)*f.size <= f.Window() {
		next, _ := f.Next(now, f.size, len(flight)*f.size)
		now = later(now, next)
		flight = append(flight, f.Sent(now, f.size, len(flight)*f.size))
		at = append(at, now.Sub(f.begin))
	}
	return flight, at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// cross reports the arrivals of a flight over a path with the given rate and round trip, until the
// controller no longer believes the train.
func (f flier) cross(flight []Sample, at []time.Duration, rate float64, trip time.Duration) {
	free := time.Duration(0)
	for n, s := range flight {
		free = max(free, at[n]) + sendTime(f.size, rate)
		acked := f.begin.Add(trip + free)
		f.Acked(acked, s, f.size, acked.Add(-trip/2))
		f.Feedback(acked, (len(flight)-n-1)*f.size)
		if !f.start.careful {
			return
		}
	}
}

// TestOpeningShowsWhatTheTrainDidNot: after a train that showed 2 Mbit/s, 256 KiB over 20 Mbit/s
// took 3.1 times the ideal, because the train was believed for three round trips.
func TestOpeningShowsWhatTheTrainDidNot(t *testing.T) {
	const shown = 0.5e6
	for _, row := range []struct {
		path, rate float64
		state      State
	}{
		{shown, shown, Up},
		{1.3 * shown, shown, Up}, // a look finds the rest
		{2 * shown, 2 * shown, Up},
		{10 * shown, openingGain * shown, Start},
	} {
		f := newFlier(1000, shown, 256<<10)
		flight, at := f.open()
		require.Less(t, at[openingPackets-1], 4*ms)
		require.InDelta(t, openingPackets*2*ms, at[openingPackets], float64(ms), "the path has had time for the opening")
		f.cross(flight, at, row.path, 50*ms)
		require.False(t, f.start.careful, "%+v", row)
		require.InEpsilon(t, row.rate, f.Estimate(), 0.35, "%+v", row)
		require.Equal(t, row.state, f.State(), "%+v", row)
	}
}

// An unknown path begins with more than a small rate, so nothing but a smaller one is doubted.
func TestWhichFlightsHaveAnOpening(t *testing.T) {
	f := newFlier(1000, 0.25e6, 256<<10)
	require.True(t, f.opens())
	require.EqualValues(t, openingGain*f.Estimate(), f.Rate())
	f.Waiting(0)
	require.False(t, f.opens(), "play")
	f.Waiting(256 << 10)
	f.Starters(2, 1)
	require.False(t, f.opens(), "many start")
	require.False(t, newFlier(1000, 2e6, 256<<10).opens(), "the train showed more than 32 packets per round trip")
	require.False(t, newFlier(1000, 0.2e6, 256<<10).opens(), "the opening would take longer than a round trip")
}

// Arrivals in a clump show no rate.
func TestAClumpedOpening(t *testing.T) {
	f := newFlier(1000, 0.25e6, 256<<10)
	flight, at := f.open()
	for n := range at {
		at[n] = 8 * ms
	}
	f.cross(flight[:openingPackets], at, 1e9, 50*ms)
	require.True(t, f.start.careful)
	require.InDelta(t, 0.25e6, f.start.hint, 1)
}

// Arrivals within less than minSpan show no rate either, however many points they have.
func TestAnOpeningThatArrivesTooFast(t *testing.T) {
	for _, row := range []struct {
		apart    time.Duration
		believed bool
	}{{25 * time.Microsecond, true}, {70 * time.Microsecond, false}} {
		f := newFlier(1400, 25e6, 4<<20)
		f.Guess(ms)
		flight, at := f.open()
		for n := range at[:openingPackets] {
			at[n] = at[openingPackets-1] + time.Duration(n*3/openingPackets)*row.apart // three clumps
		}
		f.cross(flight[:openingPackets], at, 1e12, ms)
		require.Equal(t, row.believed, f.start.careful, "%v", row.apart)
	}
}

// Packets that aren't sent as an opening, such as a burst, aren't judged as one.
func TestABurstIsNoOpening(t *testing.T) {
	f := newFlier(1400, 40e6, 4<<20)
	f.Guess(4 * ms)
	f.Bursts(true)
	f.burst.passed = maxBurst
	require.False(t, f.opens())
	flight, at := f.open()
	require.Zero(t, at[openingPackets])
	f.cross(flight[:trainPackets-1], at, 80e6, 4*ms)
	require.True(t, f.start.careful)
}

// TestWhatAnOpeningShows: the train showed 0.5 MB/s.
func TestWhatAnOpeningShows(t *testing.T) {
	for name, row := range map[string]struct {
		sent func(at []time.Duration) // changes when the packets leave the sender or the next hop
		skip int                      // number of a packet that is lost, from 1 on; 0 = none
		upTo int                      // how many packets have arrived
		told func(f flier)            // what the controller is told before they arrive
		path float64                  // rate of the path; 0 = far more than the train showed
		rate float64                  // 0 = the train is still believed
	}{
		"not all have arrived":  {upTo: openingPackets - 1},
		"all have arrived":      {upTo: openingPackets, rate: 2e6},
		"the last one is lost":  {upTo: openingPackets + 1, skip: openingPackets, rate: 2e6},
		"only a little more":    {upTo: openingPackets, path: 0.7e6},
		"twice as much":         {upTo: openingPackets, path: 1e6, rate: 1e6},
		"two clumps":            {upTo: openingPackets, sent: func(at []time.Duration) { gather(at[:4], 8*ms); gather(at[4:8], 9*ms) }},
		"three of them":         {upTo: openingPackets + 2, sent: func(at []time.Duration) { at[1], at[2] = ms, 2*ms; gather(at[3:10], 20*ms) }},
		"others begin as well":  {upTo: openingPackets, told: func(f flier) { f.Starters(2, openingPackets*f.size) }},
		"the path starts again": {upTo: openingPackets, told: func(f flier) { f.beginStart(f.now, 0.5e6) }},
	} {
		f := newFlier(1000, 0.5e6, 256<<10)
		flight, at := f.open()
		if row.sent != nil {
			row.sent(at)
		}
		if row.told != nil {
			row.told(f)
		}
		flight, at = flight[:row.upTo], at[:row.upTo]
		if row.skip > 0 {
			flight, at = slices.Delete(flight, row.skip-1, row.skip), slices.Delete(at, row.skip-1, row.skip)
		}
		if row.path == 0 {
			row.path = 1e9
		}
		f.cross(flight, at, row.path, 50*ms)
		require.Equal(t, row.rate == 0, f.start.careful, name)
		if row.rate > 0 {
			require.InEpsilon(t, row.rate, f.Estimate(), 0.1, name)
		}
	}
}

// gather has packets leave together.
func gather(at []time.Duration, together time.Duration) {
	for n := range at {
		at[n] = together
	}
}

// A timer that fires late lets the whole opening leave at once. What it shows is limited all the
// same. An opening that hasn't been sent as a whole shows nothing.
func TestAnOpeningThatIsSentLate(t *testing.T) {
	for _, sent := range []int{openingPackets - 1, openingPackets} {
		f := newFlier(1000, 0.5e6, 256<<10)
		var flight []Sample
		for n := range sent {
			flight = append(flight, f.Sent(f.begin, f.size, n*f.size))
		}
		f.cross(flight, make([]time.Duration, sent), 3e6, 50*ms)
		if sent < openingPackets {
			require.True(t, f.start.careful)
			continue
		}
		require.InEpsilon(t, openingGain*0.5e6, f.Estimate(), 0.01)
		require.True(t, f.State() == Up && f.look.swift)
	}
}

// Each flight has an opening of its own, and so has a new start.
func TestOpeningsOfLaterFlights(t *testing.T) {
	f := newFlier(1000, 0.25e6, 256<<10)
	f.Sent(f.begin, f.size, 0) // a transfer's header
	f.Limited(f.size)
	for n := range openingPackets {
		require.True(t, f.opens(), n)
		f.Sent(f.begin.Add(ms), f.size, (n+1)*f.size)
	}
	require.False(t, f.opens())
	f.beginStart(f.now, 0.25e6)
	require.True(t, f.opens())
}
