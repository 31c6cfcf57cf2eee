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
	// maxManifest is the maximum size of a manifest in bytes. It is enough for 900,000 chunks,
	// which are 140 GB on average.
	maxManifest = 32 << 20
	// manifestMemory is how many bytes the manifests of all running requests may have. The
	// structures built from a manifest take six times as much, but only once for all gets of the
	// same content.
	manifestMemory = 128 << 20
	// userMemory is how much of manifestMemory one user may take, so that a user who stalls doesn't
	// delay others.
	userMemory = maxManifest
	// keptMemory is additional memory for users who hold no more than littleMemory. Without it,
	// four users who stall would make all others wait.
	keptMemory   = 64 << 20
	littleMemory = 1 << 20
	// userChunks is how many chunks of one user's puts and gets may be in memory. They take 16 MiB,
	// as much as ten puts at full speed. Any more have to wait, without delaying other users.
	userChunks = 32
)

// A memory limits what running requests keep in memory. It is safe for concurrent use.
type memory struct {
	buffers int64 // limit of chunks in memory for each user

	mu  sync.Mutex
	all int64 // bytes of all manifests
	of  map[string]*share
}

// A share holds the limits of one user, which all of the user's connections share, because
// otherwise each new connection would get its own.
type share struct {
	manifests int64 // bytes of manifests; guarded by the memory's mu
	buffers   *semaphore.Weighted
	verifying *semaphore.Weighted // limits processors; see userProcessors
	idle      *rate.Limiter       // limits log lines about requests that changed nothing; see idleLines
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

// userProcessors returns how many processors may verify chunks of one user's puts and gets at once,
// which is half of them, or as many as one put uses. Without a limit, 1 MB/s of chunks could keep
// four processors busy, because 512 KiB of zeros are sent as a hundred bytes.
func userProcessors() int64 { return int64(max(verifiers, runtime.GOMAXPROCS(0)/2)) }

// take reserves bytes for a manifest of a user. It fails with ErrBusy if that would exceed a limit.
func (m *memory) take(user string, bytes int64) error {
	own, limit := m.share(user), int64(manifestMemory)
	m.mu.Lock()
	defer m.mu.Unlock()
	if own.manifests+bytes <= littleMemory {
		limit += keptMemory
	}
	if m.all+bytes > limit || own.manifests+bytes > userMemory {
		return fmt.Errorf("%w: manifest needs %d bytes; your running requests use %d of %d, and those of all users %d of %d",
			ErrBusy, bytes, own.manifests, userMemory, m.all, limit)
	}
	m.all += bytes
	own.manifests += bytes
	return nil
}

// give releases bytes reserved by take.
func (m *memory) give(user string, bytes int64) {
	own := m.share(user)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= bytes
	own.manifests -= bytes
}
