package link_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCloseBesideABlockedCarrier: while the writer is stuck in the first carrier the sealed one, which carries, has what a tick holds
// back leave before the end.
func TestCloseBesideABlockedCarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeside(t)
		synctest.Wait()
		b.near.Block(true)
		under(b.Link, func() { b.play.ready = 1 })
		synctest.Wait()
		b.Carry(b.bell)
		under(b.Link, func() { b.play.undrained = true })
		synctest.Wait()

		b.bell.rung = 0
		b.Close(1, "over")
		synctest.Wait()
		b.source.Lock()
		uncorked, rung := b.play.uncorked, b.bell.rung
		b.source.Unlock()
		require.Equal(t, 1, uncorked)
		require.Positive(t, rung, "there may be something to send now")
		time.Sleep(time.Second)
	})
}
