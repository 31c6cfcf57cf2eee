package link_test

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
)

// side is one end of a bunch connection over a link.
type side struct {
	*link.Link
	carrier *linktest.Carrier
	conn    *bunch.Conn
	channel uint64
	got     [][]byte
}

// sides connects two bunch connections, 10 ms apart. A token in wake says that
// either of them woke its owner.
func sides(t *testing.T) (client, server *side, wake chan struct{}) {
	a, b := linktest.Pipe()
	wake = make(chan struct{}, 1)
	return newSide(t, a, true, wake), newSide(t, b, false, wake), wake
}

func newSide(t *testing.T, c *linktest.Carrier, client bool, wake chan struct{}) *side {
	c.SetDelay(10 * time.Millisecond)
	conn, err := bunch.NewConn(time.Now(), bunch.Config{Client: client})
	require.NoError(t, err)
	s := &side{carrier: c, conn: conn}
	s.channel, err = conn.Open(bunch.Normal)
	require.NoError(t, err)
	s.Link = link.New(c, link.Config{Wake: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}}, conn)
	t.Cleanup(func() { end(s.Link) })
	return s
}

// take moves what has arrived to got.
func (s *side) take() {
	for m, ok := s.conn.Next(); ok; m, ok = s.conn.Next() {
		s.got = append(s.got, append([]byte(nil), m.Payload...))
	}
}

// feed sends from messages what fits below half of the reliable buffer, and returns the rest.
func (s *side) feed(t *testing.T, messages [][]byte) [][]byte {
	for len(messages) > 0 {
		out, slots := s.conn.Reliable(s.channel)
		if out+bunch.Entries(len(messages[0])) > slots/2 {
			s.conn.Watch(s.channel, slots/4, time.Hour)
			break
		}
		require.NoError(t, s.conn.Send(s.channel, bunch.Reliable, messages[0]))
		messages = messages[1:]
	}
	return messages
}

// payloads returns a mebibyte in messages of many sizes.
func payloads(random *rand.Rand) (messages [][]byte) {
	for total := 0; total < 1<<20; {
		m := make([]byte, 4+random.IntN([]int{10, 1100, 3000, 40000}[random.IntN(4)]))
		for i := range m {
			m[i] = byte(random.Uint32())
		}
		binary.BigEndian.PutUint32(m, uint32(len(messages)))
		messages = append(messages, m)
		total += len(m)
	}
	return messages
}

// exchange sends both lists and returns once both have arrived.
func exchange(t *testing.T, client, server *side, wake chan struct{}, random *rand.Rand) {
	up, down := payloads(random), payloads(random)
	restUp, restDown := up, down
	for {
		under(client.Link, func() { client.take(); restUp = client.feed(t, restUp) })
		under(server.Link, func() { server.take(); restDown = server.feed(t, restDown) })
		require.NoError(t, client.Err())
		require.NoError(t, server.Err())
		if len(server.got) == len(up) && len(client.got) == len(down) {
			break
		}
		<-wake
	}
	require.Equal(t, up, server.got)
	require.Equal(t, down, client.got)
}

func TestBunchesBothWays(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(c *linktest.Carrier, random *rand.Rand)
		check func(t *testing.T, s *side, took time.Duration)
	}{
		{"clean", func(*linktest.Carrier, *rand.Rand) {}, func(t *testing.T, s *side, took time.Duration) {
			require.Zero(t, s.conn.Stats().BunchesResent)
			require.Less(t, took, 2*time.Second)
		}},
		{"loss", func(c *linktest.Carrier, random *rand.Rand) {
			c.SetDrop(func([]byte) bool { return random.IntN(20) == 0 })
		}, func(t *testing.T, s *side, _ time.Duration) {
			require.Greater(t, s.conn.Stats().BunchesResent, uint64(10))
		}},
		{"shrunken path", func(c *linktest.Carrier, _ *rand.Rand) {
			c.SetDrop(func(d []byte) bool { return len(d) > link.SafeDatagram })
		}, func(t *testing.T, s *side, _ time.Duration) {
			require.Equal(t, link.SafeDatagram, s.Stats().MaxDatagram)
		}},
		{"smaller than said", func(c *linktest.Carrier, _ *rand.Rand) {
			c.SetLimit(1200)
		}, func(t *testing.T, s *side, _ time.Duration) {
			require.Equal(t, 1200, s.Stats().MaxDatagram)
			require.Zero(t, s.conn.Stats().PacketsLost)
		}},
		{"dark for 5 s", func(c *linktest.Carrier, _ *rand.Rand) {
			start := time.Now()
			c.SetDrop(func([]byte) bool {
				d := time.Since(start)
				return d > 50*time.Millisecond && d < 5*time.Second
			})
		}, func(t *testing.T, s *side, took time.Duration) {
			require.Less(t, took, 8*time.Second)
		}},
		{"blocked for 5 s", func(c *linktest.Carrier, _ *rand.Rand) {
			time.AfterFunc(50*time.Millisecond, func() { c.Block(true) })
			time.AfterFunc(5*time.Second, func() { c.Block(false) })
		}, func(t *testing.T, s *side, took time.Duration) {
			require.Less(t, took, 8*time.Second)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed := testkit.Seed(t)
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				client, server, wake := sides(t)
				c.setup(client.carrier, rand.New(rand.NewPCG(seed, 1)))
				c.setup(server.carrier, rand.New(rand.NewPCG(seed, 2)))
				exchange(t, client, server, wake, rand.New(rand.NewPCG(seed, 3)))
				took := time.Since(start)
				for _, s := range []*side{client, server} {
					under(s.Link, func() { c.check(t, s, took) })
				}
			})
		})
	}
}

