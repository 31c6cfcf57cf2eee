package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/slices"
)

// endless yields zeros for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// stuck blocks in Read until it is closed.
type stuck chan struct{}

func (s stuck) Read([]byte) (int, error) { <-s; return 0, io.EOF }

func TestSenderCancels(t *testing.T) { overBackends(t, testSenderCancels) }

func testSenderCancels(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		got := collect(n.client.streams)
		transfer, err := save.Start(n.server.peer, endless{}, -1)
		require.NoError(n, err)
		time.Sleep(100 * time.Millisecond)
		transfer.Cancel(errTest)
		require.ErrorIs(n, transfer.Wait(n.ctx), ErrCanceled)
		require.ErrorIs(n, transfer.Err(), errTest)
		r := <-got
		require.ErrorIs(n, r.err, ErrCanceled)
		require.ErrorContains(n, r.err, errTest.Error())
		n.requireIdle()
	})
}

func TestSenderCancelsWhileItsReaderBlocks(t *testing.T) {
	overBackends(t, testSenderCancelsWhileItsReaderBlocks)
}

func testSenderCancelsWhileItsReaderBlocks(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		collect(n.client.streams)
		reader := make(stuck)
		defer close(reader)
		transfer, err := save.Start(n.server.peer, reader, 100)
		require.NoError(n, err)
		time.Sleep(time.Second)
		transfer.Cancel(nil)
		select {
		case <-transfer.Done():
		default:
			t.Fatal("Cancel waits for Read")
		}
		n.requireIdle()
	})
}

func TestReceiverCancels(t *testing.T) { overBackends(t, testReceiverCancels) }

func testReceiverCancels(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			go func() {
				_, _ = io.ReadFull(in, make([]byte, 100_000))
				in.Cancel(errTest)
				_, err := in.Read(make([]byte, 1))
				require.ErrorIs(n, err, errTest)
			}()
		})
		transfer, err := save.Start(n.server.peer, endless{}, -1)
		require.NoError(n, err)
		err = transfer.Wait(n.ctx)
		require.ErrorIs(n, err, ErrCanceled)
		require.ErrorContains(n, err, errTest.Error())
		n.requireIdle()
	})
}

func TestReceiverRejects(t *testing.T) { overBackends(t, testReceiverRejects) }

func testReceiverRejects(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) { in.Reject(errTest) })
		err := n.mustStart(n.server.peer, content(1<<20)).Wait(n.ctx)
		require.ErrorIs(n, err, ErrRejected)
		require.ErrorContains(n, err, errTest.Error())
		n.requireIdle()
	})
}

// TestNobodyReads: a handler that drops its transfer does not make the sender wait forever.
func TestNobodyReads(t *testing.T) { overBackends(t, testNobodyReads) }

func testNobodyReads(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{ReadTime: time.Minute}}, func(n *network) {
		save.Handle(n.client.streams, func(*IncomingBlob) {})
		err := n.mustStart(n.server.peer, content(1<<20)).Wait(n.ctx)
		require.ErrorIs(n, err, ErrRejected)
		require.ErrorContains(n, err, "not read within 1m0s (stream.Config.ReadTime)")
		n.requireIdle()
	})
}

// TestReaderTakesItsTime: a reader that has begun, or a game that takes batches
// in ticks, may pause.
func TestReaderTakesItsTime(t *testing.T) {
	inNetwork(t, setup{client: Config{ReadTime: time.Minute}}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			go func() {
				var first [1]byte
				_, err := io.ReadFull(in, first[:])
				time.Sleep(90 * time.Second)
				got, rest := io.ReadAll(in)
				assert.NoError(n, errors.Join(err, rest))
				assert.Len(n, got, 1<<20-1)
			}()
		})
		require.NoError(n, n.mustStart(n.server.peer, content(1<<20)).Wait(n.ctx))
	})
}

func TestNobodyHandles(t *testing.T) { overBackends(t, testNobodyHandles) }

func testNobodyHandles(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		err := n.mustStart(n.server.peer, content(100)).Wait(n.ctx)
		require.ErrorIs(n, err, ErrRejected)
		require.ErrorContains(n, err, `no handler for blob \"save\"`)
	})
}

