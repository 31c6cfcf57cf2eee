package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/dos"
)

// TestViolationsCloseTheConnection has a server send what no streamer sends.
func TestViolationsCloseTheConnection(t *testing.T) {
	begin := header{id: 1, kind: kindBlob, topic: "save", hash: SHA256, size: 1000}
	send := func(ctl, lane *rpc.Actor, parts ...part) {
		for _, p := range parts {
			_ = partMessage.send(lane, append(appendPartHeader(nil, p), p.data...))
		}
	}
	for name, c := range map[string]struct {
		do   func(ctl, lane *rpc.Actor)
		says string
	}{
		"header out of turn": {func(ctl, _ *rpc.Actor) {
			_ = headerMessage.send(ctl, header{id: 2, kind: kindBlob, topic: "save", hash: SHA256})
		}, "header of transfer 2 arrived; expected that of transfer 1"},
		"header twice": {func(ctl, _ *rpc.Actor) {
			_ = headerMessage.send(ctl, begin)
			_ = headerMessage.send(ctl, begin)
		}, "header of transfer 1 arrived; expected that of transfer 2"},
		"part beyond the credit": {func(ctl, lane *rpc.Actor) {
			_ = headerMessage.send(ctl, begin)
			send(ctl, lane, part{id: 1, offset: 64<<20 - 1, data: []byte{1}})
		}, "exceeds the credit"},
		"part beyond the size": {func(ctl, lane *rpc.Actor) {
			_ = headerMessage.send(ctl, begin)
			send(ctl, lane, part{id: 1, offset: 999, data: []byte("ab")})
		}, "a part that ends at byte 1001; the content ends at byte 1000"},
		"part beyond the size, before its header": {func(ctl, lane *rpc.Actor) {
			send(ctl, lane, part{id: 1, offset: 999, data: []byte("ab")})
			time.Sleep(time.Second)
			_ = headerMessage.send(ctl, begin)
		}, "a part that ends at byte 1001; the content ends at byte 1000"},
		"part beyond the end": {func(ctl, lane *rpc.Actor) {
			_ = headerMessage.send(ctl, header{id: 1, kind: kindBlob, topic: "save", hash: SHA256, size: -1})
			send(ctl, lane, part{id: 1, offset: 10, data: []byte("ab")})
			_ = endMessage.send(ctl, end{id: 1, size: 11, sum: make([]byte, 32)})
		}, "a part that ends at byte 12; the content ends at byte 11"},
		"part that overlaps": {func(ctl, lane *rpc.Actor) {
			send(ctl, lane, part{id: 1, offset: 1, data: []byte("ab")}, part{id: 1, offset: 2, data: []byte("bc")})
		}, "overlap"},
		"part of a far transfer": {func(ctl, lane *rpc.Actor) { send(ctl, lane, part{id: 5, data: []byte{1}}) }, "part of transfer 5"},
		"empty part":             {func(ctl, lane *rpc.Actor) { send(ctl, lane, part{id: 1}) }, "malformed"},
		"end before the header":  {func(ctl, _ *rpc.Actor) { _ = endMessage.send(ctl, end{id: 1}) }, "before its header"},
		"cancel of nothing":      {func(ctl, _ *rpc.Actor) { _ = cancelMessage.send(ctl, failureOf(ErrCanceled).stop(1)) }, "before its header"},
		"end of another size": {func(ctl, _ *rpc.Actor) {
			_ = headerMessage.send(ctl, begin)
			_ = endMessage.send(ctl, end{id: 1, size: 999})
		}, "has 999 bytes"},
		"end of another count": {func(ctl, _ *rpc.Actor) {
			_ = headerMessage.send(ctl, begin)
			_ = endMessage.send(ctl, end{id: 1, size: 1000, count: 1, sum: make([]byte, 32)})
		}, "end of transfer 1 has 1 element; its header has 0"},
		"end of another count, after a header without a size": {func(ctl, _ *rpc.Actor) {
			_ = headerMessage.send(ctl, header{id: 1, kind: kindBlob, topic: "save", hash: SHA256, size: -1})
			_ = endMessage.send(ctl, end{id: 1, size: 1000, count: 1, sum: make([]byte, 32)})
		}, "end of transfer 1 has 1 element; its header has 0"},
		"end twice": {func(ctl, _ *rpc.Actor) {
			_ = headerMessage.send(ctl, begin)
			_ = endMessage.send(ctl, end{id: 1, size: 1000, sum: make([]byte, 32)})
			_ = endMessage.send(ctl, end{id: 1, size: 1000, sum: make([]byte, 32)})
		}, "second end of transfer"},
		"end with a digest that is too short": {func(ctl, _ *rpc.Actor) {
			_ = headerMessage.send(ctl, begin)
			_ = endMessage.send(ctl, end{id: 1, size: 1000, sum: make([]byte, 31)})
		}, "a digest of 31 bytes; a digest by sha256 has 32"},
		"end with a digest where there is none": {func(ctl, _ *rpc.Actor) {
			_ = headerMessage.send(ctl, header{id: 1, kind: kindBlob, topic: "save", hash: NoDigest})
			_ = endMessage.send(ctl, end{id: 1, sum: make([]byte, 32)})
		}, "a digest of 32 bytes; a digest by NoDigest has 0"},
		"header with a key and no digest": {func(ctl, _ *rpc.Actor) {
			_ = headerMessage.send(ctl, header{id: 1, kind: kindBlob, topic: "save", key: "k", hash: NoDigest})
		}, "malformed message: header"},
		"grant for nothing": {func(ctl, _ *rpc.Actor) { _ = grantMessage.send(ctl, grant{1, 1, 1}) }, "the latest is 0"},
		"done for nothing":  {func(ctl, _ *rpc.Actor) { _ = doneMessage.send(ctl, done{7}) }, "the latest is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, setup{}, func(n *network) {
				collect(n.client.streams)
				require.NoError(n, n.server.world.Do(n.ctx, func() {
					c.do(n.server.peer.control.pipe, n.server.peer.window.lanes[0])
				}))
				<-n.server.peer.conn.Done()
				require.ErrorContains(n, n.server.peer.conn.Err(), c.says)
			})
		})
	}
}

