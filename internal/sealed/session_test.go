package sealed

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/testkit"
)

// step drives two sessions by hand: what a side builds is delivered only when the test says so.
type step struct {
	*testing.T
	now    time.Time
	a, b   *Session
	up     *pieces // a's source
	down   *pieces // b's
	errors []error
}

func newStep(t *testing.T, total int, configure func(*SessionConfig)) *step {
	s := &step{T: t, now: netsim.Epoch, up: newPieces(1000, total, 0), down: newPieces(1000, 0, total)}
	s.a, s.b = ends(t, s.up, s.down, func(c *SessionConfig) {
		c.NoTrain = true
		if configure != nil {
			configure(c)
		}
	})
	return s
}

// open brings both ends to Open. Then a's source has its payloads.
func (s *step) open() *step {
	s.up.hold = true
	defer func() {
		s.up.hold = false
		s.a.Wake()
	}()
	s.a.Start(s.now, ID{1})
	s.b.Start(s.now, ID{2})
	for range 4 {
		s.exchange(10 * ms)
	}
	require.Equal(s, Open, s.a.State())
	require.Equal(s, Open, s.b.State())
	return s
}

// build collects what a side sends now.
func (s *step) build(m *Session) (packets [][]byte) {
	require.NoError(s, m.Advance(s.now))
	for {
		p, _, ok := m.AppendPacket(s.now, make([]byte, 0, SafePacket), SafePacket)
		if !ok {
			if at, ok := m.NextTimeout(); ok {
				require.True(s, at.After(s.now), "a timeout that has passed and no packet")
			}
			return packets
		}
		packets = append(packets, p)
	}
}

// collect has a send so many packets, or the few more that are due with the
// last, paced as they are.
func (s *step) collect(n int) (packets [][]byte) {
	for range 1000 {
		if packets = append(packets, s.build(s.a)...); len(packets) >= n {
			break
		}
		s.now = s.now.Add(ms)
	}
	require.GreaterOrEqual(s, len(packets), n)
	return packets
}

func (s *step) deliver(to *Session, packets ...[]byte) {
	for _, p := range packets {
		if err := to.Receive(s.now, bytes.Clone(p)); err != nil {
			s.errors = append(s.errors, err)
		}
	}
}

// exchange lets both send, and delivers it after half a round trip.
func (s *step) exchange(half time.Duration) {
	a, b := s.build(s.a), s.build(s.b)
	s.now = s.now.Add(half)
	s.deliver(s.b, a...)
	s.deliver(s.a, b...)
}

// pass moves the clock in small steps, in which nothing arrives.
func (s *step) pass(d time.Duration) (packets int) {
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(5 * ms) {
		packets += len(s.build(s.a))
	}
	return packets
}

func TestOpening(t *testing.T) {
	s := newStep(t, 10, nil)
	require.Empty(t, s.build(s.a), "nothing leaves before the peer's ids are known")
	s.a.Start(s.now)
	require.Empty(t, s.build(s.a), "nor when it has none")
	s.a.Start(s.now, ID{1})
	probes := s.build(s.a)
	require.Len(t, probes, 1)
	require.Len(t, probes[0], SafePacket, "of the size that every path takes")
	require.Equal(t, []byte{firstSealed, 1}, probes[0][:2])
	s.deliver(s.b, probes...)
	require.Empty(t, s.build(s.b), "the peer has no ids yet")

	t.Log("# the peer starts, which has this side ask again at once")
	s.now = s.now.Add(5 * ms)
	s.b.Start(s.now, ID{2})
	answer := s.build(s.b)
	require.Len(t, answer, 1)
	s.deliver(s.a, answer...)
	require.Equal(t, Open, s.a.State(), "the peer's first packet acks the probe too")
	s.deliver(s.b, s.build(s.a)...)
	require.Equal(t, Open, s.b.State())
}

// TestDataWaitsForTheTrain: a carrier that is open sends no payload until the
// fates of all packets of the train are known.
func TestDataWaitsForTheTrain(t *testing.T) {
	s := newStep(t, 10, func(c *SessionConfig) { c.NoTrain = false })
	s.a.Start(s.now, ID{1})
	s.b.Start(s.now, ID{2})
	packets := s.build(s.a)
	require.Len(t, packets, 1+trainPackets)
	last := len(packets) - 1
	s.deliver(s.b, packets[:last]...)
	s.deliver(s.a, s.build(s.b)...)
	require.Equal(t, Open, s.a.State())
	s.build(s.a)
	require.Zero(t, s.up.next, "the last packet may be on its way")
	s.deliver(s.b, packets[last])
	s.now = s.now.Add(5 * ms)
	s.deliver(s.a, s.build(s.b)...)
	s.build(s.a)
	require.Positive(t, s.up.next)
}

