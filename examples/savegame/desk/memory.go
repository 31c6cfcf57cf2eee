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
	// maxManifest is how many bytes a manifest may have: enough for 900,000
	// chunks, on average 140 GB.
	maxManifest = 32 << 20
	// manifestMemory is how many bytes the manifests of all running requests may have. What is
	// built from a manifest takes six times as much, once for all gets of the same content.
	manifestMemory = 128 << 20
	// userMemory is how much of manifestMemory one user may take, so that a
	// user who stalls does not delay others.
	userMemory = maxManifest
	// keptMemory is available in addition for users who hold at most
	// littleMemory: without it four users who stall would make all others wait.
	keptMemory   = 64 << 20
	littleMemory = 1 << 20
	// userChunks is how many chunks of one user's puts and gets may be in memory: 16 MiB,
	// as many as ten puts at full speed have. One more waits, and no other user does.
	userChunks = 32
)

// A memory limits what running requests keep in memory. It is safe for concurrent use.
type memory struct {
	buffers int64 // chunks in memory, for each user

	mu  sync.Mutex
	all int64 // bytes of all manifests
	of  map[string]*share
}

// A share is what all connections of one user have together. Otherwise each new
// connection would have as much of its own.
type share struct {
	manifests int64 // bytes of manifests; guarded by the memory's mu
	buffers   *semaphore.Weighted
	verifying *semaphore.Weighted // limits processors: see userProcessors
	idle      *rate.Limiter       // limits lines about what changed nothing: see idleLines
	hidden    atomic.Int64        // how many of those lines were not logged
}

// share returns the share of a user.
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

// userProcessors returns on how many processors the chunks of one user's puts and gets are
// verified at once: half of them, or as many as one put uses. A chunk of 512 KiB zeros is
// sent as a hundred bytes, so a megabyte of those a second would keep four processors busy.
func userProcessors() int64 { return int64(max(verifiers, runtime.GOMAXPROCS(0)/2)) }

// take reserves bytes for a manifest of a user, or fails with ErrBusy if there are not enough.
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

// give releases bytes that take has reserved.
func (m *memory) give(user string, bytes int64) {
	own := m.share(user)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= bytes
	own.manifests -= bytes
}
