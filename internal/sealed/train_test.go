package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTrainThatCameWhole: only a train of which nothing is lost shows how many packets may leave together.
func TestTrainThatCameWhole(t *testing.T) {
	for _, lost := range []int{0, 1} {
		tr := train{open: trainPackets, sent: true}
		for i := range trainPackets {
			_, ok := tr.measured()
			require.False(t, ok, "after %d", i)
			if i < lost {
				tr.lose()
				continue
			}
			tr.ack(&record{size: 1200}, uint64(i), time.Second+time.Duration((i*7)%trainPackets)*time.Microsecond, 0) // in any order
		}
		shown, ok := tr.measured()
		require.True(t, ok)
		require.Equal(t, lost == 0, shown.Whole)
		if shown.Whole {
			require.Equal(t, (trainPackets-1)*time.Microsecond, shown.Span)
		}
		_, ok = tr.measured()
		require.False(t, ok, "it is told once")
	}
}

// TestTrainOfWhichHalfIsLate: packets that counted as lost and arrive show that the path has carried them, too, and the train is told again.
func TestTrainOfWhichHalfIsLate(t *testing.T) {
	tr, r := train{open: trainPackets, sent: true}, &record{size: 1200}
	_, ok := tr.late(r, 0)
	require.False(t, ok, "nothing was shown yet")
	for i := range trainPackets {
		if i%2 == 0 {
			tr.ack(r, uint64(i), time.Second+time.Duration(i)*time.Millisecond, 0)
		} else {
			tr.lose()
		}
	}
	shown, ok := tr.measured()
	require.True(t, ok)
	require.Equal(t, (trainPackets/2-1)*1200, shown.Bytes)
	for range trainPackets / 2 {
		shown, ok = tr.late(r, 0)
		require.True(t, ok)
	}
	require.Equal(t, (trainPackets-1)*1200, shown.Bytes)
	require.Equal(t, (trainPackets-2)*time.Millisecond, shown.Span, "of those that came in time")
}

// onTheWay has a open with a train, and returns its packets, none of which has arrived.
func onTheWay(t *testing.T) (s *step, train [][]byte) {
	s = newStep(t, 0, func(c *SessionConfig) { c.NoTrain = false })
	s.a.Start(s.now, ID{1})
	s.b.Start(s.now, ID{2})
	packets := s.build(s.a)
	train = packets[len(packets)-trainPackets:]
	s.deliver(s.b, packets[:len(packets)-trainPackets]...)
	return s, train
}

// arrive has packets of a arrive a millisecond apart, and b's answers at once.
func (s *step) arrive(packets ...[]byte) {
	for _, p := range packets {
		s.now = s.now.Add(ms)
		s.deliver(s.b, p)
		s.deliver(s.a, s.build(s.b)...)
	}
}

// TestTrainOfAnotherPath: what a train has shown of a path counts for no other one, also when it comes late, and one that was under way leaves
// again.
func TestTrainOfAnotherPath(t *testing.T) {
	s, train := onTheWay(t)
	s.a.Moved(s.now)
	s.arrive(train...)
	require.Equal(t, Open, s.a.State())
	require.Zero(t, s.a.control.Estimate())
	require.Equal(t, trainPackets, s.a.train.left)

	s, train = onTheWay(t)
	var late [][]byte
	for i, p := range train {
		if i%2 == 0 {
			late = append(late, p)
			continue
		}
		s.arrive(p)
	}
	for range 4 {
		s.exchange(10 * ms)
	}
	require.NotZero(t, s.a.control.Estimate(), "half of it was enough")
	s.a.Moved(s.now)
	require.Zero(t, s.a.control.Estimate())
	s.arrive(late...)
	require.NotZero(t, s.a.Stats().Spurious)
	require.Zero(t, s.a.control.Estimate())
}

// TestTrainThatWasRepeated: what comes late of the first train is not of the second.
func TestTrainThatWasRepeated(t *testing.T) {
	tr, r := train{open: trainPackets, sent: true}, &record{size: 1200}
	for range trainPackets {
		tr.lose()
	}
	tr.repeat(100)
	require.Equal(t, trainPackets, tr.left)
	tr.left, tr.open = 0, trainPackets
	for i := range uint64(trainPackets) {
		tr.ack(r, 100+i, time.Second+time.Duration(i)*time.Millisecond, 0)
	}
	shown, ok := tr.measured()
	require.True(t, ok)
	require.Equal(t, (trainPackets-1)*1200, shown.Bytes)
	_, ok = tr.late(r, 99)
	require.False(t, ok)
}

// TestTrainInterruptedByAMove: a train of which a part has left when the path changes begins anew, however little of it is left.
func TestTrainInterruptedByAMove(t *testing.T) {
	for left := 1; left < trainPackets; left++ {
		tr := train{left: left, open: trainPackets - left, sent: true}
		tr.moved(uint64(tr.open))
		require.Equal(t, trainPackets, tr.left)
		for n := range uint64(tr.open) { // over the path before
			tr.ack(&record{size: 1200}, n, time.Second, 0)
		}
		first := tr.first
		tr.open, tr.left = tr.left, 0
		for n := range uint64(trainPackets) {
			tr.ack(&record{size: 1200}, first+n, time.Second+time.Duration(n)*time.Millisecond, 0)
		}
		shown, ok := tr.measured()
		require.True(t, ok)
		require.True(t, shown.Whole)
	}
}
