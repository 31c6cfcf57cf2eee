package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// TestFailuresSayWhatHappened: both ends' errors are the sentinel and, at the end where it arose,
// the cause. They name the transfer, its peer, the end that stopped it and how far it had come.
func TestFailuresSayWhatHappened(t *testing.T) {
	for _, row := range []struct {
		name             string
		source           io.Reader
		size             int64
		opts             []Option
		handle           func(in *IncomingBlob)
		is, because      error
		sender, receiver string
	}{
		{"short source", strings.NewReader("x"), 10, nil, nil, ErrCanceled, io.ErrUnexpectedEOF,
			`stream: canceled: blob "save" to conn 1 stopped by the sender, [01] of 10 bytes sent: source ended 9 bytes short of the size given to Start, which reads from the current position: unexpected EOF`,
			`stream: canceled: blob "save" from conn 1 stopped by the sender, 0 of 10 bytes consumed: "source ended 9 bytes short of the size given to Start, which reads from the current position: unexpected EOF"`},
		{"failing source", iotest.ErrReader(errTest), 10, nil, nil, ErrCanceled, errTest,
			`stream: canceled: blob "save" to conn 1 stopped by the sender, 0 of 10 bytes sent: reading the source: a reason of the test`,
			`stream: canceled: blob "save" from conn 1 stopped by the sender, 0 of 10 bytes consumed: "sender could not read its source"`},
		{"source of unknown size", iotest.ErrReader(errTest), -1, nil, nil, ErrCanceled, errTest,
			`stream: canceled: blob "save" to conn 1 stopped by the sender, 0 bytes sent: reading the source: a reason of the test`,
			`stream: canceled: blob "save" from conn 1 stopped by the sender, 0 bytes consumed: "sender could not read its source"`},
		{"named", iotest.ErrReader(errTest), 10, []Option{Name("slot 3")}, nil, ErrCanceled, errTest,
			`stream: canceled: blob "save" named "slot 3" to conn 1 stopped by the sender, 0 of 10 bytes sent: reading the source: a reason of the test`,
			`stream: canceled: blob "save" named "slot 3" from conn 1 stopped by the sender, 0 of 10 bytes consumed: "sender could not read its source"`},
		{"rejected", strings.NewReader("x"), 1, nil, func(in *IncomingBlob) { in.Reject(errTest) }, ErrRejected, nil,
			`stream: rejected: blob "save" to conn 1 refused by the receiver: "a reason of the test"`,
			`stream: rejected: blob "save" from conn 1 refused by the receiver: a reason of the test`},
		{"canceled without a reason", strings.NewReader("x"), 1, nil, func(in *IncomingBlob) { in.Cancel(nil) }, ErrCanceled, nil,
			`stream: canceled: blob "save" to conn 1 stopped by the receiver, [01] of 1 bytes sent`,
			`stream: canceled: blob "save" from conn 1 stopped by the receiver, 0 of 1 bytes consumed`},
	} {
		t.Run(row.name, func(t *testing.T) {
			inNetwork(t, setup{}, func(n *network) {
				ended := make(chan error, 1)
				save.Handle(n.client.streams, func(in *IncomingBlob) {
					in.OnEnd(func(err error) { ended <- err })
					if row.handle != nil {
						row.handle(in)
					}
				})
				sent := save.Send(n.ctx, n.server.peer, row.source, row.size, row.opts...)
				received := <-ended
				require.Regexp(n, "^"+row.sender+"$", sent)
				require.Regexp(n, "^"+row.receiver+"$", received)
				require.ErrorIs(n, sent, row.is)
				require.ErrorIs(n, received, row.is)
				if row.because != nil {
					require.ErrorIs(n, sent, row.because)
				}
			})
		})
	}
}