func TestOpeningFails(t *testing.T) {
	s := newStep(t, 10, nil)
	s.a.Start(s.now, ID{1})
	probes := s.pass(silentTime - 50*ms)
	require.Equal(t, Opening, s.a.State())
	require.InDelta(t, 5, probes, 2, "one at once, and two each probe timeout")
	s.pass(100 * ms)
	require.Equal(t, Silent, s.a.State())
	require.Zero(t, s.up.next, "no payload left")
	for s.a.Advance(s.now) == nil {
		s.build(s.a)
		s.now = s.now.Add(50 * ms)
	}
	require.InDelta(t, stopTime.Seconds(), s.now.Sub(netsim.Epoch).Seconds(), 0.2)
	var why *Error
	require.ErrorAs(t, s.a.Err(), &why)
	require.Equal(t, "no ack for 10s", why.Reason)
	_, more := s.a.NextTimeout()
	require.False(t, more)
	require.Empty(t, s.build(&Session{state: Closed, source: s.up}))
}

func TestSilence(t *testing.T) {
	s := newStep(t, 3, nil).open()
	s.collect(3)
	require.Len(t, s.up.open, 3)

	t.Log("# nothing comes back: a probe a PTO, and after a second everything is given back")
	probes := s.pass(900 * ms)
	require.Equal(t, Open, s.a.State())
	require.InDelta(t, 900/float64(s.a.pto().Milliseconds()), float64(probes), 2)
	s.pass(500 * ms)
	require.Equal(t, Silent, s.a.State())
	require.Len(t, s.up.again, 3)
	require.Zero(t, s.a.InFlight())

	t.Log("# no payload while it is silent, but probes; an ack opens it again")
	pings := s.build(s.a)
	for len(pings) == 0 {
		s.now = s.now.Add(5 * ms)
		pings = s.build(s.a)
	}
	require.Len(t, pings, 1)
	require.Less(t, len(pings[0]), 100)
	require.Len(t, s.up.again, 3)
	s.deliver(s.b, pings...)
	s.deliver(s.a, s.build(s.b)...)
	require.Equal(t, Open, s.a.State())
	for range 20 {
		s.exchange(30 * ms)
	}
	require.True(t, s.up.delivered())
	require.Empty(t, s.up.faults)
}

// A packet that counted as lost and arrives after all is acked after it was lost.
func TestSpuriousLoss(t *testing.T) {
	s := newStep(t, 8, nil).open()
	before, p := s.a.Stats().Acked, s.collect(8)
	s.now = s.now.Add(10 * ms)
	s.deliver(s.b, p[1:]...)
	s.deliver(s.a, s.build(s.b)...)
	require.Equal(t, []int{0}, s.up.again, "overtaken by three")
	require.Equal(t, 7, s.up.ackedN)
	s.now = s.now.Add(ms)
	s.deliver(s.b, p[0])
	s.now = s.now.Add(maxReportDelay)
	s.deliver(s.a, s.build(s.b)...)
	require.Equal(t, 8, s.up.ackedN)
	require.GreaterOrEqual(t, s.a.Stats().Acked, before+8)
	require.EqualValues(t, 1, s.a.Stats().Spurious)
	s.a.loss.Begin(0, 10*ms)
	require.False(t, s.a.loss.Check(0, 0, 0), "three later ones no longer count")
}

// overtaken is a session of whose two packets the second has arrived.
func overtaken(t *testing.T) *step {
	s := newStep(t, 2, nil).open()
	p := s.collect(2)
	s.now = s.now.Add(100 * ms)
	s.deliver(s.b, p[1])
	s.deliver(s.a, s.build(s.b)...)
	require.Empty(t, s.build(s.a))
	return s
}

