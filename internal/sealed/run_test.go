package sealed

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/udp"
)

// A machine is busy if packets usually wait for long. A single one that waits,
// because of a garbage collection for example, does not make it busy.
func TestBusy(t *testing.T) {
	var r runner
	require.False(t, r.isBusy())
	r.noteWait(5 * busyWait)
	require.False(t, r.isBusy())
	r.noteWait(5 * busyWait)
	require.True(t, r.isBusy())
	for range 100 {
		r.noteWait(5 * busyWait)
	}
	for range 3 { // few turns after the others have ended
		r.noteWait(0)
	}
	require.False(t, r.isBusy())
}

// A carrier with play alone never counts as moving bulk, one that moves bulk soon does, and no
// longer once that has ended.
func TestMovesBulk(t *testing.T) {
	turns := func(r *runner, n, received, sent int) {
		r.batch, r.burst = &batch{n: received}, &burst{unsealed: make([]unsealedPacket, sent)}
		for range n {
			r.noteLoad()
		}
	}
	var r runner
	turns(&r, 1000, 1, 1)
	require.False(t, r.movesBulk(), "one packet each way")
	turns(&r, 4, 1, 16)
	require.True(t, r.movesBulk(), "bursts")
	turns(&r, 20, 1, 1)
	require.False(t, r.movesBulk(), "play again")
	turns(&r, 4, 12, 1)
	require.True(t, r.movesBulk(), "downloads")
}

// Of the packets of a turn the one that has waited longest counts.
func TestWaitsAreNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 10 * ms}, 0)
		now := d.a.Lock()
		d.a.run.batch = &batch{n: 2}
		d.a.run.batch.packets[0].at, d.a.run.batch.packets[1].at = now.Add(-80*ms), now
		d.a.receive(now)
		d.a.run.batch = nil
		d.a.Unlock()
		require.Equal(t, 10*ms, d.a.run.inboxWait)
	})
}

// TestNothingIsLentAtRest: a carrier between two turns keeps no buffers, of 6
// KiB and more, from those that work.
func TestNothingIsLentAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTalk(t)
		for range 2 {
			d.say(1)
			pass(time.Second)
			for _, c := range []*Carrier{d.a, d.b} {
				require.Nil(t, c.session.frame)
				require.Nil(t, c.run.batch)
				require.Nil(t, c.run.burst)
			}
		}
	})
}

// TestTurnIsShortForJumboPackets, too: what one turn gives to the machines
// under the lock is bounded in packets and in bytes.
func TestTurnIsShortForJumboPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBed(t, netsim.Config{Delay: 10 * ms}, 0).a
		for _, row := range []struct{ size, opened int }{{FullPacket, turnPackets}, {100, turnPackets}, {JumboPacket, turnBytes/JumboPacket + 1}} {
			box := newInbox(func(bool) {})
			box.setRemote(udp.AddrPort(here))
			for range turnPackets + 1 {
				box.put(time.Now(), udp.AddrPort(here), make([]byte, row.size))
			}
			c.inbox, c.run.incoming = box, box.take()
			c.run.borrow()
			c.open()
			require.Equal(t, min(row.opened, turnPackets), c.run.batch.n, "packets of %d bytes", row.size)
			c.run.burst.reset()
			c.run.giveBack()
			box.release(c.run.incoming)
			c.run.incoming = packetCursor{}
		}
	})
}

// TestBlocksThatAreReadAreKept: blocks of packets that a turn has left for the
// next one are not given back, because others would write into them.
func TestBlocksThatAreReadAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBed(t, netsim.Config{Delay: 10 * ms}, 0).a
		for range turnPackets + 1 {
			c.inbox.put(time.Now(), udp.AddrPort(here), make([]byte, 100))
		}
		require.True(t, c.worker.tryEnter())
		_, idle := c.turn()
		require.False(t, idle)
		require.True(t, c.run.incoming.more())
		require.NotZero(t, c.inbox.heldBytes)
		_, idle = c.turn()
		require.True(t, idle)
		require.Zero(t, c.inbox.heldBytes)
		require.True(t, c.worker.tryLeave(time.Time{}))
	})
}

// TestEndGivesAllBack: also the packets that a turn has left, and what was borrowed for them.
func TestEndGivesAllBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBed(t, netsim.Config{Delay: 10 * ms}, 0).a
		c.inbox.setRemote(udp.AddrPort(here))
		for range 2 * inboxBytes / FullPacket {
			c.inbox.put(time.Now(), udp.AddrPort(here), make([]byte, FullPacket))
		}
		require.NotZero(t, c.socket.borrowed.Load())
		require.True(t, c.worker.tryEnter())
		c.turn()
		c.Close()
		c.turn()
		require.True(t, c.run.incoming.more())
		require.True(t, c.runCallbacks())
		require.Zero(t, c.inbox.heldBytes)
		require.Zero(t, c.socket.borrowed.Load())
	})
}

// hooked is a lock that runs a function before the next Lock.
type hooked struct {
	sync.Mutex
	before func()
}

func (m *hooked) Lock() {
	if fn := m.before; fn != nil {
		m.before = nil
		fn()
	}
	m.Mutex.Lock()
}

// TestTurnIsNotIdleWithAPacketWhoseWakeItHasSeen: it arrived after the turn had
// looked into the inbox, and there is no second wake for it.
func TestTurnIsNotIdleWithAPacketWhoseWakeItHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBed(t, netsim.Config{Delay: 10 * ms}, 0).a
		lock := new(hooked)
		c.mu = lock
		require.True(t, c.worker.tryEnter())
		lock.before = func() {
			if c.inbox.put(time.Now(), udp.AddrPort(here), make([]byte, 100)) {
				c.worker.wake()
			}
		}
		_, idle := c.turn()
		require.False(t, idle)
		_, idle = c.turn()
		require.True(t, idle)
		require.True(t, c.worker.tryLeave(time.Time{}))
	})
}

// TestOnlyBulkWaitsForTheSocket: play does not, whichever goroutine takes its turns. In those
// of a timer it waited behind QUIC's write, which may wait for room in the send buffer.
func TestOnlyBulkWaitsForTheSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 10 * ms, Rate: 20e6}, 1000)
		d.up.hold = true
		d.start()
		pass(2 * time.Second)
		d.a.worker.mu.Lock() // which the one who works takes before
		d.a.run.writer.MayWait = true
		d.a.worker.mu.Unlock()
		before := d.a.Stats().Received
		pass(2 * trimInterval)
		require.Equal(t, before, d.a.Stats().Received, "nobody but the timer brings work")
		require.False(t, d.a.run.writer.MayWait)
		d.a.Lock()
		d.up.hold = false
		d.a.Unlock()
		pass(100 * ms)
		require.True(t, d.a.run.writer.MayWait)
		deliver(t, d.a, d.up)
	})
}
