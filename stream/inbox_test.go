package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc"
)

// withInbox has the blobs that a client sends wait in an inbox of the server.
func withInbox(t *testing.T, fn func(t *testing.T, l loopback, inbox *Inbox)) {
	overQUICWith(t, netsim.Config{}, rpc.Config{}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
		require.NoError(t, l.toClient.Conn().World().Do(t.Context(), func() { save.Handle(l.server, ToInbox) }))
		fn(t, l, l.toClient.Inbox())
	})
}

// TestWrittenBlob: what is written arrives, at the pace of the reader, and the
// writer learns of the end.
func TestWrittenBlob(t *testing.T) {
	withInbox(t, func(t *testing.T, l loopback, inbox *Inbox) {
		out, err := save.Create(l.toServer, Name("one"))
		require.NoError(t, err)
		in, err := inbox.Take(t.Context(), "one")
		require.NoError(t, err)
		lines := bufio.NewReader(in)
		for i := range 3 {
			_, err := fmt.Fprintln(out, "line", i)
			require.NoError(t, err)
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintln("line", i), line)
		}
		require.NoError(t, out.Close())
		_, err = lines.ReadByte()
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, out.Wait(t.Context()))
		_, err = out.Write([]byte("more"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.ErrorContains(t, err, `blob "save" named "one": Write after Close`)

		out, err = save.Create(l.toServer, Name("two"))
		require.NoError(t, err)
		in, err = inbox.Take(t.Context(), "two")
		require.NoError(t, err)
		in.Reject(errors.New("no more"))
		<-out.Done()
		_, err = out.Write(content(100))
		require.ErrorIs(t, err, ErrRejected)
		require.ErrorContains(t, err, "no more")
		var blocking error
		require.NoError(t, l.toServer.Conn().World().Do(t.Context(), func() { _, blocking = out.Write(nil) }))
		require.ErrorIs(t, blocking, ErrBlocking)
	})
}

// TestInbox: a blob and its taker meet, whichever is first, even if the blob is
// complete before. Blobs that nobody takes are limited.
func TestInbox(t *testing.T) {
	withInbox(t, func(t *testing.T, l loopback, inbox *Inbox) {
		require.NoError(t, save.Send(t.Context(), l.toServer, strings.NewReader(""), 0, Name("empty")))
		in, err := inbox.Take(t.Context(), "empty")
		require.NoError(t, err)
		all, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Empty(t, all)

		t.Log("# who takes it gives up before it comes, and after")
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("left")
		cancel(left)
		_, err = inbox.Take(ctx, "late")
		require.ErrorIs(t, err, left)
		require.ErrorContains(t, err, `"late"`)
		out, err := save.Create(l.toServer, Name("late"))
		require.NoError(t, err)
		ctx, cancel = context.WithCancelCause(t.Context())
		_, err = inbox.Take(ctx, "late")
		require.NoError(t, err)
		cancel(left)
		require.ErrorIs(t, out.Wait(t.Context()), ErrRejected)
		require.ErrorContains(t, out.Err(), "left", "and not because nobody reads it")

		t.Log("# one that was taken and fails leaves the next of its name alone")
		out, err = save.Create(l.toServer, Name("twice"))
		require.NoError(t, err)
		in, err = inbox.Take(t.Context(), "twice")
		require.NoError(t, err)
		require.NoError(t, save.Send(t.Context(), l.toServer, strings.NewReader(""), 0, Name("twice")))
		in.Reject(left)
		require.ErrorIs(t, out.Wait(t.Context()), ErrRejected)
		_, err = inbox.Take(t.Context(), "twice")
		require.NoError(t, err)

		t.Log("# one that fails makes room for the next of its name; two of a name, and too many, are rejected")
		out, err = save.Create(l.toServer, Name("again"))
		require.NoError(t, err)
		out.Cancel(left)
		<-out.Done()
		require.NoError(t, save.Send(t.Context(), l.toServer, strings.NewReader(""), 0, Name("again")))
		require.ErrorContains(t, save.Send(t.Context(), l.toServer, strings.NewReader(""), 0, Name("again")), "is waiting to be taken: use another stream.Name")
		for i := range inboxLimit - 1 {
			require.NoError(t, save.Send(t.Context(), l.toServer, strings.NewReader(""), 0, Name(fmt.Sprint(i))))
		}
		require.ErrorContains(t, save.Send(t.Context(), l.toServer, strings.NewReader(""), 0, Name("too many")), "limit of 64 blobs")
	})
}