func TestTimeThreshold(t *testing.T) {
	s := overtaken(t)
	require.Empty(t, s.up.again, "one later packet is not three")
	at, ok := s.a.NextTimeout()
	require.True(t, ok)
	first, _ := s.a.records.findFirstInFlight()
	require.Equal(t, s.a.time(s.a.records.At(first).sent+s.a.loss.latestRTT*9/8), at)
	s.now = at
	require.NoError(t, s.a.Advance(s.now))
	require.Equal(t, []int{0}, s.up.again)
}

// TestLossByTimerIsSentAgain: no packet arrives after which the source would be asked again.
func TestLossByTimerIsSentAgain(t *testing.T) {
	s := overtaken(t)
	s.now, _ = s.a.NextTimeout()
	require.Len(t, s.build(s.a), 1)
	require.Empty(t, s.up.again)
}

// TestTimersOfASourceCount before anything may be sent, too. A timer that has
// passed by then waits with the source.
func TestTimersOfASourceCount(t *testing.T) {
	s := newStep(t, 0, nil)
	s.up.refuseTil = s.now.Add(time.Second)
	require.NoError(t, s.a.Advance(s.now))
	at, ok := s.a.NextTimeout()
	require.True(t, ok)
	require.Equal(t, s.up.refuseTil, at)
	s.a.tick(at)
	_, ok = s.a.NextTimeout()
	require.False(t, ok)

	t.Log("# nor does it while the carrier opens")
	s.up.refuseTil = time.Time{}
	s.now = at
	s.a.Start(s.now, ID{1})
	s.build(s.a)
	s.up.refuseTil = s.now
	at, ok = s.a.NextTimeout()
	require.True(t, ok)
	require.True(t, at.After(s.now))
}

// TestLateByOne: a packet that only the next one has overtaken is late, too.
// The peer may have taken it for lost, by time.
func TestLateByOne(t *testing.T) {
	s := newStep(t, 2, nil).open()
	p := s.collect(2)
	s.deliver(s.b, p[1])
	s.build(s.b)
	require.False(t, s.b.reporter.hasLate)
	s.deliver(s.b, p[0])
	require.True(t, s.b.reporter.hasLate)
}

// TestUnknownArrivalIsNoGuess: if a probe arrived after a later packet, it is
// not known how long its ack was held back.
func TestUnknownArrivalIsNoGuess(t *testing.T) {
	s := newStep(t, 0, nil).open()
	before, r := s.a.rttGuess, record{sent: s.a.now}
	f := report{clock: 1000, delay: ms}
	s.a.sampleRTT(s.a.now+200*ms, &r, &f, 0)
	require.Equal(t, before, s.a.rttGuess)
	s.a.sampleRTT(s.a.now+200*ms, &r, &f, f.largestArrival())
	require.Equal(t, 199*ms, s.a.rttGuess)
}

// forge has s.b send a report of the test's making.
func (s *step) forge(largest uint64, runs ...uint64) error {
	f := report{largest: uint32(largest), nruns: len(runs)}
	copy(f.runs[:], runs)
	number := s.b.records.Next + 1000
	b := f.appendFrame(appendHeader(nil, ID{}, number))
	p, err := s.b.sealer.seal(b, number)
	require.NoError(s, err)
	return s.a.Receive(s.now, p)
}

func TestOptimisticAcks(t *testing.T) {
	for name, forge := range map[string]func(s *step) error{
		"skipped": func(s *step) error {
			s.a.skips.next = s.a.records.Next + 2
			s.collect(5)
			return s.forge(s.a.records.Next-1, 5)
		},
		"unsent":  func(s *step) error { return s.forge(s.a.records.Next, 1) },
		"below 0": func(s *step) error { return s.forge(1, 1, 7) },
	} {
		s := newStep(t, 5, nil).open()
		err := forge(s)
		var why *Error
		require.ErrorAs(t, err, &why, name)
		require.True(t, why.Violation, name)
		require.Equal(t, Closed, s.a.State())
		require.Equal(t, err, s.a.Err())
		require.Equal(t, err, s.a.Advance(s.now))
	}
}

// One number in about 500 is skipped, and honest acks never touch it.
func TestSkippedNumbers(t *testing.T) {
	const total = 20000
	a, b := newPieces(1000, total, 0), newPieces(1000, 0, total)
	pair, client, _ := connect(t, a, b, netsim.PairConfig{AtoB: netsim.Config{Delay: ms}, BtoA: netsim.Config{Delay: ms}, Max: SafePacket})
	require.NoError(t, pair.Run(time.Hour, a.delivered))
	skipped := float64(client.records.Next) - float64(client.Stats().Sent)
	require.InDelta(t, float64(total)/meanSkip, skipped, 20)
}

