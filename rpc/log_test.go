package rpc

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestFailedCallsAreTheCallers: an error that Call returns is logged at Debug only.
func TestFailedCallsAreTheCallers(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	inNet(t, 0, Config{}, func(n *network) {
		n.join(Config{Logger: logger})
		n.join(Config{})
		a := n.spawn(1)
		require.NoError(t, a.OpenTo(n.conns[0]))
		n.tick(3)
		log.Reset()
		require.ErrorIs(t, fire.Call(n.mirror(0, a), shot{1}), ErrNotOwner)
		require.Empty(t, log.String())

		require.NoError(t, n.clients[0].SetLogLevel(slog.LevelDebug, "reliable"))
		require.ErrorIs(t, fire.Call(n.mirror(0, a), shot{1}), ErrNotOwner)
		require.Regexp(t, `msg="call failed" category=reliable rpc=Hero.Fire error="rpc: Hero\.Fire: Hero \d+ on conn 1 belongs to another client or has no owner: `, log.String())
	})
}

// TestMulticastToNobodyIsTold: if a class that was ported from Unreal has no
// At, a warning explains why others have no copies, once a class, and not for
// actors for which the game has decided who sees them.
func TestMulticastToNobodyIsTold(t *testing.T) {
	var log strings.Builder
	inNet(t, 2, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(n *network) {
		said := func(a *Actor) int {
			log.Reset()
			require.NoError(t, blast.Call(a, 1))
			return strings.Count(log.String(), "Multicast reaches only the owner")
		}
		named := n.spawn(0)
		require.NoError(t, named.OpenTo(n.conns[1]))
		require.Zero(t, said(named), "opened by the game")
		require.Equal(t, 1, said(n.spawn(0)))
		require.Zero(t, said(n.spawn(1)), "told before")
	})
}

// TestDebugRecordsByCategory: each record names its subject, and no record of a
// category that is off is written.
func TestDebugRecordsByCategory(t *testing.T) {
	var log strings.Builder
	handler := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})
	inNet(t, 0, Config{Logger: slog.New(handler)}, func(n *network) {
		lines := func(categories ...string) []string {
			log.Reset()
			require.NoError(t, n.server.SetLogLevel(slog.LevelDebug, categories...))
			n.join(Config{})
			a := n.spawn(0)
			require.NoError(t, bulk.Call(a, make(Raw, 3000)))
			*a.text() = "new" + a.String()
			n.tick(5)
			require.NoError(t, a.SetDormant(true))
			n.tick(5)
			require.NoError(t, n.server.SetLogLevel(slog.LevelInfo, categories...))
			var lines []string
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "level=DEBUG") {
					lines = append(lines, line)
				}
			}
			return lines
		}
		for category, want := range map[string]string{
			"handshake": "message=control.Join",
			"channel":   "reason=Dormancy",
			"partial":   "rpc=Hero.Bulk channel=",
			"reliable":  "entries=3 out=",
			"rep":       `msg="states sent"`,
			"dormancy":  `msg="goes dormant"`,
		} {
			got := lines(category)
			require.NotEmpty(t, got, category)
			for _, line := range got {
				require.Contains(t, line, "category="+category+" ")
			}
			require.Contains(t, strings.Join(got, ""), want)
		}
		require.ErrorContains(t, n.server.SetLogLevel(slog.LevelDebug, "nonsense"), "unknown log category")
	})
}

// untouchable is a handler that is off, and fails when it is asked for more.
type untouchable struct {
	slog.Handler
	t *testing.T
}

func (u untouchable) Handle(_ context.Context, r slog.Record) error {
	require.GreaterOrEqual(u.t, r.Level, slog.LevelInfo, r.Message)
	return nil
}

func (u untouchable) Enabled(context.Context, slog.Level) bool { return true }
func (u untouchable) WithAttrs(attrs []slog.Attr) slog.Handler { return u }

// TestDebugRecordsCostNothingWhenOff: the handler would take them, and the level does not let them.
func TestDebugRecordsCostNothingWhenOff(t *testing.T) {
	inNet(t, 0, Config{Logger: slog.New(untouchable{slog.DiscardHandler, t})}, func(n *network) {
		n.join(Config{})
		a := n.spawn(0)
		n.tick(60)
		c := n.conns[0]
		allocs := testkit.Allocs(100, func() {
			c.world.logs.Sent(c.callForLog(bulk.m, 3000), a.openings[0].channel, Channel{c, a.openings[0].channel}.Reliable)
			c.world.logs.Received(c.callForLog(bulk.m, 3000), a)
			c.world.logs.Opened(c, a, 1)
			c.world.logs.Closed(c, a, 1, Destroyed)
			c.world.logs.Actor(logs.Relevancy, "relevant", c, a)
			c.world.logs.Updates(c, c.shown.state.budget.lastUsed, len(c.shown.state.dirty), c.shown.state.behind)
		})
		require.Zero(t, allocs)
	})
}

// TestStatesThatNothingKeepsAreTold: before, neither end reported a forgotten
// Replicate, and the copies stayed as their constructors had left them.
func TestStatesThatNothingKeepsAreTold(t *testing.T) {
	class := NewClass("Forgetful")
	gear := NewState[struct{ Ammo uint16 }](class)
	NewState[mood](class)
	NewList[uint32, uint16](class, "Bag")
	belt := NewComponent(class, "Belt")
	NewState[mood](belt)
	for _, whole := range []bool{false, true} {
		var log strings.Builder
		w := newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		b := Bind(w.World, class, func(*Actor) *struct{ Ammo uint16 } { return new(struct{ Ammo uint16 }) })
		Replicate(b, gear, func(o *struct{ Ammo uint16 }) *struct{ Ammo uint16 } { return o })
		if whole {
			Bind(w.World, belt, func(*Actor) *mood { return new(mood) })
		}
		for range 3 {
			_, _, err := Spawn(b, nil, nil)
			require.NoError(t, err)
		}
		states := `states="Forgetful.mood, Forgetful.Bag"` // nobody expects states of a component that is not bound
		if whole {
			states = `states="Forgetful.mood, Forgetful.Bag, ` + belt.name + `.mood"`
		}
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		require.Contains(t, log.String(), states)
		require.Contains(t, log.String(), "Replicate")
	}
}

// TestStateOfAnUnnamedStructIsTold: before, it was logged as "Nameless.", which no search finds.
func TestStateOfAnUnnamedStructIsTold(t *testing.T) {
	class := NewClass("Nameless")
	NewState[struct{ Ammo uint16 }](class)
	require.PanicsWithValue(t, `rpc: class Nameless declares both Nameless.struct { Ammo uint16 } and Nameless.struct { Gold int }: the names of its state types and lists must be unique`,
		func() { NewState[struct{ Gold int }](class) })
	var log strings.Builder
	w := newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, _, err := Spawn(Bind(w.World, class, func(*Actor) *mood { return new(mood) }), nil, nil)
	require.NoError(t, err)
	require.Contains(t, log.String(), `states="Nameless.struct { Ammo uint16 }"`)
}

type mood struct{ Level uint8 }
