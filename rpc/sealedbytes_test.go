package rpc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/testkit"
)

// The class of TestBytesStayWhatTheyWere: a method of each delivery, either way.
var (
	vault    = NewClass("Vault")
	stores   = ofEachDelivery(Client[Raw], "Store")
	hoards   = ofEachDelivery(Server[Raw], "Hoard")
	treasure = Client[jewel](vault, "Treasure", ReliableUnordered)
)

func ofEachDelivery[M any](declare func(*Class, string, bunch.Delivery, ...MethodOption) M, name string) (all []M) {
	for d := Reliable; d <= UnreliableSequenced; d++ {
		all = append(all, declare(vault, fmt.Sprint(name, d), d))
	}
	return all
}

// jewel has fields that a game keeps.
type jewel struct {
	Seed uint32
	Name string `quiver:"max=4096"`
	Body []byte `quiver:"max=20000"`
}

// hoarder checks what it is handed, and keeps what it may keep.
type hoarder struct {
	t      testing.TB
	handed int
	jewels []jewel
}

func (k *hoarder) take(_ *hoarder, _ *Call, b Raw) {
	require.GreaterOrEqual(k.t, len(b), 4)
	require.True(k.t, bytes.Equal(b, noise(binary.BigEndian.Uint32(b), len(b))), "%d bytes", len(b))
	k.handed++
}

func (k *hoarder) keep(_ *hoarder, _ *Call, p jewel) { k.jewels = append(k.jewels, p) }

func (k *hoarder) check() {
	for _, p := range k.jewels {
		require.True(k.t, bytes.Equal(p.Body, noise(p.Seed, len(p.Body))), "%d bytes", len(p.Body))
		require.Equal(k.t, fmt.Sprintf("%x", noise(p.Seed+1, len(p.Name)/2)), p.Name)
	}
}

// noise is bytes that a seed makes, which they begin with.
func noise(seed uint32, n int) []byte {
	b := binary.BigEndian.AppendUint32(nil, seed)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	for len(b) < n {
		b = binary.BigEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

// TestBytesStayWhatTheyWere: the sealed carrier lends its datagrams, whose memory it
// reuses at once. Over a path that loses, repeats and reorders them, with many messages
// of one datagram and of several in flight at once, no byte changes between its arrival
// and the handler, nor in what a game may keep, even when its actor has closed.
func TestBytesStayWhatTheyWere(t *testing.T) {
	r := testkit.Rand(t)
	path := netsim.Config{
		Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Rate: 50e6,
		Loss: 0.03, Duplicate: 0.05, Reorder: 0.1, ReorderDelay: 15 * time.Millisecond, Seed: r.Uint64(),
	}
	config := Config{Sealed: true, Classes: []*Class{vault}}
	overSealedWith(t, path, config, config, func(n *sealedNet) {
		client, server := &hoarder{t: t}, &hoarder{t: t}
		bindVault(n.clients[0].World, client)
		bindVault(n.server.World, server)
		n.reach(n.near, sealed.Open)
		n.reach(n.far, sealed.Open)
		sent := 0
		for range 20 {
			a, err := n.server.Spawn(vault, n.conns[0])
			require.NoError(t, err)
			for range 10 {
				sent += n.storm(a, r)
				n.tick(1 + r.IntN(3))
			}
			n.server.Destroy(a)
			client.check()
		}
		n.tick(90)
		client.check()
		t.Logf("%d of %d Raws, %d jewels, %+v", client.handed+server.handed, sent, len(client.jewels), n.far.carriers.stats())
		require.Greater(t, client.handed, sent/4)
		require.Greater(t, server.handed, sent/8)
		require.NotEmpty(t, client.jewels)
	})
}

func bindVault(w *World, k *hoarder) {
	b := Bind(w, vault, func(*Actor) *hoarder { return k })
	for i := range stores {
		On(b, stores[i], k.take)
		On(b, hoards[i], k.take)
	}
	On(b, treasure, k.keep)
}

// storm makes calls of all sizes, both ways, and returns how many with a Raw.
func (n *sealedNet) storm(a *Actor, r *rand.Rand) (sent int) {
	size := func() int { return 4 + r.IntN([]int{40, 600, 1400, 9000}[r.IntN(4)]) }
	var far *Actor // its copy, when the open has come
	if o := a.openingOn(n.conns[0]); o != nil {
		far = n.ends[0].channels.byNumber[o.channel]
	}
	for range 8 {
		i := r.IntN(len(stores))
		require.NoError(n.t, stores[i].Call(a, noise(r.Uint32(), size())))
		sent++
		if far != nil {
			require.NoError(n.t, hoards[i].Call(far, noise(r.Uint32(), size())))
			sent++
		}
	}
	seed := r.Uint32()
	require.NoError(n.t, treasure.Call(a, jewel{seed, fmt.Sprintf("%x", noise(seed+1, 4+r.IntN(2000))), noise(seed, size())}))
	return sent
}
