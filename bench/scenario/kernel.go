package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/peer/tcp"
)

// kernel lets an endless transfer over the kernel's TCP, with the congestion control in Job.Mode,
// and one of the peer share a bottleneck in real time for Job.Seconds. It records the share of the
// link that each gets, by the bytes of IP that arrive.
func kernel(ctx context.Context, j job.Job, r *job.Result) error {
	n, err := emulate.NewTunnel(j)
	if err != nil {
		return err
	}
	defer n.Close()
	neighbour, err := tcp.Open(ctx, n, j.Mode)
	if err != nil {
		return err
	}
	who, err := peer.Find(j.Peer)
	if err != nil {
		return err
	}
	pair, err := who.Open(ctx, n)
	if err != nil {
		return fmt.Errorf("open %s: %w", who.Name, err)
	}
	data := content(j.Size, j.Seed)
	keepMoving(ctx, neighbour, data)
	keepMoving(ctx, pair.(peer.Mover), data)
	time.Sleep(rampTime)
	began, theirs, ours := time.Now(), n.Arrived(emulate.TCP), n.Arrived(emulate.UDP)
	time.Sleep(j.Seconds)
	link := float64(j.Rate) / 8 * time.Since(began).Seconds()
	r.Set("kernel_share", float64(n.Arrived(emulate.TCP)-theirs)/link)
	r.Set("peer_share", float64(n.Arrived(emulate.UDP)-ours)/link)
	return nil
}