func TestArrayOfOtherFieldsIsRefused(t *testing.T) { overBackends(t, testArrayOfOtherFieldsIsRefused) }

func testArrayOfOtherFieldsIsRefused(t *testing.T, via Backend) {
	type other struct{ ID, Count uint32 }
	theirs := NewArray[other]("items")
	inNetwork(t, setup{via: via}, func(n *network) {
		theirs.Handle(n.client.streams, func(*IncomingArray[other]) { t.Error("accepted") })
		err := items.Send(n.ctx, n.server.peer, testItems(10))
		require.ErrorIs(n, err, ErrRejected)
		require.EqualError(n, err, `stream: rejected: array "items" to conn 1 refused by the receiver: `+
			`"elements of array \"items\" have different fields at the receiver: struct, .ID: uint32, .Count: uint32"; `+
			`at the sender: struct, .ID: uint32, .Name: string, max 24, .Tags: [], max 6, .Tags[]: uint16`)
	})
}

func TestTooLarge(t *testing.T) { overBackends(t, testTooLarge) }

func testTooLarge(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{MaxBytes: 1 << 20}}, func(n *network) {
		got := collect(n.client.streams)
		err := n.mustStart(n.server.peer, content(1<<20+1)).Wait(n.ctx)
		require.ErrorIs(n, err, ErrTooLarge)
		require.ErrorContains(n, err, "MaxBytes")
		require.Empty(n, got)

		transfer, err := save.Start(n.server.peer, endless{}, -1)
		require.NoError(n, err)
		require.ErrorIs(n, transfer.Wait(n.ctx), ErrTooLarge)
		require.ErrorIs(n, (<-got).err, ErrTooLarge)

		require.NoError(n, n.mustStart(n.server.peer, content(1<<20)).Wait(n.ctx))
	})
}

func TestElementBreaksItsBound(t *testing.T) { overBackends(t, testElementBreaksItsBound) }

func testElementBreaksItsBound(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		ended := make(chan error, 1)
		items.Handle(n.client.streams, func(in *IncomingArray[item]) {
			in.OnEnd(func(err error) { ended <- err })
		})
		all := testItems(20)
		all[17].Name = "a byte more than its max." // with no Tags the element as a whole is small enough
		all[17].Tags = nil
		err := items.Send(n.ctx, n.server.peer, all)
		require.ErrorIs(n, err, ErrTooLarge)
		// A tick may have sent the elements before it, or not: they were ready when it was found.
		require.Regexp(n, `^stream: too large: array "items" to conn 1 stopped by the sender, (0|17) of 20 elements sent: element 17: `, err.Error())
		require.ErrorContains(n, err, "Name: has 25 bytes; the limit is 24")
		require.ErrorIs(n, <-ended, ErrTooLarge)
	})
}

func TestSourceFails(t *testing.T) { overBackends(t, testSourceFails) }

func testSourceFails(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		got := collect(n.client.streams)
		secret := errors.New("open /home/me/save: gone")
		transfer, err := save.Start(n.server.peer, io.MultiReader(bytes.NewReader(content(100)), iotestErr{secret}), 200)
		require.NoError(n, err)
		require.ErrorIs(n, transfer.Wait(n.ctx), secret)
		r := <-got
		require.ErrorIs(n, r.err, ErrCanceled)
		require.NotContains(n, r.err.Error(), "/home")

		transfer, err = save.Start(n.server.peer, bytes.NewReader(content(100)), 200)
		require.NoError(n, err)
		require.ErrorIs(n, transfer.Wait(n.ctx), io.ErrUnexpectedEOF)
		require.ErrorContains(n, (<-got).err, "100 bytes short")
	})
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

func TestContextEndsSend(t *testing.T) { overBackends(t, testContextEndsSend) }

func testContextEndsSend(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		got := collect(n.client.streams)
		ctx, cancel := context.WithTimeout(n.ctx, time.Second)
		defer cancel()
		err := save.Send(ctx, n.server.peer, endless{}, -1)
		require.ErrorIs(n, err, ErrCanceled)
		require.ErrorIs(n, err, context.DeadlineExceeded)
		require.ErrorIs(n, (<-got).err, ErrCanceled)
	})
}