func TestManyForgeriesEnd(t *testing.T) {
	s := newStep(t, 0, nil).open()
	p, err := s.b.sealer.seal(append(appendHeader(nil, ID{}, 50), framePing), 50)
	require.NoError(t, err)
	p[len(p)-1] ^= 1
	require.NoError(t, s.a.Receive(s.now, bytes.Clone(p)))
	require.EqualValues(t, 1, s.a.Stats().Drops[dropForged])
	s.a.opener.forged = maxForged - 1
	err = s.a.Receive(s.now, p)
	var why *Error
	require.True(t, errors.As(err, &why))
	require.False(t, why.Violation)
	require.ErrorContains(t, why, "failed to decrypt")
}

func TestMalformedEnds(t *testing.T) {
	s := newStep(t, 0, nil).open()
	p, err := s.b.sealer.seal(append(appendHeader(nil, ID{}, 99), 0x77), 99)
	require.NoError(t, err)
	require.ErrorContains(t, s.a.Receive(s.now, p), "malformed")
	require.NoError(t, s.a.Receive(s.now, []byte("more")), "a closed session takes no offence")
}

// TestFeedbackIsDue at the fourth packet that asks, at once for an urgent one,
// an eighth of the round trip after the first of the others, and after the
// peer's ack delay for play, but never less than a gap after the last one.
func TestFeedbackIsDue(t *testing.T) {
	const patient, begun = 40 * time.Millisecond, time.Second
	for name, c := range map[string]struct {
		rtt  time.Duration
		wait time.Duration // how much longer the last round trips were than the least
		asks []urgency     // of packets a microsecond apart
		last time.Duration
		want time.Duration
	}{
		"two packets":                        {rtt: 80 * ms, asks: []urgency{askSoon, askSoon}, want: begun + 10*ms},
		"the fourth":                         {rtt: 80 * ms, asks: []urgency{askSoon, askSoon, askSoon, askSoon}, want: begun},
		"feedback asks for none":             {rtt: 80 * ms, asks: []urgency{askSoon, askSoon, askSoon, askNever}, want: begun + 10*ms},
		"an urgent one":                      {rtt: 80 * ms, asks: []urgency{askSoon, askNow}, want: begun},
		"play":                               {rtt: 80 * ms, asks: []urgency{askShared, askShared, askShared, askShared, askShared}, want: begun + patient},
		"play and bulk":                      {rtt: 80 * ms, asks: []urgency{askShared, askSoon}, want: begun + time.Microsecond + 10*ms},
		"a long path":                        {rtt: time.Second, asks: []urgency{askSoon}, want: begun + 25*ms},
		"loopback":                           {rtt: 80 * time.Microsecond, asks: []urgency{askSoon}, want: begun + 100*time.Microsecond},
		"a gap after the last":               {rtt: 16 * ms, asks: []urgency{askNow}, last: begun - ms/2, want: begun + ms/2},
		"the longest gap, whatever the path": {rtt: time.Second, asks: []urgency{askNow}, last: begun, want: begun + 2*ms},
		"a queue":                            {rtt: 80 * ms, wait: 110 * ms, asks: []urgency{askNow}, last: begun, want: begun + 2*ms},
		"a way back that is full":            {rtt: 80 * ms, wait: 500 * ms, asks: []urgency{askNow}, last: begun, want: begun + 50*ms},
		"a way back that stood still":        {rtt: 80 * ms, wait: time.Minute, asks: []urgency{askNow}, last: begun, want: begun + 200*ms},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReporter(patient)
			for _, wait := range []time.Duration{0, c.wait, c.wait + ms, c.wait, c.wait} {
				r.returnPath.sample(c.rtt + wait)
			}
			r.pace(c.rtt)
			if c.last > 0 {
				r.lastBuilt = c.last
			}
			for i, asks := range c.asks {
				at := begun + time.Duration(i)*time.Microsecond
				r.note(at, at, uint64(i), asks)
			}
			at, ok := r.dueAt()
			require.True(t, ok)
			require.Equal(t, c.want, at)
			require.True(t, r.due(at))
			require.False(t, r.due(at-1))
		})
	}
	r := newReporter(patient)
	r.note(begun, begun, 0, askNever)
	require.False(t, r.hasPending())
	require.False(t, r.due(begun+time.Hour), "feedback alone needs no answer")
}

