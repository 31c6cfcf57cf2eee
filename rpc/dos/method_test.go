package dos

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWhoIsBlamed: blamed and most compare methods as documented, in whatever
// order these were called first.
func TestWhoIsBlamed(t *testing.T) {
	const second = 100
	little, much := Load{Calls: 1, Bytes: 1, Time: 1}, Load{Calls: 2, Bytes: 2, Time: 2}
	for name, row := range map[string]struct {
		other, want    Method
		blamed, recent bool // want is whom blamed, and whom most returns
	}{
		"more load":              {Method{inState: little, recent: little, since: second}, Method{inState: much, recent: much, since: second}, true, true},
		"more blocked":           {Method{inState: much, blocked: 1}, Method{inState: little, blocked: 2}, true, false},
		"as many blocked":        {Method{inState: little, blocked: 2}, Method{inState: much, blocked: 2}, true, false},
		"a newer state":          {Method{inState: much, blocked: 9, stay: 3}, Method{inState: little, stay: 4}, true, false},
		"in the time of blame":   {Method{recent: much, since: second - blameTime}, Method{recent: little, since: second - blameTime + 1}, false, true},
		"one that counts":        {Method{recent: much, since: second, inState: much, exempt: true}, Method{recent: little, since: second}, true, true},
		"less load of the kinds": {Method{recent: Load{Calls: 1}, since: second, inState: Load{Calls: 1}}, Method{recent: much, since: second, inState: much}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []loadKind{callsLoad, bytesLoad, timeLoad} {
				methods := []*Method{&row.other, &row.want}
				for range 2 {
					p := &Peer{methods: methods, kind: kind, second: second}
					if row.blamed {
						require.Same(t, &row.want, p.blamed(), kind)
					}
					if row.recent {
						require.Same(t, &row.want, p.heaviest(kind), kind)
					}
					slices.Reverse(methods)
				}
			}
		})
	}
	first := &Method{inState: much, recent: much, since: second}
	p := &Peer{methods: []*Method{first, {inState: much, recent: much, since: second}}, kind: callsLoad, second: second}
	require.Same(t, first, p.blamed(), "of two alike the one that was called first")
	require.Same(t, first, p.heaviest(callsLoad))
	p = &Peer{methods: []*Method{{exempt: true}}}
	require.Nil(t, p.blamed())
	require.Nil(t, p.heaviest(callsLoad))
	require.Empty(t, p.describeBlamed())
	p = &Peer{methods: []*Method{{name: "A.B", inState: much, blocked: 1}}}
	require.Equal(t, " with A.B: 2 calls, 1 of them blocked", p.describeBlamed())
}

// TestBlockedCallsOfAnEarlierState: calls that were blocked in an earlier state
// blame no method, because the counts restart with each state.
func TestBlockedCallsOfAnEarlierState(t *testing.T) {
	m := &Method{blocked: 3, inState: Load{Calls: 9}, stay: 1}
	m.add(0, 1, Load{Calls: 1})
	require.Equal(t, []int{3, 10}, []int{m.blocked, m.inState.Calls})
	m.add(0, 2, Load{Calls: 1})
	require.Equal(t, []int{0, 1}, []int{m.blocked, m.inState.Calls})
}

// TestRepeatOfBytes: a method runs until the bytes that ran reach the limit,
// and again in a higher state.
func TestRepeatOfBytes(t *testing.T) {
	profile := plain()
	profile.States[2].Repeat, profile.States[3].Repeat = Load{Bytes: 50}, Load{Bytes: 30}
	profile.States[3].RepeatWindow, profile.States[3].Kick = time.Second, false
	s := newScene(t, profile)
	p := s.d.Join("")
	require.Equal(t, 29+5, s.calls(p, "A.B", 59), "10 bytes each")
	require.Equal(t, "Burst", p.State())
	require.Equal(t, 3, s.calls(p, "A.B", 20))
	require.Equal(t, "Kick", p.State())
}
