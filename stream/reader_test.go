package stream

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/crew"
)

// reading runs a reader over size bytes in a bubble.
func reading(t *testing.T, data []byte, held bool, fn func(rd *reader, woken *int)) {
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		rd := newReader(readerConfig{source: &blobSource{r: iotest.HalfReader(bytes.NewReader(data)), left: -1}, hash: BLAKE3, partSize: partBytes, account: stockOf(math.MaxInt64), wake: func() { woken++ }, guard: unguarded}, held)
		go rd.run()
		defer rd.stop()
		synctest.Wait()
		fn(rd, &woken)
	})
}

// unguarded is a guard that lets panics continue.
func unguarded(fn func()) bool {
	fn()
	return true
}

// drain takes all blocks below limit as the reader publishes them.
func drain(rd *reader, limit int64) (got []byte) {
	for b := rd.take(limit, false); b != nil; b = rd.take(limit, false) {
		got = append(got, b.payload()...)
		b.Free()
		synctest.Wait()
	}
	return got
}

func sumOf(data []byte) []byte {
	sum := BLAKE3.Of(data).sum
	return sum[:]
}

// A reader begins with little. It reads further ahead when ticks take all that
// there is, and not when a slow path takes one block at a time.
func TestReaderReadsFurtherAhead(t *testing.T) {
	reading(t, content(8<<20), false, func(rd *reader, woken *int) {
		for range 20 {
			rd.take(math.MaxInt64, false).Free()
			synctest.Wait()
			require.Less(t, rd.ready.bytes, firstReadAhead+blockBytes)
		}
		for _, want := range []int{firstReadAhead, 2 * firstReadAhead, maxReadAhead, maxReadAhead} {
			require.GreaterOrEqual(t, rd.ready.bytes, want)
			require.Less(t, rd.ready.bytes, want+blockBytes)
			for b := rd.take(math.MaxInt64, false); b != nil; b = rd.take(math.MaxInt64, false) {
				b.Free()
			}
			synctest.Wait()
		}
	})
}

// TestReaderOfAFullPath: while the path has enough to do, a reader reads no further ahead.
func TestReaderOfAFullPath(t *testing.T) {
	reading(t, content(4<<20), false, func(rd *reader, woken *int) {
		for range 5 {
			for b := rd.take(math.MaxInt64, true); b != nil; b = rd.take(math.MaxInt64, true) {
				b.Free()
			}
			synctest.Wait()
			require.Less(t, rd.ready.bytes, firstReadAhead+blockBytes)
		}
	})
}

func TestReaderReadsAheadAndNotFurther(t *testing.T) {
	data := content(2 << 20)
	reading(t, data, false, func(rd *reader, woken *int) {
		require.GreaterOrEqual(t, rd.ready.bytes, firstReadAhead)
		require.Less(t, rd.ready.bytes, firstReadAhead+blockBytes)
		_, ok, _ := rd.result()
		require.False(t, ok)
		require.True(t, bytes.Equal(data, drain(rd, math.MaxInt64)))
		total, ok, err := rd.result()
		require.True(t, ok)
		require.NoError(t, err)
		require.Equal(t, end{size: 2 << 20, sum: sumOf(data)}, total)
	})
}

// What readers read before anything can be sent, they read in turns. Nothing
// after that waits for a turn.
func TestReaderTakesTurnsAtTheStart(t *testing.T) {
	reading(t, content(8<<20), true, func(rd *reader, woken *int) {
		rd.turns = crew.NewTurns(1)
		rd.turns.Take(nil)
		rd.resume(0, 0)
		synctest.Wait()
		require.Nil(t, rd.take(math.MaxInt64, false))
		rd.turns.End()
		synctest.Wait()
		require.GreaterOrEqual(t, rd.ready.bytes, firstReadAhead)
		rd.turns.Take(nil)
		require.GreaterOrEqual(t, len(drain(rd, math.MaxInt64)), 4<<20)
	})
}

// waiting is a source that is lent, as an array is, and waits for ever in a function of the game.
type waiting struct{ free chan struct{} }

func (s waiting) fill(*block, int64) error { <-s.free; return io.EOF }
func (s waiting) callbackName() string     { return "AppendBinary" }
func (s waiting) readsCallerMemory() bool  { return true }

// TestReaderBesideOneThatWaits: a function of the game that waits in its turn
// does not keep others from theirs. All transfers of the process stood still
// with it, and none could bring what it waited for.
func TestReaderBesideOneThatWaits(t *testing.T) {
	reading(t, content(1<<20), true, func(rd *reader, woken *int) {
		rd.turns = crew.NewTurns(1)
		other := newReader(readerConfig{source: waiting{make(chan struct{})}, hash: BLAKE3, partSize: partBytes, account: stockOf(math.MaxInt64), wake: func() {}, guard: unguarded}, false)
		other.turns = rd.turns
		go other.run()
		defer close(other.source.(waiting).free)
		synctest.Wait()
		rd.resume(0, 0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.GreaterOrEqual(t, rd.ready.bytes, firstReadAhead)
	})
}

func TestReaderWakesTheHungryTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		woken := 0
		rd := newReader(readerConfig{source: &blobSource{r: r, left: -1}, hash: BLAKE3, partSize: partBytes, account: stockOf(math.MaxInt64), wake: func() { woken++ }, guard: unguarded}, false)
		go rd.run()
		require.False(t, rd.allow(math.MaxInt64))
		_, _ = w.Write([]byte("one"))
		synctest.Wait()
		require.Equal(t, 1, woken)
		_, _ = w.Write([]byte("two"))
		synctest.Wait()
		require.Equal(t, 1, woken)
		require.Equal(t, "onetwo", string(drain(rd, math.MaxInt64)))
		_ = w.Close()
		synctest.Wait()
		require.Equal(t, 2, woken)
	})
}

