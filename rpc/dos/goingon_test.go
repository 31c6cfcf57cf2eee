package dos

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// player is a client in a scene that looks at every report.
type player struct {
	*scene
	peer    *Peer
	blocked int
	states  []string // each that it entered from below
	reason  string   // of the kick
	at      map[string]time.Duration
}

func newPlayer(t *testing.T, profile *Profile) *player {
	t.Helper()
	profile.JoinTolerance = 0
	s := newScene(t, profile)
	return &player{scene: s, peer: s.d.Join("ann"), at: make(map[string]time.Duration)}
}

// calls makes a call of a method whose handler takes some time.
func (p *player) calls(method string, took time.Duration) {
	m := p.peer.Method(method)
	if p.peer.Call(m, 20) {
		p.peer.Done(m, took)
	} else {
		p.blocked++
	}
	if r, ok := p.peer.Report(); ok && r.Up {
		p.states, p.at[r.To] = append(p.states, r.To), p.now.Sub(p.d.epoch)
		if r.Kick {
			p.reason = r.Reason
		}
	}
}

// honest makes the calls of a client that calls 60 times a second, which wait
// while the server is in a handler.
func (p *player) honest(d time.Duration) {
	const tick = time.Second / 30
	for end := p.now.Add(d); p.now.Before(end); p.frame(tick) {
		p.calls("Pawn.Move", 200*time.Microsecond)
		p.calls("Pawn.Move", 200*time.Microsecond)
	}
}

// rest makes one call in each of so many seconds.
func (p *player) rest(seconds int) {
	for range seconds {
		p.frame(time.Second)
		p.calls("Pawn.Move", 0)
	}
}

// slow makes one call whose handler takes long, and then the calls that have waited meanwhile.
func (p *player) slow(took time.Duration) {
	p.calls("Pawn.Dig", took)
	p.frame(took)
	for range 60 * took / time.Second {
		p.calls("Pawn.Move", 200*time.Microsecond)
	}
}

// TestOneEventIsNoFlood: an honest client continues to call after one slow
// handler, and after others from time to time. None of its calls is blocked,
// and the state into which such a handler leads does not escalate.
func TestOneEventIsNoFlood(t *testing.T) {
	for took, most := range map[time.Duration]string{
		130 * time.Millisecond: "PersistentBurst", 210 * time.Millisecond: "DoS", 340 * time.Millisecond: "DoS",
		410 * time.Millisecond: "ExpensiveDoS", 900 * time.Millisecond: "ExpensiveDoS",
	} {
		for _, every := range []time.Duration{time.Hour, 5 * time.Second, 7300 * time.Millisecond} {
			t.Run(fmt.Sprint(took, " every ", every), func(t *testing.T) {
				p := newPlayer(t, Default())
				p.honest(10300 * time.Millisecond)
				for range 8 {
					p.slow(took)
					p.honest(min(every, time.Minute))
				}
				require.Zero(t, p.blocked)
				require.Subset(t, []string{"Hitch", "Burst", most}, p.states)
				p.honest(2 * time.Minute)
				require.Equal(t, "Normal", p.peer.State())
			})
		}
	}
}

// TestNobodyIsKickedForOneCall: one call whose handler waits for a disk or a
// debugger does not get its client kicked, though some of the calls that waited
// may be blocked. A client that makes such calls repeatedly is kicked.
func TestNobodyIsKickedForOneCall(t *testing.T) {
	for _, took := range []time.Duration{time.Second, 1400 * time.Millisecond, 3 * time.Second, 3900 * time.Millisecond} {
		t.Run(took.String(), func(t *testing.T) {
			p := newPlayer(t, Default())
			p.honest(10300 * time.Millisecond)
			p.slow(took)
			require.Equal(t, "ExpensiveDoS", p.peer.State())
			p.honest(2 * time.Minute)
			require.Empty(t, p.reason)
			require.Equal(t, "Normal", p.peer.State())
			for range 4 {
				p.slow(took)
			}
			p.honest(time.Second)
			require.NotEmpty(t, p.reason)
		})
	}
}

// TestOutageAfterASlowHandler: calls that wait while a path is dark for up to
// 1.4 s run, even in the states into which a slow handler has led.
func TestOutageAfterASlowHandler(t *testing.T) {
	const tick = time.Second / 30
	for _, took := range []time.Duration{130 * time.Millisecond, 210 * time.Millisecond, 410 * time.Millisecond} {
		for _, dark := range []time.Duration{time.Second, 1400 * time.Millisecond} {
			t.Run(fmt.Sprint(took, " and ", dark), func(t *testing.T) {
				p := newPlayer(t, Default())
				p.honest(10300 * time.Millisecond)
				p.slow(took)
				for range 3 {
					p.honest(3 * time.Second)
					for range dark / tick {
						p.frame(tick)
					}
					for range 2 * dark / tick {
						p.calls("Pawn.Move", 10*time.Microsecond)
					}
					for range 60 {
						p.calls("Pawn.Move", 10*time.Microsecond)
						p.calls("Pawn.Move", 10*time.Microsecond)
						p.frame(tick)
					}
				}
				require.Zero(t, p.blocked)
				require.Empty(t, p.reason)
			})
		}
	}
}

