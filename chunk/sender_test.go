package chunk_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
)

const ms = time.Millisecond

func TestSendRefusesAtTheCall(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{SendQueue: 2}))
	_, err := s.Send(nil)
	require.ErrorIs(t, err, chunk.ErrEmpty)
	_, err = s.Send(make([]byte, 256<<10+1))
	require.ErrorIs(t, err, chunk.ErrTooLarge)
	require.ErrorContains(t, err, "262145 bytes; the limit is 262144 (256 slices of Config.SliceSize = 1024)")
	require.True(t, s.Done(), "nothing of it is kept")
	_, ok := s.NextTimeout()
	require.False(t, ok)

	for n := range uint64(3) {
		require.Equal(t, n, send(t, s, make([]byte, 256<<10)))
	}
	_, err = s.Send([]byte{1})
	require.ErrorIs(t, err, chunk.ErrQueueFull)
	require.ErrorContains(t, err, "1 chunk is in flight (Config.Pipeline) and 2 waiting (Config.SendQueue)")
	require.Equal(t, 2, s.Stats().QueueSize)

	alone := must(chunk.NewSender(chunk.Config{SendQueue: -1}))
	send(t, alone, []byte{1})
	_, err = alone.Send([]byte{1})
	require.ErrorIs(t, err, chunk.ErrQueueFull, "as in the article: not while sending")
}

func TestSizes(t *testing.T) {
	for _, test := range []struct{ size, count, last int }{
		{1, 1, 1}, {1023, 1, 1023}, {1024, 1, 1024}, {1025, 2, 1}, {2048, 2, 1024}, {256<<10 - 1, 256, 1023}, {256 << 10, 256, 1024},
	} {
		s := must(chunk.NewSender(chunk.Config{Rate: -1}))
		send(t, s, make([]byte, test.size))
		for i := range test.count {
			slice, ok := s.NextSlice(epoch)
			require.True(t, ok)
			require.Equal(t, i, slice.Index)
			require.Equal(t, test.count, slice.Count, "a multiple of the slice size ends with a full slice, not with an empty one")
			if i == test.count-1 {
				require.Len(t, slice.Data, test.last)
			}
		}
		_, ok := s.NextSlice(epoch)
		require.False(t, ok)
	}
}

func TestOneChunkAtATime(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1}))
	send(t, s, make([]byte, 2000))
	send(t, s, make([]byte, 1))
	t.Log("# the second chunk waits until the first is acked whole")
	require.Equal(t, all(2), indexes(s, epoch))
	require.True(t, s.Acknowledge(after(50*ms), ackOf(0, 2, 1)))
	require.Empty(t, indexes(s, after(50*ms)))
	require.True(t, s.Acknowledge(after(60*ms), ackOf(0, 2, 0)))
	require.EqualValues(t, 1, s.Finished())
	require.False(t, s.Done())
	slice, ok := s.NextSlice(after(60 * ms))
	require.True(t, ok)
	require.Equal(t, chunk.Slice{ChunkID: 1, Count: 1, Data: []byte{0}}, slice)
	require.True(t, s.Acknowledge(after(110*ms), ackOf(1, 1, 0)))
	require.True(t, s.Done())
	require.EqualValues(t, 2, s.Finished())
}

func TestResendDelay(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1}))
	send(t, s, make([]byte, 3000))
	t.Log("# 100 ms while the RTT is not known")
	require.Equal(t, all(3), indexes(s, epoch))
	at, ok := s.NextTimeout()
	require.True(t, ok)
	require.Equal(t, after(100*ms), at)
	require.Empty(t, indexes(s, after(100*ms-1)))
	require.Equal(t, all(3), indexes(s, after(100*ms)))
	require.Empty(t, indexes(s, after(150*ms)))

	t.Log("# RTT * 1.25 when the owner tells it")
	s.SetRTT(80 * ms)
	require.Empty(t, indexes(s, after(200*ms-1)))
	require.Equal(t, all(3), indexes(s, after(200*ms)))
	s.SetRTT(200 * ms)
	require.Empty(t, indexes(s, after(450*ms-1)))
	require.Equal(t, all(3), indexes(s, after(450*ms)))

	t.Log("# and when it was measured; on short paths more, for the receiver may take 10 ms to ack")
	s = must(chunk.NewSender(chunk.Config{Rate: -1}))
	send(t, s, make([]byte, 3000))
	require.Equal(t, all(3), indexes(s, epoch))
	require.True(t, s.Acknowledge(after(60*ms), ackOf(0, 3, 1)))
	require.Equal(t, 60*ms, s.Stats().RTT)
	require.Empty(t, indexes(s, after(75*ms-1)))
	require.Equal(t, []int{0, 2}, indexes(s, after(75*ms)))
	s.SetRTT(ms)
	require.Empty(t, indexes(s, after(91*ms-1)))
	require.Equal(t, []int{0, 2}, indexes(s, after(91*ms)))
}

