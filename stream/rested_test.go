package stream

import (
	"bytes"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/rpc"
)

// TestClientsOneAfterTheOther: clients of one address upload one after the other and stay
// connected. Each kept 52 KiB once its slices had arrived, so that the sixth was rejected.
func TestClientsOneAfterTheOther(t *testing.T) {
	const clients, size = 40, 300_000
	from := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1)}
	inNetwork(t, setup{via: Slices{}, server: Config{MaxMemory: leastMemory}, from: from, rpc: rpc.Config{MaxConnsPerAddress: -1}}, func(n *network) {
		arrived := collect(n.server.streams)
		var all []*Peer
		for i := range clients {
			all = append(all, n.client.peer)
			require.NoError(n, n.mustStart(n.client.peer, content(size)).Wait(n.ctx), "client %d", i)
			require.Equal(n, content(size), (<-arrived).data)
			n.connect()
		}
		for _, p := range all {
			require.NoError(n, p.conn.Err())
		}
		time.Sleep(time.Second)
		require.EqualValues(n, leastMemory-clients*slices.ReceiverBytes, n.server.streams.memory.Free())
	})
}

// TestPeersThatWakeTheirReceivers: peers have their receivers add records for chunks far
// ahead and free them again, over and over. What they take is given back each time, and
// the transfers of others go through.
func TestPeersThatWakeTheirReceivers(t *testing.T) {
	const peers, flight = 12, 32
	synctest.Test(t, func(t *testing.T) {
		n := newSiege(t, Config{MaxMemory: leastMemory}, peers)
		got := n.take()
		_, peer := n.join()
		data, woken := content(300_000), 0
		for range 10 {
			sent := make(chan error, 1)
			go func() { sent <- honest.Send(t.Context(), peer, bytes.NewReader(data), int64(len(data)), Via(Slices{})) }()
			for len(sent) == 0 {
				for _, h := range n.peers {
					n.do(n.world, func() { woken += h.wake(flight) })
				}
				time.Sleep(time.Millisecond)
			}
			require.NoError(t, <-sent)
			require.True(t, bytes.Equal(data, <-got))
		}
		require.Greater(t, woken, peers)
		for _, h := range n.peers {
			require.NoError(t, h.conn.Err())
		}
		time.Sleep(time.Second)
		n.do(n.world, func() {
			for _, h := range n.peers {
				what, _ := h.account.Charge()
				require.LessOrEqual(t, what.Borrowed, int64(recordsBytes))
			}
		})
		n.end()
	})
}

// wake sends the last of so many chunks and then the others in order. It returns 1 if
// all were accepted, and otherwise begins with the same chunks when it's called again.
func (h *hostile) wake(flight uint16) (woken int) {
	h.receiver.lastHeader = 1 // so that the parts are late
	late := append(appendPartHeader(nil, part{id: 1, offset: 1, data: []byte{1}}), 1)
	refused := h.slices.stats().Refused
	send := func(id uint16) {
		s := chunk.Slice{ChunkID: id, Count: 1, Data: late}
		extend.Drive(h.conn, func() {
			_ = h.slices.link.Receive(time.Now(), chunk.Config{SliceSize: slices.Size}.AppendSlice([]byte{sliceProtocol}, s))
		})
	}
	send(h.chunk + flight - 1)
	for ahead := range flight {
		send(h.chunk + ahead)
	}
	if h.slices.stats().Refused > refused {
		return 0
	}
	h.chunk += flight
	return 1
}
