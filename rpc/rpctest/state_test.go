package rpctest_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// The class of the tests of states: a soldier has two of them.
var (
	soldier      = rpc.NewClass("Soldier")
	soldierPose  = rpc.NewState[pose](soldier)
	soldierWares = rpc.NewState[wares](soldier)
	soldierBag   = rpc.NewList[itemID, item](soldier, "Bag")
	salute       = rpc.Client[int](soldier, "Salute", rpc.Reliable)
	report       = rpc.Server[int](soldier, "Report", rpc.Reliable)
	cheer        = rpc.Multicast[int](soldier, "Cheer", rpc.Reliable)
)

type pose struct {
	X, Y, Z float32 `quiver:"quant=0.01"`
	Health  uint16
	Name    string `quiver:"max=16"`
	Ammo    uint16 `quiver:"owner"`
	Cover   uint8  `quiver:"skipowner"`
	Team    uint8  `quiver:"initial"`
	Secret  uint8  `quiver:"if=spectator"`
}

type wares struct {
	Gold  int64
	Slots []uint8 `quiver:"max=8"`
	Mate  rpc.Ref
}

type (
	itemID uint32
	item   struct {
		Name  string `quiver:"max=12"`
		Count int
		From  rpc.Ref
	}
)

// trooper is a soldier's object on either side.
type trooper struct {
	actor *rpc.Actor
	pose  pose
	wares wares
	bag   rpc.List[itemID, item]
	told  map[itemID]item // what OnList told
	heard []string
}

// barracks is a world of soldiers.
type barracks struct {
	*rpc.World
	binding  *rpc.Binding[*trooper]
	troopers map[rpc.Ref]*trooper // alive here
	conn     *rpc.Conn            // of a client
	saluted  []int                // by Salute
	repTime  time.Duration        // that OnRep of wares takes
}

func newBarracks(t testing.TB, config rpc.Config) *barracks {
	t.Helper()
	w, err := rpc.NewWorld(config)
	require.NoError(t, err)
	b := &barracks{World: w, troopers: make(map[rpc.Ref]*trooper)}
	b.binding = rpc.Bind(w, soldier, func(a *rpc.Actor) *trooper {
		b.troopers[a.Ref()] = &trooper{actor: a, told: make(map[itemID]item)}
		return b.troopers[a.Ref()]
	})
	rpc.Replicate(b.binding, soldierPose, func(s *trooper) *pose { return &s.pose })
	rpc.Replicate(b.binding, soldierWares, func(s *trooper) *wares { return &s.wares })
	rpc.OnRep(b.binding, soldierPose, func(s *trooper, old pose) {
		s.heard = append(s.heard, fmt.Sprintf("pose %v was %v", s.pose.Health, old.Health))
	})
	rpc.OnRep(b.binding, soldierWares, func(s *trooper, old wares) {
		time.Sleep(b.repTime)
		s.heard = append(s.heard, fmt.Sprintf("gold %v was %v, mate here %v", s.wares.Gold, old.Gold, w.Actor(s.wares.Mate) != nil))
	})
	rpc.ReplicateList(b.binding, soldierBag, func(s *trooper) *rpc.List[itemID, item] { return &s.bag })
	rpc.OnList(b.binding, soldierBag, func(s *trooper, c rpc.ListChange[itemID, item]) {
		before, had := s.told[c.Key]
		require.Equal(t, c.Added, !had && !c.Removed, "%+v", c)
		require.False(t, !c.Added && !c.Removed && before == c.Value, "%+v is no change", c)
		if s.told[c.Key] = c.Value; c.Removed {
			delete(s.told, c.Key)
		}
	})
	rpc.On(b.binding, salute, func(s *trooper, _ *rpc.Call, n int) {
		s.heard, b.saluted = append(s.heard, fmt.Sprint("salute ", n)), append(b.saluted, n)
	})
	rpc.OnClose(b.binding, func(s *trooper, why rpc.CloseReason) {
		delete(b.troopers, s.actor.Ref())
		s.heard = append(s.heard, "end "+why.String())
	})
	rpc.OnOwner(b.binding, func(s *trooper) {
		if w.IsServer() {
			s.heard = append(s.heard, fmt.Sprint("owner ", s.actor.Conn()))
			return
		}
		s.heard = append(s.heard, fmt.Sprint("owned ", s.actor.Owned()))
	})
	rpc.OnTearOff(b.binding, func(s *trooper) { s.heard = append(s.heard, fmt.Sprint("torn off at health ", s.pose.Health)) })
	rpc.On(b.binding, report, func(s *trooper, _ *rpc.Call, n int) { s.heard = append(s.heard, fmt.Sprint("report ", n)) })
	rpc.On(b.binding, cheer, func(s *trooper, _ *rpc.Call, n int) { s.heard = append(s.heard, fmt.Sprint("cheer ", n)) })
	return b
}