// TestPartsThatMiscount their elements end the transfer.
func TestPartsThatMiscount(t *testing.T) {
	blob := header{id: 1, kind: kindBlob, topic: "save", hash: SHA256, size: -1}
	array := header{id: 1, kind: kindArray, topic: "items", hash: SHA256, count: 2, shape: items.shape}
	one := appendItem(nil, "name", 2)
	two := append(bytes.Clone(one), one...)
	for says, c := range map[string]struct {
		header header
		part   part
	}{
		"part of a blob has 0 elements from index 1":                        {blob, part{id: 1, index: 1, data: one}},
		"part of a blob has 1 elements from index 0":                        {blob, part{id: 1, count: 1, data: one}},
		"part has 1 elements from index 1; expected at most 2 from index 0": {array, part{id: 1, index: 1, count: 1, data: one}},
		"part has 3 elements from index 0; expected at most 2 from index 0": {array, part{id: 1, count: 3, data: append(bytes.Clone(two), one...)}},
		"element 1: ": {array, part{id: 1, count: 2, data: one}},
		strconv.Itoa(len(one)) + " bytes left over after its 1 element":  {array, part{id: 1, count: 1, data: two}},
		strconv.Itoa(len(one)) + " bytes left over after its 0 elements": {array, part{id: 1, data: one}},
	} {
		t.Run(says, func(t *testing.T) {
			inNetwork(t, setup{}, func(n *network) {
				ends := make(chan error, 1)
				save.Handle(n.client.streams, func(in *IncomingBlob) {
					in.OnEnd(func(err error) { ends <- err })
					go func() { _, _ = io.Copy(io.Discard, in) }()
				})
				items.Handle(n.client.streams, func(in *IncomingArray[item]) {
					in.OnEnd(func(err error) { ends <- err })
					go func() { _, _ = in.Collect(n.ctx) }()
				})
				n.do(n.server.world, func() {
					n.server.peer.sender.lastID = 1
					_ = headerMessage.send(n.server.peer.control.pipe, c.header)
					_ = partMessage.send(n.server.peer.window.lanes[0], append(appendPartHeader(nil, c.part), c.part.data...))
					sum := SHA256.Of(c.part.data).sum
					_ = endMessage.send(n.server.peer.control.pipe, end{id: 1, size: int64(len(c.part.data)), count: c.header.count, sum: sum[:]})
				})
				require.ErrorContains(n, <-ends, says)
			})
		})
	}
}