// Feedback is due after 4 packets, or an eighth of the round trip, and a bare
// one in 16 asks for an ack.
func TestFeedbackRhythm(t *testing.T) {
	s := newStep(t, 200, nil).open()
	bare, asking := 0, []int{} // packets of b with feedback alone, and which of them asked for an ack
	for s.up.next < 200 {
		for _, p := range s.build(s.a) {
			s.now = s.now.Add(2 * ms)
			s.deliver(s.b, p)
			before := s.b.records.packetsInFlight
			answer := s.build(s.b)
			if bare += len(answer); s.b.records.packetsInFlight > before {
				asking = append(asking, bare)
			}
			s.deliver(s.a, answer...)
		}
		s.now = s.now.Add(ms)
	}
	reports := float64(s.b.Stats().Feedbacks)
	require.InDelta(t, 200/reportAfter, reports, 200/reportAfter+10)
	require.GreaterOrEqual(t, reports, 200.0/reportAfter-1)
	require.NotZero(t, s.b.reporter.knownBelow, "the peer acked a report")
	require.Greater(t, len(asking), 2)
	for i := range asking[1:] {
		require.Equal(t, 16, asking[i+1]-asking[i], "%v", asking)
	}
}

func TestFeedbackRidesOnData(t *testing.T) {
	s := newStep(t, 3, nil)
	s.down.total, s.down.acked = 1, make([]bool, 1)
	s.down.refuseTil = s.now.Add(time.Second)
	s.open()
	s.now = netsim.Epoch.Add(time.Second)
	s.deliver(s.b, s.collect(3)...)
	s.now = s.now.Add(maxReportDelay)
	p := s.build(s.b)
	require.Len(t, p, 1)
	require.Greater(t, len(p[0]), 1000+Overhead+dataHeader+maxReportHeader/2)
	s.deliver(s.a, p...)
	require.True(t, s.up.delivered())
}

// Small payloads share a packet.
func TestPayloadsShareAPacket(t *testing.T) {
	s := newStep(t, 7, nil)
	s.up.size = 200
	s.open()
	p := s.collect(2)
	require.Len(t, p[0], Overhead+5*(dataHeader+200))
	s.deliver(s.b, p...)
	require.Len(t, s.down.got, 7)
}

func TestRotate(t *testing.T) {
	s := newStep(t, 1, nil).open()
	require.False(t, s.a.Rotate(), "no spare")
	s.a.AddIDs(ID{9})
	require.True(t, s.a.Rotate())
	p := s.build(s.a)
	require.Equal(t, ID{9}, ID(p[0][1:9]))
}

func TestMoved(t *testing.T) {
	s := newStep(t, 100, nil).open()
	s.exchange(10 * ms)
	s.a.Moved(s.now)
	require.Zero(t, s.a.Controller().Estimate())
	require.NotEmpty(t, s.build(s.a), "a probe of the new path")
}

// TestMovedForgetsProbes: the ack of a probe that was sent over the previous
// path gives no round trip of the new one.
func TestMovedForgetsProbes(t *testing.T) {
	for ptos := range 2 { // the second counts as the end of an outage
		s := newStep(t, 0, nil).open()
		s.a.liveness.probesDue = 1
		probe := s.build(s.a)
		require.Len(t, probe, 1)
		s.now = s.now.Add(3 * time.Second)
		s.a.liveness.ptos = ptos
		s.a.Moved(s.now)
		before, latest := s.a.rtt(), s.a.loss.latestRTT
		s.deliver(s.b, probe...)
		s.deliver(s.a, s.build(s.b)...)
		require.Equal(t, s.now, s.a.time(s.a.liveness.lastAck))
		require.Equal(t, latest, s.a.loss.latestRTT)
		require.Equal(t, before, s.a.rtt(), "after %d probe timeouts", ptos)
	}
}