// TestFailureOfWhatIsUnderWay: the consumer took so much, and then the context,
// the application or the connection ended.
func TestFailureOfWhatIsUnderWay(t *testing.T) {
	for name, row := range map[string]struct {
		stop             func(n *network, cancel func(), in *IncomingBlob)
		sender, receiver string
	}{
		"context": {func(_ *network, cancel func(), _ *IncomingBlob) { cancel() },
			`stream: canceled: blob "save" to conn 1 stopped by the sender, [1-9][0-9]+ of 9000000 bytes sent: context canceled`,
			`stream: canceled: blob "save" from conn 1 stopped by the sender, [1-9][0-9]+ of 9000000 bytes consumed: "context canceled"`},
		"receiver": {func(_ *network, _ func(), in *IncomingBlob) { in.Cancel(errTest) },
			`stream: canceled: blob "save" to conn 1 stopped by the receiver, [1-9][0-9]+ of 9000000 bytes sent: "a reason of the test"`,
			`stream: canceled: blob "save" from conn 1 stopped by the receiver, [1-9][0-9]+ of 9000000 bytes consumed: a reason of the test`},
		"connection": {func(n *network, _ func(), _ *IncomingBlob) {
			n.server.peer.conn.Close(rpc.HostClosedConnection, "kicked")
		},
			`stream: connection closed: blob "save" to conn 1, [1-9][0-9]+ of 9000000 bytes sent: rpc: .*kicked`,
			`stream: connection closed: blob "save" from conn 1, [1-9][0-9]+ of 9000000 bytes consumed: rpc: .*kicked`},
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, setup{}, func(n *network) {
				ctx, cancel := context.WithCancel(n.ctx)
				ended := make(chan error, 1)
				save.Handle(n.client.streams, func(in *IncomingBlob) {
					in.OnEnd(func(err error) { ended <- err })
					go func() {
						_, _ = io.CopyN(io.Discard, readOnly{in}, 1_000_000)
						row.stop(n, cancel, in)
					}()
				})
				sent := save.Send(ctx, n.server.peer, bytes.NewReader(content(9_000_000)), 9_000_000)
				require.Regexp(n, "^"+row.sender+"$", sent)
				require.Regexp(n, "^"+row.receiver+"$", <-ended)
			})
		})
	}
}

type readOnly struct{ io.Reader }

// TestFailureForAFailure: a cause may be another transfer's failure. What it is does not hide what
// this one is, and its text names a connection without its address and identity, because the peer
// gets it.
func TestFailureForAFailure(t *testing.T) {
	rejected := failure{kind: ErrRejected, cause: errTest}
	other := rejected.describe(receiverSide, nil, &header{kind: kindBlob, topic: "other"}, Progress{Total: 10})
	err := failureOf(canceled(fmt.Errorf("relaying: %w", other))).describe(
		senderSide, nil, &header{kind: kindBlob, topic: "save"}, Progress{Sent: 1, Total: 10})
	require.EqualError(t, err, `stream: canceled: blob "save" to no conn stopped by the sender, 1 of 10 bytes sent: `+
		`relaying: stream: rejected: blob "other" from no conn stopped by the receiver, 0 of 10 bytes consumed: a reason of the test`)
	stop := failureOf(err).stop(1)
	require.Equal(t, stopCanceled, stop.code)
	require.Equal(t, `relaying: stream: rejected: blob "other" from no conn stopped by the receiver, 0 of 10 bytes consumed: a reason of the test`, stop.reason)
	require.ErrorIs(t, err, ErrCanceled)
	require.True(t, errors.Is(err, ErrRejected) && errors.Is(err, errTest))
}

