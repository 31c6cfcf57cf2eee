package pieces

import (
	"bytes"
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

	"github.com/stretchr/testify/assert"
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

// end is a world of a test.
type end struct {
	world   *rpc.World
	streams *stream.Streams
}

func newEnd(t *testing.T, config stream.Config) *end {
	e := new(end)
	var err error
	e.world, err = rpc.NewWorld(rpc.Config{})
	require.NoError(t, err)
	e.streams, err = stream.Install(e.world, config)
	require.NoError(t, err)
	talked.Handle(e.streams, stream.ToInbox)
	return e
}

// between has a sender, which is a client, and a receiver talk on a bad
// network, and returns how both ended.
func between(t *testing.T, sending, receiving func(ctx context.Context, talk *Talk) error) (sent, received error) {
	return betweenWith(t, stream.Config{}, sending, receiving)
}

// betweenWith is between where both ends have a config.
func betweenWith(t *testing.T, config stream.Config, sending, receiving func(ctx context.Context, talk *Talk) error) (sent, received error) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		server, client := newEnd(t, config), newEnd(t, config)
		var joined *rpc.Conn
		server.world.OnConnect(func(c *rpc.Conn) { joined = c })
		net.Server(server.world)
		conn := net.Client(client.world)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var talking sync.WaitGroup
		var ended atomic.Int32
		talk := func(e *end, c *rpc.Conn, part func(context.Context, *Talk) error, result *error) {
			talking.Go(func() {
				memory := make(slots, 2)
				*result = part(ctx, &Talk{Blob: talked, Peer: e.streams.Peer(c), Name: "7", MaxPiece: most, Memory: memory})
				assert.Empty(t, memory, "buffers that are still held")
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
			b, err := talk.ReadBlob(ctx, Manifest, 100)
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

// A violation of the protocol is an ErrViolation, or an early end.
func TestLies(t *testing.T) {
	framed := func(b []byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) }
	for name, lie := range map[string]struct {
		sent []byte
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
				return talk.SendBlob(ctx, piecesBlob, lie.sent)
			}, func(ctx context.Context, talk *Talk) error {
				if _, err := talk.ReadBlob(ctx, Manifest, 0); err != nil {
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
		_, err := talk.ReadBlob(ctx, Manifest, len("a hundred")-1)
		return err
	})
	require.ErrorIs(t, received, ErrViolation)
	sent, _ := between(t, offer, func(ctx context.Context, talk *Talk) error {
		if _, err := talk.ReadBlob(ctx, Manifest, 100); err != nil {
			return err
		}
		return talk.SendBlob(ctx, lacksBlob, make([]byte, 14)) // of a hundred pieces it has 13
	})
	require.ErrorIs(t, sent, ErrViolation)
	require.ErrorContains(t, sent, "lacks has 14 bytes; the limit is 13: Offer's count is 100", "the count may be the mistake")
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
		var made, failed atomic.Int32
		var sending sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		for range 5 {
			s := &source{Talk: &Talk{MaxPiece: most, Memory: memory}, ctx: ctx, missing: []int{0}, fail: func(error) { failed.Add(1) }}
			s.appendPiece = func(buffer []byte, index int) ([]byte, error) {
				made.Add(1)
				return appendPiece(buffer, index)
			}
			sending.Go(func() {
				_, _ = s.Read(make([]byte, 1))
				<-ctx.Done()
				_ = s.end()
			})
		}
		synctest.Wait()
		require.EqualValues(t, 2, made.Load())
		leave()
		sending.Wait()
		require.EqualValues(t, 3, failed.Load(), "those that had no buffer")
		require.Empty(t, memory)
	})
}

// fetch answers an offer of a hundred pieces with lacks, and frees each piece at once.
func fetch(ctx context.Context, talk *Talk, lacks ...int) error {
	if _, err := talk.ReadBlob(ctx, Manifest, 100); err != nil {
		return err
	}
	return talk.Fetch(ctx, lacks, func(_ int, _ []byte, free func()) error {
		free()
		return nil
	})
}

// A receiver that failed once made the sender wait until its context ended.
func TestAFailedFetchEndsTheSend(t *testing.T) {
	full := errors.New("the disk is full")
	sent, received := between(t, offer, func(ctx context.Context, talk *Talk) error {
		if _, err := talk.ReadBlob(ctx, Manifest, 100); err != nil {
			return err
		}
		return talk.Fetch(ctx, []int{1, 2}, func(_ int, _ []byte, free func()) error {
			free()
			return full
		})
	})
	require.ErrorIs(t, received, full)
	require.ErrorIs(t, sent, stream.ErrRejected)
	require.NotContains(t, sent.Error(), full.Error(), "it is the receiver's business")
}

// Fetch kept the stream when each panicked, so where the caller recovers the
// sender waited as long as the connection lived.
func TestAPanicOfEachEndsTheSend(t *testing.T) {
	sent, received := between(t, offer, func(ctx context.Context, talk *Talk) (err error) {
		if _, err := talk.ReadBlob(ctx, Manifest, 100); err != nil {
			return err
		}
		defer func() { err = fmt.Errorf("recovered: %v", recover()) }()
		return talk.Fetch(ctx, []int{1, 2}, func(_ int, _ []byte, free func()) error {
			defer free()
			panic("a mistake")
		})
	})
	require.EqualError(t, received, "recovered: a mistake")
	require.ErrorIs(t, sent, stream.ErrRejected)
}

// A sender that could not read a piece once made the receiver wait until its context ended.
func TestAFailedSendEndsTheFetch(t *testing.T) {
	for _, gone := range []error{errors.New("the file is gone"), io.EOF} { // io.EOF: the file is shorter than it was
		sent, received := between(t, func(ctx context.Context, talk *Talk) error {
			lacks, err := talk.Offer(ctx, nil, 100)
			if err != nil {
				return err
			}
			return talk.Send(ctx, lacks, func([]byte, int) ([]byte, error) { return nil, gone })
		}, func(ctx context.Context, talk *Talk) error { return fetch(ctx, talk, 1, 2) })
		require.ErrorIs(t, sent, gone)
		require.ErrorIs(t, received, io.ErrUnexpectedEOF)
	}
}

// The context of a request ends when its function has returned. That once canceled the
// stream of a failed Send before its header was sent, so that the receiver waited.
func TestAFailedSendEndsTheFetchThoughItsContextEnds(t *testing.T) {
	gone := errors.New("the file is gone")
	sent, received := between(t, func(ctx context.Context, talk *Talk) error {
		lacks, err := talk.Offer(ctx, nil, 100)
		if err != nil {
			return err
		}
		request, end := context.WithCancel(ctx)
		defer end()
		return talk.Send(request, lacks, func([]byte, int) ([]byte, error) { return nil, gone })
	}, func(ctx context.Context, talk *Talk) error { return fetch(ctx, talk, 1, 2) })
	require.ErrorIs(t, sent, gone)
	require.ErrorIs(t, received, io.ErrUnexpectedEOF)
}

// A sender that continued after the last piece once kept the receiver busy forever.
func TestAnEndlessSendIsRefused(t *testing.T) {
	_, received := between(t, func(ctx context.Context, talk *Talk) error {
		if _, err := talk.Offer(ctx, nil, 1); err != nil {
			return err
		}
		out, err := talk.Blob.Create(talk.Peer, talk.options(piecesBlob)...)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { out.Cancel(nil) })
		defer stop()
		for err == nil {
			_, err = out.Write(make([]byte, most))
		}
		return err
	}, func(ctx context.Context, talk *Talk) error { return fetch(ctx, talk, 0) })
	require.ErrorIs(t, received, ErrViolation)
}