// camp is a server and clients.
type camp struct {
	t       testing.TB
	net     *rpctest.Network
	server  *barracks
	conns   []*rpc.Conn // the server's ends
	clients []*barracks
}

func newCamp(t testing.TB, net *rpctest.Network, clients int, config rpc.Config) *camp {
	t.Helper()
	c := &camp{t: t, net: net}
	config.OnConnect = func(_ *rpc.World, conn *rpc.Conn) { c.conns = append(c.conns, conn) }
	c.server = newBarracks(t, config)
	net.Server(c.server.World)
	for range clients {
		c.join()
	}
	return c
}

func (c *camp) join() *barracks {
	b := newBarracks(c.t, rpc.Config{})
	b.conn = c.net.Client(b.World)
	c.clients = append(c.clients, b)
	return b
}

// spawn makes a soldier for everybody, owned by a client, or by nobody at -1.
func (c *camp) spawn(owner int, set func(*trooper)) *trooper {
	c.t.Helper()
	var conn *rpc.Conn
	if owner >= 0 {
		conn = c.conns[owner]
	}
	_, s, err := rpc.Spawn(c.server.binding, conn, set, rpc.AlwaysRelevant())
	require.NoError(c.t, err)
	return s
}

// at returns a client's copy of a soldier.
func (c *camp) at(client int, s *trooper) *trooper {
	return c.clients[client].troopers[s.actor.Ref()]
}

// requireSame asserts that each client has each soldier that is open for it as
// the server has it, but for what it may not see.
func (c *camp) requireSame() {
	c.t.Helper()
	for ref, s := range c.server.troopers {
		for i, client := range c.clients {
			if !s.actor.Channel(c.conns[i]).Open() {
				require.Nil(c.t, client.Actor(ref))
				continue
			}
			copied := client.troopers[ref]
			require.NotNil(c.t, copied, "client %d, %v", i, s.actor)
			want := s.pose
			want.Team, want.Secret = copied.pose.Team, copied.pose.Secret
			if s.actor.Conn() == c.conns[i] {
				want.Cover = copied.pose.Cover
			} else {
				want.Ammo = copied.pose.Ammo
			}
			require.InDelta(c.t, want.X, copied.pose.X, 0.0051)
			want.X, want.Y, want.Z = copied.pose.X, copied.pose.Y, copied.pose.Z
			require.Equal(c.t, want, copied.pose, "client %d, %v", i, s.actor)
			require.Equal(c.t, s.wares, copied.wares, "client %d, %v", i, s.actor)
			require.Equal(c.t, maps.Collect(s.bag.All()), maps.Collect(copied.bag.All()), "client %d, %v", i, s.actor)
			require.Equal(c.t, maps.Collect(copied.bag.All()), copied.told, "client %d, %v", i, s.actor)
		}
	}
}

// stir changes some of a soldier.
func (s *trooper) stir(random *rand.Rand) {
	s.pose.X += random.Float32()
	key := itemID(random.IntN(40))
	switch random.IntN(9) {
	case 6, 7:
		_ = s.bag.Set(key, item{Name: fmt.Sprint("item ", key), Count: random.IntN(100)})
	case 8:
		s.bag.Delete(key)
	case 0:
		s.pose.Health++
	case 1:
		s.pose.Name = fmt.Sprint("name ", random.IntN(1000))
	case 2:
		s.pose.Ammo++
		s.pose.Cover++
	case 3:
		s.wares.Gold -= random.Int64N(1000)
	case 4:
		s.wares.Slots = append([]uint8(nil), s.wares.Slots[:random.IntN(len(s.wares.Slots)+1)]...)
	case 5:
		if len(s.wares.Slots) < 8 {
			s.wares.Slots = append(s.wares.Slots, uint8(random.Uint32()))
		}
	}
}

func off(t *testing.T, fn func(t *testing.T, net *rpctest.Network)) { rpctest.Run(t, rpctest.Off, fn) }

// 12.1a: server to client only.
func TestStateGoesFromServerToClientOnly(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		s := c.spawn(0, nil)
		net.Advance(time.Second)
		c.at(0, s).pose.Health = 7
		net.Advance(time.Second)
		require.Zero(t, s.pose.Health)
		require.EqualValues(t, 7, c.at(0, s).pose.Health, "what a client writes into its copy stays")
		s.pose.Health = 9
		net.Advance(time.Second)
		require.EqualValues(t, 9, c.at(0, s).pose.Health, "until the server changes the field")
	})
}

