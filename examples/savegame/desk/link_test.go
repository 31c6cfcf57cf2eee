package desk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/stream/cdc"
)

// A late is a store that takes some time to put an object, as a busy disk or a bucket does.
type late struct {
	store.Store
	by time.Duration
}

func (l late) Put(ctx context.Context, key string, data []byte) error {
	time.Sleep(l.by)
	return l.Store.Put(ctx, key, data)
}

func (l late) Start(ctx context.Context, key string, data []byte) (wait func() error, err error) {
	put, err := l.Store.Start(ctx, key, data)
	if err != nil {
		return nil, err
	}
	return func() error {
		time.Sleep(l.by)
		return put()
	}, nil
}

// Over 100 Mbit/s with a round trip of 50 ms and 1 % lost each way, a put and a
// get use the link, even beside a store that takes some time for each chunk.
// Time is virtual: neither computing nor the disk takes any.
func TestLossyLink(t *testing.T) {
	text := make([]byte, cdc.AverageChunk) // the coders' goroutines belong to no bubble: all tests share them
	_, err := cdc.Unpack(nil, cdc.Pack(cdc.Pack(nil, noise(1, cdc.MaxChunk))[:0], text), cdc.Chunk{Digest: cdc.Sum(text), Size: uint32(len(text))})
	require.NoError(t, err)
	synctest.Test(t, transferOverLossyLink)
}

func transferOverLossyLink(t *testing.T) {
	const by = 120 * time.Millisecond
	const size, least = 64 << 20, 0.85
	way := netsim.Config{Delay: 25 * time.Millisecond, Loss: 0.01, Rate: 100e6, Seed: 1}
	here, there := netsim.NewPacketConn(), netsim.NewPacketConn()
	netsim.Connect(here, there, way, way)
	t.Cleanup(func() {
		require.NoError(t, errors.Join(here.Close(), there.Close()))
		time.Sleep(time.Minute) // what is left of the connection ends
	})
	h := newHostOn(t, there, versions.Config{}, func(store.Store) store.Store { return late{storetest.NewMemory(nil), by} })
	h.config.Connect = to(t, h.addr, h.fingerprint, here)
	c, content := h.dial(), noise(2, size)
	ideal := (way.Delay + time.Duration(size*8/float64(way.Rate)/(1-way.Loss)*float64(time.Second))).Seconds()

	began := time.Now()
	_, err := put(t, c, versions.Request{}, content)
	require.NoError(t, err)
	up := (ideal + 2*by.Seconds()) / time.Since(began).Seconds() // the manifest and the version come behind the chunks
	began = time.Now()
	require.Equal(t, content, get(t, c, "world", 0))
	down := ideal / time.Since(began).Seconds()
	t.Logf("%.2f of the link up, %.2f down", up, down)
	require.Greater(t, min(up, down), least)
}
