package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// ModeSeries is the mode in which a blob records its rate and queue over time.
const ModeSeries = "series"

// blob moves one blob over an emulated path, and records time over ideal and
// bytes on the wire over payload.
func blob(ctx context.Context, j job.Job, r *job.Result) error {
	s, err := open[peer.Mover](ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	data := content(j.Size, j.Seed)
	before, _ := s.net.Stats()
	if j.Mode == ModeSeries {
		defer watch(s.net, j.Rate, r)()
	}
	took, err := move(ctx, s.pair, data, j.Limit())
	if errors.Is(err, errCut) {
		r.Cut, err = true, nil
	}
	after, _ := s.net.Stats()
	r.Set("seconds", took.Seconds())
	r.Set("ideal_seconds", j.Ideal().Seconds())
	r.Set("over_ideal", took.Seconds()/j.Ideal().Seconds())
	r.Set("wire_over_payload", float64(after.Bytes-before.Bytes)/float64(j.Size))
	r.Set("datagrams", float64(after.Packets-before.Packets))
	r.Set("queue_drops", float64(after.LostQueue-before.LostQueue))
	if c, ok := s.pair.(interface{ Carrier() string }); ok {
		r.Notes = append(r.Notes, "carried by "+c.Carrier())
	}
	return err
}

var errCut = errors.New("transfer did not finish within the limit")

// move moves a blob and returns how long that took. It fails with errCut if it takes longer than
// limit.
func move(ctx context.Context, m peer.Mover, data []byte, limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errCut)
	defer cancel()
	begin := time.Now()
	err := m.Move(ctx, data)
	return time.Since(begin), err
}