// TestPartsAheadOfAnswers counts the bytes that arrive for all transfers that are not answered.
func TestPartsAheadOfAnswers(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		n.do(n.server.world, func() {
			for id := range uint64(4) {
				m := part{id: 1 + id, data: make([]byte, 256<<10)}
				n.server.peer.receiver.onPart(append(appendPartHeader(nil, m), m.data...))
			}
		})
		require.NoError(n, n.server.peer.conn.Err())
		n.do(n.server.world, func() {
			n.server.peer.receiver.onPart(append(appendPartHeader(nil, part{id: 4, offset: 256 << 10}), 1))
		})
		<-n.server.peer.conn.Done()
		require.ErrorContains(n, n.server.peer.conn.Err(), "1048577 bytes arrived before their headers were answered; the limit is 1048576")
	})
}

// TestSenderBeforeLimits: until the peer's limits arrive, one transfer of a
// server begins, and 64 KiB of it are sent ahead of the answer.
func TestSenderBeforeLimits(t *testing.T) { overBackends(t, testSenderBeforeLimits) }

func testSenderBeforeLimits(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) { in.in.known = false }) // and says nothing
		unheard := newPeer(n.server.streams, n.server.peer.conn)
		time.Sleep(time.Second)
		n.do(n.server.world, func() {
			s := &n.server.peer.sender
			require.Equal(n, 4, s.atOnce, "it was heard")
			s.atOnce, s.early = unheard.sender.atOnce, unheard.sender.early
		})
		for range 2 {
			n.mustStart(n.server.peer, content(1<<20))
		}
		time.Sleep(time.Second)
		stats := n.server.peer.Stats()
		require.Equal(n, 1, stats.Sending)
		require.Equal(n, 1, stats.Waiting)
		n.do(n.client.world, func() {
			require.LessOrEqual(n, n.client.peer.receiver.early.bytes, int64(64<<10))
			require.Greater(n, n.client.peer.receiver.early.bytes, int64(32<<10))
		})
	})
}

// TestClientWaitsForLimits: a client begins nothing before it knows what may be
// sent ahead of answers, and then everything at once.
func TestClientWaitsForLimits(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		save.Handle(n.server.streams, func(*IncomingBlob) {})
		time.Sleep(time.Second)
		begun := func() int {
			time.Sleep(time.Second)
			return n.client.peer.Stats().Sending
		}
		n.do(n.client.world, func() {
			n.client.peer.sender.atOnce = newPeer(n.client.streams, n.client.peer.conn).sender.atOnce
			extend.OnWake(n.client.peer.conn, n.client.peer.call)
		})
		for range 2 {
			n.mustStart(n.client.peer, content(1000))
		}
		require.Zero(n, begun())
		n.do(n.server.world, n.server.peer.control.limitsChanged)
		n.server.peer.wake()
		require.Equal(n, 2, begun())
	})
}

