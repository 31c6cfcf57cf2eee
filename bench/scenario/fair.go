package scenario

import (
	"context"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// streamName is the contender beside which fairness is measured.
const streamName = "quic-go/stream"

// rampTime is how long both have to find their rates.
const rampTime = 5 * time.Second

// fair lets a QUIC stream and another transfer share one bottleneck, both
// endless, for Job.Seconds, and records what part of the link each has, by the
// bytes that arrive. With ModeAlone there is only the stream.
func fair(ctx context.Context, j job.Job, r *job.Result) error {
	nets, err := emulate.Share(j, 2)
	if err != nil {
		return err
	}
	names := []string{streamName, j.Peer}
	if j.Mode == ModeAlone {
		names = names[:1]
	}
	for i, name := range names {
		who, err := peer.Find(name)
		if err != nil {
			return err
		}
		pair, err := who.Open(ctx, nets[i])
		if err != nil {
			return err
		}
		keepMoving(ctx, pair.(peer.Mover), content(j.Size, j.Seed))
	}
	time.Sleep(rampTime)
	var before [2]uint64
	for i := range names {
		up, _ := nets[i].Stats()
		before[i] = up.DeliveredBytes
	}
	time.Sleep(j.Seconds)
	for i := range names {
		up, _ := nets[i].Stats()
		mbit := float64(up.DeliveredBytes-before[i]) * 8 / 1e6 / j.Seconds.Seconds()
		name := [2]string{"stream", "peer"}[i]
		r.Set(name+"_mbit_per_second", mbit)
		r.Set(name+"_share", mbit*1e6/float64(j.Rate))
	}
	return nil
}

// keepMoving sends one blob after another until the process ends.
func keepMoving(ctx context.Context, pair peer.Mover, data []byte) {
	go func() {
		for pair.Move(ctx, data) == nil {
		}
	}()
}
