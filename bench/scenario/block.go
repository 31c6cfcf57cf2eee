package scenario

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/chunk/fragment"
)

// block sends Job.Count blocks once each, and records the share that arrives
// whole, the share that theory predicts, and how long they take.
func block(ctx context.Context, j job.Job, r *job.Result) error {
	s, err := open[peer.Thrower](ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	var mu sync.Mutex
	var latencies []time.Duration
	begin := time.Now()
	s.pair.Catch(func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		latencies = append(latencies, time.Since(begin)-time.Duration(binary.LittleEndian.Uint64(b)))
	})
	data := content(j.Size, j.Seed)
	fragments := (j.Size + fragment.Size - 1) / fragment.Size
	gap := time.Duration(float64(j.Size)*8/float64(j.Rate)/float64(fragments)*paceSlack*float64(time.Second)) + time.Microsecond
	for range j.Count {
		binary.LittleEndian.PutUint64(data, uint64(time.Since(begin)))
		if err := s.pair.Throw(data, gap); err != nil {
			return err
		}
	}
	time.Sleep(j.RTT + time.Second)
	mu.Lock()
	defer mu.Unlock()
	quantiles(r, latencies, time.Millisecond, "_ms")
	r.Set("delivered_share", float64(len(latencies))/float64(j.Count))
	r.Set("expected_share", 1-fragment.Loss(j.Loss, fragments))
	return nil
}

// paceSlack leaves room for headers.
const paceSlack = 1.1
