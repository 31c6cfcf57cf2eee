package stream

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/rpc"
)

// Receivers that do not read, or do not acknowledge, once made the server read
// ahead for them until nothing was left of what all transfers of a world may
// hold. A hundred of them made one that reads 18 to 21 times slower.

// hall is a server that sends each of its clients eight blobs at once.
type hall struct {
	*network
	worlds []*rpc.World
	zeros  []byte // that all blobs read
}

func inHall(t *testing.T, via Backend, config Config, fn func(h *hall)) {
	inNetwork(t, setup{via: via, server: config, rpc: rpc.Config{MaxConnsPerAddress: -1}}, func(n *network) {
		h := &hall{network: n}
		fn(h)
		for _, w := range h.worlds {
			require.NoError(h, w.Close(n.ctx, 0, "test over"))
		}
		time.Sleep(time.Minute)
		require.Zero(h, n.server.streams.stock.Used())
	})
}

// enter joins a client over a path that holds 2 MiB, with a round trip of 50 ms.
func (h *hall) enter(pending int64, take func(in *IncomingBlob)) (near *Peer, pipe *linktest.Carrier) {
	w, s := newWorld(h, rpc.Config{}, Config{MaxPending: pending})
	save.Handle(s, take)
	h.worlds = append(h.worlds, w)
	go func() { _ = w.Run(h.ctx) }()
	a, b := linktest.Pipe()
	for _, c := range []*linktest.Carrier{a, b} {
		c.SetDelay(25 * time.Millisecond)
		c.SetPath(link.Path{Cwnd: 2 << 20, MaxDatagram: 1243, SmoothedRTT: 50 * time.Millisecond})
	}
	_, err := h.server.world.Attach(plug{a})
	require.NoError(h, err)
	_, err = w.Connect(h.ctx, plug{b})
	require.NoError(h, err)
	return h.server.streams.Peer(<-h.joined), b
}

// send starts eight blobs of zeros.
func (h *hall) send(p *Peer, size int) (all []*Transfer) {
	if len(h.zeros) < size {
		h.zeros = make([]byte, size)
	}
	for range 8 {
		t, err := save.Start(p, bytes.NewReader(h.zeros[:size]), int64(size))
		require.NoError(h, err)
		all = append(all, t)
	}
	return all
}

// TestSlowReceiversLeaveTheGoodOneItsPart compares, in virtual time, 16 MiB for
// a client that reads with and without a hundred that do not.
func TestSlowReceiversLeaveTheGoodOneItsPart(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		var alone time.Duration
		for _, row := range []struct {
			name string
			slow func(h *hall) *Peer // nil: there are none
		}{
			{"alone", nil},
			{"beside those that never read", func(h *hall) *Peer {
				p, _ := h.enter(minPending, func(*IncomingBlob) {})
				return p
			}},
			{"beside those that never acknowledge", func(h *hall) *Peer {
				p, pipe := h.enter(0, func(*IncomingBlob) {})
				time.Sleep(time.Second / 4) // they have joined, and said what they take
				pipe.SetDrop(func([]byte) bool { return true })
				return p
			}},
		} {
			inHall(t, via, Config{}, func(h *hall) {
				for range 100 {
					if row.slow != nil {
						h.send(row.slow(h), 4<<20)
					}
				}
				time.Sleep(2 * time.Second)
				stock := h.server.streams.stock
				held := stock.Used()
				p, _ := h.enter(0, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
				sent, begin := content(16<<20), time.Now()
				require.NoError(h, save.Send(h.ctx, p, bytes.NewReader(sent), int64(len(sent))))
				took := time.Since(begin)
				t.Logf("%s: %v; the others hold %.1f MiB", row.name, took, mib(held))
				if row.slow == nil {
					alone = took
				} else {
					require.Positive(h, held)
				}
				require.LessOrEqual(t, took, 2*alone)
			})
		}
	})
}

// TestReceiversThatReadLateGetAll: content that may not be sent waits for credit, but not forever.
func TestReceiversThatReadLateGetAll(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		inHall(t, via, Config{MaxMemory: 8 << 20}, func(h *hall) {
			read, all := make(chan struct{}), []*Transfer(nil)
			for range 20 {
				p, _ := h.enter(minPending, func(in *IncomingBlob) {
					go func() {
						<-read
						_, _ = io.Copy(io.Discard, in)
					}()
				})
				all = append(all, h.send(p, 300_001)...)
			}
			time.Sleep(5 * time.Second)
			close(read)
			for _, sent := range all {
				require.NoError(h, sent.Wait(h.ctx))
			}
		})
	})
}
