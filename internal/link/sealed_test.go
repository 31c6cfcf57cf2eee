package link_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/internal/recovery"
)

// bell is a sealed carrier that counts how often it is woken.
type bell struct {
	link     *link.Link
	rung     int
	unlocked int // of those with an Unlock
}

func (b *bell) Wake() { b.rung++ }

func (b *bell) Unlock() {
	b.Wake()
	b.unlocked++
	b.link.Source().Unlock()
}

// slow is a machine whose bulk can be held.
type slow struct {
	*machine
	held   bool
	flying bool // some of it is under way
}

func (m *slow) Waiting() (unreliable, bulk bool) { return false, m.ready > 0 || m.flying }
func (m *slow) Hold(_, bulk bool)                { m.held = bulk }
func (m *slow) AppendPacket(now time.Time, buf []byte, size int) ([]byte, uint64, bool) {
	if m.held {
		return buf, 0, false
	}
	return m.machine.AppendPacket(now, buf, size)
}

// beside is a link with two machines, play and bulk, and a sealed carrier beside its pipe.
type beside struct {
	*link.Link
	source    link.Source
	bell      *bell
	play      *machine
	bulk      *slow
	near, far *linktest.Carrier
	woken     int
}

func newBeside(t *testing.T) *beside {
	play := &machine{first: 1, size: 40}
	b := newBesideOf(t, play, &slow{machine: &machine{first: 2, size: 400, bulk: true}})
	b.play = play
	return b
}

func newBesideOf(t *testing.T, play link.Play, bulk *slow) *beside {
	b := &beside{bulk: bulk}
	b.near, b.far = linktest.Pipe()
	b.Link = link.New(b.near, link.Config{Wake: func() { b.woken++ }}, play, bulk)
	b.source, b.bell = b.Source(), &bell{link: b.Link}
	t.Cleanup(func() { end(b.Link); _ = b.far.CloseWithError(0, "") })
	return b
}

// ask has the sealed carrier ask for a datagram.
func (b *beside) ask(bulk bool) (size int, token uint64, isBulk, ok bool) {
	b.source.Lock()
	defer b.source.Unlock()
	packet, token, content, ok := b.source.AppendPayload(time.Now(), make([]byte, 0, 1500), recovery.Room{Max: 1400, Bulk: bulk})
	return len(packet), token, content.Bulk, ok
}

// sendBulk has the sealed carrier ask for n datagrams, and returns how many
// bytes of them each machine has sent.
func (b *beside) sendBulk(t *testing.T, n int) (sent [2]int) {
	for range n {
		size, token, _, ok := b.ask(true)
		require.True(t, ok)
		sent[token>>56] += size
	}
	return sent
}

// TestSealedCarries: nothing is sent over the first carrier, datagrams that
// arrive there are handled, and each fate is reported to its machine.
func TestSealedCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeside(t)
		_, _, _, ok := b.ask(true)
		require.False(t, ok, "it does not carry yet")
		b.Carry(b.bell)
		require.True(t, b.Sealed())
		before := b.near.Sent()
		under(b.Link, func() { b.play.ready, b.bulk.ready = 1, 2 })
		synctest.Wait()
		require.Equal(t, before, b.near.Sent())
		require.Positive(t, b.bell.rung, "an Unlock wakes it")

		size, first, isBulk, ok := b.ask(false)
		require.True(t, ok && !isBulk)
		require.Equal(t, 40, size, "play goes first")
		_, _, _, ok = b.ask(false)
		require.False(t, ok, "bulk waits for its pace")
		size, second, isBulk, ok := b.ask(true)
		require.True(t, ok && isBulk)
		require.Equal(t, 400, size)

		b.source.Lock()
		b.source.Lost(time.Now(), second)
		b.source.Acked(time.Now(), first)
		b.source.Receive(time.Now(), []byte{2, 9})
		b.source.Unlock()
		require.Equal(t, []fate{{1, false}}, b.bulk.fates)
		require.Equal(t, []fate{{1, true}}, b.play.fates)
		require.Equal(t, [][]byte{{2, 9}}, b.bulk.received)

		require.NoError(t, b.far.SendDatagram([]byte{1, 7}))
		require.NoError(t, b.far.SendDatagram([]byte{link.Ping}))
		synctest.Wait()
		under(b.Link, func() { require.Equal(t, [][]byte{{1, 7}}, b.play.received) })
		require.Zero(t, b.Stats().DroppedUnknown, "a ping is for nobody")
	})
}

