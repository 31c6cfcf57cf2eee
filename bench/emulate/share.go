package emulate

import (
	"fmt"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/internal/netsim"
)

// Share returns nets whose paths share their bottlenecks, in virtual time.
func Share(j job.Job, nets int) ([]Net, error) {
	if j.Clock != job.Virtual {
		return nil, fmt.Errorf("emulate: shared paths need virtual time, not clock %q", j.Clock)
	}
	var all []Net
	var first *pipe
	for i := range nets {
		path := Path(j)
		path.Seed += uint64(i)
		p := newPipe(path)
		if first == nil {
			first = p
		} else {
			netsim.Share(first.near.To(first.far), p.near.To(p.far))
			netsim.Share(first.far.To(first.near), p.far.To(p.near))
		}
		all = append(all, p)
	}
	return all, nil
}
