package rpc

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
)

// TestItemsStayGone: a late packet does not bring back an item that was
// removed, even if thousands of others were removed since.
func TestItemsStayGone(t *testing.T) {
	w, c, a := newCrate(t)
	list := func() []byte { return state.AppendMask(nil, 1<<4, crate.fields) }
	set := func(b []byte, n uint64) []byte {
		b = binary.AppendUvarint(b, n<<1)
		return append(binary.AppendUvarint(b, n&0x7fff), 0, 0)
	}
	late := set(list(), 1) // packet 1, which is late
	packet := uint64(2)
	for n := uint64(1); n <= 9000; {
		b := list()
		for ; len(b) < 1000 && n <= 9000; n++ {
			b = binary.AppendUvarint(b, n<<1|1)
		}
		require.Nil(t, w.applyUpdate(c, a, updateOf(b, packet)))
		packet++
	}
	t.Logf("%d packets later", packet)
	require.Nil(t, w.applyUpdate(c, a, updateOf(late, 1)))
	require.Zero(t, a.own.object.(*crateObject).items.Len(), "an item that is gone is here for ever")
}

// TestClientThatMissesEverything: if a client has many actors and requests everything again as
// often as it can, by a message of one byte, it is answered less often the more actors it has.
func TestClientThatMissesEverything(t *testing.T) {
	for _, actors := range []int{10, 4000} {
		c := shownCrates(t, actors)
		s, now, answered := &c.shown.state, time.Now(), 0
		for range 60 {
			s.resync = true
			c.answerResync(now)
			if !s.resync {
				answered++
			}
			now = now.Add(500 * time.Millisecond)
		}
		t.Logf("%d actors: %d answers in 30 s", actors, answered)
		require.InDelta(t, 30_000/max(1000, actors), answered, 1)
		require.True(t, s.resync)
		c.answerResync(now.Add(5 * time.Second))
		require.False(t, s.resync, "it is answered some time")
	}
}

// shownCrates returns a server's connection to a client that has actors with a list.
func shownCrates(t *testing.T, actors int) *Conn {
	w, err := NewWorld(Config{})
	require.NoError(t, err)
	b := Bind(w, crate, func(*Actor) *crateObject { return new(crateObject) })
	Replicate(b, crateState, func(o *crateObject) *crateBody { return &o.body })
	ReplicateList(b, crateItems, func(o *crateObject) *List[uint16, crateItem] { return &o.items })
	c := newServerConn(w, nil)
	for i := range actors {
		a, err := w.Spawn(crate, nil)
		require.NoError(t, err)
		o := &opening{actor: a, conn: c, channel: uint64(2*i + 2)}
		a.openings, c.shown.openings[a], c.channels.byNumber[o.channel] = []*opening{o}, o, a
	}
	return c
}

// TestClientThatAcknowledgesNothing: what a server keeps for such a client is bounded.
func TestClientThatAcknowledgesNothing(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		var all []*Actor
		for range 300 {
			all = append(all, n.named(-1, "one", AlwaysRelevant()))
		}
		n.tick(30)
		n.pipes[0][0].SetDrop(func([]byte) bool { return true })
		most := 0
		for i := range 25 * 30 {
			for k, a := range all {
				*a.text() = string(rune('a'+(i+k)%26)) + "12345678901234567890"
			}
			n.tick(1)
			s := &n.conns[0].shown.state
			most = max(most, len(s.sent.updates))
		}
		s := &n.conns[0].shown.state
		t.Logf("records %d, dirty %d, err %v", most, len(s.dirty), n.conns[0].Err())
		require.Less(t, most, 10_000)
	})
}