// The controller's estimate and its clock outlive a session.
func TestControllerOutlives(t *testing.T) {
	c := pace.New(pace.Config{})
	link := netsim.Config{Delay: 20 * ms, Rate: 20e6}
	now := netsim.Epoch
	for instance := range uint32(3) {
		a, b := newPieces(1024, 2000, 0), newPieces(1024, 0, 2000)
		client, server := ends(t, a, b, func(cfg *SessionConfig) {
			cfg.Instance = instance
			if cfg.Client {
				cfg.Controller = c
			}
			cfg.NoTrain = instance > 0
		})
		client.Start(now, ID{1})
		server.Start(now, ID{2})
		pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: link, BtoA: link, Start: now, Max: SafePacket})
		require.NoError(t, pair.Run(time.Minute, a.delivered))
		took := pair.Now().Sub(now)
		t.Logf("%v, estimate %.0f, queue %v", took, c.Estimate(), c.Queue())
		require.InEpsilon(t, 20e6/8, c.Estimate(), 0.1)
		require.Less(t, c.Queue(), 100*ms)
		now = pair.Now().Add(3 * time.Second)
		client.Close()
	}
}

// TestNothingLeaves when the carrier is closed, or remembers as many packets as it may.
func TestNothingLeaves(t *testing.T) {
	s := newStep(t, 0, nil).open()
	s.pass(time.Second)
	for range maxRecords - s.a.records.Len() {
		s.a.records.push(record{fate: inFlight})
	}
	s.a.liveness.probesDue = 1
	_, _, ok := s.a.AppendPacket(s.now, nil, SafePacket)
	require.False(t, ok)

	s = newStep(t, 0, nil).open()
	s.a.liveness.probesDue = 1
	s.a.Close()
	_, _, ok = s.a.AppendPacket(s.now, nil, SafePacket)
	require.False(t, ok)
}

// TestFeedbackWakes: a session that receives a packet, and has nothing to send,
// waits no longer than feedback may.
func TestFeedbackWakes(t *testing.T) {
	s := newStep(t, 1, nil).open()
	s.deliver(s.b, s.collect(1)...)
	require.Empty(t, s.build(s.b))
	at, ok := s.b.NextTimeout()
	require.True(t, ok)
	require.Equal(t, s.now.Add(s.b.reporter.maxDelay), at)
	s.now = at
	require.Len(t, s.build(s.b), 1)
}

// Only the train shows the rate.
func TestTrain(t *testing.T) {
	c := pace.New(pace.Config{})
	a, b := newPieces(1024, 0, 0), newPieces(1024, 0, 0)
	client, server := ends(t, a, b, func(cfg *SessionConfig) {
		if cfg.Client {
			cfg.Controller = c
		}
	})
	client.Start(netsim.Epoch, ID{1})
	server.Start(netsim.Epoch, ID{2})
	link := netsim.Config{Delay: 20 * ms, Rate: 30e6}
	pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: link, BtoA: link, Max: SafePacket})
	require.NoError(t, pair.RunUntilIdle(time.Minute))
	require.InEpsilon(t, 30e6/8, c.Estimate(), 0.05)
	require.Less(t, pair.Now().Sub(netsim.Epoch), 2*trimInterval+time.Second, "then memory is given up, and nothing happens")
}

// More packets than are remembered, with the oldest of them held back: nothing gets stuck.
func TestCrowdedRecords(t *testing.T) {
	const total = 3 * maxRecords
	a, b := newPieces(64, total, 0), newPieces(64, 0, total)
	link := netsim.Config{Delay: 100 * time.Microsecond, Lose: func(n uint64, _ []byte) bool { return n%1000 == 20 }}
	pair, client, _ := connect(t, a, b, netsim.PairConfig{AtoB: link, BtoA: netsim.Config{Delay: 100 * time.Microsecond}, Max: 150})
	require.NoError(t, pair.Run(time.Minute, a.delivered))
	require.LessOrEqual(t, client.records.Cap(), maxRecords)
	require.Empty(t, a.faults)
}

// A steady transfer allocates nothing.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	s := newStep(t, 100000, nil).open()
	s.up.open = map[uint64]int{}
	source := newBlob(1000, 1000000, 0)
	s.a.source = source
	buf := make([]byte, 0, SafePacket)
	turn := func() {
		for _, m := range []struct{ from, to *Session }{{s.a, s.b}, {s.b, s.a}} {
			_ = m.from.Advance(s.now)
			for {
				p, _, ok := m.from.AppendPacket(s.now, buf, SafePacket)
				if !ok {
					break
				}
				_ = m.to.Receive(s.now, p)
			}
		}
		s.now = s.now.Add(ms)
	}
	sink := newBlob(1000, 0, 1000000)
	s.b.source = sink
	for range 2000 {
		turn()
	}
	before := s.a.Stats().Sent
	require.Zero(t, testkit.Allocs(1000, turn))
	require.Greater(t, s.a.Stats().Sent, before+500)
}