// TestViolationsBySlices has a server send slices whose chunks are no parts.
func TestViolationsBySlices(t *testing.T) {
	message := func(p part) []byte { return append(appendPartHeader(nil, p), p.data...) }
	for says, chunks := range map[string][][]byte{
		"malformed":          {{1}},
		"part of transfer 5": {message(part{id: 5, data: []byte{1}})},
		"exceeds the credit": {message(part{id: 1, offset: earlyBytes, data: []byte{1}})},
		"overlap":            {message(part{id: 1, offset: 1, data: []byte("ab")}), message(part{id: 1, offset: 2, data: []byte("bc")})},
	} {
		t.Run(says, func(t *testing.T) {
			inNetwork(t, setup{}, func(n *network) {
				server := n.server.peer
				extend.Drive(server.conn, func() {
					for _, c := range chunks {
						require.NoError(n, server.slices.link.Send(c, newBlock(1)))
					}
				})
				<-server.conn.Done()
				require.ErrorContains(n, server.conn.Err(), says)
			})
		})
	}
}

// TestMadeUpAcksOfSlices has a client ack a slice that the server has not sent.
func TestMadeUpAcksOfSlices(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		link := n.server.peer.slices.link
		all := chunk.Ack{ChunkID: 0, Count: 1}
		all.Acked.Set(0)
		extend.Drive(n.server.peer.conn, func() {
			require.NoError(n, link.Send([]byte{1}, newBlock(1)))
			err := link.Receive(time.Now(), chunk.Config{}.AppendAck([]byte{sliceProtocol}, all))
			violation, ok := errors.AsType[*bunch.Error](err)
			require.True(n, ok)
			require.Equal(n, bunch.AckSequenceMismatch, violation.Code)
			require.Contains(n, violation.Reason, "slice 0 of chunk 0")
		})
		<-n.server.peer.conn.Done() // since the message is malformed
	})
}

// TestReceiversThatBreakRules has a server answer a client's transfer as no receiver does.
func TestReceiversThatBreakRules(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(ctl *rpc.Actor)
		says string
	}{
		"accepted twice": {func(ctl *rpc.Actor) {
			_ = acceptMessage.send(ctl, accept{id: 1})
			_ = acceptMessage.send(ctl, accept{id: 1})
		}, "accepted twice"},
		"resumed without a key": {func(ctl *rpc.Actor) { _ = acceptMessage.send(ctl, accept{id: 1, offset: 1}) }, "no key"},
		"there without a key":   {func(ctl *rpc.Actor) { _ = acceptMessage.send(ctl, accept{id: 1, hasAll: true}) }, "no key"},
		"resumed at an element": {func(ctl *rpc.Actor) { _ = acceptMessage.send(ctl, accept{id: 1, index: 1}) }, "no key"},
		"granted too early":     {func(ctl *rpc.Actor) { _ = grantMessage.send(ctl, grant{1, 1, 0}) }, "before it was accepted"},
		"credit that shrinks": {func(ctl *rpc.Actor) {
			_ = acceptMessage.send(ctl, accept{id: 1, limit: 100})
			_ = grantMessage.send(ctl, grant{1, 99, 0})
		}, "granted 99 bytes after it was granted 100"},
		"consumed what was not sent": {func(ctl *rpc.Actor) {
			_ = acceptMessage.send(ctl, accept{id: 1, limit: 100})
			_ = grantMessage.send(ctl, grant{1, 100, 1})
		}, "1 bytes consumed, but only 0 sent"},
		"done before the end":    {func(ctl *rpc.Actor) { _ = doneMessage.send(ctl, done{1}) }, "before its end"},
		"reject of what is next": {func(ctl *rpc.Actor) { _ = rejectMessage.send(ctl, failureOf(ErrCanceled).stop(2)) }, "the latest is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, setup{}, func(n *network) {
				save.Handle(n.server.streams, func(in *IncomingBlob) { in.in.known = false }) // and says nothing
				reader := make(stuck)
				defer close(reader)
				transfer, err := save.Start(n.client.peer, reader, 100)
				require.NoError(n, err)
				time.Sleep(time.Second)
				require.NoError(n, n.server.world.Do(n.ctx, func() { c.do(n.server.peer.control.pipe) }))
				<-n.server.peer.conn.Done()
				require.ErrorContains(n, n.server.peer.conn.Err(), c.says)
				require.ErrorIs(n, transfer.Wait(n.ctx), ErrClosed)
			})
		})
	}
}

