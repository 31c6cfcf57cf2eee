package bunch

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/pages"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestReusedMemory lies under later messages, and under none that its owner
// still has: here two connections share it.
func TestReusedMemory(t *testing.T) {
	type held struct {
		fill byte
		Message
	}
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	ends := []*steady{newSteady(t, Normal), newSteady(t, Normal)}
	var has []held
	for fill := range byte(200) {
		s := ends[random.IntN(2)]
		s.lends = true
		s.send(0, s.channel, Reliable, bytes.Repeat([]byte{fill}, pages.Size-random.IntN(pages.Size/4)))
		s.exchange()
		m, ok := s.ends[1].Next()
		require.True(t, ok)
		s.tick()
		s.exchange()
		has = append(has, held{fill, m})
		for len(has) > random.IntN(20) {
			i := random.IntN(len(has))
			require.True(t, bytes.Equal(bytes.Repeat([]byte{has[i].fill}, len(has[i].Payload)), has[i].Payload), "message %d", has[i].fill)
			ends[random.IntN(2)].ends[1].Reuse(&has[i].Message)
			require.Zero(t, has[i].Message)
			has = append(has[:i], has[i+1:]...)
		}
	}
}

// TestMessageMemory takes no more than a message's cost, and is used again for
// those of bulk alone.
func TestMessageMemory(t *testing.T) {
	for size := range pages.Size + 1 {
		memory := messageMemory(size)
		require.Empty(t, memory)
		require.GreaterOrEqual(t, cap(memory), size)
		if size > 1024 { // the allocator rounds short ones up by more
			require.LessOrEqual(t, cap(memory), allocatedSize(size)+1024, "%d bytes", size)
		}
	}
	require.Equal(t, pages.Size, cap(messageMemory(pages.Size)))
	require.Equal(t, pages.Size, cap(messageMemory(pages.Size/9*8+8)))
}

// TestReuseOfSharedMemory does nothing: a short message lies in a datagram, beside others.
func TestReuseOfSharedMemory(t *testing.T) {
	s := newSteady(t, Normal)
	s.send(0, s.channel, Reliable, make([]byte, 1000))
	s.exchange()
	m, ok := s.ends[1].Next()
	require.True(t, ok)
	require.False(t, m.receipt.joined)
	s.ends[1].Reuse(&m)
	require.Zero(t, m)
}

// TestReuseNeedsNoLock: it is called while another goroutine uses the
// connection, which the race detector watches.
func TestReuseNeedsNoLock(t *testing.T) {
	s := newSteady(t, Bulk)
	var reusing sync.WaitGroup
	for range 20 {
		s.send(0, s.channel, Reliable, make([]byte, 30<<10))
		s.exchange()
		m, ok := s.ends[1].Next()
		require.True(t, ok)
		require.True(t, m.receipt.joined)
		reusing.Go(func() { s.ends[1].Reuse(&m) })
	}
	reusing.Wait()
}