// TestBulkOfBothMachines: the sealed carrier sends bulk of both machines, byte
// for byte. That of the second waited until the first had none left.
func TestBulkOfBothMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &slow{machine: &machine{first: 1, size: 1200, bulk: true}}
		b := newBesideOf(t, first, &slow{machine: &machine{first: 2, size: 400, bulk: true}})
		b.Carry(b.bell)
		under(b.Link, func() { first.ready, b.bulk.ready = 50, 50 })
		sent := b.sendBulk(t, 40)
		require.InDelta(t, sent[0], sent[1], 1200)
		require.False(t, first.held)

		t.Log("# alone each has all")
		first.ready, b.bulk.ready = 5, 0
		for range 5 {
			_, token, _, ok := b.ask(true)
			require.True(t, ok)
			require.Zero(t, token>>56)
		}
	})
}

// TestBulkThatIsUnderWay: bulk in flight waits for its acks, and slices of it may
// wait until more can be sent. What the first machine sends meanwhile is not counted
// against it. Before, it stood still later until the others had sent as much.
func TestBulkThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &slow{machine: &machine{first: 1, size: 1200, bulk: true}}
		b := newBesideOf(t, first, &slow{machine: &machine{first: 2, size: 400, bulk: true}, flying: true})
		b.Carry(b.bell)
		first.ready = 1000
		for range 500 {
			_, token, _, ok := b.ask(true)
			require.True(t, ok)
			require.Zero(t, token>>56)
		}
		b.bulk.ready = 1000
		sent := b.sendBulk(t, 40)
		require.InDelta(t, sent[0], sent[1], 2400)
	})
}

// TestChangeOfCarrierRaisesTheEpoch: for every machine, with whether fates are reported.
func TestChangeOfCarrierRaisesTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeside(t)
		b.Carry(nil)
		require.Empty(t, b.play.paths, "QUIC carried")
		b.Carry(b.bell)
		b.Carry(b.bell)
		b.source.Lock()
		b.source.Tell(time.Now(), 5000, 1e6, 0.1, 100)
		b.source.Unlock()
		b.Carry(nil)
		b.source.Lock()
		b.source.Tell(time.Now(), 5000, 1e6, 0.1, 100)
		b.source.Unlock()
		for _, m := range []*machine{b.play, b.bulk.machine} {
			require.Equal(t, []recovery.Path{
				{Epoch: 1, Fates: true},
				{Epoch: 1, Fates: true, Window: 5000, Rate: 1e6, Loss: 0.1, LossOf: 100},
				{Epoch: 2},
			}, m.paths)
		}
		under(b.Link, func() { b.play.ready = 1 })
		synctest.Wait()
		require.Equal(t, 1, b.near.Sent(), "QUIC carries again")
	})
}

// TestExpectTellsTheMachines: they are informed when more bulk is expected and
// when no more is, on every path, and not of how much it is meanwhile.
func TestExpectTellsTheMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeside(t)
		b.Carry(b.bell)
		heard := func() (more []bool) {
			for _, p := range b.play.paths {
				more = append(more, p.More)
			}
			require.Equal(t, b.play.paths, b.bulk.paths)
			b.play.paths, b.bulk.paths = nil, nil
			return more
		}
		heard()
		for _, bytes := range []int64{0, 5, 9, 2} {
			b.Expect(bytes)
		}
		require.Equal(t, []bool{true}, heard())
		b.source.Lock()
		b.source.Moved(time.Now())
		b.source.Tell(time.Now(), 1000, 1e6, 0.1, 100)
		b.source.Unlock()
		require.Equal(t, []bool{true, true}, heard())
		b.Expect(0)
		require.Equal(t, []bool{false}, heard())
	})
}

