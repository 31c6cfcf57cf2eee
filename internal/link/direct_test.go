package link_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
)

// queue is a carrier that takes so many datagrams before it blocks.
type queue struct {
	*linktest.Carrier
	size int
	gate chan struct{} // of which each datagram takes one; nil = open
}

func (q queue) SendDatagram(p []byte) error {
	if q.gate != nil {
		<-q.gate
	}
	return q.Carrier.SendDatagram(p)
}

// allow lets so many datagrams pass: the writer, which may run as soon as it is
// woken, waits for the next ones.
func (q queue) allow(n int) {
	for range n {
		q.gate <- struct{}{}
	}
}

func (q queue) SendQueue() int { return q.size }

// acked is a machine whose peer has acknowledged the packets below a number.
type acked struct {
	*quietMachine
	below uint64
}

func (m *acked) Acked() uint64 { return m.below }

func directPair(q *queue) (l *link.Link, first *acked, second *quietMachine, far *linktest.Carrier) {
	a, b := linktest.Pipe()
	q.Carrier = a
	first = &acked{quietMachine: &quietMachine{machine: &machine{first: 1, size: 10}}}
	second = &quietMachine{machine: &machine{first: 2, size: 10}}
	return link.New(q, link.Config{}, first, second), first, second, b
}

// make has the machine send so many datagrams.
func (m *quietMachine) make(n int) func() { return func() { m.ready, m.changed = m.ready+n, true } }

func TestUnlockSendsInTheWritersPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{size: 32, gate: make(chan struct{}, 32)}
		l, first, second, far := directPair(q)
		synctest.Wait()
		q.allow(3)
		under(l, first.make(3))
		require.EqualValues(t, 3, q.Sent(), "the writer has not run")
		t.Log("# a few only; the rest is the writer's")
		q.allow(8)
		under(l, first.make(20))
		synctest.Wait()
		require.EqualValues(t, 3+8, q.Sent())
		q.allow(12)
		synctest.Wait()
		require.EqualValues(t, 23, q.Sent())
		t.Log("# what another machine sent may wait inside the carrier until a later packet of the first is acked")
		under(l, func() { first.below = 24 })
		q.allow(1)
		under(l, second.make(1))
		require.EqualValues(t, 24, q.Sent())
		under(l, first.make(1))
		require.EqualValues(t, 24, q.Sent())
		q.allow(1)
		synctest.Wait()
		require.EqualValues(t, 25, q.Sent())
		under(l, func() { first.below = 25 })
		q.allow(1)
		under(l, first.make(1))
		require.EqualValues(t, 26, q.Sent())
		close(q.gate)
		end(l)
		require.NoError(t, far.CloseWithError(0, ""))
	})
}

// TestUnlockNeverBlocks: with as many datagrams unacknowledged as the carrier's
// queue holds only the writer sends.
func TestUnlockNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := linktest.Pipe()
		first := &acked{quietMachine: &quietMachine{machine: &machine{first: 1, size: 10}}}
		l := link.New(queue{Carrier: a, size: 8}, link.Config{}, first)
		synctest.Wait()
		for range 7 {
			under(l, first.make(1))
		}
		require.EqualValues(t, 7, a.Sent())
		a.Block(true)
		begin := time.Now()
		under(l, first.make(1))
		under(l, first.make(1))
		require.Zero(t, time.Since(begin))
		synctest.Wait()
		require.EqualValues(t, 7, a.Sent(), "the writer is blocked, and nobody else")
		a.Block(false)
		synctest.Wait()
		require.EqualValues(t, 9, a.Sent())
		end(l)
		require.NoError(t, b.CloseWithError(0, ""))
	})
}

// TestWriterSleepsThroughWhatNeedsNoAnswer, but not longer than the machines allow after it.
func TestWriterSleepsThroughWhatNeedsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, first, _, far := directPair(&queue{size: 32})
		synctest.Wait()
		turns, due := len(first.advanced), time.Now().Add(40*time.Millisecond)
		first.wakes = 1
		first.onPacket = func(now time.Time, _ []byte) { first.next = now.Add(40 * time.Millisecond) }
		require.NoError(t, far.SendDatagram([]byte{1}))
		synctest.Wait()
		under(l, func() {
			require.Len(t, first.received, 1)
			require.Zero(t, first.wakes, "the owner was told")
			require.Len(t, first.advanced, turns, "the writer sleeps")
		})
		time.Sleep(41 * time.Millisecond)
		synctest.Wait()
		under(l, func() { require.Equal(t, due, first.advanced[turns]) })
		end(l)
		require.NoError(t, far.CloseWithError(0, ""))
	})
}
