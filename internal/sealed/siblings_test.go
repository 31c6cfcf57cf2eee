package sealed

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
)

// bulky are pieces that say how many wait.
type bulky struct{ *pieces }

func (b bulky) Waiting() int { return (b.total - b.next) * b.size }

// TestStartersAreCounted: a session counts while it starts with something to send, and not when all that has arrived, the start is over, or it
// has ended.
func TestStartersAreCounted(t *testing.T) {
	const piece = 1024
	run := func(total int, link netsim.Config, until func(client *Session, a bulky) bool) (*atomic.Int32, *Session, int32) {
		var siblings Siblings
		most := int32(0)
		a, b := bulky{newPieces(piece, total, 0)}, newPieces(piece, 0, total)
		client, server := ends(t, a, b, func(c *SessionConfig) { c.Siblings = &siblings })
		client.Start(netsim.Epoch, ID{1})
		server.Start(netsim.Epoch, ID{2})
		pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: link, BtoA: link, Max: SafePacket})
		require.NoError(t, pair.Run(time.Minute, func() bool {
			most = max(most, siblings.starting.Load())
			return until(client, a)
		}))
		return &siblings.starting, client, most
	}
	slow := netsim.Config{Delay: 25 * ms, Rate: 20e6}
	arrived := func(_ *Session, a bulky) bool { return a.delivered() }

	starting, _, most := run(40, slow, arrived)
	require.EqualValues(t, 1, most)
	require.Zero(t, starting.Load(), "all has arrived")

	starting, _, most = run(4, slow, arrived)
	require.Zero(t, most, "a few packets are no start")
	require.Zero(t, starting.Load())

	starting, _, most = run(4000, slow, func(c *Session, _ bulky) bool { return c.Controller().State() == pace.Cruise })
	require.EqualValues(t, 1, most)
	require.Zero(t, starting.Load(), "the start is over")

	starting, client, _ := run(4000, slow, func(c *Session, a bulky) bool { return a.ackedN > 0 && c.Controller().State() == pace.Start })
	require.EqualValues(t, 1, starting.Load())
	client.Close()
	require.Zero(t, starting.Load(), "it has ended")
}

// TestCompetitorsOfOneQueue: those whose round trips move together for some seconds share a queue, if they are a third of all that compete.
func TestCompetitorsOfOneQueue(t *testing.T) {
	const all, here = 5, 3 // three behind one uplink, two at home
	var siblings Siblings
	var competitors []*competitor
	come := func(n int) {
		for range n {
			competitors = append(competitors, &competitor{siblings: &siblings, group: &siblings.senders})
		}
	}
	draw := rand.New(rand.NewPCG(1, 0)) // in which no two homes are alike by chance
	step := 10 * ms
	play := func(from, until int) {
		for s := from; s < until; s++ {
			for i := range competitors {
				queue := time.Duration(s%4) * step // at the uplink
				if i >= here {
					queue = time.Duration(200*draw.Float64()) * ms
				}
				for part := range 10 {
					now := netsim.Epoch.Add(time.Duration(s)*time.Second + time.Duration(part)*100*ms)
					jitter := time.Duration((part+i)%2) * 20 * ms
					competitors[i].note(true, now, time.Duration(20*i)*ms+queue+jitter)
				}
			}
		}
	}
	together := func() (n []int) {
		for _, c := range competitors {
			n = append(n, c.together)
		}
		return n
	}
	come(all)
	step = 0
	play(1, 10)
	require.Equal(t, make([]int, all), together(), "what stands still tells nothing, not even in the first seconds")
	step = 10 * ms
	play(20, 20+leastSamples+1)
	require.Equal(t, make([]int, all), together(), "too soon: the first second was none")
	play(20+leastSamples+1, 32)
	require.Equal(t, []int{here, here, here, 0, 0}, together())
	competitors[0].leave()
	require.Zero(t, competitors[0].together)
	play(40, 40+leastSamples+3) // all join again, behind a gap
	require.Equal(t, []int{here, here, here, 0, 0}, together())

	t.Log("# three of many do not fill an uplink")
	come(all)
	play(60, 70)
	require.Equal(t, make([]int, 2*all), together())
	for _, c := range competitors {
		c.leave()
	}
	require.Empty(t, siblings.senders.all)
	for s := range time.Duration(5) {
		competitors[0].note(true, netsim.Epoch.Add((s-9)*time.Second), 0) // a clock that has run back
	}
	competitors[0].leave()
	alone := new(competitor)
	alone.note(true, netsim.Epoch, 0)
	require.Zero(t, alone.together, "without siblings")
}

// TestWhoDoesNotCompeteIsNotCompared: of thousands of transfers each was compared with all that compete, once a second, under the lock of all.
func TestWhoDoesNotCompeteIsNotCompared(t *testing.T) {
	var siblings Siblings
	competes, not := &competitor{siblings: &siblings, group: &siblings.senders}, &competitor{siblings: &siblings, group: &siblings.senders}
	for s := range time.Duration(2 * samples) {
		now, trip := netsim.Epoch.Add(s*time.Second), s%4*10*ms
		competes.note(true, now, trip)
		not.note(false, now, trip)
	}
	require.Equal(t, 1, competes.together)
	require.Zero(t, not.together)
}