// TestTimersUnderTheSealedCarrier: it asks when the machines are due, and runs
// them once at each time.
func TestTimersUnderTheSealedCarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeside(t)
		b.Carry(b.bell)
		synctest.Wait()
		at := time.Now().Add(time.Second)
		under(b.Link, func() { b.bulk.next, b.play.next = at, at.Add(time.Second) })
		b.source.Lock()
		next, ok := b.source.NextTimeout()
		before := len(b.play.advanced)
		time.Sleep(2 * time.Second)
		for range 3 {
			b.source.Advance(time.Now())
		}
		require.Len(t, b.play.advanced, before+1)
		b.source.Unlock()
		require.True(t, ok)
		require.Equal(t, at, next)
	})
}

// TestCloseOverTheSealedCarrier waits for what is reliable.
func TestCloseOverTheSealedCarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeside(t)
		b.Carry(b.bell)
		under(b.Link, func() { b.play.undrained = true })
		begin := time.Now()
		b.Close(5, "good bye")
		time.Sleep(100 * time.Millisecond)
		b.source.Lock()
		b.play.undrained, b.play.wakes = false, 1
		require.True(t, b.source.Turned(), "the owner is to be woken")
		b.source.Unlock()
		<-b.Done()
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		require.Equal(t, &link.CloseError{Code: 5, Reason: "good bye"}, b.Err())
	})
}

// TestViolationOverTheSealedCarrier ends the link with its code, and no machine is called after.
func TestViolationOverTheSealedCarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeside(t)
		b.Carry(b.bell)
		under(b.Link, func() { b.play.receiveErr = fmt.Errorf("wrapped: %w", errViolation) })
		b.source.Lock()
		for range 2 {
			b.source.Receive(time.Now(), []byte{1})
		}
		require.False(t, b.source.Turned())
		_, due := b.source.NextTimeout()
		require.False(t, due)
		b.source.Unlock()
		require.Len(t, b.play.received, 1)
		<-b.Done()
		require.ErrorIs(t, b.Err(), errViolation)
	})
}

// TestDatagramByTheFirstCarrierWakesTheSealedOne: even if it allows no packet,
// because it may have changed a timer.
func TestDatagramByTheFirstCarrierWakesTheSealedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := linktest.Pipe()
		m := &quietMachine{machine: &machine{first: 1}}
		l := link.New(near, link.Config{}, m)
		rings := &bell{link: l}
		l.Carry(rings)
		synctest.Wait()
		before := rings.rung
		require.NoError(t, far.SendDatagram([]byte{1, 7}))
		synctest.Wait()
		under(l, func() {
			require.Len(t, m.received, 1)
			require.Greater(t, rings.rung, before)
		})
		end(l)
		require.NoError(t, far.CloseWithError(0, ""))
	})
}

// lentMachine copies what it keeps of a datagram.
type lentMachine struct {
	*machine
	lent int
}

func (m *lentMachine) ReceiveLent(now time.Time, datagram []byte) error {
	m.lent++
	return m.Receive(now, append([]byte(nil), datagram...))
}

// TestUnlockLater wakes the sealed carrier, which does not send on the goroutine of the caller.
func TestUnlockLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeside(t)
		b.Carry(b.bell)
		synctest.Wait() // the writer wakes it once as well
		rung, unlocked := b.bell.rung, b.bell.unlocked
		b.Lock()
		b.play.ready = 1
		b.UnlockLater()
		require.Equal(t, rung+1, b.bell.rung)
		require.Equal(t, unlocked, b.bell.unlocked)
		under(b.Link, func() { b.play.ready = 2 })
		require.Equal(t, unlocked+1, b.bell.unlocked)
	})
}

