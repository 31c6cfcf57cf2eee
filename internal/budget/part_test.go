package budget

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// A sender is a connection that offers some traffic, in bytes per second.
type sender struct {
	allowance *Allowance
	must      int  // what always goes through: reliable calls and resends
	may       int  // what waits for the rate: states, of which the next tick replaces what is left
	bulk      bool // always has bulk

	rest struct{ must, may int } // what the sender has yet to send of this tick's
	sent struct{ must, may, bulk int }
}

// send sends what the allowance allows, in datagrams of at most 1,200 bytes.
func (s *sender) send(now time.Time) {
	spend := func(rest int) int {
		n := min(rest, 1200)
		s.allowance.Spend(now, n)
		return n
	}
	for s.rest.must > 0 {
		n := spend(s.rest.must)
		s.rest.must -= n
		s.sent.must += n
	}
	for s.rest.may > 0 && s.allowance.Play(now) == 0 {
		n := spend(s.rest.may)
		s.rest.may -= n
		s.sent.may += n
	}
	for s.bulk && s.allowance.BookBulk(now) == 0 {
		s.sent.bulk += spend(1200)
	}
}

// A crowd is a world's senders, in virtual time.
type crowd struct {
	r       *rand.Rand
	world   *Meter
	now     time.Time
	senders []*sender
}

func newCrowd(r *rand.Rand, rate int) *crowd {
	return &crowd{r: r, world: NewMeter(rate), now: time.Unix(1000, 0)}
}

// join adds senders that offer the same.
func (c *crowd) join(n int, s sender) (joined []*sender) {
	for range n {
		one := s
		one.allowance = NewAllowance(0, c.world)
		joined = append(joined, &one)
	}
	c.senders = append(c.senders, joined...)
	return joined
}

// play runs ticks of 30 Hz, in which each sender has its turn again after 1 ms. Then it tells
// how many bytes a second have left in all.
func (c *crowd) play(d time.Duration) int {
	for _, s := range c.senders {
		s.sent = struct{ must, may, bulk int }{}
	}
	order := append([]*sender(nil), c.senders...)
	for ms := range int(d.Milliseconds()) {
		c.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, s := range order {
			if ms%33 == 0 {
				s.rest.must += s.must * 33 / 1000
				s.rest.may = s.may * 33 / 1000
			}
			s.send(c.now)
		}
		c.now = c.now.Add(time.Millisecond)
	}
	total := 0
	for _, s := range c.senders {
		total += s.sent.must + s.sent.may + s.sent.bulk
	}
	return int(float64(total) / d.Seconds())
}

// TestExcessDelaysItsOwner: some connections have so much sent again that the world's rate is
// used up. The states of the others, which are within their parts, are sent, and those of the
// offenders are not. All states of all of them waited before.
func TestExcessDelaysItsOwner(t *testing.T) {
	r := testkit.Rand(t)
	for range 4 {
		n := 2 + r.IntN(40)
		rate := n * (5_000 + r.IntN(100_000))
		part := rate / n
		c := newCrowd(r, rate)
		bad := 1 + r.IntN(n/2)
		offenders := c.join(bad, sender{must: rate/bad + part/10, may: part / 3})
		honest := c.join(n-bad, sender{must: part / 3, may: part / 2})
		c.play(5 * time.Second)
		c.play(5 * time.Second)
		for _, s := range honest {
			require.Greater(t, s.sent.may, s.may*5*95/100, "%d of %d at %d B/s", bad, n, rate)
		}
		for _, s := range offenders {
			require.Less(t, s.sent.may, s.may*5/20, "%d of %d at %d B/s", bad, n, rate)
		}

		t.Log("# soon after the offence nobody waits any more")
		for _, s := range offenders {
			s.must = part / 3
		}
		c.play(3 * time.Second)
		c.play(5 * time.Second)
		for _, s := range c.senders {
			require.Greater(t, s.sent.may, s.may*5*95/100, "%d of %d at %d B/s", bad, n, rate)
		}
	}
}

// TestBulkOfOthersGoesOn beside an offender: half of a part is for bulk, after the play of
// the connection itself.
func TestBulkOfOthersGoesOn(t *testing.T) {
	r := testkit.Rand(t)
	for range 5 {
		n := 3 + r.IntN(20)
		part := 5_000 + r.IntN(50_000)
		c := newCrowd(r, n*part)
		c.join(1, sender{must: n * part * 5 / 4, bulk: true})
		loading := c.join(n-1, sender{may: part / 4, bulk: true})
		c.play(5 * time.Second)
		c.play(10 * time.Second)
		for _, s := range loading {
			require.Greater(t, s.sent.may, s.may*10*95/100)
			require.Greater(t, s.sent.bulk, part*10/4)
			require.Less(t, s.sent.bulk, part*10/2)
		}
		require.LessOrEqual(t, c.senders[0].sent.bulk, 10*1200, "but for bulkPatience")
	}
}

// TestOthersUseWhatIsLeft: connections that want more than their part have what the others
// leave, and the world keeps to its rate.
func TestOthersUseWhatIsLeft(t *testing.T) {
	r := testkit.Rand(t)
	for range 4 {
		n := 2 + r.IntN(30)
		rate := n * (5_000 + r.IntN(100_000))
		part := rate / n
		c := newCrowd(r, rate)
		want := 1 + r.IntN(n)
		greedy := c.join(want, sender{may: rate})
		modest := c.join(n-want, sender{must: part / 8, may: part * (1 + r.IntN(5)) / 8})
		total := c.play(12 * time.Second)
		burst := (c.world.savings+maxDebt).Seconds()*float64(rate) + float64(n*(Floor+1200))
		require.Greater(t, total, rate*97/100, "%d of %d want more", want, n)
		require.Less(t, total*12, rate*12+int(burst), "%d of %d want more", want, n)
		for _, s := range modest {
			require.Greater(t, s.sent.may, s.may*12*95/100)
		}
		for _, s := range greedy {
			require.Greater(t, s.sent.may, part*12*90/100)
		}
	}
}