// TestRefusalsSayWhy: of a transfer that the receiver refuses, it doesn't matter how much was sent
// along with its header.
func TestRefusalsSayWhy(t *testing.T) {
	inNetwork(t, setup{client: Config{MaxBytes: 1000}}, func(n *network) {
		err := n.mustStart(n.server.peer, content(1000), Name("slot 3")).Wait(n.ctx)
		require.EqualError(n, err, `stream: rejected: blob "save" named "slot 3" to conn 1 refused by the receiver: `+
			`"no handler for blob \"save\""`)
		collect(n.client.streams)
		err = n.mustStart(n.server.peer, content(1001), Name("slot 3")).Wait(n.ctx)
		// Its only part may overtake the header.
		require.Regexp(n, `^stream: too large: blob "save" named "slot 3" to conn 1 refused by the receiver: `+
			`"content (has 1001 bytes; the limit is 1000 bytes|exceeds 1000 bytes) [(]stream.Config.MaxBytes[)]"$`, err.Error())
		transfer, err := save.Start(n.server.peer, endless{}, -1)
		require.NoError(n, err)
		require.Regexp(n, `^stream: too large: blob "save" to conn 1 (refused by the receiver|stopped by the receiver, \d+ bytes sent): `+
			`"content exceeds 1000 bytes [(]stream.Config.MaxBytes[)]"$`, transfer.Wait(n.ctx).Error())
	})
}

// TestStartSaysWhose: what can not be queued has a name and a receiver, too.
func TestStartSaysWhose(t *testing.T) {
	inNetwork(t, setup{server: Config{MaxQueued: 1}}, func(n *network) {
		n.mustStart(n.server.peer, content(100))
		start := func() error {
			_, err := save.Start(n.server.peer, bytes.NewReader(nil), 0, Name("slot 3"))
			return err
		}
		require.EqualError(n, start(), `stream: blob "save" named "slot 3" to conn 1: 1 transfer is in progress or waiting; `+
			`the limit is 1 (stream.Config.MaxQueued): rpc: backlog full`)
		n.server.peer.conn.Close(rpc.HostClosedConnection, "kicked")
		<-n.server.peer.conn.Done()
		require.ErrorContains(n, start(), `stream: connection closed: blob "save" named "slot 3" to conn 1: rpc: `)
	})
}

func TestLeavingBatchesSaysSo(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		items.Handle(n.client.streams, func(in *IncomingArray[item]) {
			go func() {
				for range in.Batches(n.ctx) {
					break
				}
			}()
		})
		err := items.Send(n.ctx, n.server.peer, testItems(100_000))
		require.ErrorIs(n, err, ErrCanceled)
		require.ErrorContains(n, err, `array "items" to conn 1 stopped by the receiver`)
		require.ErrorContains(n, err, `of 100000 elements sent: "loop over Batches ended early"`)
	})
}

// TestErrDigestSaysWhoseContent: of both ends' errors, because somebody has to look into it.
func TestErrDigestSaysWhoseContent(t *testing.T) {
	good, evil := content(1000), content(1001)[:1000]
	key := SHA256.Of(good).String()
	for name, row := range map[string]struct {
		start func(n *network) *Transfer
		says  string
	}{
		"of a wrong digest": {func(n *network) *Transfer { return n.mustStartWrong(good, Key("k"), Hash(SHA256)) },
			"expected sha256:[0-9a-f]{64} [(]announced by the sender[)], got " + key},
		"of another key": {func(n *network) *Transfer { return n.mustStart(n.server.peer, evil, Key(key), Hash(SHA256)) },
			"expected " + key + " [(]the key[)], got " + SHA256.Of(evil).String()},
		"of what has changed in the store": {func(n *network) *Transfer { return n.mustStart(n.server.peer, good, Key("decayed"), Hash(SHA256)) },
			"expected " + key + " [(]stored with the content[)], got " + SHA256.Of(evil).String()},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemoryStore()
			store.put("decayed", memoryFile{data: evil, digest: SHA256.Of(good)})
			inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
				got := collect(n.client.streams)
				const what = `^stream: digest mismatch: blob "save" with key "(k|decayed|sha256:[0-9a-f]+)" `
				require.Regexp(n, what+`to conn 1 stopped by the receiver, [0-9]+ of 1000 bytes sent: "`+row.says+`"$`, row.start(n).Wait(n.ctx))
				require.Regexp(n, what+`from conn 1 stopped by the receiver, [0-9]+ of 1000 bytes consumed: `+row.says+`$`, (<-got).err)
			})
		})
	}
}
