package link_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// newStuck is a link whose writer is stuck in the first carrier.
func newStuck(t *testing.T) *beside {
	b := newBeside(t)
	synctest.Wait()
	b.near.Block(true)
	under(b.Link, func() { b.play.ready = 1 })
	synctest.Wait()
	return b
}

// TestCloseBesideABlockedCarrier: while the writer is blocked in the first carrier,
// the sealed one, which carries, sends what a tick holds back before the end.
func TestCloseBesideABlockedCarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStuck(t)
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

// TestArrivalBesideABlockedCarrier: a datagram that arrives while the writer is
// blocked, or about to be, and others hold the lock, is handled when they have
// released it, even if no other one arrives.
func TestArrivalBesideABlockedCarrier(t *testing.T) {
	for name, hold := range map[string]func(b *beside, meanwhile func()){
		"the owner": func(b *beside, meanwhile func()) {
			b.Lock()
			meanwhile()
			b.Unlock()
		},
		"the sealed carrier": func(b *beside, meanwhile func()) {
			b.Carry(b.bell)
			b.source.Lock()
			meanwhile()
			b.source.Turned()
			b.source.Unlock()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newStuck(t)
				const many = 100
				hold(b, func() {
					for range many {
						require.NoError(t, b.far.SendDatagram([]byte{1, 7}))
					}
					synctest.Wait()
				})
				require.Len(t, b.play.received, many)
			})
		})
	}
	t.Run("the writer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBeside(t)
			synctest.Wait()
			b.near.Block(true)
			b.play.onAppend = func() {
				require.NoError(t, b.far.SendDatagram([]byte{1, 7}))
				time.Sleep(time.Millisecond) // under the lock
			}
			under(b.Link, func() { b.play.ready = 1 })
			time.Sleep(time.Second)
			under(b.Link, func() { require.Equal(t, [][]byte{{1, 7}}, b.play.received) })
		})
	})
}
