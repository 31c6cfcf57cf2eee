package desk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quivernet/quiver/stream"
)

// turns lets the puts of one content of one identity go one after the other: whoever comes later finds the content there.
type turns struct {
	mu  sync.Mutex
	has map[turn]*putJob
}

// turn is what only one put has at a time.
type turn struct {
	identity string
	digest   stream.Digest
}

const (
	// turnPause is how often a put that waits for its turn looks whether the one before moves.
	turnPause = 250 * time.Millisecond
	// turnPauses is after how many of them without a packet that one is given up: its connection is dead, only nobody has
	// noticed yet.
	turnPauses = 8
)

var errOvertaken = errors.New("the same content comes over a newer connection")

// take waits until it is j's turn, or ctx ends.
func (t *turns) take(ctx context.Context, j *putJob) error {
	ticker := time.NewTicker(turnPause)
	defer ticker.Stop()
	var seen uint64
	for still := 0; ; {
		other := t.claim(j)
		if other == nil {
			return nil
		}
		select {
		case <-other.ended:
			still = 0
		case <-ticker.C:
			at, moved := other.moved(seen)
			if still++; moved {
				seen, still = at, 0
			}
			if still == turnPauses {
				other.cancel(errOvertaken)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// claim makes the turn j's, or returns the put that has it.
func (t *turns) claim(j *putJob) *putJob {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.has[j.turn()]; other != nil {
		return other
	}
	t.has[j.turn()] = j
	return nil
}

func (t *turns) give(j *putJob) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.has[j.turn()] == j {
		delete(t.has, j.turn())
	}
}
