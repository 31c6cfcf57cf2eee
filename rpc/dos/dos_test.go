package dos

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// scene is a detector, and a clock that is moved by hand.
type scene struct {
	t   *testing.T
	d   *Detector
	now time.Time
	log []string // reports
}

func newScene(t *testing.T, p *Profile) *scene {
	t.Helper()
	d, err := New(p)
	require.NoError(t, err)
	s := &scene{t: t, d: d, now: time.Unix(1000, 0)}
	d.Frame(s.now)
	return s
}

// frame ends the frame, and begins the next one after some time.
func (s *scene) frame(after time.Duration) {
	s.now = s.now.Add(after)
	s.d.Frame(s.now)
}

// call makes a call of so many bytes, which takes some time, and reports whether it ran.
func (s *scene) call(p *Peer, method string, bytes int, took time.Duration) bool {
	m := p.Method(method)
	ran := p.Call(m, bytes)
	if ran {
		p.Done(m, took)
	}
	if r, ok := p.Report(); ok {
		s.log = append(s.log, r.From+" "+r.To)
	}
	return ran
}

// calls makes many in one frame, and returns how many ran.
func (s *scene) calls(p *Peer, method string, n int) (ran int) {
	for range n {
		if s.call(p, method, 10, 0) {
			ran++
		}
	}
	return ran
}

// plain is a profile without quotas of time: each state has one quota of calls.
func plain() *Profile {
	return &Profile{States: []State{
		{Name: "Normal"},
		{Name: "Hitch", Frame: Load{Calls: 10}, Cooloff: 2 * time.Second},
		{Name: "Burst", Period: Load{Calls: 30}, Window: 2 * time.Second, Repeat: Load{Calls: 5}, RepeatWindow: time.Second, Cooloff: 3 * time.Second, AutoEscalate: 4 * time.Second},
		{Name: "Kick", Period: Load{Calls: 60}, Window: 4 * time.Second, Cooloff: 10 * time.Second, Kick: true},
	}, Remember: time.Minute, Identities: 3}
}

func TestQuotasAreReached(t *testing.T) {
	for _, row := range []struct {
		name  string
		state State
		play  func(s *scene, p *Peer)
		want  string
	}{
		{"calls a frame, one less", State{Frame: Load{Calls: 5}}, func(s *scene, p *Peer) { s.calls(p, "A.B", 4); s.frame(time.Millisecond); s.calls(p, "A.B", 4) }, "Normal"},
		{"calls a frame", State{Frame: Load{Calls: 5}}, func(s *scene, p *Peer) { s.calls(p, "A.B", 5) }, "X"},
		{"bytes a frame", State{Frame: Load{Bytes: 100}}, func(s *scene, p *Peer) { s.call(p, "A.B", 99, 0); s.call(p, "A.C", 1, 0) }, "X"},
		{"time a frame", State{Frame: Load{Time: time.Millisecond}}, func(s *scene, p *Peer) { s.call(p, "A.B", 1, time.Millisecond) }, "X"},
		{"calls a period, over methods", State{Period: Load{Calls: 3}, Window: 2 * time.Second}, func(s *scene, p *Peer) {
			for _, m := range []string{"A.B", "A.C", "D.B"} {
				s.call(p, m, 1, 0)
				s.frame(600 * time.Millisecond)
			}
		}, "X"},
		{"calls of seconds that are over", State{Period: Load{Calls: 3}, Window: 2 * time.Second}, func(s *scene, p *Peer) {
			for range 6 {
				s.call(p, "A.B", 1, 0)
				s.frame(time.Second)
			}
		}, "Normal"},
		{"bytes a period", State{Period: Load{Bytes: 50}, Window: 16 * time.Second}, func(s *scene, p *Peer) {
			for range 5 {
				s.call(p, "A.B", 10, 0)
				s.frame(3 * time.Second)
			}
		}, "X"},
		{"time a period", State{Period: Load{Time: 10 * time.Millisecond}, Window: time.Second}, func(s *scene, p *Peer) {
			for range 10 {
				s.call(p, "A.B", 10, time.Millisecond)
				s.frame(10 * time.Millisecond)
			}
		}, "X"},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.state.Name, row.state.Cooloff = "X", time.Hour
			s := newScene(t, &Profile{States: []State{{Name: "Normal"}, row.state}})
			p := s.d.Join("")
			row.play(s, p)
			require.Equal(t, row.want, p.State())
		})
	}
}

