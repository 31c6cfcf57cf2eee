package sealed

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

func TestToken(t *testing.T) {
	var k token
	require.True(t, k.try())
	require.False(t, k.try())
	require.False(t, k.release(), "nobody waits")
	require.True(t, k.take())
	require.False(t, k.try())
	require.False(t, k.release())

	t.Log("# the goroutine wants it")
	require.True(t, k.try())
	require.False(t, k.take())
	require.False(t, k.take())
	require.True(t, k.release(), "it is told")
	require.True(t, k.take())

	t.Log("# what is left is the goroutine's")
	k.leave()
	require.False(t, k.try())
	require.True(t, k.take())
	require.False(t, k.release())
	require.True(t, k.try())
}

// numbered is a source of payloads that have the numbers in whose order they were built: play of 100 bytes and bulk of 1,000,
// which nobody sends again.
type numbered struct {
	play, bulk int // that wait
	built      uint64
	decided    uint64
	got        []uint64
	all        chan struct{} // closed when nothing waits and all fates are told; nil = nobody asks
}

func (s *numbered) AppendPayload(_ time.Time, buf []byte, room Room) ([]byte, uint64, bool, bool) {
	size, bulk := 100, false
	switch {
	case s.play > 0 && room.Max >= size:
		s.play--
	case s.play == 0 && s.bulk > 0 && room.Bulk && room.Max >= 1000:
		s.bulk--
		size, bulk = 1000, true
	default:
		return buf, 0, false, false
	}
	s.built++
	buf = binary.BigEndian.AppendUint64(buf, s.built)
	return append(buf, make([]byte, size-8)...), s.built, bulk, true
}

func (s *numbered) Acked(time.Time, uint64) { s.decide() }
func (s *numbered) Lost(time.Time, uint64)  { s.decide() }

func (s *numbered) decide() {
	if s.decided++; s.play+s.bulk == 0 && s.decided == s.built && s.all != nil {
		close(s.all)
		s.all = nil
	}
}

func (s *numbered) Receive(_ time.Time, p []byte)  { s.got = append(s.got, binary.BigEndian.Uint64(p)) }
func (s *numbered) Waiting() int                   { return 100*s.play + 1000*s.bulk }
func (s *numbered) Advance(time.Time)              {}
func (s *numbered) NextTimeout() (time.Time, bool) { return time.Time{}, false }

// direct is a bed whose carriers are open and idle.
type direct struct {
	*bed
	up, down *numbered
}

func newDirect(t *testing.T) *direct {
	d := &direct{newBed(t, netsim.Config{Delay: 5 * ms}, 0), new(numbered), new(numbered)}
	d.a.session.source, d.b.session.source = d.up, d.down
	d.start()
	pass(5 * time.Second)
	require.False(t, d.goes())
	return d
}

// pass lets time go by, after which all is still.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// goes reports whether a has a goroutine.
func (d *direct) goes() bool {
	d.a.park.Lock()
	defer d.a.park.Unlock()
	return d.a.running
}

// say has a flush so much more play.
func (d *direct) say(n int) {
	d.a.Lock()
	d.up.play += n
	d.a.Flush()
}

// left returns how many packets a has sent.
func (d *direct) left() uint64 { return d.near.conn.To(d.far.conn).Stats().Packets }

// TestFlushSendsPlay, in the place of the carrier's goroutine, which need not even exist but for the ack that does not come.
func TestFlushSendsPlay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirect(t)
		before, packets := d.a.Stats(), d.left()
		d.say(1)
		require.Equal(t, packets+1, d.left(), "it has left")
		require.False(t, d.goes())
		d.say(1)
		d.say(0)
		require.Equal(t, packets+2, d.left())
		require.Equal(t, before.Goroutines, d.a.Stats().Goroutines)
		pass(time.Second)
		require.Equal(t, []uint64{1, 2}, d.down.got)
		require.EqualValues(t, 2, d.up.decided)

		t.Log("# nothing comes back")
		d.near.conn.To(d.far.conn).Dark(300 * ms)
		probes := d.a.Stats().Probes
		d.say(1)
		require.False(t, d.goes())
		pass(200 * ms)
		require.Greater(t, d.a.Stats().Probes, probes, "the timer has started the goroutine")
		pass(time.Second)
		require.EqualValues(t, 3, d.up.decided)
	})
}

// TestFlushWakesASleeper: a goroutine that would sleep beyond the probe timeout of what another has sent is woken.
func TestFlushWakesASleeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirect(t)
		d.a.wake()
		synctest.Wait()
		require.True(t, d.goes(), "it lingers")
		d.near.conn.To(d.far.conn).Dark(300 * ms)
		d.say(1)
		probes := d.a.Stats().Probes
		pass(200 * ms)
		require.Greater(t, d.a.Stats().Probes, probes)
	})
}

