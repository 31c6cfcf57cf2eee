package stream

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// TestNilsAreNamed: a nil, or a NaN, is refused where it is given, with an explanation. A nil
// function would panic in a later tick, and with a share of NaN nothing would ever be sent.
func TestNilsAreNamed(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		start := func(opts ...Option) error {
			_, err := save.Start(n.server.peer, bytes.NewReader(nil), 0, opts...)
			return err
		}
		require.ErrorContains(n, start(Weight(1), nil), "option 2 is nil")
		require.ErrorContains(n, start(Via((*Window)(nil))), "Via has a nil backend")
		require.ErrorContains(n, start(Via((*Slices)(nil))), "Via has a nil backend")
		require.NoError(n, start(Via(&Window{})))
		require.ErrorContains(n, start(Via(Window{Share: math.NaN()})), "Window.Share is NaN")
		require.ErrorContains(n, Gate{Share: math.NaN()}.Check(256, 1), "Share is NaN;")

		_, err := (&Blob{}).Start(n.server.peer, bytes.NewReader(nil), 0)
		require.ErrorContains(n, err, "NewBlob")
		_, err = (&Array[int]{}).Start(n.server.peer, nil)
		require.ErrorContains(n, err, "NewArray")
		_, err = NewPump(nil, Gate{}, 1, 1, func(int) error { return nil }, nil)
		require.ErrorContains(n, err, "channel is nil")
		_, err = NewPump(&localChannel{}, Gate{}, 1, 1, nil, nil)
		require.ErrorContains(n, err, "emit is nil")
		_, err = Calls(clientReceiveData, nil, testItems(1), CallsConfig{})
		require.ErrorContains(n, err, "actor is nil")

		blob, array := NewBlob("nils"), NewArray[int]("nil array")
		require.PanicsWithValue(n, `stream: Handle of blob "nils": function is nil`, func() { blob.Handle(n.client.streams, nil) })
		require.PanicsWithValue(n, `stream: Handle of array "nil array": function is nil`, func() { array.Handle(n.client.streams, nil) })
		require.PanicsWithValue(n, `stream: Handle of blob "nils": streams is nil: use the result of Install`, func() { blob.Handle(nil, func(*IncomingBlob) {}) })
		require.PanicsWithValue(n, `stream: Handle of a topic without a name: use NewBlob or NewArray`, func() { (&Blob{}).Handle(n.client.streams, func(*IncomingBlob) {}) })
		require.PanicsWithValue(n, `stream: array "options": option 1 is nil`, func() { NewArray[int]("options", nil) })

		said := make(chan any, 1)
		array.Handle(n.client.streams, func(in *IncomingArray[int]) {
			defer func() { said <- recover(); in.Cancel(nil) }()
			in.OnBatch(nil)
		})
		transfer, err := array.Start(n.server.peer, []int{1})
		require.NoError(n, err)
		require.Equal(n, `stream: OnBatch of array "nil array": function is nil`, <-said)
		require.ErrorIs(n, transfer.Wait(n.ctx), ErrCanceled)
		time.Sleep(time.Second)
		require.NoError(n, n.client.peer.Conn().Err())
	})

	for _, row := range []struct {
		config Config
		want   string
	}{
		{Config{Backend: (*Window)(nil)}, "Config.Backend is a nil *stream.Window"},
		{Config{Backend: Window{Share: math.NaN()}}, "Window.Share is NaN"},
		{Config{Store: (*memoryStore)(nil)}, "Config.Store is a nil *stream.memoryStore: leave it unset"},
	} {
		w, err := rpc.NewWorld(rpc.Config{})
		require.NoError(t, err)
		_, err = Install(w, row.config)
		require.ErrorContains(t, err, row.want)
	}
	_, err := Install(nil, Config{})
	require.ErrorContains(t, err, "world is nil")
}
