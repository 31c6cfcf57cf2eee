package vital

import (
	"github.com/quivernet/quiver/internal/testkit"

	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// talk is two ends over a simulated path that send each other chunks, vital
// ones as fast as the store allows.
type talk struct {
	t      testing.TB
	ends   [2]*Conn
	dice   *rand.Rand
	total  int    // vital chunks to send, each way
	sent   [2]int // vital chunks
	got    [2]int // vital chunks received from end i
	plain  [2]int // others sent
	others [2]int // others received
}

// chunkOf returns the nth vital chunk: sizes from 0 to 900 bytes, most of them small.
func (k *talk) chunkOf(n int) []byte {
	size := n * 7919 % 60
	if n%9 == 0 {
		size = n * 104729 % 900
	}
	return content(size, n)
}

func newTalk(t testing.TB, v Version, path netsim.Config, total int, timeout time.Duration) (*talk, *netsim.Pair) {
	k := &talk{t: t, total: total, dice: rand.New(rand.NewPCG(path.Seed, 1))}
	for i := range k.ends {
		cfg := Config{Version: v, Timeout: timeout}
		if v == V07 {
			cfg.Token, cfg.PeerToken = uint32(i+1), uint32(2-i)
		}
		c, err := NewConn(netsim.Epoch, cfg)
		require.NoError(t, err)
		k.ends[i] = c
	}
	pair := netsim.NewPair(k.ends[0], k.ends[1], netsim.PairConfig{AtoB: path, BtoA: path, Max: 1400,
		OnStep: func(time.Time) { k.serve() }, Tick: 20 * time.Millisecond, OnTick: func(time.Time) { k.send() }})
	return k, pair
}

// send is a tick of a game: a few chunks, and a flush.
func (k *talk) send() {
	for i, c := range k.ends {
		for k.sent[i] < k.total && k.dice.IntN(20) > 0 && c.Send(Vital, k.chunkOf(k.sent[i])) == nil {
			k.sent[i]++
			if k.dice.IntN(4) == 0 && c.Send(0, binary.BigEndian.AppendUint32(nil, uint32(k.plain[i]))) == nil {
				k.plain[i]++
			}
		}
		c.Flush()
	}
}

func (k *talk) serve() {
	for to, c := range k.ends {
		from := 1 - to
		for chunk, ok := c.Next(); ok; chunk, ok = c.Next() {
			if chunk.Flags&Vital == 0 {
				require.Less(k.t, int(binary.BigEndian.Uint32(chunk.Data)), k.plain[from])
				k.others[from]++
				continue
			}
			require.Equal(k.t, k.chunkOf(k.got[from]), chunk.Data, "chunk %d", k.got[from])
			k.got[from]++
			require.Equal(k.t, k.got[from]&sequenceMask, chunk.Sequence)
		}
		checkAlways(k.t, c)
	}
}

func (k *talk) done() bool {
	return k.got == [2]int{k.total, k.total} && k.ends[0].Outstanding() == 0 && k.ends[1].Outstanding() == 0
}

// TestNothingVitalIsLost passes the sequence's end several times on paths that
// lose, double and reorder packets.
func TestNothingVitalIsLost(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.05, 0.2, 0.5} {
		for _, v := range []Version{V06, V07} {
			t.Run(fmt.Sprintf("%v/%v", v, loss), func(t *testing.T) {
				path := netsim.Config{Delay: 25 * time.Millisecond, Jitter: 10 * time.Millisecond, Rate: 10e6, Loss: loss,
					Duplicate: 0.05, Reorder: 0.05, ReorderDelay: 40 * time.Millisecond, Seed: testkit.Seed(t)}
				k, pair := newTalk(t, v, path, 4000, time.Minute)
				require.NoError(t, pair.Run(time.Hour, k.done))
				s := k.ends[0].Stats()
				t.Logf("%v; %d of %d other chunks arrived; %+v", pair.Now().Sub(netsim.Epoch), k.others[0], k.plain[0], s)
				for i, c := range k.ends {
					s := c.Stats()
					require.Zero(t, s.Malformed+s.WrongToken+s.BadAck+s.Ignored+s.TooBig)
					require.Equal(t, s.Received, s.Taken)
					if loss == 0 {
						require.GreaterOrEqual(t, k.others[i], k.plain[i], "a reordered packet keeps its chunks")
					}
				}
			})
		}
	}
}

// TestCleanPathResendsNothing holds the cost of the protocol where nothing goes wrong.
func TestCleanPathResendsNothing(t *testing.T) {
	k, pair := newTalk(t, V06, netsim.Config{Delay: 40 * time.Millisecond, Seed: testkit.Seed(t)}, 3000, 0)
	require.NoError(t, pair.Run(time.Hour, k.done))
	for _, c := range k.ends {
		s := c.Stats()
		require.Zero(t, s.Resent+s.Asked+s.Duplicates+s.Gaps+s.StaleAcks)
		require.GreaterOrEqual(t, s.RTT, 80*time.Millisecond)
		require.Less(t, s.RTT, 200*time.Millisecond)
	}
}

// TestDarkness: an outage shorter than Timeout loses nothing, a longer one ends both ends.
func TestDarkness(t *testing.T) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Loss: 0.02, Seed: testkit.Seed(t)}
	k, pair := newTalk(t, V07, path, 2000, 0)
	require.NoError(t, pair.RunFor(300*time.Millisecond))
	pair.Dark(8 * time.Second)
	require.NoError(t, pair.Run(time.Hour, k.done))

	k, pair = newTalk(t, V07, path, 2000, 0)
	require.NoError(t, pair.RunFor(300*time.Millisecond))
	pair.Dark(time.Hour)
	require.Error(t, pair.RunFor(20*time.Second))
	for _, c := range k.ends {
		require.Error(t, c.Advance(pair.Now().Add(time.Second)))
	}
}

// TestBursts loses runs of packets, and then two of three.
func TestBursts(t *testing.T) {
	seed := testkit.Seed(t)
	path := netsim.Config{Delay: 50 * time.Millisecond, Burst: netsim.Bursts(0.1, 8), Seed: seed}
	k, pair := newTalk(t, V06, path, 1500, time.Minute)
	require.NoError(t, pair.Run(time.Hour, k.done))

	path = netsim.Config{Delay: 50 * time.Millisecond, Loss: 0.67, Seed: seed}
	k, pair = newTalk(t, V06, path, 300, time.Minute)
	require.NoError(t, pair.Run(time.Hour, k.done))
}