// TestFlushIsBounded: a few packets and one of bulk; what is left is the goroutine's.
func TestFlushIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirect(t)
		for _, c := range []struct{ play, bulk, packets int }{{100, 0, maxDirect}, {0, 100, 1}, {2, 100, 2}} {
			d.a.Lock()
			d.up.play, d.up.bulk = c.play, c.bulk
			d.a.session.Wake()
			may := d.a.direct()
			d.a.collectPlay(time.Now())
			d.a.mu.Unlock()
			packets := len(d.a.send.burst.built)
			d.a.transmit()
			d.a.wake()
			require.True(t, may)
			require.Equal(t, c.packets, packets, "%+v", c)
			pass(5 * time.Second)
			require.Zero(t, d.up.Waiting())
		}
		require.IsIncreasing(t, d.down.got)
		require.EqualValues(t, len(d.down.got), d.up.built)
	})
}

// TestFlushNeverWaits: while somebody sends, a tick leaves its packets to the goroutine. That is told when it may send.
func TestFlushNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirect(t)
		require.True(t, d.a.send.token.try(), "somebody is inside a system call")
		packets := d.left()
		d.say(1)
		synctest.Wait()
		require.Equal(t, packets, d.left())
		require.True(t, d.goes())
		d.a.park.Lock()
		asleep := time.Until(d.a.until)
		d.a.park.Unlock()
		require.Equal(t, linger, asleep, "it listens: in a nap of less than a millisecond it would not hear that it may send")
		if d.a.send.token.release() {
			d.a.wake()
		}
		synctest.Wait()
		require.Equal(t, packets+1, d.left())
	})
}

// gated is a socket whose writes wait for a gate.
type gated struct {
	net.PacketConn
	shut chan struct{}
}

func (g gated) WriteTo(p []byte, to net.Addr) (int, error) {
	<-g.shut
	return g.PacketConn.WriteTo(p, to)
}

// TestTickDoesNotWaitForTheSocket: the goroutine is inside a write that blocks. Whoever locks the carrier goes on.
func TestTickDoesNotWaitForTheSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirect(t)
		gate := gated{d.near.conn, make(chan struct{})}
		d.near.socket.conn = gate
		packets := d.left()
		for range 3 {
			d.say(1)
			synctest.Wait()
		}
		require.Equal(t, packets, d.left())
		close(gate.shut)
		synctest.Wait()
		require.Greater(t, d.left(), packets)
		pass(time.Second)
		require.Equal(t, []uint64{1, 2, 3}, d.down.got)
	})
}

// TestLeftBurstGoesFirst: what the socket did not take from a caller leaves before all that is built later.
func TestLeftBurstGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirect(t)
		d.a.Lock()
		d.up.play = 1
		d.a.session.Wake()
		may := d.a.direct()
		d.a.collectPlay(time.Now())
		d.a.mu.Unlock()
		require.True(t, may)
		d.a.seal()
		d.a.send.token.leave()
		packets := d.left()
		d.say(1)
		synctest.Wait()
		require.Equal(t, packets+2, d.left())
		pass(time.Second)
		require.Equal(t, []uint64{1, 2}, d.down.got)
	})
}

// TestPacketsLeaveInOrder, whoever builds them: callers and the goroutine at the same time, over sockets of the system.
func TestPacketsLeaveInOrder(t *testing.T) {
	const callers, each = 4, 500
	near, far := newLoopback(t, SocketConfig{}), newLoopback(t, SocketConfig{})
	client, server := dial(t, near, far)
	up, down := &numbered{}, &numbered{}
	open := make(chan struct{})
	once := sync.OnceFunc(func() { close(open) })
	a := carry(t, near, client, true, up, func(c *Config) {
		c.NoTrain = true
		c.Changed = func(s State) {
			if s == Open {
				once()
			}
		}
	})
	b := carry(t, far, server, false, down, nil)
	a.Start()
	b.Start()
	<-open
	all := make(chan struct{})
	var saying sync.WaitGroup
	for i := range callers {
		saying.Go(func() {
			for n := range each {
				a.Lock()
				up.play++
				up.bulk += i % 2
				if n%10 == 9 {
					a.Unlock()
				} else {
					a.Flush()
				}
			}
		})
	}
	saying.Wait()
	a.Lock()
	if up.all = all; up.play+up.bulk == 0 && up.decided == up.built {
		close(all)
		up.all = nil
	}
	a.Unlock()
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Fatalf("%+v", a.Stats())
	}
	b.Lock()
	got := slices.Clone(down.got)
	b.Unlock()
	require.NotEmpty(t, got)
	require.IsIncreasing(t, got)
	t.Logf("%d of %d arrived; %+v", len(got), up.built, a.Stats())
}