func TestStatesEscalateAndCoolOff(t *testing.T) {
	s := newScene(t, plain())
	p := s.d.Join("")
	require.Equal(t, 10, s.calls(p, "A.B", 10))
	require.Equal(t, "Hitch", p.State())
	require.Equal(t, 19, s.calls(p, "A.B", 19), "Hitch blocks nothing")
	require.Equal(t, 5, s.calls(p, "A.B", 11), "Burst runs five of a method a second, of which the one that led there is the first")
	require.Equal(t, 5, s.calls(p, "A.C", 6))
	require.Equal(t, "Burst", p.State())
	for range 3 {
		s.frame(time.Second)
		s.calls(p, "A.B", 1)
		require.Equal(t, "Burst", p.State())
	}
	s.frame(time.Second)
	s.calls(p, "A.B", 1)
	require.Equal(t, "Burst", p.State(), "its window of 2 s held 30 until a second later")
	s.frame(time.Second)
	s.calls(p, "A.B", 1)
	require.Equal(t, "Normal", p.State(), "Hitch had cooled off, too")
	require.Equal(t, []string{"Normal Hitch", "Hitch Burst", "Burst Normal"}, s.log)
}

func TestTheHighestReachedStateCounts(t *testing.T) {
	p := plain()
	p.States[1].Frame = Load{Time: time.Second}
	s := newScene(t, p)
	peer := s.d.Join("")
	s.calls(peer, "A.B", 30)
	require.Equal(t, []string{"Normal Burst"}, s.log)
}

func TestKick(t *testing.T) {
	s := newScene(t, plain())
	p := s.d.Join("")
	m, other := p.Method("A.B"), p.Method("A.C")
	p.Call(other, 1)
	for range 58 {
		p.Call(m, 1)
	}
	_, _ = p.Report()
	p.Call(m, 1)
	r, ok := p.Report()
	require.True(t, ok)
	require.Equal(t, Report{From: "Burst", To: "Kick", Up: true, Kick: true, Reason: "60 calls within 4s; the quota is 60 calls (States[3].Period.Calls); A.B caused most of it: 59 calls in 1 s"}, r)
	require.Equal(t, "Burst", p.State(), "who comes back is one step below")
	p.Call(m, 1)
	_, ok = p.Report()
	require.False(t, ok)
}

func TestAutoEscalation(t *testing.T) {
	s := newScene(t, plain())
	p := s.d.Join("")
	s.calls(p, "A.B", 30)
	for range 3 { // seven a second reach no quota, but two of them are blocked
		s.frame(time.Second)
		require.Equal(t, 5, s.calls(p, "A.B", 7))
	}
	s.frame(time.Second)
	s.frame(time.Second) // a second of rest, and it begins anew
	for range 4 {
		s.frame(time.Second)
		s.calls(p, "A.B", 7)
		require.Equal(t, "Burst", p.State())
	}
	s.frame(time.Second)
	s.calls(p, "A.B", 7)
	require.Equal(t, "Burst Kick", s.log[len(s.log)-1])
}

// TestAutoEscalationByFrames: a client also goes on when one frame of each
// second reaches the quota of a frame.
func TestAutoEscalationByFrames(t *testing.T) {
	profile := plain()
	profile.States[1].AutoEscalate = 3 * time.Second
	profile.States[2].Period, profile.States[3].Period = Load{Calls: 1000}, Load{Calls: 2000}
	s := newScene(t, profile)
	p := s.d.Join("")
	for range 4 { // the first leads into the state
		s.calls(p, "A.B", 10)
		require.Equal(t, "Hitch", p.State())
		s.frame(time.Second)
	}
	s.calls(p, "A.B", 1)
	require.Equal(t, "Burst", p.State())
}

// TestLongRestIsNoLongState: a pause longer than the history does not count as
// time in which the client earned its state.
func TestLongRestIsNoLongState(t *testing.T) {
	profile := plain()
	profile.States[2].Cooloff = time.Hour
	s := newScene(t, profile)
	p := s.d.Join("")
	s.calls(p, "A.B", 30)
	s.frame(20 * time.Second)
	s.calls(p, "A.B", 1)
	require.Equal(t, "Burst", p.State())
}

// TestCooloffForEver: a Cooloff of the longest duration never ends.
func TestCooloffForEver(t *testing.T) {
	profile := plain()
	profile.States[1].Cooloff = math.MaxInt64
	s := newScene(t, profile)
	p := s.d.Join("")
	s.calls(p, "A.B", 10)
	require.Equal(t, "Hitch", p.State())
	for range 3 {
		s.frame(time.Hour)
		s.calls(p, "A.B", 1)
		require.Equal(t, "Hitch", p.State())
	}
}

