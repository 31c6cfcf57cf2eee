package bunch

import (
	"math"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"ReliableBuffer", func(c *Config) { c.ReliableBuffer = 100 }},
		{"ReliableBuffer", func(c *Config) { c.ReliableBuffer = 4 }},
		{"ReliableBuffer", func(c *Config) { c.ReliableBuffer = 32768 }},
		{"ReliableBuffer", func(c *Config) { c.ReliableBuffer = -256 }},
		{"MaxBunch", func(c *Config) { c.MaxBunch = 65537 }},
		{"ReceiveLimit", func(c *Config) { c.ReceiveLimit = 256<<10 - 1 }},
		{"SendLimit", func(c *Config) { c.SendLimit = -1 }},
		{"AckDelay", func(c *Config) { c.AckDelay = 4 * ms }},
		{"AckDelay", func(c *Config) { c.AckDelay = 5*ms - 1 }},
		{"AckDelay", func(c *Config) { c.AckDelay = 200*ms + time.Microsecond }},
		{"History", func(c *Config) { c.History = 63 }},
		{"History", func(c *Config) { c.History = 4097 }},
		{"MaxChannels", func(c *Config) { c.MaxChannels = 32768 }},
		{"IdleTimeout", func(c *Config) { c.IdleTimeout = -1 }},
		{"Config.Rate is -1", func(c *Config) { c.Rate = -1 }},
		{"Config.KeepAlive is -1ns", func(c *Config) { c.KeepAlive = -1 }},
		{"Config.Overflow is 2", func(c *Config) { c.Overflow = OverflowError + 1 }},
	} {
		var config Config
		c.change(&config)
		_, err := NewConn(epoch, config)
		require.ErrorContains(t, err, c.name)
	}
	c, err := NewConn(epoch, Config{})
	require.NoError(t, err)
	require.Equal(t, Params{ReliableBuffer: 256, MaxBunch: 65536, History: 4096, MaxChannels: 32767, AckDelay: 40 * ms}, c.Params())
	require.Equal(t, Protocol, c.FirstByte())
}

// TestLimitsWithoutEnd: the largest durations and numbers of Go, used to mean that there is no
// limit, don't end a connection.
func TestLimitsWithoutEnd(t *testing.T) {
	p := newPair(t, Config{IdleTimeout: math.MaxInt64, ReceiveLimit: math.MaxInt})
	number, err := p.ends[0].Open(Normal)
	require.NoError(t, err)
	p.run(time.Second)
	for range 3 {
		require.NoError(t, p.ends[0].Send(number, Reliable, []byte("hello")))
		p.ends[1].SetReceiveLimit(math.MaxInt)
		p.run(time.Second)
		m, ok := p.ends[1].Next()
		require.True(t, ok)
		require.Equal(t, "hello", string(m.Payload))
	}
	require.Greater(t, p.ends[0].flow.limit, uint64(math.MaxInt/4))
}

func TestAgreeTakesTheSmaller(t *testing.T) {
	c, ch := newClient(t, Config{ReliableBuffer: 512, MaxChannels: 100})
	require.False(t, c.Changed())
	require.NoError(t, c.Agree(Params{ReliableBuffer: 64, MaxBunch: 1000, History: 100, MaxChannels: 2000, AckDelay: 150 * ms}))
	require.Equal(t, Params{ReliableBuffer: 64, MaxBunch: 1000, History: 100, MaxChannels: 100, AckDelay: 150 * ms}, c.limits)
	require.Equal(t, 100, c.channels.limit)
	require.Equal(t, 2*100*ms+150*ms, c.pto())
	require.True(t, c.Changed(), "timeouts may have moved")
	_, slots := c.Reliable(ch)
	require.Equal(t, 64, slots)
	require.Error(t, c.Agree(Params{}))
}

func TestCodesHaveNames(t *testing.T) {
	require.Equal(t, "ReliableBufferOverflow", ReliableBufferOverflow.String())
	require.Equal(t, "ConnectionTimeout", ConnectionTimeout.String())
	require.Equal(t, len(codeNames), int(ConnectionTimeout)+1)
	require.Equal(t, "Code(99)", Code(99).String())
}

func TestRefusalAllocatesNothingOnTheWire(t *testing.T) {
	c, ch := newClient(t, Config{})
	payload := make([]byte, 100)
	for range 100 {
		require.NoError(t, c.Send(ch, Unreliable, payload))
	}
	buf := make([]byte, 0, 1500)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c.NextTimeout()
		_, _, _ = c.AppendPacket(epoch, buf, 1000)
	}))
}

// TestIdleConnIsSmall measures the memory of 1,000 players in a lobby.
func TestIdleConnIsSmall(t *testing.T) {
	const n = 200
	conns := make([]*pair, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range conns {
		p := newPair(t, Config{ReceiveLimit: 1 << 20})
		a, b := p.open(0, Normal), p.open(1, Normal)
		p.send(0, a, Reliable, make([]byte, 3000))
		p.send(1, b, Reliable, make([]byte, 3000))
		p.run(5 * time.Second)
		p.take(0)
		p.take(1)
		p.run(time.Minute)
		p.settled()
		p.wire, p.rand = nil, nil
		conns[i] = p
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	bytes := (int(after.HeapAlloc) - int(before.HeapAlloc)) / n / 2
	t.Logf("%d bytes a connection with two channels, of which Conn has %d and a channel %d", bytes, unsafe.Sizeof(Conn{}), unsafe.Sizeof(channel{}))
	require.Less(t, bytes, 8<<10)
	runtime.KeepAlive(conns)
}
