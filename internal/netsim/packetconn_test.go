package netsim

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var _ net.PacketConn = (*PacketConn)(nil)

// pipe returns a Pipe that is closed at the end of the test.
func pipe(t testing.TB, ab, ba Config) (a, b *PacketConn) {
	a, b = Pipe(ab, ba)
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

// send writes a packet of the given size that carries its number.
func send(t testing.TB, from, to *PacketConn, number uint32, size int) {
	t.Helper()
	p := make([]byte, max(size, 4))
	binary.BigEndian.PutUint32(p, number)
	n, err := from.WriteTo(p, to.LocalAddr())
	require.NoError(t, err)
	require.Equal(t, len(p), n)
}

// receive reads one packet and returns its number.
func receive(t testing.TB, c *PacketConn) uint32 {
	t.Helper()
	buf := make([]byte, maxDatagram)
	n, _, err := c.ReadFrom(buf)
	require.NoError(t, err)
	return binary.BigEndian.Uint32(buf[:n])
}

func TestPipeDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t, Config{Delay: 30 * ms}, Config{Delay: 20 * ms})
		start := time.Now()
		send(t, a, b, 1, 1200)
		require.EqualValues(t, 1, receive(t, b))
		require.Equal(t, 30*ms, time.Since(start))
		send(t, b, a, 2, 1200)
		require.EqualValues(t, 2, receive(t, a))
		require.Equal(t, 50*ms, time.Since(start))
	})
}

// The model's figures hold through the sockets as well: the delay of each
// packet, the rate of many, the share of losses.
func TestPipeHoldsTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, size = 100_000, 1222 // 1,250 B with overhead: 0.1 ms each at 100 Mbit/s
		a, b := pipe(t, Config{Delay: 25 * ms, Rate: 100e6, Loss: 0.05, Seed: testkit.Seed(t)}, Config{})
		start := time.Now()
		var got int
		var reader sync.WaitGroup
		reader.Go(func() {
			buf := make([]byte, 2048)
			for {
				if _, _, err := b.ReadFrom(buf); err != nil {
					return
				}
				if got == 0 {
					first := time.Since(start)
					if first < 25*ms || first > 27*ms {
						t.Errorf("the first packet came after %v", first)
					}
				}
				got++
			}
		})
		p := make([]byte, size)
		for i := range n {
			_, _ = a.WriteTo(p, b.LocalAddr())
			if i%100 == 99 {
				time.Sleep(10 * ms) // exactly the rate
			}
		}
		time.Sleep(100 * ms)
		require.NoError(t, b.Close())
		reader.Wait()
		require.InEpsilon(t, 0.95*n, got, 0.01)
		s := a.To(b).Stats()
		require.EqualValues(t, n, s.Carried)
		require.EqualValues(t, n*1250, s.CarriedBytes)
		require.EqualValues(t, got, s.Delivered)
		require.EqualValues(t, n-got, s.Lost)
	})
}

// A sender faster than the bottleneck fills the queue, and packets arrive at the bottleneck's rate.
func TestPipeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t, Config{Delay: 25 * ms, Rate: 10e6}, Config{})
		start := time.Now()
		for i := range 100 {
			send(t, a, b, uint32(i), 1222)
		}
		fits := (64 << 10) / 1250
		for i := range fits {
			require.EqualValues(t, i, receive(t, b))
			require.Equal(t, 25*ms+time.Duration(i+1)*ms, time.Since(start))
		}
		require.EqualValues(t, 100-fits, a.To(b).Stats().LostQueue)
	})
}

// The fates of packets through a Pipe are those of the pure link.
func TestPipeSameSeedSameFate(t *testing.T) {
	seed := testkit.Seed(t)
	run := func() (all []got) {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipe(t, everything(seed), Config{})
			start := time.Now()
			for i := range 500 {
				send(t, a, b, uint32(i), 4+i*37%1300)
				time.Sleep(700 * time.Microsecond)
				_ = b.SetReadDeadline(time.Now().Add(1))
				for buf := make([]byte, 2048); ; {
					n, _, err := b.ReadFrom(buf)
					if err != nil {
						break
					}
					all = append(all, got{binary.BigEndian.Uint32(buf), time.Since(start), n})
				}
			}
		})
		return all
	}
	first := run()
	require.NotEmpty(t, first)
	require.Equal(t, first, run())
}

func TestPipeDarkAndShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t, Config{Delay: ms}, Config{Delay: ms})
		path := a.To(b)
		path.Dark(5 * time.Second)
		send(t, a, b, 1, 100)
		time.Sleep(5*time.Second - 1)
		send(t, a, b, 2, 100)
		time.Sleep(1)
		send(t, a, b, 3, 100)
		require.EqualValues(t, 3, receive(t, b))
		path.SetMTU(1163)
		send(t, a, b, 4, 1164)
		send(t, a, b, 5, 1163)
		require.EqualValues(t, 5, receive(t, b))
		require.EqualValues(t, 2, path.Stats().LostDark)
		require.EqualValues(t, 1, path.Stats().LostMTU)
		send(t, b, a, 6, 9000)
		require.EqualValues(t, 6, receive(t, a), "the way back is another path")
	})
}

func TestPacketConnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t, Config{Delay: 50 * ms}, Config{})
		start := time.Now()
		buf := make([]byte, 100)
		expect := func(after time.Duration) {
			t.Helper()
			_, _, err := b.ReadFrom(buf)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			var timeout net.Error
			require.True(t, errors.As(err, &timeout) && timeout.Timeout())
			require.Equal(t, after, time.Since(start))
		}
		require.NoError(t, b.SetReadDeadline(start.Add(20*ms)))
		send(t, a, b, 1, 10)
		expect(20 * ms)
		expect(20 * ms)

		t.Logf("# a deadline set in mid-read ends it, a later one prolongs it")
		require.NoError(t, b.SetReadDeadline(start.Add(time.Hour)))
		require.EqualValues(t, 1, receive(t, b))
		time.AfterFunc(10*ms, func() { _ = b.SetReadDeadline(start.Add(70 * ms)) })
		expect(70 * ms)
		require.NoError(t, b.SetReadDeadline(start.Add(80*ms)))
		time.AfterFunc(5*ms, func() { _ = b.SetReadDeadline(start.Add(90 * ms)) })
		expect(90 * ms)

		t.Logf("# writing")
		require.NoError(t, a.SetDeadline(start.Add(100*ms)))
		send(t, a, b, 2, 10)
		time.Sleep(10 * ms)
		_, err := a.WriteTo(buf, b.LocalAddr())
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, a.SetDeadline(time.Time{}))
		send(t, a, b, 3, 10)
	})
}

func TestPacketConnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t, Config{Delay: ms}, Config{})
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				if _, _, err := b.ReadFrom(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		require.NoError(t, b.Close())
		readers.Wait()
		require.ErrorIs(t, b.Close(), net.ErrClosed)
		_, err := b.WriteTo([]byte{1}, a.LocalAddr())
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorContains(t, err, "use of closed network connection")

		send(t, a, b, 1, 10)
		time.Sleep(2 * ms)
		send(t, a, b, 2, 10)
		require.EqualValues(t, 1, a.To(b).Stats().Overrun, "nobody reads a closed socket's packets")
	})
}

// Several readers of one socket: each packet wakes one, and a deadline all.
func TestPacketConnManyReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers, n = 5, 1000
		a, b := pipe(t, Config{Delay: 5 * ms, Jitter: ms, Reorder: 0.2}, Config{})
		var mu sync.Mutex
		seen := make(map[uint32]int)
		var group sync.WaitGroup
		for range readers {
			group.Go(func() {
				for buf := make([]byte, 100); ; {
					if _, _, err := b.ReadFrom(buf); err != nil {
						return
					}
					mu.Lock()
					seen[binary.BigEndian.Uint32(buf)]++
					mu.Unlock()
				}
			})
		}
		for i := range n {
			send(t, a, b, uint32(i), 10)
			time.Sleep(time.Duration(i%7) * ms)
		}
		start := time.Now()
		require.NoError(t, b.SetReadDeadline(start.Add(50*ms)))
		group.Wait()
		require.Equal(t, 50*ms, time.Since(start))
		require.Len(t, seen, n)
	})
}

func TestPacketConnReadBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t, Config{}, Config{})
		require.NoError(t, b.SetReadBuffer(10_000))
		for i := range 15 {
			send(t, a, b, uint32(i), 1000)
		}
		require.EqualValues(t, 0, receive(t, b))
		require.EqualValues(t, 5, a.To(b).Stats().Overrun)
		send(t, a, b, 99, 1000)
		for i := 1; i < 10; i++ {
			require.EqualValues(t, i, receive(t, b))
		}
		require.EqualValues(t, 99, receive(t, b))
	})
}

func TestPacketConnOddPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t, Config{}, Config{})
		t.Logf("# a short read cuts the packet off")
		_, _ = a.WriteTo([]byte("hello"), b.LocalAddr())
		buf := make([]byte, 3)
		n, from, err := b.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, "hel", string(buf[:n]))
		require.Equal(t, a.LocalAddr().String(), from.String())

		t.Logf("# the empty and the largest packet pass, a larger one does not")
		for _, size := range []int{0, maxDatagram} {
			_, err = a.WriteTo(make([]byte, size), b.LocalAddr())
			require.NoError(t, err)
			n, _, err = b.ReadFrom(make([]byte, 1<<16))
			require.NoError(t, err)
			require.Equal(t, size, n)
		}
		_, err = a.WriteTo(make([]byte, maxDatagram+1), b.LocalAddr())
		require.ErrorIs(t, err, syscall.EMSGSIZE)

		t.Logf("# nobody lives there")
		for _, addr := range []net.Addr{a.LocalAddr(), &net.TCPAddr{}, NewPacketConn().LocalAddr()} {
			n, err := a.WriteTo([]byte("lost"), addr)
			require.NoError(t, err)
			require.Equal(t, 4, n)
		}
		require.Nil(t, a.To(NewPacketConn()))
		require.Panics(t, func() { Connect(a, b, Config{}, Config{}) })
	})
}

// Writers may reuse their buffer at once, and readers own what they read.
func TestPacketConnCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t, Config{Delay: ms, Duplicate: 1}, Config{})
		p := []byte("first")
		_, _ = a.WriteTo(p, b.LocalAddr())
		copy(p, "other")
		for range 2 {
			buf := make([]byte, 5)
			_, _, err := b.ReadFrom(buf)
			require.NoError(t, err)
			require.Equal(t, "first", string(buf))
			clear(buf)
		}
	})
}

func TestConnectManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewPacketConn()
		defer server.Close()
		const clients = 20
		conns := make([]*PacketConn, clients)
		start := time.Now()
		for i := range conns {
			conns[i] = NewPacketConn()
			defer conns[i].Close()
			Connect(conns[i], server, Config{Delay: time.Duration(i+1) * ms}, Config{Delay: ms})
			send(t, conns[i], server, uint32(i), 100)
		}
		buf := make([]byte, 100)
		for i := range conns {
			n, from, err := server.ReadFrom(buf)
			require.NoError(t, err)
			require.EqualValues(t, i, binary.BigEndian.Uint32(buf))
			require.Equal(t, time.Duration(i+1)*ms, time.Since(start))
			_, err = server.WriteTo(buf[:n], from)
			require.NoError(t, err)
		}
		for i, c := range conns {
			require.EqualValues(t, i, receive(t, c))
		}
	})
}

// In real time: everything arrives once and in order, whatever the clock does.
func TestPipeRealTime(t *testing.T) {
	a, b := pipe(t, Config{Delay: ms, Rate: 100e6, Queue: 10 << 20}, Config{})
	require.NoError(t, b.SetReadBuffer(10<<20))
	const n = 2000
	go func() {
		for i := range n {
			p := bytes.Repeat([]byte{byte(i)}, 1200)
			binary.BigEndian.PutUint32(p, uint32(i))
			_, _ = a.WriteTo(p, b.LocalAddr())
		}
	}()
	for i := range n {
		require.EqualValues(t, i, receive(t, b))
	}
	require.EqualValues(t, n*1228, a.To(b).Stats().CarriedBytes)
}

func TestPacketConnDoesNotAllocate(t *testing.T) {
	a, b := pipe(t, Config{Rate: 1e12}, Config{})
	p, buf := make([]byte, 1200), make([]byte, 1200)
	to := b.LocalAddr()
	require.Zero(t, testkit.Allocs(1000, func() {
		_, _ = a.WriteTo(p, to)
		_, _, _ = b.ReadFrom(buf)
	}))
}

func BenchmarkPipe(b *testing.B) {
	for _, size := range []int{64, 1200} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			from, to := pipe(b, Config{}, Config{})
			p, buf := make([]byte, size), make([]byte, 2048)
			addr := to.LocalAddr()
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = from.WriteTo(p, addr)
				_, _, _ = to.ReadFrom(buf)
			}
		})
	}
}

// TestSharedBottleneck sends from two sockets to one: together they get the
// rate that one has alone.
func TestSharedBottleneck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := Config{Delay: 10 * time.Millisecond, Rate: 8e6}
		to, a, b := NewPacketConn(), NewPacketConn(), NewPacketConn()
		Connect(a, to, path, path)
		Connect(b, to, path, path)
		Share(a.To(to), b.To(to))
		begin := time.Now()
		for range 20 { // 1 ms each
			for _, from := range []*PacketConn{a, b} {
				_, err := from.WriteTo(make([]byte, 1000-UDPOverhead), to.LocalAddr())
				require.NoError(t, err)
			}
		}
		buf := make([]byte, 2000)
		for range 40 {
			_, _, err := to.ReadFrom(buf)
			require.NoError(t, err)
		}
		require.Equal(t, 50*time.Millisecond, time.Since(begin))
	})
}
