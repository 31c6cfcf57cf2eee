package desk

import (
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
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
	// userChunks is how many chunks of one user's puts and gets may be in memory: 32 MiB, as many as four puts at full pace have. A further
	// one waits, and no other user does.
	userChunks = 64
)

// memory is what the manifests of the requests that go on have, in bytes. It is safe for concurrent use.
type memory struct {
	mu  sync.Mutex
	all int64
	of  map[string]int64 // by user
}

// take fails with ErrBusy when there is not so much for a user.
func (m *memory) take(user string, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := int64(manifestMemory)
	if m.of[user]+bytes <= littleMemory {
		most += keptMemory
	}
	if m.all+bytes > most || m.of[user]+bytes > userMemory {
		return fmt.Errorf("%w: a manifest of %d bytes does not fit beside %d of your running requests and %d of all; the limits are %d and %d",
			ErrBusy, bytes, m.of[user], m.all, userMemory, most)
	}
	m.all += bytes
	m.of[user] += bytes
	return nil
}

func (m *memory) give(user string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= bytes
	if m.of[user] -= bytes; m.of[user] == 0 {
		delete(m.of, user)
	}
}

// chunks bounds the buffers that each user's puts and gets hold.
type chunks struct {
	most int64

	mu sync.Mutex
	of map[string]*semaphore.Weighted // by user
}

// share returns the semaphore of a user's buffers.
func (c *chunks) share(user string) *semaphore.Weighted {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[user] == nil {
		c.of[user] = semaphore.NewWeighted(c.most)
	}
	return c.of[user]
}
