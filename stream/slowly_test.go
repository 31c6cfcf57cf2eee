package stream

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/testkit"
)

// The senders of these tests are honest. They once were rejected for sending nothing while the
// receiver kept them from it, because it had no memory for them or its application didn't read.

// bursts reads a burst of bytes, pauses, and so on.
type bursts struct {
	r     io.Reader
	bytes int
	pause time.Duration
	left  int // of the current burst
}

func (b *bursts) Read(p []byte) (int, error) {
	if b.left == 0 {
		time.Sleep(b.pause)
		b.left = b.bytes
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func inBursts(size, burst int, pause time.Duration) io.Reader {
	return &bursts{r: bytes.NewReader(content(size)), bytes: burst, pause: pause}
}

// takeAll takes all memory of a world that is free or not being used, as other transfers would.
func (n *network) takeAll(s *Streams, others *budget.Account) {
	n.do(s.world, func() {
		s.reclaim.makeRoom(time.Now())
		others.MustBorrow(s.memory.Free())
	})
}

// TestSlowSendersGetCredit: transfers that send slowly or with pauses keep enough memory for one
// part after the other while others take all memory that they aren't using.
func TestSlowSendersGetCredit(t *testing.T) {
	const senders, size = 4, 1 << 20
	for _, row := range []struct {
		name  string
		burst int
		pause time.Duration
	}{
		{"20 kbit/s", 2500, time.Second},
		{"pauses", 100_000, 10 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			overBackends(t, func(t *testing.T, via Backend) {
				config := Config{MaxMemory: 4 << 20, MaxPending: 256 << 10}
				inNetwork(t, setup{via: via, server: config}, func(n *network) {
					got := collect(n.server.streams)
					var all []*Transfer
					for range senders {
						sent, err := save.Start(n.client.peer, inBursts(size, row.burst, row.pause), size)
						require.NoError(n, err)
						all = append(all, sent)
					}
					time.Sleep(2 * idleTime)
					others := budget.NewAccount(n.server.streams.memory, budget.Terms{})
					defer others.Close()
					for _, sent := range all {
						for !sent.isFinished() {
							time.Sleep(time.Second)
							n.takeAll(n.server.streams, others)
						}
						require.NoError(n, sent.Err())
						require.Equal(n, content(size), (<-got).data)
					}
				})
			})
		})
	}
}

// TestSendersWithoutCreditAreNotIdle: a sender that has used up its credit isn't idle while there
// is no memory for more, however long that lasts, and continues when there is some.
func TestSendersWithoutCreditAreNotIdle(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		const size = 300_000
		inNetwork(t, setup{via: via, server: Config{MaxMemory: 4 << 20, MaxPending: minPending}}, func(n *network) {
			got := make(chan *IncomingBlob, 1)
			save.Handle(n.server.streams, func(in *IncomingBlob) { got <- in })
			sent := n.mustStart(n.client.peer, content(size))
			in := <-got
			time.Sleep(time.Second)
			others := budget.NewAccount(n.server.streams.memory, budget.Terms{})
			n.takeAll(n.server.streams, others)
			n.do(n.server.world, func() { // others take what was promised for more
				in.in.mu.Lock()
				in.in.answer.withdraw(0)
				in.in.mu.Unlock()
				others.MustBorrow(n.server.streams.memory.Free())
			})
			data := make([]byte, in.in.arrival.parts.next)
			_, err := io.ReadFull(in, data)
			require.NoError(n, err)
			for range 5 * idleTime / time.Second {
				time.Sleep(time.Second)
				n.takeAll(n.server.streams, others)
			}
			require.NoError(n, sent.Err())
			others.Close()
			rest, err := io.ReadAll(in)
			require.NoError(n, err)
			require.Equal(n, content(size), append(data, rest...))
			require.NoError(n, sent.Wait(n.ctx))
		})
	})
}

// TestSendersOfSlowReadersAreNotIdle: what a sender couldn't send while our application didn't
// read isn't held against it once the application has read everything.
func TestSendersOfSlowReadersAreNotIdle(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		const size = 300_000
		inNetwork(t, setup{via: via, server: Config{MaxMemory: 4 << 20, MaxPending: minPending}}, func(n *network) {
			got := make(chan *IncomingBlob, 1)
			save.Handle(n.server.streams, func(in *IncomingBlob) { got <- in })
			sent := n.mustStart(n.client.peer, content(size))
			in := <-got
			for in.Progress().Acked < size {
				time.Sleep(3 * idleTime)
				next := make([]byte, in.in.arrival.parts.next-in.Progress().Acked)
				_, err := io.ReadFull(in, next)
				require.NoError(n, err)
				n.do(n.server.world, func() {
					n.server.streams.reclaim.search(time.Now())
					require.Empty(n, n.server.streams.reclaim.stuck)
				})
			}
			require.NoError(n, sent.Wait(n.ctx))
		})
	})
}

// TestSendersThatWereRefusedMemoryAreNotIdle: a sender that goes on after a long pause isn't idle
// while there is no memory for its chunk.
func TestSendersThatWereRefusedMemoryAreNotIdle(t *testing.T) {
	const size = 300_000
	inNetwork(t, setup{via: Slices{}, server: Config{MaxMemory: 4 << 20}}, func(n *network) {
		got := collect(n.server.streams)
		from, to := io.Pipe()
		sent, err := save.Start(n.client.peer, from, size)
		require.NoError(n, err)
		_, err = to.Write(content(size)[:1000])
		require.NoError(n, err)
		time.Sleep(3 * idleTime)
		others := budget.NewAccount(n.server.streams.memory, budget.Terms{})
		n.do(n.server.world, func() {
			n.server.streams.reclaim.search(time.Now())
			others.MustBorrow(n.server.streams.memory.Free())
		})
		go func() { _, _ = to.Write(content(size)[1000:]) }()
		for range 2 * idleTime / time.Second {
			time.Sleep(time.Second)
			n.takeAll(n.server.streams, others)
		}
		require.NotZero(n, n.server.peer.Stats().SlicesRefused)
		require.NoError(n, sent.Err())
		others.Close()
		require.NoError(n, sent.Wait(n.ctx))
		require.Equal(n, content(size), (<-got).data)
	})
}

// TestSlowClientsOfSmallWorlds: clients send at 20 kbit/s, in bursts of random size, to a world
// with little memory, to which another client sends one blob after the other.
func TestSlowClientsOfSmallWorlds(t *testing.T) {
	const size = 400_000
	synctest.Test(t, func(t *testing.T) {
		n := newSiege(t, Config{MaxMemory: 3 * leastMemory / 2}, 0)
		honest.Handle(n.streams, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
		random := testkit.Rand(t)
		slow := make(chan error, 4)
		for i := range 4 {
			_, peer := n.join()
			pause := time.Second + time.Duration(random.Int64N(int64(idleTime/2)))
			from := inBursts(size, int(2500*pause.Seconds()), pause)
			via := []Backend{Slices{}, Window{}}[i%2]
			go func() { slow <- honest.Send(t.Context(), peer, from, size, Via(via)) }()
		}
		time.Sleep(idleTime)
		_, peer := n.join()
		for len(slow) < cap(slow) {
			time.Sleep(time.Second)
			if err := honest.Send(t.Context(), peer, generated(size), size); err != nil {
				require.ErrorIs(t, err, ErrRejected)
			}
		}
		for range cap(slow) {
			require.NoError(t, <-slow)
		}
		n.end()
	})
}