func TestIdentitiesAreRemembered(t *testing.T) {
	s := newScene(t, plain())
	a, b := s.d.Join("ann"), s.d.Join("ann")
	require.Same(t, a, b, "all connections of an identity are one peer")
	require.NotSame(t, s.d.Join(""), s.d.Join(""))
	s.calls(a, "A.B", 30)
	s.d.Leave(a)
	s.d.Leave(b)
	s.frame(time.Second)
	again := s.d.Join("ann")
	require.Equal(t, "Burst", again.State())
	s.d.Leave(again)
	s.frame(59 * time.Second)
	require.Same(t, again, s.d.Join("ann"))
	s.d.Leave(again)
	s.frame(time.Minute)
	require.NotSame(t, again, s.d.Join("ann"), "Remember is over")
}

// TestMemoryOfIdentitiesIsBounded: the identity that left first is dropped
// first, and one that comes and goes displaces no other.
func TestMemoryOfIdentitiesIsBounded(t *testing.T) {
	s := newScene(t, plain())
	ann := s.d.Join("ann")
	s.d.Leave(ann)
	for range 1000 {
		s.d.Leave(s.d.Join("bob"))
		s.d.Leave(s.d.Join(""))
	}
	require.Same(t, ann, s.d.Join("ann"))
	s.d.Leave(ann)
	for i := range 1000 {
		s.d.Leave(s.d.Join(fmt.Sprint(i)))
		require.LessOrEqual(t, len(s.d.identities), 3)
		require.LessOrEqual(t, len(s.d.departed), 3)
	}
	require.NotSame(t, ann, s.d.Join("ann"))
}

func TestHitchOfTheServer(t *testing.T) {
	profile := plain()
	profile.HitchTime, profile.HitchSuspend = 200*time.Millisecond, time.Second
	s := newScene(t, profile)
	p := s.d.Join("")
	s.frame(2 * time.Second)
	require.Equal(t, 14, s.calls(p, "A.B", 14))
	s.frame(900 * time.Millisecond)
	require.Equal(t, 15, s.calls(p, "A.B", 15))
	require.Equal(t, "Normal", p.State())
	s.frame(300 * time.Millisecond)
	s.calls(p, "A.C", 10)
	require.NotEqual(t, "Normal", p.State(), "a server that hitches again and again watches frames half of the time")
	s.frame(10 * time.Second)
	s.calls(p, "A.B", 60)
	require.Equal(t, []string{"Normal Burst", "Burst Normal", "Normal Burst", "Burst Kick"}, s.log, "and periods always")
}

// TestHitchesOnPurpose: a client that makes the server hitch every 2 s, outside
// of its own calls, for example by the joins of accomplices, gains nothing.
func TestHitchesOnPurpose(t *testing.T) {
	s := newScene(t, Default())
	p := s.d.Join("eve")
	ran, kicked := 0, 0
	for n := range 60 * 30 {
		calls := 6
		if s.frame(time.Second / 30); n%60 == 0 {
			s.frame(510 * time.Millisecond)
		}
		if s.d.suspended {
			calls = 1000
		}
		m := p.Method("A.B")
		for range calls {
			if p.Call(m, 10) {
				ran++
				p.Done(m, time.Microsecond)
			}
			if r, ok := p.Report(); ok && r.Kick {
				kicked++
			}
		}
	}
	t.Logf("%d calls ran in %v, %d kicks", ran, s.now.Sub(s.d.epoch), kicked)
	require.Greater(t, kicked, 10)
}

// TestBurstAfterAHitch: the calls that honest clients made in the 2 s of a
// hitch arrive at once, and the clients continue to call.
func TestBurstAfterAHitch(t *testing.T) {
	s := newScene(t, Default())
	p := s.d.Join("ann")
	for n := range 60 * 30 {
		calls := 2
		if s.frame(time.Second / 30); n%150 == 149 {
			s.frame(2 * time.Second)
			calls += 120
		}
		for range calls {
			require.True(t, s.call(p, "A.B", 100, 100*time.Microsecond))
		}
	}
	require.Equal(t, "Normal", p.State())
	require.Empty(t, s.log)
}

// TestHandlersAreNoHitch: the time of handlers does not suspend detection.
func TestHandlersAreNoHitch(t *testing.T) {
	profile := plain()
	profile.HitchTime, profile.HitchSuspend = 200*time.Millisecond, time.Second
	s := newScene(t, profile)
	p := s.d.Join("")
	s.call(p, "A.B", 1, 150*time.Millisecond)
	s.call(p, "A.B", 1, 150*time.Millisecond)
	s.frame(340 * time.Millisecond)
	s.calls(p, "A.B", 10)
	require.Equal(t, "Hitch", p.State())
	s.d.Idle(s.now.Add(10 * time.Millisecond))
	s.frame(5 * time.Second)
	s.calls(p, "A.B", 30)
	require.Equal(t, "Burst", p.State(), "a world that had nothing to do did not hitch")
}

