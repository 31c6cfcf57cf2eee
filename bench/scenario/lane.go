package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// lane is GameNetworkingSockets' lane test, which sends blobs of 512 KiB one after another over a
// narrow path for a minute, and messages that must not wait for them.
func lane(ctx context.Context, j job.Job, r *job.Result) error {
	s, err := open[peer.Talker](ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	t := startTalk(s.pair, j.Hz)
	data := content(j.Size, j.Seed)
	begin, moved := time.Now(), 0
	for err == nil {
		left := j.Seconds - time.Since(begin)
		if left <= 0 {
			break
		}
		if _, err = move(ctx, s.pair, data, left); err == nil {
			moved += j.Size
		}
	}
	span := time.Since(begin)
	t.stop()
	if errors.Is(err, errCut) {
		err = nil // the minute is over
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	quantiles(r, t.latencies, time.Millisecond, "_ms")
	r.Set("messages", float64(t.sent))
	r.Set("lost", float64(t.sent-len(t.latencies)))
	r.Set("kib_per_second", float64(moved)/1024/span.Seconds())
	return err
}
