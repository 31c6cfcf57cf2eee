package slices

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

// counted is a side that counts the bytes that it sends.
type counted struct {
	*side
	bytes int
}

func (c *counted) AppendPacket(now time.Time, buf []byte, size int) ([]byte, uint64, bool) {
	packet, number, ok := c.side.AppendPacket(now, buf, size)
	if ok {
		c.bytes += len(packet) - len(buf)
	}
	return packet, number, ok
}

// optimist is a receiver that wants to receive faster than its path allows: ten times a second it
// acks all slices that have been sent, whether they have arrived or not. It guesses right which
// ones that are. If it is reckless, it also acks those that have not been sent yet.
type optimist struct {
	*side
	from     *outbox
	reckless bool
	next     uint64 // chunk to ack
	due      time.Time
}

func (o *optimist) NextTimeout() (time.Time, bool) { return o.due, !o.due.IsZero() }

func (o *optimist) Receive(now time.Time, _ []byte) error {
	if o.due.IsZero() {
		o.due = now
	}
	return nil
}

func (o *optimist) AppendPacket(now time.Time, buf []byte, _ int) ([]byte, uint64, bool) {
	if o.due.IsZero() || now.Before(o.due) {
		return buf, 0, false
	}
	o.next = max(o.next, o.from.chunks.Oldest)
	if o.next == o.from.chunks.Next || o.from.chunks.At(o.next).newest[0] == 0 {
		o.next, o.due = 0, now.Add(100*time.Millisecond)
		return buf, 0, false
	}
	c := o.from.chunks.At(o.next)
	a := chunk.Ack{ChunkID: c.id, Count: len(c.newest)}
	for i, newest := range c.newest {
		if newest != 0 || o.reckless {
			a.Acked.Set(i)
		}
	}
	o.next++
	return config.AppendAck(append(buf, protocol), a), 0, true
}

// flatter sends to an optimist for 5 s, or until it is caught.
func flatter(o *optimist, random func(n int) int, rate int64, rtt time.Duration) (sent int, took time.Duration, err error) {
	a := &counted{side: newSide(slices.Repeat(parts(1, 32_000), 8000)...)}
	a.Withhold(random)
	o.side, o.from = newSide(), &a.out
	path := netsim.Config{Delay: rtt / 2, Rate: rate, Queue: 250e3}
	p := netsim.NewPair(a, o, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 1 << 20})
	err = p.RunFor(5 * time.Second)
	return a.bytes, p.Now().Sub(netsim.Epoch), err
}

// TestOptimistsAreCaught: a peer that acks what has been sent, whether it has arrived or not, was
// sent 40 times as much as its path of 2 Mbit/s carries, and 7 times if that is 10 Mbit/s. To ack
// what will be sent was free, since such acks were ignored.
func TestOptimistsAreCaught(t *testing.T) {
	random := testkit.Rand(t)
	for _, rate := range []int64{1e6, 2e6, 10e6, 100e6} {
		for _, rtt := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
			for _, reckless := range []bool{true, false} {
				sent, took, err := flatter(&optimist{reckless: reckless}, random.IntN, rate, rtt)
				require.ErrorContains(t, err, "has not been sent", "%d bit/s, %v", rate, rtt)
				// At most twice the mean until a slice is withheld, and what fits the window then.
				require.Less(t, sent, 2*meanWithheld*Datagram+2<<20)
				require.Less(t, took, 3*time.Second, "%d bit/s, %v", rate, rtt)
			}
		}
	}
}

// often makes a machine withhold one slice in ten.
func often(random *rand.Rand) func(n int) int {
	return func(n int) int { return random.IntN(min(n, 20)) }
}

// sender is a side that says when it has no more messages.
type sender struct{ *side }

func (s sender) Advance(now time.Time) error {
	err := s.side.Advance(now)
	if len(s.parts) == 0 && !s.noMore {
		s.SetNoMore(true)
	}
	return err
}

// timed returns how long an honest peer takes to receive messages.
func timed(t *testing.T, random func(n int) int, messages int, path netsim.Config) (time.Duration, *side) {
	a, b := newSide(slices.Repeat(parts(1, 32_000), messages)...), newSide()
	a.Withhold(random)
	p := netsim.NewPair(sender{a}, b, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 1 << 20})
	require.NoError(t, p.Run(time.Minute, func() bool { return len(b.got) == messages && a.out.idle() }))
	return p.Now().Sub(netsim.Epoch), a
}