func TestJoinersMayTakeTime(t *testing.T) {
	profile := plain()
	profile.JoinTolerance = 2 * time.Second
	profile.States[1].Frame.Time, profile.States[2].Period.Time = time.Millisecond, 10*time.Millisecond
	s := newScene(t, profile)
	p := s.d.Join("ann")
	s.call(p, "A.B", 1, time.Second)
	s.frame(time.Second)
	s.call(p, "A.B", 1, time.Second)
	s.frame(time.Second)
	s.calls(p, "A.B", 1)
	require.Equal(t, "Normal", p.State(), "what was tolerated counts later neither")
	s.call(p, "A.B", 1, 10*time.Millisecond)
	require.Equal(t, "Burst", p.State())
	s.d.Leave(p)
	p = s.d.Join("ann")
	s.frame(time.Second)
	s.call(p, "A.B", 1, time.Second)
	s.frame(3 * time.Second)
	s.calls(p, "A.B", 1)
	require.Equal(t, "Burst", p.State(), "who comes back in a state is not tolerated anew")
}

// TestJoiningAgainIsNotTolerated: a client that joins again before the time of
// its handlers counts is not tolerated again and again.
func TestJoiningAgainIsNotTolerated(t *testing.T) {
	profile := plain()
	profile.JoinTolerance = 2 * time.Second
	profile.States[2].Period.Time = 10 * time.Millisecond
	s := newScene(t, profile)
	first := s.d.Join("ann")
	for range 4 {
		s.call(first, "A.B", 1, time.Second)
		s.frame(time.Second)
		s.d.Leave(s.d.Join("ann"))
	}
	require.Equal(t, "Burst", first.State())
	s.d.Leave(first)
	s.frame(30 * time.Second)
	again := s.d.Join("ann")
	s.frame(31 * time.Second)
	s.d.Leave(again)
	again = s.d.Join("ann")
	s.call(again, "A.B", 1, time.Second)
	require.Equal(t, "Normal", again.State(), "a minute after the last time")
}

func TestAllowedMethods(t *testing.T) {
	profile := plain()
	profile.Exempt, profile.Unblocked = []string{"big.lane", "A.Upload"}, []string{"Pawn.Move"}
	s := newScene(t, profile)
	p := s.d.Join("")
	require.Equal(t, 100, s.calls(p, "big.lane.Part", 100))
	require.Equal(t, 100, s.calls(p, "A.Upload", 100))
	require.Equal(t, "Normal", p.State())
	require.Equal(t, 50, s.calls(p, "Pawn.Move", 50))
	require.Equal(t, "Burst", p.State())
	require.Equal(t, 5, s.calls(p, "Pawn.Fire", 9))
}

func TestProfilesThatMakeNoSense(t *testing.T) {
	for want, change := range map[string]func(p *Profile){
		"has 1 state":               func(p *Profile) { p.States = p.States[:1] },
		"States[0] must not have":   func(p *Profile) { p.States[0].Frame.Calls = 1 },
		`States[2] "Burst": Window`: func(p *Profile) { p.States[2].Window = 1500 * time.Millisecond },
		"whole seconds":             func(p *Profile) { p.States[2].Window = 17 * time.Second },
		"RepeatWindow is 0s":        func(p *Profile) { p.States[2].RepeatWindow = 0 },
		"Name is empty":             func(p *Profile) { p.States[1].Name = "" },
		"limit or time is negative": func(p *Profile) { p.States[1].Frame.Bytes = -1 },
		"number of the Profile is":  func(p *Profile) { p.Identities = -1 },
	} {
		p := plain()
		change(p)
		_, err := New(p)
		require.ErrorContains(t, err, want)
	}
	for _, p := range []*Profile{plain(), Default()} {
		_, err := New(p)
		require.NoError(t, err)
	}
}

// TestClocksThatJump: a clock that goes back counts as standing still, and long
// gaps end all states.
func TestClocksThatJump(t *testing.T) {
	s := newScene(t, plain())
	p := s.d.Join("")
	s.calls(p, "A.B", 30)
	s.frame(-time.Hour)
	s.calls(p, "A.B", 1)
	require.Equal(t, "Burst", p.State())
	s.frame(100 * 24 * time.Hour)
	s.calls(p, "A.B", 1)
	require.Equal(t, "Normal", p.State())
}

