package sealed

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// TestCollectKnowsWhenThatIsAll: after as many packets as one call sends,
// collect looks whether there are more, so that no turn is in vain.
func TestCollectKnowsWhenThatIsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 10 * ms}, 0).start()
		require.Equal(t, Open, <-d.states)
		time.Sleep(time.Second)
		source := &ticks{pieces: d.up, each: time.Hour, next: time.Now().Add(time.Hour), least: true}
		for _, c := range []struct {
			messages int
			packets  []int // by call
		}{
			{messages: 5 * maxPayloads, packets: []int{5}},
			{messages: 16 * maxPayloads, packets: []int{16}},
			{messages: 20 * maxPayloads, packets: []int{17, 3}},
		} {
			synctest.Wait() // for the worker, whose part this plays
			now := d.a.Lock()
			d.a.session.source = source
			d.a.session.Wake()
			for range c.messages {
				source.due = append(source.due, now)
			}
			d.a.run.borrow()
			for i, want := range c.packets {
				all := d.a.collect(now)
				require.Len(t, d.a.run.burst.unsealed, want)
				require.Equal(t, i == len(c.packets)-1, all)
			}
			d.a.run.burst.reset()
			d.a.run.giveBack()
			d.a.Unlock()
		}
	})
}

// TestCollectBuildsJumboPackets where the kernel cuts what is sent and the
// owner wants them, and no more than one call sends.
func TestCollectBuildsJumboPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			gso, no bool
			jumbo   bool
		}{{gso: true, jumbo: true}, {gso: true, no: true}, {gso: false}} {
			d := newBed(t, netsim.Config{Delay: 10 * ms}, 0).start()
			require.Equal(t, Open, <-d.states)
			time.Sleep(time.Second)
			synctest.Wait() // for the worker, whose part this plays
			now := d.a.Lock()
			d.near.socket.sys.GSO.Store(c.gso)
			d.a.config.NoJumbo = c.no
			d.a.session.source = newPieces(1000, 1000, 0)
			d.a.session.mtu.jumbo.state = jumboProven
			d.a.session.mtu.jumbo.checkSpeed(1e9, 1<<20, 0)
			d.a.session.Wake()
			d.a.bulk.Store(true)
			d.a.run.borrow()
			d.a.collect(now)
			largest, bytes := 0, 0
			for _, p := range d.a.run.burst.unsealed {
				largest, bytes = max(largest, len(p.packet)), bytes+len(p.packet)
			}
			d.a.run.burst.reset()
			d.a.run.giveBack()
			d.near.socket.sys.GSO.Store(false)
			d.a.Unlock()
			require.Equal(t, c.jumbo, largest > FullPacket, "%+v: %d bytes", c, largest)
			require.LessOrEqual(t, bytes, burstBytes)
		}
	})
}
