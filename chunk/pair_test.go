package chunk_test

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
)

// sending and receiving make machines of netsim of the two ends.
type sending struct{ *chunk.Sender }

func (s sending) Receive(now time.Time, p []byte) error { return s.ReceiveAck(now, p) }
func (s sending) Advance(time.Time) error               { return nil }
func (s sending) AppendPacket(now time.Time, buf []byte, size int) ([]byte, uint64, bool) {
	b, ok := s.AppendSlice(now, buf)
	if len(b) > size {
		panic(fmt.Sprintf("a packet of %d bytes", len(b)))
	}
	return b, 0, ok
}

type receiving struct {
	*chunk.Receiver
	took func(now time.Time, id uint16, data []byte)
}

func (r receiving) Receive(now time.Time, p []byte) error {
	err := r.ReceiveSlice(now, p)
	for id, data, ok := r.Chunk(); ok; id, data, ok = r.Chunk() {
		r.took(now, id, data)
		r.Recycle(data)
	}
	return err
}
func (r receiving) Advance(time.Time) error { return nil }
func (r receiving) AppendPacket(now time.Time, buf []byte, _ int) ([]byte, uint64, bool) {
	b, ok := r.AppendAck(now, buf)
	return b, 0, ok
}

type pair struct {
	s    *chunk.Sender
	r    *chunk.Receiver
	sim  *netsim.Pair
	got  [][]byte
	ids  []uint16
	took time.Duration // until the latest chunk was there
}

func newPair(c chunk.Config, link netsim.Config) *pair {
	p := &pair{s: must(chunk.NewSender(c)), r: must(chunk.NewReceiver(c))}
	r := receiving{p.r, func(now time.Time, id uint16, data []byte) {
		p.ids, p.got = append(p.ids, id), append(p.got, bytes.Clone(data))
		p.took = now.Sub(epoch)
	}}
	p.sim = netsim.NewPair(sending{p.s}, r, netsim.PairConfig{AtoB: link, BtoA: link, Start: epoch, Max: 65507})
	return p
}

// run drives the pair until so many chunks have arrived and the sender knows.
func (p *pair) run(limit time.Duration, chunks int) error {
	return p.sim.Run(limit, func() bool { return len(p.got) == chunks && p.s.Done() })
}

func TestLossyPairs(t *testing.T) {
	seed := testkit.Seed(t)
	for _, loss := range []float64{0, 0.01, 0.1, 0.3, 0.5} {
		for _, pipeline := range []int{1, 4, 64} {
			t.Run(fmt.Sprintf("%.0f%%/%d", 100*loss, pipeline), func(t *testing.T) {
				link := netsim.Config{Delay: 40 * ms, Jitter: 20 * ms, Loss: loss, Duplicate: 0.2, Reorder: 0.1, Seed: seed}
				p := newPair(chunk.Config{Rate: 2e6, Pipeline: pipeline}, link)
				sizes := []int{1, 1023, 1024, 1025, 100_000, 256 << 10, 2, 3, 4, 5, 6, 50_000}
				for i, size := range sizes {
					send(t, p.s, content(size, seed+uint64(i)))
				}
				require.NoError(t, p.run(5*time.Minute, len(sizes)))
				for i, size := range sizes {
					require.EqualValues(t, i, p.ids[i])
					require.True(t, bytes.Equal(content(size, seed+uint64(i)), p.got[i]), "chunk %d of %d bytes", i, size)
				}
				s, r := p.s.Stats(), p.r.Stats()
				t.Logf("%v; %d slices, %d resent, RTT %v, %d acks", p.took, s.Slices, s.Resent, s.RTT, r.Acks)
				require.EqualValues(t, len(sizes), s.Chunks)
				require.Zero(t, s.Malformed+r.Malformed)
				require.NoError(t, p.sim.RunUntilIdle(time.Minute), "both ends fall silent")
			})
		}
	}
}

// TestReferencesSimulator is the path on which the reference's author ran his own sender:
// 250 ms, ±100 ms, 50 % loss, 20 % duplicates. It needed 3,263 slice packets for 513 slices.
func TestReferencesSimulator(t *testing.T) {
	link := netsim.Config{Delay: 250 * ms, Jitter: 100 * ms, Loss: 0.5, Duplicate: 0.2, Seed: testkit.Seed(t)}
	p := newPair(chunk.Config{}, link)
	for i := range uint64(3) {
		send(t, p.s, content(171*1024, i))
	}
	require.NoError(t, p.run(10*time.Minute, 3))
	s := p.s.Stats()
	t.Logf("%v, %d slice packets for 513 slices, RTT %v", p.took, s.Slices, s.RTT)
	require.Less(t, s.Slices, uint64(2000))
}