// TestSumsOverAnyPlay compares the detector's sums with sums over all calls that were ever made.
func TestSumsOverAnyPlay(t *testing.T) {
	random := testkit.Rand(t)
	for range 200 {
		window := time.Duration(1+random.IntN(16)) * time.Second
		quota := 1 + random.IntN(60)
		s := newScene(t, &Profile{States: []State{{Name: "Normal"}, {Name: "Over", Period: Load{Calls: quota}, Window: window, Cooloff: time.Second}}})
		p := s.d.Join("")
		var at []int64 // seconds of all calls
		was := "Normal"
		for range 300 {
			s.frame(time.Duration(random.IntN(700)) * time.Millisecond)
			s.calls(p, "A.B", 1)
			at = append(at, s.d.second)
			sum := 0
			for _, second := range at {
				if second > s.d.second-int64(window/time.Second) {
					sum++
				}
			}
			if sum >= quota {
				require.Equal(t, "Over", p.State(), "%d in %v, the quota is %d", sum, window, quota)
			} else if was == "Normal" {
				require.Equal(t, "Normal", p.State(), "%d in %v, the quota is %d", sum, window, quota)
			}
			was = p.State()
		}
	}
}

func TestCallsAllocateNothing(t *testing.T) {
	s := newScene(t, Default())
	p := s.d.Join("ann")
	m := p.Method("A.B")
	require.Zero(t, testing.AllocsPerRun(2000, func() {
		s.frame(30 * time.Millisecond)
		p.Call(m, 10)
		p.Done(m, time.Microsecond)
	}))
}

func BenchmarkCall(b *testing.B) {
	d, err := New(Default())
	require.NoError(b, err)
	p := d.Join("")
	m := p.Method("A.B")
	now := time.Unix(0, 0)
	b.ReportAllocs()
	for i := range b.N {
		if i%4 == 0 {
			now = now.Add(33 * time.Millisecond)
			d.Frame(now)
		}
		p.Call(m, 20)
		p.Done(m, time.Microsecond)
	}
}

// TestEscalationNamesTheMethods: the report of an escalation names the method
// that went on and the one that led into the state, even if the calls of that
// have ended, or began before blameTime, or the client has left meanwhile.
func TestEscalationNamesTheMethods(t *testing.T) {
	profile := plain()
	profile.States[2].Period, profile.States[2].Window = Load{Calls: 30}, 8*time.Second
	for _, leaves := range []bool{false, true} {
		s := newScene(t, profile)
		p := s.d.Join("eve")
		for range 15 {
			s.calls(p, "A.Rare", 1)
			s.frame(time.Second)
		}
		for range 3 {
			s.calls(p, "A.Often", 9)
			s.frame(500 * time.Millisecond)
		}
		require.Equal(t, "Burst", p.State())
		reason := ""
		for n := range 6 {
			if leaves && n == 2 {
				s.d.Leave(p)
				p = s.d.Join("eve")
			}
			s.frame(time.Second)
			p.catchUp()
			if r, ok := p.Report(); ok {
				require.True(t, r.Kick)
				reason = r.Reason
			}
			s.calls(p, "A.Other", 4) // a second's share of 30 in 8 s
		}
		require.Equal(t, `"Burst" persisted for 4s (States[2].AutoEscalate) with A.Other: 16 calls; its cause was 30 calls within 8s (States[2].Period.Calls), `+
			"mostly A.Often", reason)
	}
}

// TestLoggedStatesEndLogged: the end of a state is logged if the state has Log, and otherwise not.
func TestLoggedStatesEndLogged(t *testing.T) {
	profile := plain()
	profile.States[2].Log = true
	s := newScene(t, profile)
	p := s.d.Join("ann")
	for calls, want := range map[int]bool{12: false, 35: true} {
		s.calls(p, "A.B", calls)
		for range 20 {
			s.frame(time.Second)
			p.catchUp()
			if r, ok := p.Report(); ok {
				require.Equal(t, want, r.Log, "%+v", r)
			}
		}
		require.Equal(t, "Normal", p.State())
	}
}

// TestShareOfAnyQuota: a second's share of the highest quota is no less than that of a lower one,
// and a time longer than an int of 32 bits is not cut off.
func TestShareOfAnyQuota(t *testing.T) {
	s := State{Window: 4 * time.Second, Period: Load{math.MaxInt, 9, 10 * time.Second}}
	require.Equal(t, Load{math.MaxInt/4 + 1, 3, 2500 * time.Millisecond}, *s.share())
	require.Equal(t, Load{}, *(&State{Window: time.Second}).share())
}