func TestBlockingCallsOnTheWorldFail(t *testing.T) { overBackends(t, testBlockingCallsOnTheWorldFail) }

func testBlockingCallsOnTheWorldFail(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		read := make(chan error, 1)
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			_, err := in.Read(make([]byte, 1))
			read <- err
			in.Cancel(nil)
		})
		require.NoError(n, n.server.world.Do(n.ctx, func() {
			require.ErrorIs(n, save.Send(n.ctx, n.server.peer, endless{}, -1), ErrBlocking)
			require.ErrorIs(n, items.Send(n.ctx, n.server.peer, nil), ErrBlocking)
			transfer, err := save.Start(n.server.peer, endless{}, -1)
			require.NoError(n, err)
			require.ErrorIs(n, transfer.Wait(n.ctx), ErrBlocking)
		}))
		require.ErrorIs(n, <-read, ErrBlocking)
	})
}

// TestErrBlockingChangesNothing: Collect on the world's goroutine once canceled the transfer and
// claimed the array. Now another goroutine may collect it, whatever has arrived meanwhile.
func TestErrBlockingChangesNothing(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		sent := testItems(1000)
		arrived := make(chan *IncomingArray[item], 1)
		var blocking []error
		items.Handle(n.client.streams, func(in *IncomingArray[item]) {
			defer func() { arrived <- in }()
			_, err := in.Collect(n.ctx)
			blocking = append(blocking, err)
			for _, err := range in.Batches(n.ctx) {
				blocking = append(blocking, err)
			}
		})
		transfer, err := items.Start(n.server.peer, sent)
		require.NoError(n, err)
		in := <-arrived
		time.Sleep(time.Second)
		n.do(n.client.world, func() {
			_, err := in.Collect(n.ctx) // although all has arrived
			blocking = append(blocking, err)
		})
		got, err := in.Collect(n.ctx)
		require.NoError(n, err)
		require.Equal(n, sent, got)
		require.NoError(n, transfer.Wait(n.ctx))
		require.Len(n, blocking, 3)
		for _, err := range blocking {
			require.EqualError(n, err, "stream: blocking call on the world's goroutine: "+
				`reading array "items": use another goroutine`)
		}
	})
}

// TestArrayIsClaimedOnce: a loop over Batches that could not wait gives up its claim, so that
// others may take the elements, but could then run beside them.
func TestArrayIsClaimedOnce(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		sent := testItems(1000)
		loops := make(chan iter.Seq2[[]item, error], 1)
		arrived := make(chan *IncomingArray[item], 1)
		items.Handle(n.client.streams, func(in *IncomingArray[item]) {
			loop := in.Batches(n.ctx)
			for _, err := range loop {
				require.ErrorIs(n, err, ErrBlocking)
			}
			arrived <- in
			loops <- loop
		})
		for _, others := range []bool{true, false} {
			transfer, err := items.Start(n.server.peer, sent)
			require.NoError(n, err)
			in, loop := <-arrived, <-loops
			if others {
				first := loop
				loop = in.Batches(n.ctx)
				require.PanicsWithValue(n, `stream: Batches of array "items": Batches was already called`, func() {
					for range first {
					}
				})
			}
			var got []item
			for batch, err := range loop {
				require.NoError(n, err)
				got = append(got, batch...)
				n.do(n.client.world, func() { // which leaves the claim to the loop that is running
					for _, err := range loop {
						require.ErrorIs(n, err, ErrBlocking)
					}
				})
			}
			require.Equal(n, sent, got)
			require.NoError(n, transfer.Wait(n.ctx))
			require.PanicsWithValue(n, `stream: OnBatch of array "items": Batches was already called`, func() {
				in.OnBatch(func([]item) {})
			})
			require.PanicsWithValue(n, `stream: Collect of array "items": Batches was already called`, func() {
				_, _ = in.Collect(n.ctx)
			})
		}
	})
}