// TestReceiversThatResumeBeyondTheEnd: a transfer with a key may resume
// anywhere in its content, and nowhere else.
func TestReceiversThatResumeBeyondTheEnd(t *testing.T) {
	for name, m := range map[string]accept{
		"a byte":     {id: 1, offset: 101, limit: 200},
		"an element": {id: 1, offset: 1, index: 1, limit: 200}, // a blob has none
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, setup{}, func(n *network) {
				save.Handle(n.server.streams, func(in *IncomingBlob) { in.in.known = false }) // and says nothing
				reader := make(stuck)
				defer close(reader)
				transfer, err := save.Start(n.client.peer, reader, 100, Key("k"))
				require.NoError(n, err)
				time.Sleep(time.Second)
				n.do(n.server.world, func() { _ = acceptMessage.send(n.server.peer.control.pipe, m) })
				<-n.server.peer.conn.Done()
				require.ErrorContains(n, n.server.peer.conn.Err(), "beyond its end")
				require.ErrorIs(n, transfer.Wait(n.ctx), ErrClosed)
			})
		})
	}
}

// TestAnswersThatNobodyAwaits: rejects of a transfer that has ended are dropped, and count as
// calls for rpc.Config.DoS: a client has no more of them free than the server makes it send.
func TestAnswersThatNobodyAwaits(t *testing.T) {
	inNetwork(t, setup{rpc: rpc.Config{DoS: dos.Default()}}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) { in.Reject(errTest) })
		require.ErrorIs(n, n.mustStart(n.server.peer, content(10)).Wait(n.ctx), ErrRejected)
		for i := 0; i < 100 && n.client.peer.conn.Err() == nil; i++ {
			n.do(n.client.world, func() {
				for range 60 {
					_ = rejectMessage.send(n.client.peer.control.pipe, failureOf(errTest).stop(1))
				}
			})
			time.Sleep(time.Second / 10)
		}
		require.ErrorContains(n, n.client.peer.conn.Err(), "Config.DoS")
		n.do(n.server.world, func() { require.Greater(n, n.server.peer.sender.late, uint64(2000)) })
	})
}

// TestAnswersAreNotSavedUp: a client that answers nothing for long cannot send
// more later than the transfers of a connection need.
func TestAnswersAreNotSavedUp(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		n.do(n.server.world, func() {
			conn := n.server.peer.conn
			extend.Owe(conn, 2*maxIncoming)
			require.GreaterOrEqual(n, extend.ConnOf(conn).Owed, 2*maxIncoming)
			extend.Owe(conn, 1e6)
			require.LessOrEqual(n, extend.ConnOf(conn).Owed, 4*maxIncoming)
		})
	})
}

// TestHeadersThatAreNotAnswered has a peer begin transfers faster than a tick can refuse them.
func TestHeadersThatAreNotAnswered(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		r := &n.server.peer.receiver
		n.do(n.server.world, func() {
			for id := uint64(1); id <= 8; id++ {
				r.onHeader(header{id: id, kind: kindBlob, topic: "save", hash: SHA256, size: -1})
			}
			require.NoError(n, n.server.peer.conn.Err())
			r.onHeader(header{id: 9, kind: kindBlob, topic: "save", hash: SHA256, size: -1})
			require.Len(n, r.receiving, 8)
		})
		<-n.server.peer.conn.Done()
		require.ErrorContains(n, n.server.peer.conn.Err(), "8 are in progress or being refused when transfer 9 arrives; the limit is 4 at once")
	})
}

func TestLatePartsAreDroppedAndCounted(t *testing.T) {
	overBackends(t, testLatePartsAreDroppedAndCounted)
}