// TestCompetitorsLeave: a session that has nothing in flight, or has ended, is no competitor.
func TestCompetitorsLeave(t *testing.T) {
	var siblings Siblings
	client, server := ends(t, bulky{newPieces(1024, 0, 0)}, bulky{newPieces(1024, 0, 0)}, func(c *SessionConfig) { c.Siblings = &siblings })
	client.competes.note(true, netsim.Epoch, 0)
	server.competes.note(true, netsim.Epoch, 0)
	require.Len(t, siblings.senders.all, 2)
	client.Start(netsim.Epoch, ID{1})
	require.NoError(t, client.Advance(netsim.Epoch))
	require.Len(t, siblings.senders.all, 1, "nothing is in flight")
	server.Close()
	require.Empty(t, siblings.senders.all)
}

// TestPeersAreCompared: a receiver compares what its peers say of their round trips, and tells those that compete for one queue. What nobody says
// any more is forgotten.
func TestPeersAreCompared(t *testing.T) {
	var siblings *Siblings
	var peers []*hostile
	come := func() {
		siblings, peers = new(Siblings), nil
		for range 2 {
			h := newHostile(t)
			h.a.source = sinkOnly{}
			h.a.competing.peer = competitor{siblings: siblings, group: &siblings.peers}
			peers = append(peers, h)
		}
	}
	say := func(competes byte, seconds int, move uint64) {
		for tenth := range uint64(10 * seconds) {
			for i, h := range peers {
				h.now = h.now.Add(100 * ms)
				trip := uint64(20_000*(i+1)) + move*(tenth/10%4)
				require.NoError(t, h.send(append(binary.AppendUvarint([]byte{frameCompetes, competes}, trip), framePing)))
			}
		}
	}
	come()
	say(1, samples+3, 10)
	require.Zero(t, peers[0].a.competing.peer.together, "they moved by microseconds")
	come()
	say(1, samples+3, 10_000)
	for _, h := range peers {
		require.Equal(t, 2, h.a.competing.peer.together)
	}
	say(0, 1, 0)
	require.Empty(t, siblings.peers.all)
	say(1, 1, 0)
	require.Len(t, siblings.peers.all, 2)
	for _, h := range peers {
		_ = h.a.Advance(h.now.Add(toldLasts + 2*time.Second))
	}
	require.Empty(t, siblings.peers.all, "nobody has said anything for long")
}

// TestWhatIsSaid: an end says whether it competes ten times a second, with the mean of its round trips, once it has had bulk for a second.
func TestWhatIsSaid(t *testing.T) {
	var c competing
	c.idle(time.Second)
	require.False(t, c.due(time.Hour, 0), "it has no bulk")
	c.trips.add(20 * ms)
	c.trips.add(40 * ms)
	require.False(t, c.due(time.Second+sayAfter-1, sayEvery))
	require.True(t, c.due(time.Second+sayAfter, sayEvery))
	var f frame
	b := c.say(time.Second+sayAfter, nil, true)
	require.LessOrEqual(t, len(b), maxCompetes)
	rest, err := f.consume(b)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, frame{kind: frameCompetes, competes: true, trip: 30 * ms}, f)
	c.trips.add(20 * ms)
	require.False(t, c.due(time.Second+sayAfter+sayEvery-1, sayEvery))
	require.True(t, c.due(time.Second+sayAfter+sayEvery, sayEvery))
}

// TestWhatIsTold: what a peer tells counts for two seconds, and the zero of its clock while it goes on to tell.
func TestWhatIsTold(t *testing.T) {
	var c competing
	require.False(t, c.counts(0))
	c.tell(time.Second, 2, netsim.Epoch)
	c.tell(2*time.Second, 3, netsim.Epoch.Add(ms))
	require.Equal(t, netsim.Epoch, c.epoch)
	require.Equal(t, 3, c.together)
	require.True(t, c.counts(2*time.Second+toldLasts-1))
	require.False(t, c.counts(2*time.Second+toldLasts))
	c.tell(5*time.Second, 2, netsim.Epoch.Add(ms))
	require.Equal(t, netsim.Epoch.Add(ms), c.epoch)
}

// busy are calls and pieces that say how many wait.
type busy struct{ *ticks }

func (b busy) Waiting() int { return (b.pieces.total - b.pieces.next) * b.size }

// TestWhoPlaysIsNoStarterForEver: a few packets of bulk do not end a start, and play beside them is never without any in flight. A hundred
// players who had once taken some KB let every later transfer of their server begin with a hundredth.
func TestWhoPlaysIsNoStarterForEver(t *testing.T) {
	var siblings Siblings
	a, b := newTicks(time.Second/60, 20, 0), newTicks(time.Second/60, 0, 20)
	client, server := ends(t, busy{a}, busy{b}, func(c *SessionConfig) {
		if c.Client {
			c.Siblings = &siblings
		}
	})
	client.Start(netsim.Epoch, ID{1})
	server.Start(netsim.Epoch, ID{2})
	link := netsim.Config{Delay: 25 * ms, Rate: 20e6}
	pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: link, BtoA: link, Max: SafePacket})
	_ = pair.Run(20*time.Second, func() bool { return false })
	require.True(t, a.pieces.delivered())
	require.Zero(t, siblings.starting.Load())
}