// TestNoLossNoWaste is where the reference spends 9 packets on 5 slices and 23 on 20.
func TestNoLossNoWaste(t *testing.T) {
	for _, delay := range []time.Duration{0, 5 * ms, 49 * ms, 200 * ms} {
		for _, count := range []int{1, 2, 5, 20, 256} {
			p := newPair(chunk.Config{Rate: 1e6}, netsim.Config{Delay: delay})
			if delay > 49*ms { // longer than the delay of 100 ms that holds until something is known
				p.s.SetRTT(2 * delay)
			}
			send(t, p.s, content(count*1024, 1))
			require.NoError(t, p.run(time.Minute, 1))
			require.EqualValues(t, count, p.s.Stats().Slices, "delay %v", delay)
		}
	}
}

// TestPipelineHasNoGaps compares one chunk in flight, which pays a round trip a
// chunk, with several.
func TestPipelineHasNoGaps(t *testing.T) {
	took := make(map[int]time.Duration)
	for _, pipeline := range []int{1, 4} {
		p := newPair(chunk.Config{Rate: 1_250_000, Pipeline: pipeline}, netsim.Config{Delay: 50 * ms})
		for i := range uint64(16) {
			send(t, p.s, content(64<<10, i))
		}
		require.NoError(t, p.run(time.Minute, 16))
		took[pipeline] = p.took
	}
	t.Logf("1 MiB at 10 Mbit/s and 100 ms: %v with one chunk in flight, %v with four", took[1], took[4])
	ideal := time.Duration(float64(1<<20)/1_250_000*1e9) + 50*ms
	require.Less(t, took[4], ideal+10*ms)
	require.Greater(t, took[1], took[4]+14*100*ms)
}

// TestPipelineThatFillsAPath: one chunk more than are sent in a round trip, and
// five times as many with 1 % loss.
func TestPipelineThatFillsAPath(t *testing.T) {
	for _, test := range []struct {
		rate, pipeline int
		loss, share    float64
	}{
		{625_000, 2, 0, 0.98}, {12_500_000, 4, 0, 0.98}, {12_500_000, 12, 0.01, 0.9},
	} {
		const chunks = 64
		p := newPair(chunk.Config{Rate: test.rate, Pipeline: test.pipeline}, netsim.Config{Delay: 25 * ms, Loss: test.loss, Seed: 1})
		for range chunks {
			send(t, p.s, make([]byte, 256<<10))
		}
		require.NoError(t, p.run(5*time.Minute, chunks))
		ideal := time.Duration(float64(chunks*256<<10) / float64(test.rate) * 1e9)
		share := float64(ideal) / float64(p.took)
		t.Logf("%d bytes a second, %d chunks in flight, loss %v: %.2f of the rate", test.rate, test.pipeline, test.loss, share)
		require.Greater(t, share, test.share)
	}
}

// TestOneEndAlone shows why both ends must be replaced together, with another protocol id.
func TestOneEndAlone(t *testing.T) {
	carry := func(now time.Time, s *chunk.Sender, r *chunk.Receiver) (got []string) {
		for b, ok := s.AppendSlice(now, nil); ok; b, ok = s.AppendSlice(now, nil) {
			_ = r.ReceiveSlice(now, b)
		}
		for b, ok := r.AppendAck(now, nil); ok; b, ok = r.AppendAck(now, nil) {
			_ = s.ReceiveAck(now, b)
		}
		for _, data, ok := r.Chunk(); ok; _, data, ok = r.Chunk() {
			got = append(got, string(data))
		}
		return got
	}
	free := chunk.Config{Rate: -1}
	s, r := must(chunk.NewSender(free)), must(chunk.NewReceiver(free))
	send(t, s, []byte("old"))
	require.Equal(t, []string{"old"}, carry(epoch, s, r))
	t.Log("# a new sender: the receiver acks what it never took")
	s = must(chunk.NewSender(free))
	send(t, s, []byte("new"))
	require.Empty(t, carry(after(time.Second), s, r))
	require.True(t, s.Done())
	t.Log("# a new receiver: it waits for chunk 0, which never comes")
	r = must(chunk.NewReceiver(free))
	send(t, s, []byte("next"))
	require.Empty(t, carry(after(2*time.Second), s, r))
	require.False(t, s.Done())
	late, ok := s.AppendSlice(after(time.Minute), nil)
	require.True(t, ok)
	t.Log("# both anew, under another id: what is late of the old pair is malformed")
	other := chunk.Config{Rate: -1, ProtocolID: 7}
	s, r = must(chunk.NewSender(other)), must(chunk.NewReceiver(other))
	require.ErrorIs(t, r.ReceiveSlice(epoch, late), chunk.ErrMalformed)
	send(t, s, []byte("new"))
	require.Equal(t, []string{"new"}, carry(epoch, s, r))
}