func testLatePartsAreDroppedAndCounted(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, delay: 50 * time.Millisecond}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) { in.Reject(nil) })
		_ = n.mustStart(n.server.peer, content(200_000)).Wait(n.ctx)
		time.Sleep(time.Second)
		require.Positive(n, n.client.peer.Stats().Late)
		require.NoError(n, n.client.peer.conn.Err())
	})
}

func TestTransfersWaitForTheirTurn(t *testing.T) { overBackends(t, testTransfersWaitForTheirTurn) }

func testTransfersWaitForTheirTurn(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{MaxTransfers: 2}, server: Config{MaxQueued: 5}}, func(n *network) {
		arrived := make(chan *IncomingBlob, 5)
		save.Handle(n.client.streams, func(in *IncomingBlob) { arrived <- in })
		var all []*Transfer
		for range 5 {
			all = append(all, n.mustStart(n.server.peer, content(1000)))
		}
		_, err := save.Start(n.server.peer, bytes.NewReader(nil), 0)
		require.ErrorContains(n, err, "the limit is 5 (stream.Config.MaxQueued)")
		require.ErrorIs(n, err, rpc.ErrBacklogFull)
		time.Sleep(time.Second)
		require.Len(n, arrived, 2)
		require.Equal(n, 3, n.server.peer.Stats().Waiting)
		all[3].Cancel(nil) // before its turn
		for range 4 {
			_, err := io.Copy(io.Discard, <-arrived)
			require.NoError(n, err)
		}
		for i, transfer := range all {
			if err := transfer.Wait(n.ctx); i != 3 {
				require.NoError(n, err)
			}
		}
		n.requireIdle()
	})
}

func TestNoneAreTaken(t *testing.T) { overBackends(t, testNoneAreTaken) }

func testNoneAreTaken(t *testing.T, via Backend) {
	none := Config{MaxTransfers: -1}
	inNetwork(t, setup{via: via, server: none, client: none}, func(n *network) {
		collect(n.server.streams)
		collect(n.client.streams)
		for _, from := range []end1{n.server, n.client} { // a client hears the limits before it begins, a server after
			var all []*Transfer
			for range 3 {
				all = append(all, n.mustStart(from.peer, content(100_000)))
			}
			for _, transfer := range all {
				require.ErrorIs(n, transfer.Wait(n.ctx), ErrRejected)
				require.ErrorContains(n, transfer.Err(), "the limit is 0 (stream.Config.MaxTransfers)")
			}
		}
	})
}

func TestLeastMemoryIsEnough(t *testing.T) { overBackends(t, testLeastMemoryIsEnough) }

func testLeastMemoryIsEnough(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{MaxMemory: transferBytes, MaxPending: minPending}}, func(n *network) {
		arrived := collect(n.client.streams)
		data := content(300_000)
		require.NoError(n, n.mustStart(n.server.peer, data).Wait(n.ctx))
		require.Equal(n, data, (<-arrived).data)
		n.requireIdle()
	})
}

// TestMinMemoryIsEnough: with the least MaxMemory at both ends, one transfer after the other goes
// through, either way and by each backend, and so do several that begin at once. The peer has an
// address, and all connections of an address get only a part of the memory.
func TestMinMemoryIsEnough(t *testing.T) { overBackends(t, testMinMemoryIsEnough) }

func testMinMemoryIsEnough(t *testing.T, via Backend) {
	for name, config := range map[string]Config{
		"default":        {},
		"one transfer":   {MaxTransfers: 1},
		"many transfers": {MaxTransfers: 200},
		"little pending": {MaxPending: minPending},
		"no limit":       {MaxBytes: -1, MaxTransfers: maxIncoming},
	} {
		for _, tick := range []time.Duration{0, 30 * time.Millisecond} {
			t.Run(fmt.Sprint(name, tick), func(t *testing.T) {
				config.MaxMemory = config.minMemory()
				s := setup{via: via, server: config, client: config, tick: tick, from: &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1)}}
				inNetwork(t, s, func(n *network) {
					collect(n.client.streams)
					collect(n.server.streams)
					for _, size := range []int{0, 1, 100_000, 1 << 20} {
						require.NoError(n, n.mustStart(n.server.peer, content(size)).Wait(n.ctx))
						require.NoError(n, n.mustStart(n.client.peer, content(size)).Wait(n.ctx))
					}
					var all []*Transfer
					for i := range 20 {
						all = append(all, n.mustStart(n.server.peer, content(100+i*20_000)), n.mustStart(n.client.peer, content(100+i*20_000)))
					}
					for _, transfer := range all {
						require.NoError(n, transfer.Wait(n.ctx))
					}
				})
			})
		}
	}
}