func TestCursorWrapsAround(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: 102_400, SliceSize: 1024})) // a slice every 10 ms
	send(t, s, make([]byte, 20*1024))
	var order []int
	for now := time.Duration(0); now <= 250*ms; now += 10 * ms {
		order = append(order, indexes(s, after(now))...)
		if now == 140*ms {
			require.True(t, s.Acknowledge(after(now), ackOf(0, 20, 1, 4)))
			s.SetRTT(80 * ms)
		}
	}
	t.Log("# the walk goes on where the budget ended it, and leaves acked slices out")
	require.Equal(t, append(all(20), 0, 2, 3, 5, 6), order)
}

func TestBudget(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: 1000, SliceSize: 100, ResendDelay: 10 * time.Second}))
	send(t, s, make([]byte, 25_000))
	at, ok := s.NextTimeout()
	require.True(t, ok)
	require.True(t, at.Before(epoch), "a machine that was never told the time waits for nothing")
	t.Log("# nothing is there at the beginning; 100 bytes come in 100 ms")
	require.Empty(t, indexes(s, epoch))
	at, _ = s.NextTimeout()
	require.Equal(t, after(100*ms), at)
	require.Empty(t, indexes(s, after(100*ms-1)))
	require.Equal(t, []int{0}, indexes(s, after(150*ms)))
	t.Log("# 50 bytes are left over")
	at, _ = s.NextTimeout()
	require.Equal(t, after(200*ms), at)
	require.Equal(t, []int{1}, indexes(s, after(200*ms)))
	t.Log("# a rare owner gets 250 ms' worth at once, and no more")
	require.Equal(t, []int{2, 3}, indexes(s, after(449*ms)))
	require.Equal(t, []int{4, 5}, indexes(s, after(time.Minute)))
	t.Log("# a rate below one slice in 250 ms still sends")
	s.SetRate(10)
	require.Equal(t, []int{6}, indexes(s, after(10*time.Minute)))
	at, _ = s.NextTimeout()
	require.Equal(t, after(10*time.Minute+10*time.Second), at)
	t.Log("# no limit")
	s.SetRate(-1)
	s.Acknowledge(after(20*time.Minute), ackOf(0, 250))
	require.Len(t, indexes(s, after(20*time.Minute)), 250, "the rest, and those sent before again")
}

func TestOverheadIsCharged(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: 106_600, Overhead: chunk.Overhead + 28}))
	send(t, s, make([]byte, 2048))
	require.Empty(t, indexes(s, epoch))
	at, _ := s.NextTimeout()
	require.Equal(t, after(10*ms), at)
}

func TestIdleTimeIsNotSaved(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: 102_400}))
	_, ok := s.NextSlice(epoch)
	require.False(t, ok)
	send(t, s, make([]byte, 4096))
	require.Empty(t, indexes(s, after(time.Hour)))
	require.Equal(t, []int{0}, indexes(s, after(time.Hour+10*ms)))
}

func TestBurst(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: 102_400, Burst: true}))
	send(t, s, make([]byte, 256<<10))
	t.Log("# all at once, and nothing for 100 ms, then at the rate")
	require.Len(t, indexes(s, epoch), 256)
	at, _ := s.NextTimeout()
	require.Equal(t, after(100*ms), at)
	require.True(t, s.Acknowledge(after(60*ms), ackOf(0, 256, all(100)...)))
	require.Empty(t, indexes(s, after(99*ms)))
	require.Equal(t, []int{100}, indexes(s, after(100*ms)))
	require.Equal(t, []int{101}, indexes(s, after(110*ms)))

	t.Log("# once: the connection is not idle")
	require.True(t, s.Acknowledge(after(120*ms), ackOf(0, 256, all(256)...)))
	send(t, s, make([]byte, 20<<10))
	require.Len(t, indexes(s, after(140*ms)), 3)
	require.True(t, s.Acknowledge(after(300*ms), ackOf(1, 20, all(20)...)))
	require.True(t, s.Done())

	t.Log("# again after a second without sending")
	send(t, s, make([]byte, 20<<10))
	require.Len(t, indexes(s, after(2*time.Second)), 20)

	t.Log("# an ack of everything ends the pause")
	send(t, s, make([]byte, 1))
	require.True(t, s.Acknowledge(after(2*time.Second+20*ms), ackOf(2, 20, all(20)...)))
	require.Len(t, indexes(s, after(2*time.Second+20*ms)), 1)
}

