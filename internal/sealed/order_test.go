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

	"github.com/quivernet/quiver/internal/crew"
	"github.com/quivernet/quiver/internal/netsim"
)

// numbered is a source of payloads that have the numbers in whose order they
// were built: play of 100 bytes and bulk of 1,000, which nobody sends again.
type numbered struct {
	play, bulk int // that wait
	built      uint64
	decided    uint64
	got        []uint64
	all        chan struct{} // closed when nothing waits and all fates are told; nil = nobody asks
}

func (s *numbered) AppendPayload(_ time.Time, buf []byte, room Room) ([]byte, uint64, Content, bool) {
	size, bulk := 100, false
	switch {
	case s.play > 0 && room.Max >= size:
		s.play--
	case s.play == 0 && s.bulk > 0 && room.Bulk && room.Max >= 1000:
		s.bulk--
		size, bulk = 1000, true
	default:
		return buf, 0, Content{}, false
	}
	s.built++
	buf = binary.BigEndian.AppendUint64(buf, s.built)
	return append(buf, make([]byte, size-8)...), s.built, Content{Bulk: bulk, Play: !bulk}, true
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
func (s *numbered) Moved(time.Time)                {}
func (s *numbered) NextTimeout() (time.Time, bool) { return time.Time{}, false }

// talk is a bed whose carriers are open and idle.
type talk struct {
	*bed
	up, down *numbered
}

func newTalk(t *testing.T) *talk {
	d := &talk{newBed(t, netsim.Config{Delay: 5 * ms}, 0), new(numbered), new(numbered)}
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
func (d *talk) goes() bool { return d.a.worker.runs() }

// say gives a so much more play.
func (d *talk) say(n int) {
	d.a.Lock()
	d.up.play += n
	d.a.Unlock()
}

// left returns how many packets a has sent.
func (d *talk) left() uint64 { return d.near.conn.To(d.far.conn).Stats().Packets }

// TestPlayLeavesAtOnce: play is sent on the goroutine that brings it; bulk has
// a goroutine of its own, for as long as it is in flight.
func TestPlayLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTalk(t)
		packets, started := d.left(), d.a.Stats().Goroutines
		d.say(1)
		require.Equal(t, packets+1, d.left())
		require.False(t, d.goes())
		require.Equal(t, started, d.a.Stats().Goroutines)
		require.False(t, d.a.run.writer.MayWait, "for other writes to the socket")

		d.a.Lock()
		d.up.bulk = 100
		d.a.Unlock()
		require.Equal(t, packets+1, d.left(), "it goes behind the play of this step")
		require.True(t, d.goes())
		pass(5 * time.Second)
		require.False(t, d.goes())
		require.Len(t, d.down.got, 101)
	})
}

// TestReaderTakesPlay: packets that arrive while the socket's reader has time
// to wait need no other goroutine.
func TestReaderTakesPlay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTalk(t)
		others := 0
		d.far.socket.crew = crew.New(func(c *Carrier) { others++; c.takeTurns() })
		started := d.b.Stats().Goroutines
		for n := range 10 {
			d.say(1)
			pass(5 * ms)
			require.Len(t, d.down.got, n+1)
		}
		require.LessOrEqual(t, others, 1, "the one who sends the ack, when its timer fires")
		require.Equal(t, started, d.b.Stats().Goroutines)
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

// TestReaderWaitsForNoLock: its turn for one carrier must not keep the packets
// of all others waiting.
func TestReaderWaitsForNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTalk(t)
		d.b.mu.Lock()
		d.b.packetsArrived(true)
		require.True(t, d.b.worker.runs(), "another goroutine takes the turn")
		d.b.mu.Unlock()
		synctest.Wait()
		require.False(t, d.b.worker.runs())
	})
}

// TestTickDoesNotWaitForTheSocket: while the goroutine is in a write that
// blocks, another one can lock and unlock the carrier.
func TestTickDoesNotWaitForTheSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTalk(t)
		gate := gated{d.near.conn, make(chan struct{})}
		d.near.socket.sys.Conn, d.a.mayBlock = gate, true
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

// TestPacketsLeaveInOrder, however many callers there are, over sockets of the system.
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
			for range each {
				a.Lock()
				up.play++
				up.bulk += i % 2
				a.Unlock()
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