// TestMinMemoryOfManyClients: that of each client who sends slices, all from one address, is what
// the comment of MaxMemory says.
func TestMinMemoryOfManyClients(t *testing.T) {
	const others = 11
	address := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1)}
	config := Config{MaxMemory: leastMemory + others*128<<10}
	inNetwork(t, setup{via: Slices{}, server: config, from: address}, func(n *network) {
		collect(n.server.streams)
		peers := []*Peer{n.client.peer}
		for range others {
			w, s := newWorld(n, rpc.Config{}, Config{Backend: Slices{}})
			go func() { _ = w.Run(n.ctx) }()
			defer func() { _ = w.Close(n.ctx, 0, "test over") }()
			near, far := linktest.Pipe()
			_, err := n.server.world.Attach(addressed{plug{near}, address})
			require.NoError(n, err)
			conn, err := w.Connect(n.ctx, plug{far})
			require.NoError(n, err)
			<-n.joined
			peers = append(peers, s.Peer(conn))
		}
		for _, p := range append(peers, peers...) {
			require.NoError(n, n.mustStart(p, content(300_000)).Wait(n.ctx))
		}
		var all []*Transfer
		for _, p := range peers {
			all = append(all, n.mustStart(p, content(300_000)))
		}
		for _, transfer := range all {
			require.NoError(n, transfer.Wait(n.ctx))
		}
	})
}

func TestMemoryOfTheWorldIsBounded(t *testing.T) { overBackends(t, testMemoryOfTheWorldIsBounded) }

func testMemoryOfTheWorldIsBounded(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{MaxMemory: transferBytes + 2*heldBytes(minPending) + 64<<10, MaxPending: minPending}}, func(n *network) {
		arrived := make(chan *IncomingBlob, 5)
		save.Handle(n.client.streams, func(in *IncomingBlob) { arrived <- in })
		var all []*Transfer
		for range 4 {
			all = append(all, n.mustStart(n.server.peer, content(100)))
		}
		require.ErrorContains(n, all[3].Wait(n.ctx), "MaxMemory")
		for _, transfer := range all[:3] {
			_, _ = io.Copy(io.Discard, <-arrived)
			require.NoError(n, transfer.Wait(n.ctx))
		}
		n.requireIdle()
	})
}

func TestBadOptions(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		for says, opt := range map[string]Option{
			"Weight is 0":     Weight(0),
			"Weight is 1001":  Weight(1001),
			"Key has 129":     Key(string(make([]byte, 129))),
			"Name has 256":    Name(string(make([]byte, 256))),
			"Via has a nil":   Via(nil),
			"Lanes is -1":     Lanes(-1),
			"Lanes is 33":     Lanes(33),
			"Lanes is 40":     func(o *options) { Via(Slices{})(o); Lanes(40)(o) },
			"Window.Lanes":    Via(Window{Lanes: 33}),
			"Window.Share is": Via(Window{Share: 1}),
		} {
			_, err := save.Start(n.server.peer, bytes.NewReader(nil), 0, opt)
			require.ErrorContains(n, err, says)
		}
	})
	for says, config := range map[string]Config{
		"MaxTransfers is 1025": {MaxTransfers: 1025},
		"MaxPending is 1":      {MaxPending: 1},
		"MaxMemory is 1":       {MaxMemory: 1},
		"MaxQueued is -1":      {MaxQueued: -1},
		"Share is -1":          {Backend: Window{Share: -1}},
	} {
		require.ErrorContains(t, config.validate(), says)
	}
}