// A piece larger than MaxPiece, which no receiver accepts, was once sent, and
// the receiver was blamed for breaking the protocol.
func TestPiecesBeyondMaxPieceAreNotSent(t *testing.T) {
	sent, received := between(t, func(ctx context.Context, talk *Talk) error {
		lacks, err := talk.Offer(ctx, nil, 100)
		if err != nil {
			return err
		}
		return talk.Send(ctx, lacks, func(buffer []byte, _ int) ([]byte, error) { return append(buffer, make([]byte, most+1)...), nil })
	}, func(ctx context.Context, talk *Talk) error { return fetch(ctx, talk, 7) })
	require.ErrorContains(t, sent, "piece 7 has 1001 bytes; the limit is 1000 (MaxPiece)")
	require.NotErrorIs(t, sent, ErrViolation)
	require.ErrorIs(t, received, io.ErrUnexpectedEOF)
}

// What appendPiece returned instead of appending it lost its first four bytes, or panicked.
func TestPiecesThatAreNotAppended(t *testing.T) {
	for _, content := range []string{"", "a", "a whole piece"} {
		sent, received := between(t, func(ctx context.Context, talk *Talk) error {
			lacks, err := talk.Offer(ctx, nil, 100)
			if err != nil {
				return err
			}
			return talk.Send(ctx, lacks, func([]byte, int) ([]byte, error) { return []byte(content), nil })
		}, func(ctx context.Context, talk *Talk) error {
			if _, err := talk.ReadBlob(ctx, Manifest, 100); err != nil {
				return err
			}
			return talk.Fetch(ctx, []int{1}, func(_ int, b []byte, free func()) error {
				defer free()
				assert.Equal(t, content, string(b))
				return nil
			})
		})
		require.NoError(t, sent)
		require.NoError(t, received)
	}
}

// Indices out of order once caused a panic, and a repeated index made both ends wait.
func TestLacksThatDoNotAscend(t *testing.T) {
	for _, lacks := range [][]int{{9, 0}, {3, 3}, {-1}} {
		err := new(Talk).Fetch(t.Context(), lacks, nil)
		require.ErrorContains(t, err, "do not ascend")
	}
}

// Who freed a piece twice, as by a defer and by hand, had two talks share a buffer.
func TestAPieceIsFreedOnce(t *testing.T) {
	memory := make(slots, 2)
	memory <- struct{}{} // another talk's
	talk := &Talk{MaxPiece: most, Memory: memory}
	in := bytes.NewReader([]byte{1, 0, 0, 0, 'x'})
	_, free, err := talk.receive(t.Context(), in)
	require.NoError(t, err)
	free()
	free()
	require.Len(t, memory, 1)
}

