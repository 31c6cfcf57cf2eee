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

// TestRecordsOfADelayer: a receiver that acks late, and not all, has us remember 2 MiB of packets in flight at most.
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

// TestRepeatedAcksAreTaken: ranges that overlap, and those that leap over what is acked already, ack all that they name.
func TestRepeatedAcksAreTaken(t *testing.T) {
	s := newStep(t, 300, nil).open()
	first := s.a.records.Next
	s.collect(40)
	low, high := first, first+30
	for _, sp := range []span{{low + 3, low + 10}, {low + 12, low + 20}, {low + 1, low + 15}, {low + 18, high}, {low, high}} {
		f := feedback{clock: 1}
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
	require.Equal(t, flying, s.a.records.At(high).fate)
}

// TestLostPacketIsNotRememberedLongerThanASkippedOne: else an ack made up for both would be taken when the number that was
// left out beside it is forgotten.
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
	require.LessOrEqual(t, s.a.records.At(first+2).until, s.a.records.At(first+1).until)
}

// BenchmarkRepeatedFeedback: what one costs that says nothing new, while an old packet keeps all later ones in memory.
func BenchmarkRepeatedFeedback(b *testing.B) {
	s, _ := ends(b, sinkOnly{}, sinkOnly{}, nil)
	s.tick(netsim.Epoch)
	s.records.push(record{fate: flying})
	const count = maxRecords - 2
	for range count {
		s.records.push(record{fate: flying})
	}
	f := feedback{largest: count, nruns: 1, clock: 1}
	f.runs[0] = count
	require.NoError(b, s.receiveFeedback(0, &f))
	for b.Loop() {
		if err := s.receiveFeedback(0, &f); err != nil {
			b.Fatal(err)
		}
	}
}