// 12.1b: eventually the newest value arrives; values between may be skipped.
// Nothing waits in a reliable buffer.
func TestTheNewestStateArrives(t *testing.T) {
	for name, weather := range map[string]emulation.Settings{
		"bad": rpctest.Bad, "loss": {PktLag: 50 * time.Millisecond, PktLoss: 20},
		"order": {PktLag: 30 * time.Millisecond, PktOrder: true, PktLoss: 5}, "narrow": {PktLag: 20 * time.Millisecond, Rate: 50_000, PktLoss: 5},
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, weather, func(t *testing.T, net *rpctest.Network) {
				random := rand.New(rand.NewPCG(net.Seed(), 1))
				c := newCamp(t, net, 3, rpc.Config{})
				var all []*trooper
				for i := range 12 {
					all = append(all, c.spawn(i%4-1, nil))
				}
				for range 300 {
					for range 6 {
						all[random.IntN(len(all))].stir(random)
					}
					if s := all[random.IntN(len(all))]; random.IntN(10) == 0 {
						require.NoError(t, c.server.SetOwner(s.actor, c.conns[random.IntN(3)]))
					}
					if a := all[random.IntN(len(all))].actor; random.IntN(10) == 0 && a.Conn() != c.conns[0] {
						if a.CloseTo(c.conns[0]); random.IntN(3) > 0 {
							require.NoError(t, a.OpenTo(c.conns[0]))
						}
					}
					net.Advance(33 * time.Millisecond)
					for _, conn := range c.conns {
						require.Less(t, conn.Stats().SmoothedRTT, 2*time.Second, "updates keep no queue standing")
					}
				}
				net.Advance(20 * time.Second)
				c.requireSame()
			})
		})
	}
}

// A client whose game stands still for 20 s misses nothing of what counts, and nobody is kicked.
func TestStateAfterALongPause(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		random := rand.New(rand.NewPCG(net.Seed(), 1))
		c := newCamp(t, net, 1, rpc.Config{})
		var all []*trooper
		for range 100 {
			all = append(all, c.spawn(0, nil))
		}
		net.Advance(time.Second)
		net.Pause(c.clients[0].World, 20*time.Second)
		for range 25 * 30 {
			for _, s := range all {
				s.stir(random)
			}
			net.Advance(time.Second / 30)
		}
		net.Advance(20 * time.Second)
		c.requireSame()
		require.NoError(t, c.clients[0].conn.Err())
		require.NotZero(t, c.clients[0].conn.Stats().Drops.State, "some found no memory, and the client asked for all anew")
	})
}

// A client has the newest state a round trip after the path is back.
func TestStateAfterDarkness(t *testing.T) {
	rpctest.Run(t, emulation.Settings{PktLag: 50 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		random := rand.New(rand.NewPCG(net.Seed(), 1))
		c := newCamp(t, net, 1, rpc.Config{})
		var all []*trooper
		for range 10 {
			all = append(all, c.spawn(0, nil))
		}
		net.Advance(time.Second)
		net.Dark(c.clients[0].conn, 20*time.Second)
		for range 19 * 30 {
			for _, s := range all {
				s.stir(random)
			}
			net.Advance(time.Second / 30)
		}
		net.Advance(time.Second)
		began := net.Elapsed()
		last := all[9]
		require.True(t, net.Until(10*time.Second, func() bool {
			return c.at(0, last).pose.Health == last.pose.Health && c.at(0, last).wares.Gold == last.wares.Gold
		}))
		t.Logf("the newest state was there %v after the path", net.Elapsed()-began)
		net.Advance(time.Second)
		c.requireSame()
	})
}

// 12.1d: conditions.
func TestStateConditions(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		s := c.spawn(0, func(s *trooper) { s.pose = pose{Ammo: 5, Cover: 6, Team: 7, Secret: 8} })
		net.Advance(time.Second)
		require.Equal(t, pose{Ammo: 5, Team: 7}, c.at(0, s).pose)
		require.Equal(t, pose{Cover: 6, Team: 7}, c.at(1, s).pose)

		s.pose = pose{Ammo: 15, Cover: 16, Team: 17, Secret: 18}
		net.Advance(time.Second)
		require.Equal(t, pose{Ammo: 15, Team: 7}, c.at(0, s).pose, "initial fields go with the open only")
		require.Equal(t, pose{Cover: 16, Team: 7}, c.at(1, s).pose)

		require.NoError(t, c.server.SetOwner(s.actor, c.conns[1]))
		net.Advance(time.Second)
		require.Equal(t, pose{Ammo: 15, Cover: 16, Team: 7}, c.at(0, s).pose)
		require.Equal(t, pose{Ammo: 15, Cover: 16, Team: 7}, c.at(1, s).pose)

		require.NoError(t, soldierPose.SetCondition(s.actor, "spectator", true))
		net.Advance(time.Second)
		require.EqualValues(t, 18, c.at(0, s).pose.Secret)
		require.NoError(t, soldierPose.SetCondition(s.actor, "spectator", false))
		s.pose.Secret = 28
		net.Advance(time.Second)
		require.EqualValues(t, 18, c.at(0, s).pose.Secret)

		require.ErrorContains(t, soldierPose.SetCondition(s.actor, "ghost", true), "no field is tagged if=ghost")
		require.ErrorIs(t, soldierPose.SetCondition(c.at(0, s).actor, "spectator", true), rpc.ErrWrongRole)
	})
}

