package desk

import (
	"sync/atomic"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/stream"
)

// Tracker is something to be watched.
type Tracker interface {
	Progress() stream.Progress
}

// progress counts chunks as large as they are unpacked. What needs not travel is there from the beginning.
type progress struct {
	total, had int64
	moved      atomic.Int64
	packed     atomic.Int64 // bytes on the wire
}

// expect notes what is to move. Nothing is watched before.
func (p *progress) expect(all []manifest.Chunk, lacks []int) {
	for _, c := range all {
		p.total += int64(c.Size)
	}
	p.had = p.total
	for _, i := range lacks {
		p.had -= int64(all[i].Size)
	}
}

func (p *progress) add(c manifest.Chunk, packed int) {
	p.moved.Add(int64(c.Size))
	p.packed.Add(int64(packed))
}

// Progress implements [Tracker].
func (p *progress) Progress() stream.Progress {
	at := p.had + p.moved.Load()
	return stream.Progress{Sent: at, Acked: at, Total: p.total, Resumed: p.had}
}