// following counts what waits for the end of a context.
type following struct {
	context.Context
	now *atomic.Int32
}

func (f following) Value(any) any { return nil } // else package context knows the one inside

func (f following) AfterFunc(fn func()) func() bool {
	f.now.Add(1)
	stop := context.AfterFunc(f.Context, fn)
	return func() bool { f.now.Add(-1); return stop() }
}

// What was sent was kept until the context ended, which may be that of a connection.
func TestSendLeavesNothingWithTheContext(t *testing.T) {
	sent, received := between(t, func(ctx context.Context, talk *Talk) error {
		lacks, err := talk.Offer(ctx, nil, 100)
		if err != nil {
			return err
		}
		f := following{ctx, new(atomic.Int32)}
		err = talk.Send(f, lacks, appendPiece)
		assert.Zero(t, f.now.Load())
		return err
	}, func(ctx context.Context, talk *Talk) error { return fetch(ctx, talk, 1) })
	require.NoError(t, sent)
	require.NoError(t, received)
}

// refusing is a Limiter that lets nobody wait.
type refusing struct{ error }

func (r refusing) Acquire(context.Context, int64) error { return r.error }
func (refusing) Release(int64)                          {}

// A Limiter that failed while the context went on made a nil buffer, and a panic.
func TestALimiterMayRefuse(t *testing.T) {
	full := errors.New("no room for more")
	_, err := (&Talk{Memory: refusing{full}}).takeBuffer(t.Context(), &sentBuffers, 1)
	require.Equal(t, full, err)
}

// TestSendBeyondMaxBytes: both ends learn which setting to raise.
func TestSendBeyondMaxBytes(t *testing.T) {
	const count = 2000
	var all []int
	for i := range count {
		all = append(all, i)
	}
	send := func(ctx context.Context, t *Talk) error {
		lacks, err := t.Offer(ctx, []byte("many"), count)
		if err == nil {
			err = t.Send(ctx, lacks, func(buffer []byte, _ int) ([]byte, error) { return append(buffer, make([]byte, most)...), nil })
		}
		return err
	}
	fetch := func(ctx context.Context, t *Talk) error {
		if _, err := t.ReadBlob(ctx, Manifest, 9); err != nil {
			return err
		}
		return t.Fetch(ctx, all, func(_ int, _ []byte, free func()) error { free(); return nil })
	}
	sent, received := betweenWith(t, stream.Config{MaxBytes: 1 << 20}, send, fetch)
	for _, err := range []error{sent, received} {
		require.ErrorIs(t, err, stream.ErrTooLarge)
		require.ErrorContains(t, err, "content exceeds 1048576 bytes (stream.Config.MaxBytes)")
	}
}

// Pieces that were ready once waited, unsent, for memory that a receiver in the
// same program held until it had the rest of one of them.
func TestWhatIsMadeDoesNotWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := make(slots, 1)
		s := &source{Talk: &Talk{MaxPiece: most, Memory: memory}, ctx: t.Context(), missing: []int{0, 1}, fail: func(error) {}, appendPiece: appendPiece}
		n, err := s.Read(make([]byte, headerBytes))
		require.NoError(t, err)
		got := make(chan bool)
		go func() {
			require.NoError(t, memory.Acquire(t.Context(), 1)) // by the receiver, which knows the size
			<-got
			memory.Release(1)
		}()
		synctest.Wait()
		all := make([]byte, 1000)
		go func() {
			k, _ := s.Read(all[n:])
			n += k
			close(got)
		}()
		synctest.Wait()
		require.GreaterOrEqual(t, n, headerBytes+len(piece(0)))
		require.NoError(t, s.end())
		require.Empty(t, memory)
	})
}

// Pieces that are parts of something large once made each buffer as large as what followed them.
func TestPiecesOfALargeWhole(t *testing.T) {
	whole := make([]byte, 1<<20)
	s := &source{Talk: &Talk{MaxPiece: most}, ctx: t.Context(), missing: []int{0}}
	s.appendPiece = func([]byte, int) ([]byte, error) { return whole[:most], nil }
	_, err := s.Read(make([]byte, headerBytes))
	require.NoError(t, err)
	require.LessOrEqual(t, cap(*s.buffer), 2*most)
	require.NoError(t, s.end())
}

// Send has returned once its source has ended: what the caller's function reads may be gone.
func TestAnEndedSourceMakesNoPiece(t *testing.T) {
	s := &source{Talk: &Talk{MaxPiece: most}, ctx: t.Context(), missing: []int{1, 2}, appendPiece: appendPiece}
	p := make([]byte, 5)
	n, err := s.Read(p)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.NoError(t, s.end())
	s.appendPiece = func(buffer []byte, _ int) ([]byte, error) {
		t.Error("called after the end")
		return buffer, nil
	}
	n, err = s.Read(p)
	require.Zero(t, n)
	require.Equal(t, io.EOF, err)
}