func TestReaderObeysCredit(t *testing.T) {
	data := content(300_000)
	reading(t, data, false, func(rd *reader, _ *int) {
		got := drain(rd, 1000)
		require.Len(t, got, 1000) // the first block is cut
		require.False(t, rd.allow(1000))
		got = append(got, drain(rd, 100_000)...)
		require.LessOrEqual(t, len(got), 100_000)
		require.Greater(t, len(got), 100_000-blockBytes)
		require.True(t, bytes.Equal(data, append(got, drain(rd, 300_000)...)))
	})
}

func TestReaderResumesAnywhere(t *testing.T) {
	data := content(1 << 20)
	for _, from := range []int64{0, 1, 100, 32704, 40_000, maxReadAhead, 900_000, 1 << 20} {
		reading(t, data, false, func(rd *reader, _ *int) {
			got := drain(rd, 4096)
			rd.resume(from, 0)
			synctest.Wait()
			got = append(got[:min(from, 4096)], drain(rd, math.MaxInt64)...)
			want := data[from:]
			if from < 4096 { // what left before stays
				want = data[4096:]
			}
			require.True(t, bytes.Equal(want, got[min(from, 4096):]), "from %d", from)
			total, ok, _ := rd.result()
			require.True(t, ok)
			require.Equal(t, sumOf(data), total.sum)
		})
	}
}

// TestReaderGivesUpWhatIsNotSent: what was read of content that the receiver
// has takes no part of the stock any more.
func TestReaderGivesUpWhatIsNotSent(t *testing.T) {
	reading(t, content(1<<20), false, func(rd *reader, _ *int) {
		require.NotZero(t, rd.held.Bytes())
		rd.resume(1<<20, 0)
		require.Zero(t, rd.held.Bytes())
	})
}

func TestReaderThatEndsBeforeTheOffset(t *testing.T) {
	reading(t, content(1000), true, func(rd *reader, _ *int) {
		require.Zero(t, rd.ready.bytes)
		rd.resume(1001, 0)
		synctest.Wait()
		_, ok, err := rd.result()
		require.True(t, ok)
		require.ErrorIs(t, err, ErrDigest)
	})
}

func TestBlobSourceErrors(t *testing.T) {
	for name, c := range map[string]struct {
		source blobSource
		want   error
	}{
		"short":   {blobSource{r: bytes.NewReader([]byte("abc")), left: 4}, io.ErrUnexpectedEOF},
		"broken":  {blobSource{r: iotest.ErrReader(errTest), left: -1}, errTest},
		"nothing": {blobSource{r: iotest.ErrReader(nil), left: -1}, io.ErrNoProgress},
		"exact":   {blobSource{r: bytes.NewReader([]byte("abcdef")), left: 3}, io.EOF},
	} {
		block := newPageBlock(partBytes)
		err := c.source.fill(block, -1)
		if err == nil {
			err = c.source.fill(block, -1)
		}
		require.ErrorIs(t, err, c.want, name)
	}
}

type poster struct {
	Text string `quiver:"max=65000"`
}

var posters = NewArray[poster]("posters")

// miscounting is a Writer that fails, and says that it has written so many bytes.
type miscounting int

func (n miscounting) Write([]byte) (int, error) { return int(n), io.ErrClosedPipe }

// TestWriteToAWriterThatMiscounts: less than no byte is none, as for io.Copy.
func TestWriteToAWriterThatMiscounts(t *testing.T) {
	for wrote, want := range map[miscounting]int64{-1: 0, 2: 2} {
		b := &IncomingBlob{Incoming: Incoming{new(incoming)}, rest: []byte("abc")}
		total, err := b.WriteTo(wrote)
		require.Equal(t, io.ErrClosedPipe, err)
		require.Equal(t, want, total)
		require.Equal(t, "abc"[want:], string(b.rest))
	}
}

// TestReaderAddsNothingToALargeElement: the block that grew for it may have
// room left, but a part that takes more than the largest RPC cannot be sent.
func TestReaderAddsNothingToALargeElement(t *testing.T) {
	for _, size := range []int{40_000, 60_000, 65_000} {
		items := []poster{{strings.Repeat("l", size)}, {strings.Repeat("s", 480)}}
		rd := newReader(readerConfig{source: &arraySource[poster]{array: posters, items: items}, hash: BLAKE3, partSize: partBytes, account: stockOf(math.MaxInt64), wake: func() {}, guard: unguarded}, false)
		rd.run()
		require.Len(t, rd.ready.blocks, 2)
		rd.stop()
	}
}

// A block that joined another never outgrows its buffer: it would be copied to the heap, and its
// memory would no longer be what was charged.
func TestJoinedBlocksKeepTheirBuffer(t *testing.T) {
	held := budget.NewHolding(stockOf(math.MaxInt64), func() {})
	q := readQueue{limit: firstReadAhead}
	first := newPageBlock(1000)
	first.append(content(600))
	first.chargeTo(held)
	q.add(first)
	for _, row := range []struct {
		bytes  int
		joined bool
	}{{600, false}, {400, true}, {1, false}} {
		b := newPageBlock(1000)
		b.append(content(row.bytes))
		require.Equal(t, row.joined, q.tryJoin(b, partBytes), "%d bytes", row.bytes)
		require.Equal(t, first.charged, first.cost(), "%d bytes", row.bytes)
		b.Free()
	}
	require.Equal(t, content(600), first.payload()[:600])
	q.free()
}