// TestGreedyConnectionsShareAlike: each has its part, and no more is sent than the rate allows.
func TestGreedyConnectionsShareAlike(t *testing.T) {
	r := testkit.Rand(t)
	c := newCrowd(r, 1_000_000)
	all := c.join(10, sender{may: 500_000})
	c.play(2 * time.Second)
	require.InEpsilon(t, 1_000_000, c.play(10*time.Second), 0.05)
	for _, s := range all {
		require.InEpsilon(t, 1_000_000, s.sent.may, 0.1)
	}
}

// TestDebtIsRepaidDespiteBulk: after one burst of reliable calls, such as that of a join, the
// world gets out of debt although all others have bulk, and one with much play has it all.
func TestDebtIsRepaidDespiteBulk(t *testing.T) {
	c := newCrowd(testkit.Rand(t), 1_000_000)
	c.join(9, sender{bulk: true})
	player := c.join(1, sender{may: 200_000})[0] // twice its part
	c.play(2 * time.Second)
	c.senders[0].rest.must = 3_000_000
	c.play(3 * time.Second)
	require.InEpsilon(t, 1_000_000, c.play(10*time.Second), 0.05)
	require.Greater(t, player.sent.may, 200_000*10*98/100)
}

// TestWorldWithoutDebtHasNoParts: while all have used less than the world's rate, the answers are
// those of its meter, however unlike the connections are.
func TestWorldWithoutDebtHasNoParts(t *testing.T) {
	r := testkit.Rand(t)
	c := newCrowd(r, 1_000_000)
	c.join(20, sender{may: 1000})
	c.join(1, sender{must: 400_000, may: 300_000})
	c.play(10 * time.Second)
	for _, s := range c.senders {
		require.GreaterOrEqual(t, s.sent.may, s.may*33/1000*303)
	}
	for range 1000 {
		a := c.senders[r.IntN(len(c.senders))].allowance
		c.now = c.now.Add(time.Duration(r.IntN(int(20 * time.Millisecond))))
		require.Equal(t, c.world.bulk(c.now), max(0, a.BookBulk(c.now)-max(0, a.turn.Sub(c.now))), "beside its turn")
		if c.world.play(c.now, 0) == 0 {
			require.Zero(t, a.Play(c.now))
			a.Spend(c.now, r.IntN(1200))
		}
	}
}

// TestOneConnectionHasTheWholeRate: its part adds nothing to the world's savings.
func TestOneConnectionHasTheWholeRate(t *testing.T) {
	r := testkit.Rand(t)
	world, alone := NewMeter(100_000), NewMeter(100_000)
	a := NewAllowance(0, world)
	now := time.Unix(1000, 0)
	for range 10_000 {
		now = now.Add(time.Duration(r.IntN(int(10 * time.Millisecond))))
		queued := r.IntN(3) * 500
		require.Equal(t, alone.play(now, queued), a.Behind(now, queued))
		if r.IntN(20) == 0 || a.Play(now) == 0 {
			size := r.IntN(1500)
			a.Spend(now, size)
			alone.spend(now, size)
		}
	}
}

// TestConnectionsInUse: whoever has sent something within the last second counts.
func TestConnectionsInUse(t *testing.T) {
	c := newCrowd(testkit.Rand(t), 1_000_000)
	some := c.join(7, sender{must: 100})
	c.join(1000, sender{})
	for range 3 {
		c.play(time.Second)
		require.Equal(t, 7, c.world.users.inUse())
	}
	for _, s := range some[3:] {
		s.must = 0
	}
	c.play(2 * usersWindow)
	require.Equal(t, 3, c.world.users.inUse())
	c.now = c.now.Add(time.Hour)
	some[0].allowance.Spend(c.now, 100)
	require.Equal(t, 1, c.world.users.inUse())
	some[1].allowance.Spend(c.now.Add(-time.Millisecond), 100) // took the time earlier
	require.Equal(t, 2, c.world.users.inUse())
}

func TestAllowanceAllocatesNothing(t *testing.T) {
	world := NewMeter(1000)
	all := []*Allowance{NewAllowance(1000, world), NewAllowance(0, world)}
	now := time.Unix(1000, 0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		for _, a := range all {
			a.Play(now)
			a.BookBulk(now)
			a.Spend(now, 100)
		}
	}))
}

// BenchmarkAllowance is a datagram of one in a thousand connections: of a world within its rate,
// and of one in debt.
func BenchmarkAllowance(b *testing.B) {
	for _, row := range []struct {
		name string
		rate int
	}{{"within", 1 << 30}, {"debt", 1000}} {
		b.Run(row.name, func(b *testing.B) {
			world := NewMeter(row.rate)
			all := make([]*Allowance, 1000)
			for i := range all {
				all[i] = NewAllowance(0, world)
			}
			now := time.Unix(1000, 0)
			b.ReportAllocs()
			for i := range b.N {
				now = now.Add(time.Microsecond)
				a := all[i%len(all)]
				a.Play(now)
				a.Spend(now, 1000)
			}
		})
	}
}