func TestOutage(t *testing.T) {
	p := newPair(chunk.Config{Rate: 1_250_000, Pipeline: 4}, netsim.Config{Delay: 25 * ms})
	for i := range uint64(8) {
		send(t, p.s, content(256<<10, i))
	}
	require.ErrorIs(t, p.sim.Run(500*ms, func() bool { return false }), netsim.ErrLimit)
	before := p.s.Stats().Slices
	p.sim.Dark(20 * time.Second)
	require.NoError(t, p.sim.RunFor(20*time.Second))
	spent := p.s.Stats().Slices - before
	t.Logf("%d slices into 20 dark seconds", spent)
	require.Less(t, spent, uint64(1220), "eight delays' worth, then a probe a second")
	begin := p.sim.Now()
	require.NoError(t, p.run(time.Minute, 8))
	t.Logf("done %v after light", p.sim.Now().Sub(begin))
	require.Less(t, p.sim.Now().Sub(begin), 4*time.Second)
}

// TestSlowReader takes chunks long after they are complete: the sender may not
// pour slices into a full queue meanwhile.
func TestSlowReader(t *testing.T) {
	c := chunk.Config{Rate: 1_250_000}
	s, r := must(chunk.NewSender(c)), must(chunk.NewReceiver(c))
	var now time.Time
	sim := netsim.NewPair(sending{s}, lazy{r}, netsim.PairConfig{AtoB: netsim.Config{Delay: 10 * ms}, BtoA: netsim.Config{Delay: 10 * ms}, Start: epoch, OnStep: func(t time.Time) { now = t }})
	for i := range uint64(3) {
		send(t, s, content(100<<10, i))
	}
	for i := range uint64(3) {
		require.NoError(t, sim.RunFor(10*time.Second))
		id, data, ok := r.Chunk()
		require.True(t, ok, "at %v", now)
		require.EqualValues(t, i, id)
		require.True(t, bytes.Equal(content(100<<10, i), data))
	}
	require.NoError(t, sim.RunFor(2*time.Second))
	require.True(t, s.Done())
	t.Logf("%d slices for 300, %d ignored", s.Stats().Slices, r.Stats().Ignored)
	require.Less(t, s.Stats().Slices, uint64(1500))
}

// lazy is a receiver whose owner takes no chunks.
type lazy struct{ *chunk.Receiver }

func (r lazy) Receive(now time.Time, p []byte) error { return r.ReceiveSlice(now, p) }
func (r lazy) Advance(time.Time) error               { return nil }
func (r lazy) AppendPacket(now time.Time, buf []byte, _ int) ([]byte, uint64, bool) {
	b, ok := r.AppendAck(now, buf)
	return b, 0, ok
}

// TestAnotherPath moves both ends to another path in the middle of a chunk.
func TestAnotherPath(t *testing.T) {
	c := chunk.Config{Rate: 2_500_000, Pipeline: 4}
	p := newPair(c, netsim.Config{Delay: 25 * ms})
	const chunks = 6
	for i := range uint64(chunks) {
		send(t, p.s, content(256<<10, i))
	}
	p.sim.A.Link.Dark(epoch.Add(200*ms), epoch.Add(time.Hour)) // the first path dies one way
	p.sim.B.Link.Dark(epoch.Add(200*ms), epoch.Add(time.Hour))
	require.NoError(t, p.sim.RunFor(time.Second))
	have := p.r.Stats().Slices
	p.s.Restart()
	p.r.Restart()
	q := netsim.NewPair(p.sim.A.Machine, p.sim.B.Machine, netsim.PairConfig{
		AtoB: netsim.Config{Delay: 40 * ms}, BtoA: netsim.Config{Delay: 40 * ms}, Start: p.sim.Now(), Max: 65507})
	require.NoError(t, q.Run(time.Minute, func() bool { return len(p.got) == chunks && p.s.Done() }))
	for i, data := range p.got {
		require.True(t, bytes.Equal(content(256<<10, uint64(i)), data))
	}
	st := p.r.Stats()
	t.Logf("%d of %d slices over the first path; %d slices twice", have, st.Slices, st.Duplicates)
	require.Greater(t, have, uint64(300))
	require.Less(t, st.Duplicates, uint64(200), "what had arrived does not come again, but for a round trip's worth")
}