// TestNobodyIsKickedForOneOutage: of the calls that wait during an outage after a slow
// handler, those in two seconds of the detector's clock may be blocked, and no more.
func TestNobodyIsKickedForOneOutage(t *testing.T) {
	const tick = time.Second / 30
	for _, dark := range []time.Duration{2 * time.Second, 4 * time.Second} {
		for _, offset := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
			t.Run(fmt.Sprint(dark, " at ", offset), func(t *testing.T) {
				p := newPlayer(t, Default())
				p.honest(10*time.Second + offset)
				p.slow(410 * time.Millisecond)
				p.honest(5 * time.Second)
				for range dark / tick {
					p.frame(tick)
				}
				for range 2 * dark / tick {
					p.calls("Pawn.Move", 10*time.Microsecond)
				}
				p.honest(10 * time.Second)
				require.Positive(t, p.blocked)
				require.Empty(t, p.reason)
			})
		}
	}
}

// TestFloodsThatGoOn: a client that goes on is kicked as fast as Default promises:
// within 2 + 3 s if calls are blocked, within a second more if no limit of a
// method blocks any, and within twice that time if it rests in every other second.
func TestFloodsThatGoOn(t *testing.T) {
	const frame = 100 * time.Millisecond // which the end of a second waits for
	many := func(n int, took time.Duration) func(p *player) {
		return func(p *player) {
			for i := range n {
				p.calls(fmt.Sprint("Pawn.Skill", i), took)
			}
		}
	}
	for name, row := range map[string]struct {
		second func(p *player) // what comes at the beginning of each tenth of a second
		rests  bool
		kicked time.Duration // after DoS began, at the latest
		say    string
	}{
		"one expensive method":   {func(p *player) { p.calls("Pawn.Dig", 12*time.Millisecond) }, false, 5 * time.Second, "Pawn.Dig"},
		"a dear one beside play": {func(p *player) { p.calls("Pawn.Move", 0); p.calls("Pawn.Dig", 12*time.Millisecond) }, false, 5 * time.Second, "Pawn.Dig"},
		"many methods":           {many(12, 900*time.Microsecond), false, 6 * time.Second, "Pawn.Skill"},
		"every other second":     {many(24, 900*time.Microsecond), true, 12 * time.Second, "Pawn.Skill"},
		"cheap calls":            {many(3, 0), false, 0, ""}, // 30 of each a second are no flood
		"many cheap calls": {func(p *player) {
			for range 60 {
				p.calls("Pawn.Move", time.Microsecond)
			}
		}, false, 5 * time.Second, "Pawn.Move"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, offset := range []time.Duration{0, 50 * time.Millisecond, 450 * time.Millisecond, 950 * time.Millisecond} {
				p := newPlayer(t, Default())
				p.frame(offset)
				for n := 0; n < 200 && p.reason == ""; n++ {
					if !row.rests || n/10%2 == 0 {
						row.second(p)
					}
					p.frame(frame)
				}
				if row.kicked == 0 {
					require.Empty(t, p.reason)
					continue
				}
				require.Contains(t, p.at, "DoS")
				require.Contains(t, p.at, "Kick", "it is %s", p.peer.State())
				require.LessOrEqual(t, p.at["Kick"]-p.at["DoS"], row.kicked+frame)
				require.Contains(t, p.reason, row.say)
				require.NotContains(t, p.reason, " 0s of handlers")
				t.Logf("DoS after %v, Kick after %v: %s", p.at["DoS"], p.at["Kick"], p.reason)
			}
		})
	}
}

// TestFloodsThatRest: the load of a client in the long run is what Default promises,
// whichever state it stays in. Before, a client with 490 calls a second went from
// PersistentBurst to DoS and back forever, and one that made 7,990 calls at once and
// rested for five seconds stayed in ExpensiveDoS, and had 1,554 a second run.
func TestFloodsThatRest(t *testing.T) {
	const frames = 10
	for _, row := range []struct {
		burst, every, beside int // calls in each so many seconds, and in each second
		kicked               int // at the latest, in seconds
	}{
		{0, 1, 200, 20}, {0, 1, 490, 20}, {1990, 4, 0, 60}, {1990, 5, 0, 70}, {3990, 5, 0, 30}, {7980, 5, 0, 20}, {7980, 18, 0, 60},
		{7980, 35, 0, 110}, {7600, 45, 180, 140}, {900, 9, 120, 150},
		{0, 1, 180, 0}, {800, 8, 60, 0}, {5900, 30, 0, 0}, {7600, 60, 60, 0}, // less than 200 a second, in the long run
	} {
		t.Run(fmt.Sprint(row.burst, " each ", row.every, " s and ", row.beside), func(t *testing.T) {
			p, made := newPlayer(t, Default()), 0
			second := 0
			for ; second < 300 && p.reason == ""; second++ {
				calls := row.beside
				if row.burst > 0 && second%row.every == 0 {
					calls += row.burst
				}
				for frame := range frames {
					for i := range calls/frames + (calls%frames+frame)/frames {
						p.calls(fmt.Sprint("Pawn.Skill", i%60), 0) // none is blocked
					}
					p.frame(time.Second / frames)
				}
				made += calls
			}
			require.Zero(t, p.blocked)
			t.Logf("%d a second for %d s: %s", made/second, second, p.reason)
			if row.kicked == 0 {
				require.Empty(t, p.reason)
				return
			}
			require.NotEmpty(t, p.reason, "it is %s", p.peer.State())
			require.LessOrEqual(t, second, row.kicked)
		})
	}
}