// TestSizeThatNoHeaderHas starts a blob whose header the receiver would take
// for an attack, and close the connection.
func TestSizeThatNoHeaderHas(t *testing.T) {
	inNetwork(t, setup{client: Config{MaxBytes: -1}}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
		_, err := save.Start(n.server.peer, strings.NewReader("short"), math.MaxInt64)
		require.ErrorIs(n, err, ErrTooLarge)
		require.ErrorContains(n, err, "has 9223372036854775807 bytes; the limit is 4611686018427387903")
		transfer, err := save.Start(n.server.peer, strings.NewReader("short"), maxSize)
		require.NoError(n, err)
		require.ErrorIs(n, transfer.Wait(n.ctx), io.ErrUnexpectedEOF)
		require.NoError(n, n.server.peer.Conn().Err())
	})
}

func TestNoPeer(t *testing.T) {
	require.EqualError(t, save.Send(t.Context(), nil, bytes.NewReader(nil), 0), `stream: Start of blob "save": peer is nil`)
	require.EqualError(t, items.Send(t.Context(), nil, nil), `stream: Start of array "items": peer is nil`)
}

func TestBadDeclarations(t *testing.T) {
	require.Panics(t, func() { NewBlob("") })
	require.Panics(t, func() { NewBlob(string(make([]byte, 65))) })
	require.PanicsWithValue(t, "stream: array \"x\" of rpc.Raw: use a blob", func() { NewArray[rpc.Raw]("x") })
	require.Panics(t, func() { NewArray[struct{}]("x") })
	require.Panics(t, func() { NewArray[struct{ Name string }]("x") })
	require.Panics(t, func() { NewArray[uint32]("x", MaxElementBytes(1<<20)) })
	NewArray[struct{ Name string }]("x", MaxElementBytes(100))
	for _, opts := range [][]ArrayOption{nil, {MaxElementBytes(100)}} { // what rpc refuses as an argument
		require.PanicsWithValue(t, "stream: array \"x\": struct { A *rpc.Actor }.A: an actor cannot be encoded: "+
			"send a number by which both ends know it", func() { NewArray[struct{ A *rpc.Actor }]("x", opts...) })
		require.Panics(t, func() { NewArray[struct{ a, b int }]("x", opts...) })
		require.Panics(t, func() { NewArray[any]("x", opts...) })
	}
}

// appendItem writes an item as a hostile sender does: without a check.
func appendItem(b []byte, name string, tags int) []byte {
	b = append(b, 0x93, 1, 0xa0|byte(len(name)))
	b = append(append(b, name...), 0x90|byte(tags))
	return append(b, make([]byte, tags)...)
}

// A receiver checks every bound, whatever the sender's did.
func TestElementsOverABoundAreRefusedOnReceipt(t *testing.T) {
	for want, bad := range map[string]struct {
		name string
		tags int
	}{
		"Name: has 25 bytes; the limit is 24":           {strings.Repeat("n", 25), 0},
		"Tags: has 7 elements; the limit is 6":          {"", 7},
		"Name: string is not valid UTF-8":               {"\xff", 0},
		"element has 13 bytes; the limit is 10 (MaxEle": {"nine here", 0},
	} {
		topic := items
		if strings.Contains(want, "MaxEle") {
			topic = NewArray[item]("small", MaxElementBytes(10))
		}
		b, err := topic.codec.Append(nil, &item{ID: 1})
		require.NoError(t, err)
		b = appendItem(b, bad.name, bad.tags)
		d, err := topic.decode(b, 2)
		require.ErrorContains(t, err, want)
		require.EqualValues(t, 1, d.units, "the index of the bad one")
		require.Len(t, d.batch, 1)
	}
}
