package desk

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

const (
	// maxManifest bounds the bytes of a manifest: of 900,000 chunks, on average 140 GB.
	maxManifest = 32 << 20
	// manifestMemory bounds the bytes of the manifests of all requests that go on. What is made of a manifest takes six times as
	// much, once for all gets of the same content.
	manifestMemory = 128 << 20
	// userMemory is of it what one user may take, so that who stalls is in nobody else's way.
	userMemory = maxManifest
	// keptMemory comes on top, for users who hold littleMemory at most: without it four users who stall would make all others wait.
	keptMemory   = 64 << 20
	littleMemory = 1 << 20
	// userChunks is how many chunks of one user's puts and gets may be in memory: 16 MiB, as many as ten puts at full pace have. A further one
	// waits, and no other user does.
	userChunks = 32
)

// memory bounds what the requests that go on have in memory. It is safe for concurrent use.
type memory struct {
	buffers int64 // of chunks, of each user

	mu  sync.Mutex
	all int64 // bytes of manifests
	of  map[string]*share
}

// share is what all connections of one user have together, for each that comes anew would have as much of its own.
type share struct {
	manifests int64 // bytes; guarded by the memory's mu
	buffers   *semaphore.Weighted
	verifying *semaphore.Weighted // of processors: see userProcessors
	idle      *rate.Limiter       // of lines about what changed nothing: see idleLines
	hidden    atomic.Int64        // those lines that were not logged
}

// share returns a user's.
func (m *memory) share(user string) *share {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[user] == nil {
		m.of[user] = &share{
			buffers: semaphore.NewWeighted(m.buffers), verifying: semaphore.NewWeighted(userProcessors()),
			idle: rate.NewLimiter(1, idleLines),
		}
	}
	return m.of[user]
}

// userProcessors returns on how many processors the chunks of one user's puts and gets are verified at once: half of them, or as many as one put
// takes. A chunk of 512 KiB comes as a hundred bytes where it is all zeros, so that a megabyte a second of those would keep four processors busy.
func userProcessors() int64 { return int64(max(verifiers, runtime.GOMAXPROCS(0)/2)) }

// take fails with ErrBusy when there are not so many bytes for a manifest of a user's.
func (m *memory) take(user string, bytes int64) error {
	own, most := m.share(user), int64(manifestMemory)
	m.mu.Lock()
	defer m.mu.Unlock()
	if own.manifests+bytes <= littleMemory {
		most += keptMemory
	}
	if m.all+bytes > most || own.manifests+bytes > userMemory {
		return fmt.Errorf("%w: a manifest of %d bytes does not fit beside %d of your running requests and %d of all; the limits are %d and %d",
			ErrBusy, bytes, own.manifests, m.all, userMemory, most)
	}
	m.all += bytes
	own.manifests += bytes
	return nil
}

func (m *memory) give(user string, bytes int64) {
	own := m.share(user)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= bytes
	own.manifests -= bytes
}