func TestLargeChunksDoNotBurst(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: 102_400, Burst: true, SliceSize: 2048}))
	send(t, s, make([]byte, 256<<10+1))
	require.Empty(t, indexes(s, epoch))
}

func TestAcksOnlySet(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1}))
	send(t, s, make([]byte, 3000))
	require.Len(t, indexes(s, epoch), 3)
	require.True(t, s.Acknowledge(after(10*ms), ackOf(0, 3, 0, 2)))
	require.EqualValues(t, 1024+952, s.Stats().AckedBytes)
	require.False(t, s.Acknowledge(after(20*ms), ackOf(0, 3, 2)), "an older ack arrives late")
	require.False(t, s.Acknowledge(after(20*ms), ackOf(0, 3)))
	for name, a := range map[string]chunk.Ack{
		"another chunk": ackOf(1, 3, 1), "the chunk before": ackOf(65535, 3, 1), "another count": ackOf(0, 2, 1),
	} {
		require.False(t, s.Acknowledge(after(20*ms), a), name)
	}
	require.EqualValues(t, 3, s.Stats().AcksIgnored)
	require.False(t, s.Acknowledge(after(20*ms), ackOf(0, 3, 3, 255)), "bits above count")
	require.Equal(t, []int{1}, indexes(s, after(200*ms)))
	require.True(t, s.Acknowledge(after(250*ms), ackOf(0, 3, 1)))
	require.True(t, s.Done())
	require.False(t, s.Acknowledge(after(250*ms), ackOf(0, 3, 1)), "a finished chunk")
}

func TestAcksOfSlicesNeverSent(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1}))
	send(t, s, make([]byte, 4000))
	t.Log("# a receiver that kept its bits tells a new sender what it need not send")
	require.True(t, s.Acknowledge(epoch, ackOf(0, 4, 0, 2)))
	require.Equal(t, []int{1, 3}, indexes(s, epoch))
	require.Zero(t, s.Stats().RTT, "which is no measurement")
}

func TestPipeline(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1, Pipeline: 3}))
	for range 5 {
		send(t, s, make([]byte, 2048))
	}
	var order [][2]int
	next := func(now time.Time) {
		order = nil
		for c, ok := s.NextSlice(now); ok; c, ok = s.NextSlice(now) {
			order = append(order, [2]int{int(c.ChunkID), c.Index})
		}
	}
	next(epoch)
	require.Equal(t, [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}, order)
	t.Log("# a later chunk may finish first; its place is free when the ones before are finished")
	require.True(t, s.Acknowledge(after(50*ms), ackOf(1, 2, 0, 1)))
	require.Zero(t, s.Finished())
	next(after(50 * ms))
	require.Empty(t, order)
	require.True(t, s.Acknowledge(after(50*ms), ackOf(0, 2, 1)))
	next(after(70 * ms))
	require.Equal(t, [][2]int{{0, 0}, {2, 0}, {2, 1}}, order, "a resend of the oldest goes first")
	require.True(t, s.Acknowledge(after(110*ms), ackOf(0, 2, 0)))
	require.EqualValues(t, 2, s.Finished())
	next(after(110 * ms))
	require.Equal(t, [][2]int{{3, 0}, {3, 1}, {4, 0}, {4, 1}}, order)
}

func TestLost(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1}))
	send(t, s, make([]byte, 5*1024))
	require.Len(t, indexes(s, epoch), 5)
	t.Log("# a hint resends at once, in the order of the hints")
	s.Lost(0, 3, epoch)
	s.Lost(0, 1, epoch)
	s.Lost(0, 1, epoch)
	at, ok := s.NextTimeout()
	require.True(t, ok)
	require.False(t, at.After(epoch))
	require.Equal(t, []int{3, 1}, indexes(s, after(10*ms)))
	require.EqualValues(t, 2, s.Stats().Hints)
	t.Log("# a hint about an earlier sending, another chunk, or no slice changes nothing")
	s.Lost(0, 3, epoch)
	s.Lost(1, 0, epoch)
	s.Lost(0, 5, epoch)
	s.Lost(0, -1, epoch)
	require.Empty(t, indexes(s, after(20*ms)))
	t.Log("# an ack takes a hint back")
	s.Lost(0, 1, after(10*ms))
	require.True(t, s.Acknowledge(after(30*ms), ackOf(0, 5, 0, 1, 2, 4)))
	require.Empty(t, indexes(s, after(30*ms)))
	s.Lost(0, 1, after(10*ms))
	require.Empty(t, indexes(s, after(30*ms)))
	require.True(t, s.Acknowledge(after(30*ms), ackOf(0, 5, 3)))
	require.True(t, s.Done())
}

