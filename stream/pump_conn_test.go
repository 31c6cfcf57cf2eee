package stream

import (
	"github.com/quivernet/quiver/internal/testkit"

	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/netsim"
)

// connChannel is a channel of a bunch.Conn, as a program without rpc would pump it.
type connChannel struct {
	conn   *bunch.Conn
	number uint64
	peak   int
}

func (c *connChannel) Reliable() (out, slots int)          { return c.conn.Reliable(c.number) }
func (c *connChannel) QueueTime() time.Duration            { return c.conn.QueueTime(c.number) }
func (c *connChannel) Watch(out int, queued time.Duration) { c.conn.Watch(c.number, out, queued) }

func (c *connChannel) send(payload []byte) error {
	err := c.conn.Send(c.number, bunch.Reliable, payload)
	out, _ := c.Reliable()
	c.peak = max(c.peak, out)
	return err
}

// connPair pumps from one bunch.Conn to another over a simulated link.
type connPair struct {
	pair     *netsim.Pair
	channel  *connChannel
	receiver *bunch.Conn
	got      [][]byte

	onMessage func(m []byte)
}

func newConnPair(t *testing.T, config bunch.Config, path netsim.Config, window int, tick func(now time.Time)) *connPair {
	client := config
	client.Client = true
	a, err := bunch.NewConn(netsim.Epoch, client)
	require.NoError(t, err)
	b, err := bunch.NewConn(netsim.Epoch, config)
	require.NoError(t, err)
	number, err := a.Open(bunch.Bulk)
	require.NoError(t, err)
	p := &connPair{channel: &connChannel{conn: a, number: number}, receiver: b}
	p.pair = netsim.NewPair(a, b, netsim.PairConfig{
		AtoB: path, BtoA: path, Max: 1243, Window: window,
		Tick: 16 * time.Millisecond, OnTick: tick,
		OnStep: func(time.Time) { p.receive() },
	})
	return p
}

func (p *connPair) receive() {
	for {
		m, ok := p.receiver.Next()
		if !ok {
			return
		}
		p.got = append(p.got, m.Payload)
		if p.onMessage != nil {
			p.onMessage(m.Payload)
		}
	}
}

func numbered(i, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint32(b, uint32(i))
	return b
}

// 30 entries hold 32 KiB, headers included.
const testRPCBytes = 30 * bunch.EntryBytes

func TestPumpOverABunchConn(t *testing.T) {
	const rpcs = 64
	for _, slots := range []int{256, 512} {
		for _, loss := range []float64{0, 0.01, 0.05, 0.2} {
			t.Run(fmt.Sprintf("R %d, loss %v", slots, loss), func(t *testing.T) {
				seed := testkit.Rand(t).Uint64()
				t.Logf("link's seed %d", seed)
				var pump *Pump
				p := newConnPair(t, bunch.Config{ReliableBuffer: slots}, netsim.Config{Delay: 20 * time.Millisecond, Loss: loss,
					Duplicate: 0.01, Reorder: 0.01, Seed: seed}, 1<<20, func(time.Time) {
					_, err := pump.Tick()
					require.NoError(t, err)
				})
				var err error
				entries := bunch.Entries(testRPCBytes)
				pump, err = NewPump(p.channel, Gate{}, rpcs, entries,
					func(i int) error { return p.channel.send(numbered(i, testRPCBytes)) },
					func() error { return p.channel.send([]byte("end")) })
				require.NoError(t, err)

				require.NoError(t, p.pair.Run(10*time.Minute, func() bool { return len(p.got) == rpcs+1 }))
				for i := range rpcs {
					require.Equal(t, uint32(i), binary.BigEndian.Uint32(p.got[i]))
				}
				require.Equal(t, "end", string(p.got[rpcs]))
				require.Equal(t, 30, entries)
				require.LessOrEqual(t, p.channel.peak, slots/2-1+entries)
				require.GreaterOrEqual(t, p.channel.peak, entries)
			})
		}
	}
}

// Entries alone and an empty buffer: five RPCs in the first tick, 150 entries.
func TestFirstBurstOverABunchConn(t *testing.T) {
	p := newConnPair(t, bunch.Config{}, netsim.Config{}, 1<<20, nil)
	pump, err := NewPump(p.channel, Gate{QueueTime: -1}, 64, 30,
		func(i int) error { return p.channel.send(numbered(i, testRPCBytes)) }, nil)
	require.NoError(t, err)
	done, err := pump.Tick()
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, 5, pump.Sent())
	require.Equal(t, 150, p.channel.peak)
}

// Whatever shares the channel with the items waits for as long as the gate lets a queue
// grow. The channel is one of bulk, because only bulk is sent as slowly as the path.
func TestQueueGateKeepsTheChannelResponsive(t *testing.T) {
	worst := func(gate Gate) (ping, whole time.Duration) {
		var p *connPair
		var pump *Pump
		var sent []time.Time
		p = newConnPair(t, bunch.Config{}, netsim.Config{Delay: 25 * time.Millisecond, Rate: 4e6}, 32<<10, func(now time.Time) {
			_, err := pump.Tick()
			require.NoError(t, err)
			require.NoError(t, p.channel.send([]byte("ping")))
			sent = append(sent, now)
		})
		pings := 0
		p.onMessage = func(m []byte) {
			if string(m) == "ping" {
				if sent[pings].Sub(netsim.Epoch) > time.Second { // before, no delivery rate is known
					ping = max(ping, p.pair.Now().Sub(sent[pings]))
				}
				pings++
			}
		}
		var err error
		pump, err = NewPump(p.channel, gate, 64, 30,
			func(i int) error { return p.channel.send(numbered(i, testRPCBytes)) }, nil)
		require.NoError(t, err)
		require.NoError(t, p.pair.Run(10*time.Minute, func() bool { return len(p.got)-pings == 64 }))
		return ping, p.pair.Now().Sub(netsim.Epoch)
	}
	gated, gatedWhole := worst(Gate{})
	open, openWhole := worst(Gate{QueueTime: -1})
	t.Logf("worst ping and whole: both gates %v, %v; entries alone %v, %v", gated, gatedWhole, open, openWhole)
	require.Less(t, gated, open/2)
	require.InEpsilon(t, openWhole, gatedWhole, 0.02, "and it costs no time")
}

// The article's loop without a gate: 30 entries each, so that the ninth does not fit 255.
func TestNaiveLoopOverflowsABunchConn(t *testing.T) {
	p := newConnPair(t, bunch.Config{}, netsim.Config{}, 1<<20, nil)
	sent := 0
	var err error
	for err == nil {
		if err = p.channel.send(numbered(sent, testRPCBytes)); err == nil {
			sent++
		}
	}
	require.Equal(t, 8, sent)
	var violation *bunch.Error
	require.True(t, errors.As(err, &violation), "%v", err)
	require.Equal(t, bunch.ReliableBufferOverflow, violation.Code)
}
