package chunk_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func after(d time.Duration) time.Time { return epoch.Add(d) }

// content returns bytes that differ from slice to slice.
func content(size int, seed uint64) []byte {
	b := make([]byte, size)
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

func send(t testing.TB, s *chunk.Sender, data []byte) uint64 {
	n, err := s.Send(data)
	require.NoError(t, err)
	return n
}

// indexes returns which slices a sender gives at one time.
func indexes(s *chunk.Sender, now time.Time) (all []int) {
	for slice, ok := s.NextSlice(now); ok; slice, ok = s.NextSlice(now) {
		all = append(all, slice.Index)
	}
	return all
}

func ackOf(id uint16, count int, slices ...int) chunk.Ack {
	a := chunk.Ack{ChunkID: id, Count: count}
	for _, i := range slices {
		a.Acked.Set(i)
	}
	return a
}

// all returns the numbers from 0 to n-1.
func all(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}
