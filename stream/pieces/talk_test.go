package pieces

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var talked = stream.NewBlob("talk")

// most is how large a piece may be here.
const most = 1000

// slots is a Limiter.
type slots chan struct{}

func (s slots) Acquire(ctx context.Context, _ int64) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) Release(int64) { <-s }

// end is a world of a test, and what it hears.
type end struct {
	world   *rpc.World
	streams *stream.Streams
	inbox   stream.Inbox
}

func newEnd(t *testing.T) *end {
	e := new(end)
	var err error
	e.world, err = rpc.NewWorld(rpc.Config{})
	require.NoError(t, err)
	e.streams, err = stream.Install(e.world, stream.Config{})
	require.NoError(t, err)
	talked.Handle(e.streams, e.inbox.Deliver)
	return e
}

// between has a sender, which is a client, and a receiver talk on a bad network, and returns how both ended.
func between(t *testing.T, sending, receiving func(ctx context.Context, talk *Talk) error) (sent, received error) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		server, client := newEnd(t), newEnd(t)
		var joined *rpc.Conn
		server.world.OnConnect(func(c *rpc.Conn) { joined = c })
		net.Server(server.world)
		conn := net.Client(client.world)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var talking sync.WaitGroup
		var ended atomic.Int32
		talk := func(e *end, c *rpc.Conn, say func(context.Context, *Talk) error, result *error) {
			talking.Go(func() {
				*result = say(ctx, &Talk{Blob: talked, Peer: e.streams.Peer(c), Inbox: &e.inbox, Name: "7", Most: most, Memory: make(slots, 2)})
				ended.Add(1)
			})
		}
		talk(client, conn, sending, &sent)
		talk(server, joined, receiving, &received)
		net.Until(20*time.Second, func() bool { return ended.Load() == 2 })
		cancel()
		talking.Wait()
	})
	return sent, received
}

// piece is the content of a piece of a test.
func piece(index int) []byte { return fmt.Appendf(nil, "piece %d", index) }

func appendPiece(buffer []byte, index int) ([]byte, error) {
	return append(buffer, piece(index)...), nil
}

// offer offers a hundred pieces, and sends those that are lacking.
func offer(ctx context.Context, t *Talk) error {
	lacks, err := t.Offer(ctx, []byte("a hundred"), 100)
	if err == nil {
		err = t.Send(ctx, lacks, appendPiece)
	}
	return err
}

func TestWhatIsLackingFollows(t *testing.T) {
	for _, lacks := range [][]int{nil, {0}, {0, 3, 7, 8, 99}} {
		var got []int
		sent, received := between(t, offer, func(ctx context.Context, talk *Talk) error {
			b, err := talk.Hear(ctx, Manifest, 100)
			if err != nil || string(b) != "a hundred" {
				return errors.Join(err, errors.New("another manifest"))
			}
			return talk.Fetch(ctx, lacks, func(index int, b []byte, free func()) error {
				defer free()
				require.Equal(t, piece(index), b)
				got = append(got, index)
				return nil
			})
		})
		require.NoError(t, sent)
		require.NoError(t, received)
		require.Equal(t, lacks, got)
	}
}

// What breaks the protocol is an ErrViolation, or an end that comes too soon.
func TestLies(t *testing.T) {
	framed := func(b []byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) }
	for name, lie := range map[string]struct {
		said []byte
		want error
	}{
		"a piece too few":      {nil, io.ErrUnexpectedEOF},
		"half a size":          {framed(piece(0))[:2], io.ErrUnexpectedEOF},
		"half a piece":         {framed(piece(0))[:7], io.ErrUnexpectedEOF},
		"a byte too many":      {append(framed(piece(0)), 0), ErrViolation},
		"a piece that is huge": {[]byte{0xff, 0xff, 0xff, 0xff, 0x7f}, ErrViolation},
	} {
		t.Run(name, func(t *testing.T) {
			_, received := between(t, func(ctx context.Context, talk *Talk) error {
				if _, err := talk.Offer(ctx, nil, 1); err != nil {
					return err
				}
				return talk.Say(ctx, piecesBlob, lie.said)
			}, func(ctx context.Context, talk *Talk) error {
				if _, err := talk.Hear(ctx, Manifest, 0); err != nil {
					return err
				}
				return talk.Fetch(ctx, []int{0}, func(_ int, _ []byte, free func()) error {
					free()
					return nil
				})
			})
			require.ErrorIs(t, received, lie.want)
		})
	}
}

func TestManifestsAndBitmapsHaveLimits(t *testing.T) {
	_, received := between(t, offer, func(ctx context.Context, talk *Talk) error {
		_, err := talk.Hear(ctx, Manifest, len("a hundred")-1)
		return err
	})
	require.ErrorIs(t, received, ErrViolation)
	sent, _ := between(t, offer, func(ctx context.Context, talk *Talk) error {
		if _, err := talk.Hear(ctx, Manifest, 100); err != nil {
			return err
		}
		return talk.Say(ctx, lacksBlob, make([]byte, 14)) // of a hundred pieces it has 13
	})
	require.ErrorIs(t, sent, ErrViolation)
}

func TestBitmap(t *testing.T) {
	for _, indices := range [][]int{nil, {0}, {7}, {8}, {0, 3, 90}} {
		got, err := fromBitmap(toBitmap(indices), 91)
		require.NoError(t, err)
		require.Equal(t, indices, got)
	}
	_, err := fromBitmap([]byte{2}, 1)
	require.ErrorIs(t, err, ErrViolation)
}

// Talks whose other side reads nothing held a piece each that they could not send.
func TestUnreadPiecesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := make(slots, 2)
		var made atomic.Int32
		var sending sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		for range 5 {
			unread, pipe := io.Pipe()
			talk := &Talk{Memory: memory}
			context.AfterFunc(ctx, func() { _ = unread.Close() })
			sending.Go(func() {
				require.Error(t, talk.send(ctx, pipe, 0, func(buffer []byte, index int) ([]byte, error) {
					made.Add(1)
					return appendPiece(buffer, index)
				}))
			})
		}
		synctest.Wait()
		require.EqualValues(t, 2, made.Load())
		leave()
		sending.Wait()
		require.Empty(t, memory)
	})
}