// TestCloseDeliversWhatIsQueued closes right after 100 messages, in the middle of a corked tick.
func TestCloseDeliversWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, _ := sides(t)
		message := bytes.Repeat([]byte("quiver"), 180)
		under(client.Link, func() {
			client.conn.Cork(true)
			for range 100 {
				require.NoError(t, client.conn.Send(client.channel, bunch.Reliable, message))
			}
		})
		synctest.Wait()
		client.Close(42, "leaving")
		<-client.Done()
		require.Equal(t, &link.CloseError{Code: 42, Reason: "leaving"}, client.Err())
		<-server.Done()
		require.Equal(t, &link.CloseError{Code: 42, Reason: "leaving", Remote: true}, server.Err())
		under(server.Link, server.take)
		require.Len(t, server.got, 100)
		for _, m := range server.got {
			require.Equal(t, message, m)
		}
	})
}

// TestOverflowClosesBothEnds fills the reliable buffer past its end, as Unreal's naive loop does.
func TestOverflowClosesBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, _ := sides(t)
		var err error
		under(client.Link, func() {
			for err == nil {
				err = client.conn.Send(client.channel, bunch.Reliable, make([]byte, 30000))
			}
		})
		<-client.Done()
		require.ErrorIs(t, client.Err(), err)
		<-server.Done()
		var closed *link.CloseError
		require.ErrorAs(t, server.Err(), &closed)
		require.Equal(t, uint64(bunch.ReliableBufferOverflow), closed.Code)
		require.Contains(t, closed.Reason, "ReliableBuffer")
	})
}

// TestThirtyHertzBothWaysSendsNoAckOnlyPackets plays for 10 s; the acks ride on the ticks.
func TestThirtyHertzBothWaysSendsNoAckOnlyPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, _ := sides(t)
		for range 300 {
			for _, s := range []*side{client, server} {
				under(s.Link, func() {
					s.take()
					require.NoError(t, s.conn.Send(s.channel, bunch.Reliable, []byte("move")))
				})
			}
			time.Sleep(time.Second / 30)
		}
		for _, s := range []*side{client, server} {
			under(s.Link, func() {
				require.Zero(t, s.conn.Stats().AcksOnlySent)
				require.Equal(t, uint64(300), s.conn.Stats().PacketsSent)
				require.GreaterOrEqual(t, len(s.got), 299)
			})
		}
	})
}

// TestQuietConnectionFallsSilent counts datagrams long after the last message.
func TestQuietConnectionFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, _ := sides(t)
		under(client.Link, func() {
			require.NoError(t, client.conn.Send(client.channel, bunch.Reliable, []byte("hello")))
		})
		time.Sleep(time.Minute)
		require.Equal(t, 1, client.carrier.Sent())
		require.Equal(t, 1, server.carrier.Sent())
		time.Sleep(time.Hour)
		require.Equal(t, 2, client.carrier.Sent()+server.carrier.Sent())
	})
}

// TestSilentPeerTimesOut shows that the machine's idle timer ends the link.
func TestSilentPeerTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _, _ := sides(t)
		client.carrier.SetDrop(func([]byte) bool { return true })
		under(client.Link, func() {
			require.NoError(t, client.conn.Send(client.channel, bunch.Reliable, []byte("hello")))
		})
		require.InDelta(t, 30, since(wait(client.Link)).Seconds(), 0.1)
		var closed *link.CloseError
		require.ErrorAs(t, client.Err(), &closed)
		require.Equal(t, uint64(bunch.ConnectionTimeout), closed.Code)
	})
}