// TestResendsAreBounded on links that lose nothing but what their queue does not
// take, whatever the sender pours in: it follows a queue that grows. At 50 kB/s
// an initial burst sent 962 slices again of 256, and without a rate 70,000.
func TestResendsAreBounded(t *testing.T) {
	seed := testkit.Seed(t)
	for _, c := range []struct {
		name   string
		config chunk.Config
		most   float64 // resent beyond what was dropped, of the slices
	}{
		{"burst", chunk.Config{Burst: true}, 0.1},
		{"paced", chunk.Config{}, 0.1},
		{"paced, pipeline", chunk.Config{Pipeline: 4}, 0.1},
		{"no limit", chunk.Config{Rate: -1}, 2}, // the round trip of the queue is not known when the first delay ends
	} {
		for _, rate := range []int64{50_000, 125_000, 1_250_000} {
			if testing.Short() && rate == 125_000 {
				continue
			}
			for _, delay := range []time.Duration{10 * ms, 40 * ms} {
				for _, queue := range []int{64 << 10, 1 << 20} {
					link := netsim.Config{Delay: delay, Jitter: delay / 8, Rate: rate * 8, Queue: queue, Seed: seed}
					p := newPair(c.config, link)
					for i := range uint64(4) {
						send(t, p.s, content(256<<10, i))
					}
					require.NoError(t, p.run(10*time.Minute, 4))
					s, dropped := p.s.Stats(), p.sim.A.Link.Stats().LostQueue
					t.Logf("%s: %d kB/s, %v, queue %d KiB: %v, %d resent, %d dropped, RTT %v", c.name, rate/1000, delay, queue>>10, p.took, s.Resent, dropped, s.RTT)
					require.LessOrEqual(t, float64(s.Resent)-float64(dropped), c.most*1024)
					if c.most < 1 {
						require.Less(t, s.Slices, uint64(4*1024))
					}
				}
			}
		}
	}
}

// TestAcksOfMoreChunksThanAreRepeated: the acks of all chunks in flight are
// lost before both ends move to another path. Restart repeats those of
// ReceiveQueue chunks, and each slice of the others is sent once more.
func TestAcksOfMoreChunksThanAreRepeated(t *testing.T) {
	const chunks, slices = 1024, 8
	for _, queue := range []int{256, chunks} {
		t.Run(fmt.Sprint(queue), func(t *testing.T) {
			p := newPair(chunk.Config{Rate: 2_500_000, Pipeline: chunks, SendQueue: -1, ReceiveQueue: queue}, netsim.Config{Delay: 25 * ms})
			p.sim.B.Link.Dark(epoch, epoch.Add(time.Hour))
			p.s.SetRTT(10 * time.Second) // for it to send all without an ack
			for i := range uint64(chunks) {
				send(t, p.s, content(slices*1024, i))
			}
			require.NoError(t, p.sim.Run(time.Minute, func() bool { return len(p.got) == chunks }))
			require.Zero(t, p.s.Finished())
			before := p.s.Stats().Slices
			p.s.Restart()
			p.r.Restart()
			q := netsim.NewPair(p.sim.A.Machine, p.sim.B.Machine, netsim.PairConfig{
				AtoB: netsim.Config{Delay: 40 * ms}, BtoA: netsim.Config{Delay: 40 * ms}, Start: p.sim.Now(), Max: 65507})
			require.NoError(t, q.Run(time.Minute, p.s.Done))
			again := p.s.Stats().Slices - before
			t.Logf("done after %v, %d of %d slices sent again", q.Now().Sub(p.sim.Now()), again, chunks*slices)
			const roundTrip = 80 * 2500 / 1024 // slices
			require.LessOrEqual(t, again, uint64((chunks-queue)*slices+roundTrip))
			require.Len(t, p.got, chunks)
		})
	}
}

// TestPathThatBecomesLongIsLearnt: a path of 6 ms becomes one of 60. All slices were
// once sent twice or three times from then on, and no round trip was ever measured
// again: each ack arrived soon enough after the latest sending to end the backoff.
func TestPathThatBecomesLongIsLearnt(t *testing.T) {
	for _, slices := range []int{4, 16, 32} {
		for _, pipeline := range []int{1, 16} {
			path := netsim.Config{Delay: 3 * ms, Rate: 10e6}
			p := newPair(chunk.Config{Rate: 800_000, Pipeline: pipeline, SendQueue: 400}, path)
			for i := range 2 {
				for range 200 {
					send(t, p.s, make([]byte, slices<<10))
				}
				require.NoError(t, p.run(5*time.Minute, 200+200*i))
				path.Delay = 30 * ms
				p.sim.A.Link.SetConfig(path)
				p.sim.B.Link.SetConfig(path)
			}
			s := p.s.Stats()
			t.Logf("%d slices, %d chunks in flight: %d of %d resent", slices, pipeline, s.Resent, s.Slices)
			require.InDelta(t, 61*ms, s.RTT, float64(2*ms))
			require.Less(t, s.Resent, uint64(500))
		}
	}
}
