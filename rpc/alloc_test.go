//go:build !race

package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTransmitAllocatesNothing: in the steady state a call encodes into pooled memory and its bunch into the machine's.
func TestTransmitAllocatesNothing(t *testing.T) {
	w, a := joined(t)
	args := 0
	calls := func() {
		for range 20 {
			args++
			_ = blink.Call(a, args)
		}
		w.Flush(time.Now())
		time.Sleep(time.Millisecond) // the writer empties the queue
		w.Dispatch(time.Now())
	}
	for range 20 {
		calls()
	}
	require.LessOrEqual(t, testing.AllocsPerRun(50, calls)/20, 0.1)
}