func TestSilence(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1}))
	send(t, s, make([]byte, 10*1024))
	require.Len(t, indexes(s, epoch), 10)
	for _, now := range []time.Duration{100 * ms, 300 * ms, 700 * ms} { // doubled each time: RFC 6298, section 5.5
		require.Empty(t, indexes(s, after(now-1)))
		require.Len(t, indexes(s, after(now)), 10)
	}
	t.Log("# after eight delays without any ack, one slice at a time, less and less often")
	var sent, gaps []time.Duration
	for now := 1500 * ms; now < 10*time.Second; {
		require.LessOrEqual(t, len(indexes(s, after(now))), 1)
		sent = append(sent, now)
		at, ok := s.NextTimeout()
		require.True(t, ok)
		now = at.Sub(epoch)
	}
	for i := range sent[1:] {
		gaps = append(gaps, sent[i+1]-sent[i])
	}
	require.Equal(t, []time.Duration{time.Second, time.Second, time.Second}, gaps[:3])
	t.Log("# any ack wakes it")
	s.Acknowledge(after(20*time.Second), ackOf(0, 10))
	require.Len(t, indexes(s, after(20*time.Second)), 10)
}

func TestBackOff(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1}))
	send(t, s, make([]byte, 4*1024))
	require.Len(t, indexes(s, epoch), 4)
	require.True(t, s.Acknowledge(after(60*ms), ackOf(0, 4, 1)))

	t.Log("# a slice sent before one that is acked is lost: again after RTT * 1.25, the others once acks have ceased to come")
	require.Equal(t, []int{0, 2, 3}, indexes(s, after(75*ms)))
	require.True(t, s.Acknowledge(after(100*ms), ackOf(0, 4, 1, 0)), "too soon for the second sending: it tells nothing of the others")

	t.Log("# without an ack the delay stays for two more rounds, then it doubles")
	var sent []time.Duration
	for len(sent) < 6 {
		at, ok := s.NextTimeout()
		require.True(t, ok)
		require.Equal(t, []int{2, 3}, indexes(s, at))
		sent = append(sent, at.Sub(epoch))
		s.Acknowledge(at, ackOf(0, 4, 1, 0)) // news of nothing, so that it does not fall silent
	}
	require.Equal(t, []time.Duration{150 * ms, 225 * ms, 375 * ms, 675 * ms, 1275 * ms, 2275 * ms}, sent)

	t.Log("# the ack of a slice that was sent once ends that")
	require.True(t, s.Acknowledge(after(2300*ms), ackOf(0, 4, 0, 1, 2, 3)))
	send(t, s, make([]byte, 2*1024))
	require.Len(t, indexes(s, after(3*time.Second)), 2)
	require.True(t, s.Acknowledge(after(3060*ms), ackOf(1, 2, 1)))
	require.Equal(t, []int{0}, indexes(s, after(3075*ms)))
	require.Equal(t, 60*ms, s.Stats().RTT)
}

// TestAcksThatKeepComing hold back what was sent at the same time: the path is
// slow, and nothing is lost.
func TestAcksThatKeepComing(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1}))
	send(t, s, make([]byte, 100*1024))
	require.Len(t, indexes(s, epoch), 100)
	for i := range 100 {
		now := time.Duration(80+10*i) * ms
		require.Empty(t, indexes(s, after(now)), "slice %d", i)
		require.True(t, s.Acknowledge(after(now), ackOf(0, 100, i)))
	}
	require.InDelta(t, 1000*ms, s.Stats().RTT, float64(100*ms))
}

func TestRestart(t *testing.T) {
	s := must(chunk.NewSender(chunk.Config{Rate: -1, Pipeline: 2}))
	send(t, s, make([]byte, 3*1024))
	send(t, s, make([]byte, 1024))
	require.Len(t, indexes(s, epoch), 4)
	require.True(t, s.Acknowledge(after(30*ms), ackOf(0, 3, 1)))
	s.Restart()
	require.Zero(t, s.Stats().RTT)
	require.Equal(t, []int{0, 2, 0}, indexes(s, after(31*ms)), "all but what is acked leaves again at once")
	require.Empty(t, indexes(s, after(31*ms)))
}