// 12.1e: the first update of a channel carries every property.
func TestTheOpenCarriesTheState(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(-1, func(s *trooper) { s.pose.Health, s.wares.Gold = 100, 50 })
		net.Advance(time.Second)
		require.Equal(t, []string{"pose 100 was 0", "gold 50 was 0, mate here false"}, c.at(0, s).heard)
		s.pose.Health = 90
		late := c.join()
		net.Advance(time.Second)
		require.EqualValues(t, 90, late.troopers[s.actor.Ref()].pose.Health)
		require.EqualValues(t, 90, c.at(0, s).pose.Health)
	})
}

// 12.1f: OnRep runs on clients, after all properties of that bunch have been
// read, with the old value, when it differs.
func TestOnRep(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(0, nil)
		net.Advance(time.Second)
		require.Empty(t, c.at(0, s).heard, "nothing differs from what the constructor left")
		s.pose.Health, s.wares.Gold = 1, 2
		require.NoError(t, salute.Call(s.actor, 1))
		net.Advance(time.Second)
		require.Equal(t, []string{"salute 1", "pose 1 was 0", "gold 2 was 0, mate here false"}, c.at(0, s).heard, "12.1g: calls go first")
		require.Empty(t, s.heard, "never on the server")

		s.pose.X = float32(math.NaN())
		net.Advance(time.Second)
		s.pose.X = 0.004
		net.Advance(time.Second)
		require.Len(t, c.at(0, s).heard, 3, "a change below the quantum sends nothing")
	})
}

// 12.2b: a reference to something the client does not have yet is set, and
// OnRep called again, when it appears.
func TestOnRepWhenTheTargetComesAndGoes(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		_, mate, err := rpc.Spawn(c.server.binding, nil, nil)
		require.NoError(t, err)
		s := c.spawn(0, func(s *trooper) { s.wares.Mate = mate.actor.Ref() })
		net.Advance(time.Second)
		copied := c.at(0, s)
		require.Equal(t, mate.actor.Ref(), copied.wares.Mate)
		require.Equal(t, []string{"gold 0 was 0, mate here false"}, copied.heard)
		require.NoError(t, mate.actor.OpenTo(c.conns[0]))
		net.Advance(time.Second)
		require.Equal(t, "gold 0 was 0, mate here true", copied.heard[1])
		mate.actor.CloseTo(c.conns[0])
		net.Advance(time.Second)
		require.Equal(t, "gold 0 was 0, mate here false", copied.heard[2])
		require.Len(t, copied.heard, 3)
	})
}

var (
	walkerClass = rpc.NewClass("Walker")
	walkerWalk  = rpc.NewState[walk](walkerClass)
)

// walk is a position of which the server has Steps = Tick/5 at each Flush. It is one field.
type walk struct {
	At struct{ Tick, Steps uint64 }
}

// TestNestedStructsTravelWhole: fields travel by themselves, and a nested
// struct is one field, whatever the network loses.
func TestNestedStructsTravelWhole(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		heard := 0
		world := func() (*rpc.World, *rpc.Binding[*walk]) {
			w, err := rpc.NewWorld(rpc.Config{})
			require.NoError(t, err)
			b := rpc.Bind(w, walkerClass, func(*rpc.Actor) *walk { return new(walk) })
			rpc.Replicate(b, walkerWalk, func(o *walk) *walk { return o })
			rpc.OnRep(b, walkerWalk, func(o *walk, _ walk) {
				heard++
				require.Equal(t, o.At.Tick/5, o.At.Steps)
			})
			return w, b
		}
		server, here := world()
		net.Server(server)
		_, walker, err := rpc.Spawn(here, nil, nil, rpc.AlwaysRelevant())
		require.NoError(t, err)
		net.OnTick(func(time.Time) { walker.At.Tick++; walker.At.Steps = walker.At.Tick / 5 })
		client, _ := world()
		net.Client(client)
		net.Advance(30 * time.Second)
		require.Greater(t, heard, 100)
	})
}