// TestWithholdingTakesNoTime: neither small transfers nor large ones take longer for it, and a
// slice that is withheld is neither lost nor sent twice.
func TestWithholdingTakesNoTime(t *testing.T) {
	random := testkit.Rand(t)
	for _, path := range []netsim.Config{
		{Delay: 25 * time.Millisecond, Rate: 10e6, Queue: 1 << 20},
		{Delay: 10 * time.Millisecond, Rate: 100e6, Queue: 1 << 20},
	} {
		for _, messages := range []int{1, 10, 300} {
			without, _ := timed(t, nil, messages, path)
			var sum time.Duration
			for range 10 {
				with, a := timed(t, random.IntN, messages, path)
				sum += with
				require.Zero(t, a.Stats().Resent)
				require.Zero(t, a.Lost())
				require.EqualValues(t, messages*sliceCount(content(32_000)), a.Stats().Slices)
			}
			require.InDelta(t, 1, (sum/10).Seconds()/without.Seconds(), 0.01, "%d messages: %v and %v", messages, without, sum/10)
		}
	}
}

// indexes sends all that may be sent and returns which slices of chunk 0 that are.
func (s *side) indexes(t *testing.T, now time.Time) (sent []int) {
	require.NoError(t, s.Machine.Advance(now))
	for {
		datagram, _, ok := s.AppendPacket(now, nil, Datagram)
		if !ok {
			return sent
		}
		p, err := config.Parse(datagram[1:])
		require.NoError(t, err)
		sent = append(sent, p.Slice.Index)
	}
}

// withholds returns a side that withholds the third of five slices, at the end of the time that it
// takes to send the others.
func withholds(t *testing.T) (s *side, sent []int) {
	s = newSide()
	s.Withhold(func(int) int { return 1 })
	require.NoError(t, s.Send(content(5*Size), memory{}))
	return s, s.indexes(t, netsim.Epoch)
}

func TestWithheldSlices(t *testing.T) {
	now := netsim.Epoch
	ack := func(s *side, indexes ...int) error {
		a := chunk.Ack{ChunkID: 0, Count: 5}
		for _, i := range indexes {
			a.Acked.Set(i)
		}
		return s.Receive(now, config.AppendAck([]byte{protocol}, a))
	}

	t.Log("# what is withheld is sent when it would be resent if it had been lost")
	s, sent := withholds(t)
	require.Equal(t, []int{0, 1, 3, 4}, sent)
	require.Equal(t, Size, s.Queued())
	require.Equal(t, 4*Datagram, s.InFlight())
	now = netsim.Epoch.Add(50 * time.Millisecond)
	require.NoError(t, ack(s, 0, 1, 3, 4))
	at, ok := s.NextTimeout()
	require.True(t, ok)
	require.Less(t, at.Sub(now), 20*time.Millisecond)
	now = at
	require.Equal(t, []int{2}, s.indexes(t, now))
	require.Zero(t, s.Queued())
	require.NoError(t, ack(s, 0, 1, 2, 3, 4))
	require.True(t, s.out.idle())

	t.Log("# or at a probe timeout")
	s, _ = withholds(t)
	at, ok = s.NextTimeout()
	require.True(t, ok)
	require.Contains(t, append(s.indexes(t, at), s.indexes(t, at.Add(time.Second))...), 2)

	t.Log("# at the end of a transfer, as the last one")
	s, _ = withholds(t)
	s.SetNoMore(true)
	require.Equal(t, []int{2}, s.indexes(t, netsim.Epoch))

	t.Log("# and when the path changes")
	s, _ = withholds(t)
	s.SetPath(netsim.Epoch, recovery.Path{Epoch: 1, Fates: true, RTT: 50 * time.Millisecond})
	require.Equal(t, []int{2}, s.indexes(t, netsim.Epoch))
	require.NoError(t, ack(s, 0, 1, 2, 3, 4))

	t.Log("# until then, nobody can have received it")
	s, _ = withholds(t)
	require.NoError(t, ack(s, 0, 1, 3, 4))
	require.ErrorContains(t, ack(s, 2), "slice 2 of chunk 0")

	t.Log("# the last slice in the queue isn't withheld, and none on a path that reports fates")
	s = newSide()
	s.Withhold(func(int) int { return 0 })
	require.NoError(t, s.Send(content(2*Size), memory{}))
	require.Equal(t, []int{0, 1}, s.indexes(t, netsim.Epoch))
	s = newSide()
	s.Withhold(func(int) int { return 0 })
	s.SetPath(netsim.Epoch, recovery.Path{Fates: true})
	require.NoError(t, s.Send(content(5*Size), memory{}))
	require.Equal(t, []int{0, 1, 2, 3, 4}, s.indexes(t, netsim.Epoch))
}