// TestSealedDatagramsAreLent: their memory is the carrier's, and a machine copies what it keeps.
func TestSealedDatagramsAreLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := linktest.Pipe()
		first, second := &lentMachine{machine: &machine{first: 1}}, &machine{first: 2}
		l := link.New(near, link.Config{}, first, second)
		l.Carry(&bell{link: l})
		source := l.Source()
		source.Lock()
		for _, datagram := range [][]byte{{1, 7}, {2, 8}} {
			source.Receive(time.Now(), datagram)
			datagram[1] = 0
		}
		source.Unlock()
		require.NoError(t, far.SendDatagram([]byte{1, 9}))
		synctest.Wait()
		under(l, func() {
			require.Equal(t, 1, first.lent, "QUIC gives its datagrams away")
			require.Equal(t, [][]byte{{1, 7}, {1, 9}}, first.received)
			require.Equal(t, [][]byte{{2, 8}}, second.received)
		})
		end(l)
		require.NoError(t, far.CloseWithError(0, ""))
	})
}

// TestTurnsForgetWhatTheyHaveSeen: what the machines were given before a turn
// of the sealed carrier needs no other turn. Otherwise each packet that arrived
// woke the carrier once more, when the owner fetched its content.
func TestTurnsForgetWhatTheyHaveSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := linktest.Pipe()
		m := &quietMachine{machine: &machine{first: 1}}
		l := link.New(near, link.Config{}, m)
		rings := &bell{link: l}
		l.Carry(rings)
		synctest.Wait()
		before := rings.rung
		source := l.Source()
		source.Lock()
		source.Receive(time.Now(), []byte{1, 7})
		m.changed = true
		source.Turned()
		source.Unlock()
		under(l, func() { require.Equal(t, before, rings.rung) })
		under(l, func() { require.Equal(t, before, rings.rung) })
		under(l, func() { m.changed = true })
		under(l, func() { require.Equal(t, before+1, rings.rung) })
		end(l)
		require.NoError(t, far.CloseWithError(0, ""))
	})
}

// TestTimerOfWhatCameSealed: datagrams that arrive over the sealed carrier set timers that QUIC's
// writer handles while QUIC carries, because the peer may have opened its end before this end has.
func TestTimerOfWhatCameSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeside(t)
		synctest.Wait()
		due := time.Now().Add(time.Second)
		b.play.onPacket = func(time.Time, []byte) { b.play.next = due }
		b.source.Lock()
		b.source.Receive(time.Now(), []byte{1, 7})
		b.source.Turned()
		b.source.Unlock()
		time.Sleep(1001 * time.Millisecond)
		synctest.Wait()
		under(b.Link, func() { require.WithinDuration(t, due, b.play.advanced[len(b.play.advanced)-1], time.Millisecond) })
	})
}

// TestNobodyBlocksBehindPings: other datagrams in QUIC's queue than the first
// machine's, and acks for sealed datagrams, leave the room in the queue
// unknown. Then only the writer sends, which may block.
func TestNobodyBlocksBehindPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{size: 8, gate: make(chan struct{}, 100)}
		l, first, _, far := directPair(q)
		synctest.Wait()
		directly := func() { // or it would wait for the writer
			t.Helper()
			before := q.Sent()
			q.allow(1)
			under(l, first.make(1))
			require.Equal(t, before+1, q.Sent())
		}
		byTheWriter := func(msg ...any) { // which may run at once, but waits for the gate
			t.Helper()
			before := q.Sent()
			under(l, first.make(1))
			require.Equal(t, before, q.Sent(), msg...)
			q.allow(1)
			synctest.Wait()
			require.Equal(t, before+1, q.Sent())
		}
		directly()
		q.allow(1)
		l.Ping()
		byTheWriter()
		under(l, func() { first.below = 2 })
		byTheWriter("that was built before the ping")
		under(l, func() { first.below = 3 })
		directly()

		l.Carry(&bell{link: l})
		source := l.Source()
		source.Lock()
		first.ready = 50
		for range 50 {
			_, _, _, ok := source.AppendPayload(time.Now(), make([]byte, 0, 1500), recovery.Room{Max: 1400})
			require.True(t, ok)
		}
		first.below = 55
		source.Unlock()
		l.Carry(nil)
		synctest.Wait()
		byTheWriter("the acks were for sealed packets")
		under(l, func() { first.below = 56 })
		directly()
		end(l)
		require.NoError(t, far.CloseWithError(0, ""))
	})
}
