package scenes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBBRTakesWhatLinuxTakes compares the model with Linux: beside Linux's BBR, over a queue of
// one product, a quic-go stream has a tenth of 20 Mbit/s (bench's kernel). When the model
// drained for longer than a round trip after it had looked for more, New Reno had three tenths.
func TestBBRTakesWhatLinuxTakes(t *testing.T) {
	for _, kind := range []Kind{Reno, Cubic} {
		s := Path(20e6, 50*ms, 0, 1).With(1, Flow{Kind: BBR, Begin: second}, 0).With(1, Flow{Kind: kind, Begin: second}, 0)
		s.For = 30 * second
		r := Run(s, 1)
		theirs, part := r.Share(BBR, 10*second, s.For), r.Share(kind, 10*second, s.For)
		require.Less(t, part/(theirs+part), 0.15, "%v", kind)
	}
}
