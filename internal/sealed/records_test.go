package sealed

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// greedy has always something to send.
type greedy struct{ sinkOnly }

func (greedy) AppendPayload(_ time.Time, b []byte, room Room) ([]byte, uint64, Content, bool) {
	return append(b, make([]byte, room.Max)...), 0, Content{Bulk: true}, room.Bulk
}

// TestRecordsOfADelayer: a receiver that acks late, and not all, has us
// remember 2 MiB of packets in flight at most.
func TestRecordsOfADelayer(t *testing.T) {
	a, b := ends(t, greedy{}, sinkOnly{}, nil)
	a.Start(netsim.Epoch, ID{1})
	b.Start(netsim.Epoch, ID{2})
	there := netsim.Config{Delay: 20 * ms, Rate: 200e6, Queue: 8 << 20, Lose: func(n uint64, _ []byte) bool { return n > 1000 && n%200 == 0 }}
	pair := netsim.NewPair(a, b, netsim.PairConfig{AtoB: there, BtoA: netsim.Config{Delay: 980 * ms}, Max: SafePacket})
	most := 0
	for range 20 {
		require.NoError(t, pair.RunFor(500*ms))
		most = max(most, a.records.Len())
	}
	t.Logf("%d records at most", most)
	require.Greater(t, most, maxRecords/2)
	require.LessOrEqual(t, a.records.Cap()*int(unsafe.Sizeof(record{})), 2<<20)
}

// TestRepeatedAcksAreTaken: ranges that overlap, and those that leap over what
// is acked already, ack all that they name.
func TestRepeatedAcksAreTaken(t *testing.T) {
	s := newStep(t, 300, nil).open()
	first := s.a.records.Next
	s.collect(40)
	low, high := first, first+30
	for _, sp := range []span{{low + 3, low + 10}, {low + 12, low + 20}, {low + 1, low + 15}, {low + 18, high}, {low, high}} {
		f := report{clock: 1}
		news, err := s.a.ackSpan(s.a.now, &f, sp)
		require.NoError(t, err)
		require.True(t, news)
		news, err = s.a.ackSpan(s.a.now, &f, sp)
		require.NoError(t, err)
		require.False(t, news, "again")
	}
	for n := low; n < high; n++ {
		require.Equal(t, acked, s.a.records.At(n).fate, "%d", n-low)
	}
	require.Equal(t, inFlight, s.a.records.At(high).fate)
}

// TestAckedRecordsAreForgotten at once, and those that may yet be acked while there is room.
func TestAckedRecordsAreForgotten(t *testing.T) {
	for f, left := range map[fate]int{acked: 0, inFlight: 1, lost: 1, ackOptional: 1, skipped: 1} {
		var r records
		r.push(record{fate: inFlight, expires: time.Second})
		r.At(0).fate = f
		r.forget(0)
		require.Equal(t, left, r.Len(), "%d", f)
	}
}

// TestLostPacketIsNotRememberedLongerThanASkippedOne: otherwise a forged ack
// for both would be accepted after the skipped number beside it is forgotten.
func TestLostPacketIsNotRememberedLongerThanASkippedOne(t *testing.T) {
	s := newStep(t, 40, nil).open()
	s.a.skips.next = s.a.records.Next + 1
	first := s.a.records.Next
	p := s.collect(12)
	s.now = s.now.Add(60 * ms)
	s.deliver(s.b, p[0])
	s.deliver(s.b, p[2:]...)
	s.deliver(s.a, s.build(s.b)...)
	require.NotZero(t, s.a.Stats().Lost)
	require.LessOrEqual(t, s.a.records.At(first+2).expires, s.a.records.At(first+1).expires)
}

// BenchmarkRepeatedFeedback: what one costs that says nothing new, while an old
// packet keeps all later ones in memory.
func BenchmarkRepeatedFeedback(b *testing.B) {
	s, _ := ends(b, sinkOnly{}, sinkOnly{}, nil)
	s.tick(netsim.Epoch)
	s.records.push(record{fate: inFlight})
	const count = maxRecords - 2
	for range count {
		s.records.push(record{fate: inFlight})
	}
	f := report{largest: count, nruns: 1, clock: 1}
	f.runs[0] = count
	require.NoError(b, s.receiveReport(0, &f))
	for b.Loop() {
		if err := s.receiveReport(0, &f); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLossesEndAtTheFirstThatIsNotLost: before, each feedback with news looked at all
// packets in flight, under the link's lock, which took 86 µs for 16,000 of them and a
// feedback of 60 bytes. Packets sent after one that is not lost yet are not lost either.
func TestLossesEndAtTheFirstThatIsNotLost(t *testing.T) {
	s, _ := ends(t, sinkOnly{}, sinkOnly{}, nil)
	s.tick(netsim.Epoch)
	s.loss.latestRTT = 100 * ms
	for i := range 10 {
		s.records.push(record{fate: inFlight, sent: time.Duration(i) * 50 * ms})
	}
	s.records.At(8).sent = 0 // which does not happen: who looks at it finds it lost
	s.loss.Spurious(0, time.Millisecond)
	s.loss.Largest = 9
	s.detectLosses(350 * ms)
	for n, want := range []fate{lost, lost, lost, lost, lost, inFlight, inFlight, inFlight, inFlight, inFlight} {
		require.Equal(t, want, s.records.At(uint64(n)).fate, n)
	}
	require.Equal(t, 375*ms, s.loss.Next, "when the first of the others is")
}

// BenchmarkScatteredFeedback: what one costs that acks one more of many packets
// in flight, of which the oldest stays unacked. Once a late packet has turned
// the packet threshold off none of them counts as lost for a few round trips.
func BenchmarkScatteredFeedback(b *testing.B) {
	s, _ := ends(b, sinkOnly{}, sinkOnly{}, nil)
	const count = maxRecords - 2
	s.tick(netsim.Epoch)
	s.loss.Spurious(0, time.Second)
	s.rttGuess = time.Second
	for n := uint64(0); ; n++ {
		if n%count == 0 { // all are flying
			b.StopTimer()
			s.records, s.loss.Largest = records{}, 0
			for range count + 2 {
				s.records.push(record{fate: inFlight})
			}
			b.StartTimer()
		}
		if !b.Loop() {
			return
		}
		f := report{largest: count, nruns: 3, clock: 1}
		at := count - 2 - n%(count-2)
		f.runs[0], f.runs[1], f.runs[2] = 1, count-at, 1
		if at == count-1 {
			continue
		}
		if err := s.receiveReport(0, &f); err != nil {
			b.Fatal(err)
		}
	}
}