// TestCalmTimeSavesNothing: bursts of 800 calls every eight seconds keep a
// client in PersistentBurst forever. Before, one that after an hour of them
// made 7,980 calls at once every five seconds, 1,596 a second, had 440,000 run
// before it was kicked, because its mean over that hour was small.
func TestCalmTimeSavesNothing(t *testing.T) {
	p := newPlayer(t, Default())
	burst := func(calls, seconds int) {
		for i := range calls {
			p.calls(fmt.Sprint("Pawn.Skill", i%60), 0) // none is blocked
		}
		for range seconds {
			p.frame(time.Second)
		}
	}
	for range 60 * 60 / 8 {
		burst(800, 8)
	}
	require.Equal(t, "PersistentBurst", p.peer.State())
	for range 4 {
		burst(7980, 5)
	}
	require.NotEmpty(t, p.reason, "it is %s", p.peer.State())
}

// TestSustainedRate: a client that sends in bursts is judged by the quotas of the
// sustained state, by a bucket from which each second takes its share of them.
func TestSustainedRate(t *testing.T) {
	calls, bytes := Load{Calls: 100}, Load{Bytes: 2000} // each call has 20 bytes
	for _, row := range []struct {
		quota        Load
		burst, every int // calls in each so many seconds
		kicked       bool
	}{
		{calls, 500, 4, true}, {bytes, 500, 4, true},
		{calls, 150, 4, false}, {bytes, 150, 4, false},
	} {
		t.Run(fmt.Sprint(row.quota, row.burst), func(t *testing.T) {
			p := newPlayer(t, &Profile{States: []State{
				{Name: "Normal"},
				{Name: "Jump", Frame: Load{Calls: 1000}, Cooloff: time.Second, AutoEscalate: time.Minute}, // has no Period
				{Name: "Flood", Period: row.quota, Window: time.Second, Cooloff: time.Second, AutoEscalate: 5 * time.Second},
				{Name: "Kick", Period: Load{Calls: 1e6}, Window: time.Second, Cooloff: time.Second, Kick: true},
			}})
			for second := range 40 {
				for range 10 {
					if second%row.every == 0 {
						for range row.burst / 10 {
							p.calls("Pawn.Skill", 0)
						}
					}
					p.frame(time.Second / 10)
				}
			}
			require.Equal(t, row.kicked, p.reason != "")
		})
	}
}

// TestBurstsBelowTheSustainedState: bursts in lower states are not summed up:
// the state cools off although one burst equals a minute of its quota.
func TestBurstsBelowTheSustainedState(t *testing.T) {
	p := newPlayer(t, &Profile{States: []State{
		{Name: "Normal"},
		{Name: "Burst", Period: Load{Calls: 10}, Window: time.Second, Cooloff: time.Second},
		{Name: "Flood", Period: Load{Calls: 1000}, Window: time.Second, Cooloff: time.Second, AutoEscalate: time.Second},
	}})
	for range 600 {
		p.calls("Pawn.Skill", 0)
	}
	require.Equal(t, "Burst", p.peer.State())
	p.rest(4)
	require.Equal(t, "Normal", p.peer.State())
}

// TestAKickBeginsAnew: the load for which a client was kicked keeps it in no state when it returns.
func TestAKickBeginsAnew(t *testing.T) {
	p := newPlayer(t, &Profile{States: []State{
		{Name: "Normal"},
		{Name: "Flood", Period: Load{Calls: 100}, Window: time.Second, Cooloff: time.Second, AutoEscalate: time.Minute},
		{Name: "Kick", Period: Load{Calls: 5000}, Window: time.Second, Cooloff: time.Second, Kick: true},
	}})
	for range 5000 {
		p.calls("Pawn.Skill", 0)
	}
	require.NotEmpty(t, p.reason)
	require.Equal(t, "Flood", p.peer.State())
	p.rest(4)
	require.Equal(t, "Normal", p.peer.State())
}