// TestErrBlockingIsNoRead: a Read that could not wait once counted as one, so that the sender
// waited forever for somebody to read on.
func TestErrBlockingIsNoRead(t *testing.T) {
	inNetwork(t, setup{client: Config{ReadTime: time.Minute}}, func(n *network) {
		var blocking error
		save.Handle(n.client.streams, func(in *IncomingBlob) { _, blocking = in.Read(make([]byte, 1)) })
		ctx, cancel := context.WithTimeout(n.ctx, 2*time.Minute)
		defer cancel()
		err := n.mustStart(n.server.peer, content(1000)).Wait(ctx)
		require.ErrorContains(n, err, "not read within 1m0s (stream.Config.ReadTime)")
		require.ErrorIs(n, blocking, ErrBlocking)
	})
}

func TestConnectionEnds(t *testing.T) { overBackends(t, testConnectionEnds) }

func testConnectionEnds(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		got := collect(n.client.streams)
		transfer, err := save.Start(n.server.peer, endless{}, -1)
		require.NoError(n, err)
		waiting := n.mustStart(n.client.peer, content(100), Key("never answered"))
		time.Sleep(50 * time.Millisecond)
		n.server.peer.Conn().Close(2000, "kicked")
		require.ErrorIs(n, transfer.Wait(n.ctx), ErrClosed)
		require.ErrorContains(n, (<-got).err, "kicked")
		require.Error(n, waiting.Wait(n.ctx))
		<-n.client.peer.Conn().Done()
		time.Sleep(time.Second)
		_, err = save.Start(n.client.peer, endless{}, -1)
		require.ErrorIs(n, err, ErrClosed)
	})
}

// A client that closed its connection in OnEnd once did so before its message
// of the end was sent: the server's transfer failed.
func TestReceiverClosesWhenItHasEnded(t *testing.T) {
	overBackends(t, testReceiverClosesWhenItHasEnded)
}

func testReceiverClosesWhenItHasEnded(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			in.OnEnd(func(error) { in.Conn().Close(0, "that was all") })
			go io.Copy(io.Discard, in)
		})
		require.NoError(n, n.mustStart(n.server.peer, content(300_000)).Wait(n.ctx))
		<-n.server.peer.Conn().Done()
		require.ErrorContains(n, n.server.peer.Conn().Err(), "that was all")
	})
}

// requireIdle waits until both ends have forgotten their transfers.
func (n *network) requireIdle() {
	n.Helper()
	time.Sleep(time.Second + slices.TrimAfter)
	for _, e := range []end1{n.server, n.client} {
		require.NoError(n, e.world.Do(n.ctx, func() {
			require.Empty(n, e.peer.sender.sending)
			require.Empty(n, e.peer.receiver.receiving)
			require.Empty(n, e.peer.live.transfers)
			require.Zero(n, e.peer.live.outgoing)
			require.Equal(n, e.streams.config.maxMemory(), e.streams.memory.Free()+e.receivers())
		}))
		require.NoError(n, e.peer.conn.Err())
	}
}

// receivers is the memory that the records of slices take for as long as the
// connection lives, of each machine that has received a slice.
func (e end1) receivers() int64 {
	_, charged := e.peer.account.Charge()
	if n := charged / slices.ReceiverBytes; n <= 2 {
		return n * slices.ReceiverBytes
	}
	return 0
}

func TestDigestMismatch(t *testing.T) { overBackends(t, testDigestMismatch) }

func testDigestMismatch(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		got := collect(n.client.streams)
		transfer := n.mustStartWrong(content(1000))
		require.ErrorIs(n, transfer.Wait(n.ctx), ErrDigest)
		r := <-got
		require.ErrorIs(n, r.err, ErrDigest)
		require.Empty(n, r.data) // the last block is held back
		n.requireIdle()
	})
}

// mustStartWrong starts a blob whose digest is not that of its content, as if
// that had changed on the way.
func (n *network) mustStartWrong(data []byte, opts ...Option) (transfer *Transfer) {
	require.NoError(n, n.server.world.Do(n.ctx, func() {
		transfer = n.mustStart(n.server.peer, data, opts...)
		for {
			time.Sleep(time.Millisecond)
			transfer.reader.mu.Lock()
			finished := transfer.reader.finished
			if finished {
				transfer.reader.total.sum[0]++
			}
			transfer.reader.mu.Unlock()
			if finished {
				return
			}
		}
	}))
	return transfer
}