// TestOneLateAckMakesNobodyPatient: after an outage, in which an ack took more
// than a second, the next one is seen as soon.
func TestOneLateAckMakesNobodyPatient(t *testing.T) {
	s := newStep(t, 0, nil).open()
	s.send(50)
	c := s.a.control
	for _, trip := range []time.Duration{50 * ms, 150 * ms, 400 * ms, 1200 * ms} { // each too short to be a silence
		sample := c.Sent(s.now, 1000, 0)
		s.now = s.now.Add(trip)
		c.Acked(s.now, sample, 1000, time.Time{})
		c.Feedback(s.now, 0)
	}
	_, smoothed, _ := s.a.control.RTT()
	require.Greater(t, smoothed, 100*ms)
	require.Greater(t, silentPTOs*s.a.pto(), 3*time.Second)
	require.Less(t, silentPTOs*s.a.boundedPTO(), 1500*ms)
}

// TestProbesAfterAStall: a path that held all packets for seconds, as a mobile
// one may, makes nobody wait for as long with the next probe: a carrier that
// fell silent would end before it had asked.
func TestProbesAfterAStall(t *testing.T) {
	for _, dark := range []bool{false, true} {
		s := newStep(t, 12, func(c *SessionConfig) {
			if dark {
				bothDark(c)
			}
		}).open()
		s.up.total = 9
		held := s.collect(3)
		s.now = s.now.Add(800 * ms)
		held = append(held, s.build(s.a)...)
		s.now = s.now.Add(8 * time.Second)
		s.deliver(s.b, held...)
		for range 4 {
			s.exchange(25 * ms)
		}
		require.Equal(t, Open, s.a.State())
		s.up.total = 12
		s.a.Wake()
		s.pass(200 * ms) // in which the payloads leave
		require.GreaterOrEqual(t, s.pass(8*time.Second), 4, "the other carrier is dark: %v", dark)
	}
}

// TestCopiesAreTakenOnce: two copies of a packet may be open before the first is taken.
func TestCopiesAreTakenOnce(t *testing.T) {
	s := newStep(t, 1, nil).open()
	p := s.collect(1)[0]
	first, second := s.b.open(bytes.Clone(p)), s.b.open(bytes.Clone(p))
	before := s.b.Stats()
	require.NoError(t, s.b.handle(s.now, first))
	require.NoError(t, s.b.handle(s.now, second))
	require.Equal(t, before.Received+1, s.b.Stats().Received)
	require.Equal(t, before.Drops[dropReplay]+1, s.b.Stats().Drops[dropReplay])
	require.Equal(t, map[int]int{0: 1}, s.down.got)
}

// TestOwnPauseIsNoRoundTrip: a process that was stopped for 12 s finds feedback that has waited
// in its socket. Its age is no round trip, whether it is handled before or after the timers.
func TestOwnPauseIsNoRoundTrip(t *testing.T) {
	for _, timerFirst := range []bool{false, true} {
		s := newStep(t, 1000, bothDark).open()
		s.up.total = 200
		s.a.Wake()
		for range 20 {
			s.exchange(25 * ms)
		}
		_, smoothed, _ := s.a.control.RTT()
		require.Less(t, smoothed, 100*ms)

		s.up.total = 300
		s.a.Wake()
		var feedback [][]byte
		for range 10 {
			up := s.collect(1)
			s.now = s.now.Add(25 * ms)
			s.deliver(s.b, up...)
			feedback = append(feedback, s.build(s.b)...)
		}
		require.NotEmpty(t, feedback)
		s.now = s.now.Add(12 * time.Second)
		if timerFirst {
			s.build(s.a)
		}
		s.deliver(s.a, feedback...)
		_, smoothed, _ = s.a.control.RTT()
		require.Less(t, smoothed, 300*ms, "the timer comes first: %v", timerFirst)
		require.Less(t, s.a.probeAfter(), time.Second)
	}
}