func TestRTTFindsAPathLongerThanTheDelay(t *testing.T) {
	for _, rtt := range []time.Duration{30 * ms, 400 * ms, 2 * time.Second} {
		s := must(chunk.NewSender(chunk.Config{Rate: -1}))
		now, copies := time.Duration(0), 0
		for id := range uint16(12) { // chunks of one slice, so that each is sent again before its ack can come
			send(t, s, []byte{1})
			arrival := now + rtt
			for copies = 0; now < arrival; {
				copies += len(indexes(s, after(now)))
				at, ok := s.NextTimeout()
				require.True(t, ok)
				now = min(at.Sub(epoch), arrival)
			}
			require.True(t, s.Acknowledge(after(now), ackOf(id, 1, 0)))
		}
		t.Logf("RTT %v: estimate %v, %d copies", rtt, s.Stats().RTT, copies)
		require.Equal(t, 1, copies)
		require.LessOrEqual(t, s.Stats().RTT, rtt*5/4)
	}
}

func TestRTTThatGrows(t *testing.T) {
	for _, longer := range []time.Duration{100 * ms, 600 * ms, 3 * time.Second} {
		s := must(chunk.NewSender(chunk.Config{Rate: -1}))
		now, rtt, copies := time.Duration(0), 50*ms, 0
		for id := range uint16(60) {
			if id == 10 {
				rtt = longer
			}
			send(t, s, []byte{1})
			arrival := now + rtt
			for copies = 0; now < arrival; {
				copies += len(indexes(s, after(now)))
				at, _ := s.NextTimeout()
				now = min(at.Sub(epoch), arrival)
			}
			require.True(t, s.Acknowledge(after(now), ackOf(id, 1, 0)))
		}
		require.Equal(t, 1, copies, "%v: resends stop when they turn out to be needless", longer)
	}
}

func TestIDsWrap(t *testing.T) {
	s, r := must(chunk.NewSender(chunk.Config{Rate: -1, Pipeline: 5})), must(chunk.NewReceiver(chunk.Config{ReceiveQueue: 5}))
	const chunks = 1<<16 + 10
	now, sent := epoch, 0
	for got := 0; got < chunks; {
		for ; sent < chunks && sent < got+5; sent++ {
			send(t, s, []byte{byte(sent), byte(sent >> 8)})
		}
		now = now.Add(ms)
		for c, ok := s.NextSlice(now); ok; c, ok = s.NextSlice(now) {
			require.True(t, r.Insert(now, c))
		}
		for a, ok := r.NextAck(now); ok; a, ok = r.NextAck(now) {
			require.True(t, s.Acknowledge(now, a))
		}
		for id, data, ok := r.Chunk(); ok; id, data, ok = r.Chunk() {
			require.Equal(t, uint16(got), id)
			require.Equal(t, []byte{byte(got), byte(got >> 8)}, data)
			r.Recycle(data)
			got++
		}
	}
	require.True(t, s.Done())
	require.EqualValues(t, chunks, s.Finished())
	require.Zero(t, r.Stats().Ignored+r.Stats().Duplicates)
}

func TestConfigIsChecked(t *testing.T) {
	for field, c := range map[string]chunk.Config{
		"SliceSize": {SliceSize: 63}, "SliceSize is 32769": {SliceSize: 32769}, "Pipeline": {Pipeline: 1025}, "Pipeline is -1": {Pipeline: -1},
		"ReceiveQueue": {ReceiveQueue: 1025}, "SendQueue": {SendQueue: 1<<20 + 1}, "Rate": {Rate: 2_000_000_001}, "Overhead": {Overhead: -1},
		"ResendDelay": {ResendDelay: -1}, "AckDelay": {AckDelay: time.Minute},
	} {
		require.ErrorContains(t, c.Validate(), "Config."+field)
		_, err := chunk.NewSender(c)
		require.Equal(t, c.Validate(), err)
		_, err = chunk.NewReceiver(c)
		require.Equal(t, c.Validate(), err)
	}
	require.NoError(t, chunk.Config{}.Validate())
	require.NoError(t, chunk.Config{SendQueue: -1, Rate: -1, AckDelay: -1, Pipeline: 1024}.Validate())
}
