package sealed

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

// stormy is a session for which an attacker on the path repeats each packet ten
// times, and adds ten older ones.
type stormy struct {
	*Session
	random *rand.Rand
	seen   [][]byte
	copies uint64
}

func (s *stormy) Receive(now time.Time, packet []byte) error {
	s.seen = append(s.seen, bytes.Clone(packet))
	if err := s.Session.Receive(now, packet); err != nil {
		return err
	}
	for i := range 19 {
		old := s.seen[len(s.seen)-1]
		if i >= 9 {
			old = s.seen[s.random.IntN(len(s.seen))]
		}
		s.copies++
		if err := s.Session.Receive(now, bytes.Clone(old)); err != nil {
			return err
		}
	}
	return nil
}

// TestStormOfCopies: a transfer over reordering links whose packet numbers change to new
// keys, in which each packet arrives ten times together with ten replays of any age, is
// as fast as without them. The copies are dropped, and cause nothing to be sent.
func TestStormOfCopies(t *testing.T) {
	seed := testkit.Seed(t)
	const count = 30_000
	run := func(storm bool) (took time.Duration, taken map[int]int, st Stats) {
		link := netsim.Config{Delay: 10 * ms, Rate: 50e6, Reorder: 0.3, ReorderDelay: 15 * ms, Loss: 0.01, Seed: seed}
		up, down := newPieces(1000, count, 0), newPieces(1000, 0, count)
		client, server := ends(t, up, down, nil)
		for _, s := range []*Session{client, server} {
			edge := uint64(1<<generationBits - count/3)
			s.records = records{Ring: recovery.Ring[record]{Oldest: edge, Next: edge}, searchFrom: edge}
			s.skips.draw(edge)
			s.opener.window.Next = edge
			s.reporter.knownBelow = edge
			s.opener.rotateKeys()
		}
		client.Start(netsim.Epoch, ID{1})
		server.Start(netsim.Epoch, ID{2})
		a, b := &stormy{Session: client, random: rand.New(rand.NewPCG(seed, 1))}, &stormy{Session: server, random: rand.New(rand.NewPCG(seed, 2))}
		pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: link, BtoA: link, Max: SafePacket})
		if storm {
			pair = netsim.NewPair(a, b, netsim.PairConfig{AtoB: link, BtoA: link, Max: SafePacket})
		}
		require.NoError(t, pair.Run(time.Minute, up.delivered))
		require.Empty(t, up.faults)
		require.EqualValues(t, 1, server.opener.current.index)
		require.Nil(t, server.opener.next)
		st = server.Stats()
		require.Equal(t, b.copies, st.Drops[dropOld]+st.Drops[dropReplay])
		require.Zero(t, st.Drops[dropKey]+st.Drops[dropForged])
		st.Drops = [drops]uint64{}
		return down.doneAt.Sub(netsim.Epoch), down.got, st
	}
	calm, taken, st := run(false)
	took, takenThen, stThen := run(true)
	require.Equal(t, calm, took)
	require.Equal(t, taken, takenThen)
	require.Equal(t, st, stThen)
}
