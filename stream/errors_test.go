package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// TestFailuresSayWhatHappened: both ends' errors are the sentinel and, at the end where it arose,
// the cause. They name the topic, the end that stopped the transfer and how far it had come.
func TestFailuresSayWhatHappened(t *testing.T) {
	for _, row := range []struct {
		name             string
		source           io.Reader
		size             int64
		handle           func(in *IncomingBlob)
		is, because      error
		sender, receiver string
	}{
		{"short source", strings.NewReader("x"), 10, nil, ErrCanceled, io.ErrUnexpectedEOF,
			`stream: canceled: blob "save" stopped by the sender, [01] of 10 bytes sent: source ended 9 bytes short of the size given to Start, which reads from the current position: unexpected EOF`,
			`stream: canceled: blob "save" stopped by the sender, 0 of 10 bytes consumed: "source ended 9 bytes short of the size given to Start, which reads from the current position: unexpected EOF"`},
		{"failing source", iotest.ErrReader(errTest), 10, nil, ErrCanceled, errTest,
			`stream: canceled: blob "save" stopped by the sender, 0 of 10 bytes sent: reading the source: a reason of the test`,
			`stream: canceled: blob "save" stopped by the sender, 0 of 10 bytes consumed: "sender could not read its source"`},
		{"source of unknown size", iotest.ErrReader(errTest), -1, nil, ErrCanceled, errTest,
			`stream: canceled: blob "save" stopped by the sender, 0 bytes sent: reading the source: a reason of the test`,
			`stream: canceled: blob "save" stopped by the sender, 0 bytes consumed: "sender could not read its source"`},
		{"rejected", strings.NewReader("x"), 1, func(in *IncomingBlob) { in.Reject(errTest) }, ErrRejected, nil,
			`stream: rejected: blob "save" stopped by the receiver at its header: "a reason of the test"`,
			`stream: rejected: blob "save" stopped by the receiver, 0 of 1 bytes consumed: a reason of the test`},
		{"canceled without a reason", strings.NewReader("x"), 1, func(in *IncomingBlob) { in.Cancel(nil) }, ErrCanceled, nil,
			`stream: canceled: blob "save" stopped by the receiver, [01] of 1 bytes sent`,
			`stream: canceled: blob "save" stopped by the receiver, 0 of 1 bytes consumed`},
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
				sent := save.Send(n.ctx, n.server.peer, row.source, row.size)
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
			`stream: canceled: blob "save" stopped by the sender, [1-9][0-9]+ of 9000000 bytes sent: context canceled`,
			`stream: canceled: blob "save" stopped by the sender, [1-9][0-9]+ of 9000000 bytes consumed: "context canceled"`},
		"receiver": {func(_ *network, _ func(), in *IncomingBlob) { in.Cancel(errTest) },
			`stream: canceled: blob "save" stopped by the receiver, [1-9][0-9]+ of 9000000 bytes sent: "a reason of the test"`,
			`stream: canceled: blob "save" stopped by the receiver, [1-9][0-9]+ of 9000000 bytes consumed: a reason of the test`},
		"connection": {func(n *network, _ func(), _ *IncomingBlob) {
			n.server.peer.conn.Close(rpc.HostClosedConnection, "kicked")
		},
			`stream: connection closed: blob "save", [1-9][0-9]+ of 9000000 bytes sent: rpc: .*kicked`,
			`stream: connection closed: blob "save", [1-9][0-9]+ of 9000000 bytes consumed: rpc: .*kicked`},
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

// A cause may be another transfer's failure: what it is does not hide what this one is.
func TestFailureForAFailure(t *testing.T) {
	other := describeFailure(stopped(ErrRejected, errTest), receiverSide, nil, &header{kind: kindBlob, topic: "other"}, Progress{Total: 10})
	err := describeFailure(canceled(other), senderSide, nil, &header{kind: kindBlob, topic: "save"}, Progress{Sent: 1, Total: 10})
	require.EqualError(t, err, `stream: canceled: blob "save" stopped by the sender, 1 of 10 bytes sent: `+
		`stream: rejected: blob "other" stopped by the receiver, 0 of 10 bytes consumed: a reason of the test`)
	require.Equal(t, stopCanceled, failureOf(err).stop(1).code)
	require.ErrorIs(t, err, ErrCanceled)
	require.True(t, errors.Is(err, ErrRejected) && errors.Is(err, errTest))
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
		require.ErrorContains(n, err, `stopped by the receiver`)
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
