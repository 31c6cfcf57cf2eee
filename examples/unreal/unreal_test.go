package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
)

// A virtual is a network in virtual time.
type virtual struct{ *rpctest.Network }

func (v virtual) join(w *rpc.World) error {
	_, err := v.Join(w)
	return err
}

func (v virtual) until(limit time.Duration, done func() bool) bool { return v.Until(limit, done) }

// onStage runs a test with a server and one client, which others may follow.
func onStage(t *testing.T, weather emulation.Settings, fn func(t *testing.T, s *stage)) {
	rpctest.Run(t, weather, func(t *testing.T, net *rpctest.Network) {
		server := newServer(rpc.Config{})
		net.Server(server.world)
		s := &stage{network: virtual{net}, server: server, mode: gameMode{data: makeData(elements)}}
		require.NoError(t, s.enter(rpc.Config{}))
		fn(t, s)
	})
}

// TestOneBigRPCIsRefused: the caller gets an error, nothing arrives, and the connection stays open.
func TestOneBigRPCIsRefused(t *testing.T) {
	onStage(t, rpctest.Off, func(t *testing.T, s *stage) {
		err := s.mode.sendAtOnce(s.server.controller())
		require.ErrorIs(t, err, bunch.ErrBunchTooLarge)
		require.ErrorContains(t, err, "PlayerController.ClientReceiveData")
		s.mode.data = s.mode.data[:maxChunk]
		require.NoError(t, s.mode.sendAtOnce(s.server.controller()), "what fits one RPC may be sent so")
		require.True(t, s.until(time.Second, func() bool { return len(s.client.controller().received) > 0 }))
		require.Equal(t, s.mode.data, s.client.controller().received)
	})
}

// TestLoopOverflows: eight or nine of the RPCs fit. Both ends know why the
// connection has ended, and which RPCs were in the buffer.
func TestLoopOverflows(t *testing.T) {
	onStage(t, rpctest.Off, func(t *testing.T, s *stage) {
		sent, err := s.overflow()
		var closed *rpc.CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, rpc.ReliableBufferOverflow, closed.Code)
		require.False(t, closed.Remote)
		require.Equal(t, 9, sent, "they would be 8 of full size")
		for who, log := range map[string]*journal{"server": s.server.log, "client": s.client.log} {
			line := log.find("ReliableBufferOverflow")
			require.Contains(t, line, "9 × PlayerController.ClientReceiveData", who)
		}
		require.False(t, s.client.controller() != nil && s.client.controller().all)

		require.NoError(t, s.enter(rpc.Config{}), "the server plays on")
		require.NoError(t, s.download())
	})
}

// TestTickActor: everything arrives in order, its end is reported once, and the
// buffer was never fuller than half and one RPC.
func TestTickActor(t *testing.T) {
	for name, weather := range map[string]emulation.Settings{"Off": rpctest.Off, "Bad": rpctest.Bad} {
		t.Run(name, func(t *testing.T) {
			onStage(t, weather, func(t *testing.T, s *stage) {
				require.NoError(t, s.download())
				c := s.server.controller()
				require.LessOrEqual(t, c.peak, 256/2-1+bunch.Entries(maxBytesPerRPC))
				require.Greater(t, c.peak, 256/2)
				require.Zero(t, c.chunksToSend)
				require.Nil(t, c.dataToStream)
				require.NoError(t, s.upload())
			})
		})
	}
}

// TestElementSizeIsPessimistic: no chunk takes more than maxBytesPerRPC.
func TestElementSizeIsPessimistic(t *testing.T) {
	onStage(t, rpctest.Off, func(t *testing.T, s *stage) {
		s.mode.data = make([]MyData, elements)
		for i := range s.mode.data {
			s.mode.data[i] = MyData{ID: 1<<32 - 1, X: -1, Y: 1e30, Z: 1e-30}
		}
		require.NoError(t, s.download())
		require.LessOrEqual(t, s.server.controller().peak, 256/2-1+bunch.Entries(maxBytesPerRPC+8))
	})
}

func TestInnerArrays(t *testing.T) {
	onStage(t, rpctest.Bad, func(t *testing.T, s *stage) {
		require.NoError(t, s.nested())
		require.Len(t, s.client.bounded, 2000)
		require.Less(t, len(s.client.structs), len(s.client.floats))

		transfer, err := Bounded.Start(s.server.streams.Peer(s.server.world.Conns()[0]), []BoundedStruct{{}, {Inner: make([]float32, 101)}})
		require.NoError(t, err)
		err = s.end(transfer)
		require.ErrorIs(t, err, stream.ErrTooLarge, "an inner array beyond its bound")
		require.ErrorContains(t, err, "element 1")
	})
}

// TestJoinTrustsNoCount: join does not trust a count of the other end.
func TestJoinTrustsNoCount(t *testing.T) {
	require.Equal(t, []BoundedStruct{{ID: 1, Inner: []float32{5}}, {ID: 2, Inner: []float32{}}},
		join([]Struct{{1, 1<<32 - 1}, {2, 3}}, []float32{5}))
	all := makeNested(300)
	require.Equal(t, len(all), len(join(separate(all))))
}

func TestBytes(t *testing.T) {
	onStage(t, rpctest.Off, func(t *testing.T, s *stage) {
		require.NoError(t, s.bytes())
		require.Equal(t, s.mode.data, s.server.save)
		require.Error(t, receiveBytes(strings.NewReader("no JSON"), new([]MyData)))
		_, err := sendBytes(nil, func() {})
		require.Error(t, err)
	})
}

// TestUploadHasAnEnd: a client that sends more than ServerReceiveData_Validate
// allows is disconnected.
func TestUploadHasAnEnd(t *testing.T) {
	onStage(t, rpctest.Off, func(t *testing.T, s *stage) {
		s.mode.data = makeData(2*elements + 1)
		require.Error(t, s.upload())
		require.Empty(t, s.server.world.Conns())
		require.Contains(t, s.client.log.find("disconnected"), "ValidationFailed")
	})
}

// TestStory plays what main does, over loopback, and prints it in lines that fit a terminal.
func TestStory(t *testing.T) {
	var told bytes.Buffer
	require.NoError(t, play(&told, rpctest.Off))
	require.Equal(t, 4, strings.Count(told.String(), "all arrived"))
	require.Equal(t, 2, strings.Count(told.String(), "log: level="))
	for line := range strings.Lines(told.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 101, line)
	}
}

func TestMain(m *testing.M) { testkit.Main(m) }