// lone is a blob without a transfer.
func lone(name string) *inboxBlob {
	in := &incoming{done: make(chan struct{})}
	in.header.name = name
	return &inboxBlob{IncomingBlob: &IncomingBlob{Incoming: Incoming{in}}}
}

// TestInboxLosesNothingBehindATaker: a blob that arrives while the one before
// it is being taken is for the next taker.
func TestInboxLosesNothingBehindATaker(t *testing.T) {
	for range 2_000 {
		i, taken := new(Inbox), make(chan *IncomingBlob, 2)
		take := func() {
			in, _ := i.Take(context.Background(), "x")
			taken <- in
		}
		first, second := lone("x"), lone("x")
		go take()
		require.NoError(t, i.put(first))
		for i.put(second) != nil {
			runtime.Gosched()
		}
		require.Same(t, first.IncomingBlob, <-taken)
		take()
		require.Same(t, second.IncomingBlob, <-taken)
	}
}

// TestInboxTakerOutlivesABlobThatFails: a waiting taker gets the next blob of the name.
func TestInboxTakerOutlivesABlobThatFails(t *testing.T) {
	i := new(Inbox)
	first, second := lone("x"), lone("x")
	require.NoError(t, i.put(first))
	i.end(first, errors.New("failed"))
	d, news := i.take("x")
	require.Nil(t, d)
	require.NoError(t, i.put(second))
	<-news
	in, err := i.Take(context.Background(), "x")
	require.NoError(t, err)
	require.Same(t, second.IncomingBlob, in)
}

// TestInboxLimitIsOfBlobs: waiting takers do not count.
func TestInboxLimitIsOfBlobs(t *testing.T) {
	i := new(Inbox)
	for n := range inboxLimit {
		i.take(fmt.Sprint(n))
	}
	require.NoError(t, i.put(lone("early")))
}

// TestInboxForgetsWhatWasTaken: a context that lives as long as the connection
// keeps no blob that has ended.
func TestInboxForgetsWhatWasTaken(t *testing.T) {
	withInbox(t, func(t *testing.T, l loopback, inbox *Inbox) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		taken := func() weak.Pointer[incoming] {
			require.NoError(t, save.Send(t.Context(), l.toServer, strings.NewReader(""), 0, Name("one")))
			in, err := inbox.Take(ctx, "one")
			require.NoError(t, err)
			<-in.Done()
			return weak.Make(in.in)
		}()
		require.Eventually(t, func() bool { runtime.GC(); return taken.Value() == nil }, 1e10, 5e7)
	})
}

// TestEmptyBlobsThatNobodyTakes: empty blobs, which are complete on arrival,
// once filled the inbox until the connection ended.
func TestEmptyBlobsThatNobodyTakes(t *testing.T) {
	inNetwork(t, setup{client: Config{ReadTime: time.Minute}}, func(n *network) {
		save.Handle(n.client.streams, ToInbox)
		put := func(name string) error {
			return save.Send(n.ctx, n.server.peer, strings.NewReader(""), 0, Name(name))
		}
		for i := range inboxLimit {
			require.NoError(n, put(fmt.Sprint(i)))
		}
		require.ErrorContains(n, put("one more"), "limit of 64 blobs")
		time.Sleep(50 * time.Second)
		_, err := n.client.peer.Inbox().Take(n.ctx, "7")
		require.NoError(n, err)
		require.NoError(n, put("7"))
		time.Sleep(20 * time.Second)
		require.NoError(n, put("8"))
		_, err = n.client.peer.Inbox().Take(n.ctx, "7")
		require.NoError(n, err, "the second of its name is younger")
	})
}

// TestTakeEndsWithTheConnection: otherwise a taker that waits for a blob of a
// disconnected peer would wait until its context ends.
func TestTakeEndsWithTheConnection(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		save.Handle(n.client.streams, ToInbox)
		inbox, taken := n.client.peer.Inbox(), make(chan error)
		go func() {
			_, err := inbox.Take(n.ctx, "never")
			taken <- err
		}()
		require.NoError(n, save.Send(n.ctx, n.server.peer, strings.NewReader(""), 0, Name("came")))
		n.rejoin()
		err := <-taken
		require.ErrorIs(n, err, ErrClosed)
		require.ErrorContains(n, err, `"never"`)
		require.ErrorContains(n, err, "cut")
		_, err = inbox.Take(n.ctx, "came")
		require.NoError(n, err, "what has come is there")
		n.do(n.client.world, func() { _, err = inbox.Take(n.ctx, "never") })
		require.ErrorIs(n, err, ErrBlocking)
	})
}
