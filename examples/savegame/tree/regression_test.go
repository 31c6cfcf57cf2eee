package tree

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A restore that ends removes the lock of its folder: who had opened that, and got it then, held nothing, and another one got in.
func TestOneAtATimeHasTheWorkFolder(t *testing.T) {
	target := filepath.Join(t.TempDir(), "world")
	end := time.Now().Add(time.Second)
	var running sync.WaitGroup
	var holders, had atomic.Int32
	for range 4 {
		running.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				w, err := openWork(target)
				if err != nil {
					continue // busy, or just removed
				}
				if w.root.Mkdir(workNew, 0o700) == nil {
					had.Add(1)
					assert.LessOrEqual(t, holders.Add(1), int32(1))
					time.Sleep(10 * time.Microsecond)
					holders.Add(-1)
				} else if _, err := w.root.Lstat(workNew); err == nil {
					assert.Fail(t, "another one is in the folder")
				}
				_ = w.discard()
			}
		})
	}
	running.Wait()
	t.Log(had.Load(), "had it")
}
