package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEvidence(t *testing.T) {
	look := tally{lost: 20, acked: 80}
	require.EqualValues(t, maxEvidence, evidence(look, tally{acked: 60}))
	require.EqualValues(t, -2*maxEvidence, evidence(tally{acked: 100}, tally{lost: 12, acked: 48}))
	require.Less(t, evidence(look, tally{lost: 12, acked: 48}), 0., "all are lost alike")
	require.InDelta(t, 0.4, evidence(tally{lost: 1, acked: 99}, tally{acked: 60}), 0.1, "a single loss shows little")
	require.Zero(t, evidence(tally{acked: 100}, tally{acked: 60}))
	require.Zero(t, evidence(look, tally{acked: 3}), "too few to compare")
}

// compared has a blame compare a look, whose packets have the given fates, once a second.
func compared(b *blame, t *instant, l look) (proved bool) {
	*t += time.Second
	return b.compare(*t, &l)
}

func TestLooksProveWhoseLossesTheyAre(t *testing.T) {
	lossy, lossless := tally{lost: 20, acked: 80}, tally{acked: 60}
	var b blame
	var now instant
	for range 2 {
		require.False(t, compared(&b, &now, look{outcome: lossy, payback: lossless, rest: lossy}))
	}
	require.True(t, compared(&b, &now, look{outcome: lossy, payback: lossless, rest: lossy}))

	// A radio loses as much in the drains as in the looks.
	b = blame{}
	for i := range 100 {
		l := look{outcome: lossy, payback: lossless, rest: lossy}
		if i%2 > 0 {
			l = look{outcome: tally{acked: 100}, payback: tally{lost: 12, acked: 48}, rest: lossy}
		}
		require.False(t, compared(&b, &now, l))
	}

	// On a path that we have to ourselves, only looks lose packets.
	b = blame{}
	for range 100 {
		require.False(t, compared(&b, &now, look{outcome: lossy, payback: lossless, rest: tally{lost: 1, acked: 999}}))
	}

	// A short queue drops packets of looks beside random loss.
	b = blame{}
	for range 100 {
		require.False(t, compared(&b, &now, look{maxExtra: minFit, outcome: lossy, payback: lossless, rest: tally{lost: 20, acked: 980}}))
	}
}

func TestNothingIsProvedInTheFirstSeconds(t *testing.T) {
	var b blame
	l := look{outcome: tally{lost: 20, acked: 80}, payback: tally{acked: 60}, rest: tally{lost: 20, acked: 80}}
	for now := instant(1); now < 1+firstBlame; now += 100 * ms {
		again := l
		require.False(t, b.compare(now, &again))
	}
	require.True(t, b.compare(1+firstBlame, &l))
}

// CoDel drops packets of looks and drains alike, but none that met no queue.
func TestQueuesProveWhoseLossesTheyAre(t *testing.T) {
	var b blame
	var now instant
	seconds := 0
	for proved := false; !proved && seconds < 100; seconds++ {
		b.at(clearQueue - 1).acked += 300
		b.at(clearQueue).acked += 900
		b.at(clearQueue).lost += 10
		proved = compared(&b, &now, look{})
	}
	require.Equal(t, 3, seconds)

	// A radio that fades delays and loses the same packets.
	b = blame{}
	for range 100 {
		b.at(0).acked += 900
		b.at(20 * ms).acked += 100
		b.at(20 * ms).lost += 20
		require.False(t, compared(&b, &now, look{}))
	}

	b = blame{}
	for range 100 {
		b.at(0).acked += 300
		b.at(0).lost += 3
		b.at(20 * ms).acked += 900
		b.at(20 * ms).lost += 9
		require.False(t, compared(&b, &now, look{}))
	}
}

// The packets of a look and those of the drain after it are told apart by their marks.
func TestFatesOfALook(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.rates.set(0, 1e6)
	sent := func() Sample { return c.Sent(c.local.time(c.now+1), 1000, 0) }
	c.enter(Cruise, 1)
	before := sent()
	c.openLook(2)
	inLook := sent()
	c.endLook(3)
	inPayback := sent()
	c.enter(Cruise, 4)
	after := sent()
	require.Same(t, &c.look.rest, c.look.of(before))
	require.Same(t, &c.look.outcome, c.look.of(inLook))
	require.Same(t, &c.look.payback, c.look.of(inPayback))
	require.Same(t, &c.look.rest, c.look.of(after))

	c.openLook(5)
	require.Same(t, &c.look.rest, c.look.of(inLook), "of an earlier look")
	require.Same(t, &c.look.rest, c.look.of(inPayback))
	c.look.number = 1<<16 - 2
	c.openLook(6)
	require.EqualValues(t, 2, c.look.number, "0 means no look")
}

// Acked and Lost count for the blame; of a run of losses, only the first does.
func TestFatesCountForBlame(t *testing.T) {
	c := New(Config{Packet: 1000})
	at := func(d time.Duration) time.Time { return c.local.time(instant(d)) }
	var sent []Sample
	for i := range 5 {
		sent = append(sent, c.Sent(at(time.Second+time.Duration(i)*ms), 1000, i*1000))
	}
	c.Lost(at(2*time.Second), sent[1], 1000)
	c.Lost(at(2*time.Second), sent[2], 1000)
	c.Acked(at(2*time.Second), sent[3], 1000, at(2*time.Second))
	require.Equal(t, tally{lost: 1, acked: 1}, c.blame.clear)
	require.Zero(t, c.blame.delayed)
	require.Equal(t, tally{lost: 1, acked: 1}, c.competition.sharing.stretch.fates)
	require.Equal(t, 2, c.look.rest.lost)

	c.enter(Cruise, instant(2*time.Second))
	require.Zero(t, c.blame.clear, "losses of a start show nothing about cruising")
	require.Zero(t, c.look.rest)
}

// A look is compared once it is closed, and only if it was on this path.
func TestWhenLooksAreCompared(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.look.number = 2
	for c.rounds = range lookRounds + 3 {
		c.checkBlame(time.Second)
		require.Equal(t, c.rounds > lookRounds, c.blame.began > 0, c.rounds)
	}
	c.blame, c.looks.before, c.rounds = blame{}, 2, lookRounds+1
	c.checkBlame(time.Second)
	require.Zero(t, c.blame.began)
}

// What proved that losses are our doing proves it once. After that, and after a start, the path
// may be another one.
func TestEvidenceIsUsedOnce(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.rates.set(0, 1e6)
	c.blame.looks = proof
	c.enterSharing(2)
	require.Zero(t, c.blame.looks)
	c.blame.looks = proof
	c.beginStart(3, 1e6)
	require.Zero(t, c.blame.looks)
}
