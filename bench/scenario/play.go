package scenario

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// Modes of messages: alone, or beside a blob.
const (
	ModeAlone  = "alone"
	ModeBeside = "beside"
)

const (
	messageBytes = 100
	// tailTime is how long messages may arrive after the last one was sent.
	tailTime = 5 * time.Second
	// soloTime is how long messages are sent on one connection without a blob.
	soloTime = 10 * time.Second
)

// play sends reliable messages while a blob is sent over the same connection. It uses one
// connection after another until it has sent Job.Count messages, and records their latency from the
// tick to the handler, and the time of the blobs.
func play(ctx context.Context, j job.Job, r *job.Result) error {
	var latencies []time.Duration
	var blobs, sent float64
	var took time.Duration
	each := j
	for sent < float64(j.Count) {
		t, err := talkOnce(ctx, each)
		if errors.Is(err, errCut) {
			r.Cut, err = true, nil
		}
		if err != nil {
			return err
		}
		latencies = append(latencies, t.latencies...)
		sent += float64(t.sent)
		took += t.took
		blobs++
		each.Seed++
	}
	quantiles(r, latencies, time.Millisecond, "_ms")
	r.Set("messages", sent)
	r.Set("lost", sent-float64(len(latencies)))
	if j.Mode == ModeBeside {
		r.Set("blob_seconds", took.Seconds()/blobs)
		r.Set("blob_over_ideal", took.Seconds()/blobs/j.Ideal().Seconds())
	}
	return nil
}

// talkOnce sends messages on one connection, alone or until a blob has arrived.
func talkOnce(ctx context.Context, j job.Job) (*talk, error) {
	s, err := open[peer.Talker](ctx, j)
	if err != nil {
		return nil, err
	}
	defer s.close()
	t := startTalk(s.pair, j.Hz)
	if j.Mode == ModeAlone {
		time.Sleep(soloTime)
	} else {
		t.took, err = move(ctx, s.pair, content(j.Size, j.Seed), j.Limit())
	}
	t.stop()
	return t, err
}

// A talk sends messages at a fixed interval, even if the peer's Say blocks for one of them.
type talk struct {
	took time.Duration // how long the blob beside it took

	pair peer.Talker
	end  chan struct{}
	work sync.WaitGroup

	mu        sync.Mutex
	sent      int
	latencies []time.Duration
}

func startTalk(pair peer.Talker, hz int) *talk {
	t := &talk{pair: pair, end: make(chan struct{})}
	begin := time.Now()
	pair.Hear(func(m []byte) {
		if len(m) == messageBytes {
			t.heard(time.Since(begin) - time.Duration(binary.LittleEndian.Uint64(m)))
		}
	})
	due := make(chan time.Duration, 1<<16)
	t.work.Go(func() {
		for at := range due {
			m := make([]byte, messageBytes)
			binary.LittleEndian.PutUint64(m, uint64(at))
			if pair.Say(m) != nil {
				return
			}
		}
	})
	t.work.Go(func() {
		defer close(due)
		ticker := time.NewTicker(time.Second / time.Duration(hz))
		defer ticker.Stop()
		for {
			select {
			case <-t.end:
				return
			case <-ticker.C:
				t.mu.Lock()
				t.sent++
				t.mu.Unlock()
				due <- time.Since(begin)
			}
		}
	})
	return t
}

func (t *talk) heard(latency time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.latencies = append(t.latencies, latency)
}

func (t *talk) complete() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.latencies) >= t.sent
}

// stop stops the messages and waits for those in flight.
func (t *talk) stop() {
	close(t.end)
	for deadline := time.Now().Add(tailTime); !t.complete() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}
