package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bench/scene"
	"github.com/quivernet/quiver/internal/scenes"
)

func TestOwnScene(t *testing.T) {
	s, err := ownScene(" 35mbit 65ms  0.5% 1.5", "3 ours,2 cubic", time.Minute)
	require.NoError(t, err)
	want := scenes.Path(35e6, 65*time.Millisecond, 0.005, 1.5)
	require.Equal(t, want.There, s.There)
	require.Equal(t, want.Back, s.Back)
	require.Len(t, s.Flows, 5)
	require.Equal(t, scenes.Flow{Kind: scenes.Cubic, Begin: time.Second}, s.Flows[3])
	require.Equal(t, 61*time.Second, s.For)
	for _, rate := range []string{"35000kbit", "0.035gbit"} {
		s, err := ownScene(rate+" 65ms 0.5% 1.5", "1 bbr", time.Minute)
		require.NoError(t, err)
		require.Equal(t, want.There.Rate, s.There.Rate)
	}
}

// TestOwnSceneSaysWhatIsWrong checks that an error names everything wrong with a description.
func TestOwnSceneSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ path, flows, wrong string }{
		{"35mbit 65ms 0.7%", "1 ours", "got 3 words; must be four"},
		{"35 65ms 0.7% 1", "1 ours", `rate is "35"`},
		{"mbit 65ms 0.7% 1", "1 ours", `rate is "mbit"`},
		{"35mbps 65ms 0.7% 1", "1 ours", `rate is "35mbps"`},
		{"99gbit 65ms 0.7% 1", "1 ours", `rate is "99gbit"`},
		{"35mbit 65 0.7% 1", "1 ours", `round trip is "65"`},
		{"35mbit 65ms 0.7 1", "1 ours", `random loss is "0.7"`},
		{"35mbit 65ms NaN% 1", "1 ours", `random loss in % is "NaN"`},
		{"35mbit 65ms 100% 1", "1 ours", `from 0 to 50`},
		{"35mbit 65ms 1% -1", "1 ours", `queue in bandwidth-delay products is "-1"`},
		{"35mbit 65 1% -1", "1 ours", `round trip is "65"; must be from 1ms to 5s` + "\n" + `queue in bandwidth-delay products is "-1"`},
		{"35mbit 65ms 1% 1", "", `"" must be a number and a kind`},
		{"35mbit 65ms 1% 1", "1 ours,", `"" must be a number and a kind`},
		{"35mbit 65ms 1% 1", "ours", `"ours" must be a number and a kind`},
		{"35mbit 65ms 1% 1", "0 ours", `number of flows is "0"`},
		{"35mbit 65ms 1% 1", "1 vegas", `kind is "vegas"; must be ours, reno`},
	} {
		_, err := ownScene(c.path, c.flows, time.Minute)
		require.ErrorContains(t, err, c.wrong, "%s; %s", c.path, c.flows)
	}
	_, err := ownScene(pathForm, flowsForm, time.Second)
	require.ErrorContains(t, err, "-for is 1s")
	_, err = parseScenes([]string{"-path", pathForm, "-rows", "crowd"})
	require.ErrorContains(t, err, "-path excludes -rows")
}

func TestPlayOwn(t *testing.T) {
	o, err := parseScenes([]string{"-path", "10mbit 20ms 0% 1", "-flows", "1 ours, 1 reno", "-for", "4s", "-seeds", "2"})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, playOwn(t.Context(), &b, *o.own, o.seeds))
	require.Contains(t, b.String(), "10mbit 20ms 0% 1, 4s, seeds 1 to 2\n\n| flows | of the rate | lost, % | Jain's index |")
	for _, row := range []string{"| 1 ours | ", "| 1 reno | ", "| all | "} {
		require.Contains(t, b.String(), "\n"+row)
	}
	require.NotContains(t, b.String(), "NaN")
	r := scenes.Run(o.own.Shifted(1), 1)
	all := ownFigures(r, []scenes.Kind{scenes.Ours, scenes.Reno})
	require.InDelta(t, 0.9, all[0], 0.1)
	require.InDelta(t, all[0], ownFigures(r, []scenes.Kind{scenes.Ours})[0]+ownFigures(r, []scenes.Kind{scenes.Reno})[0], 1e-9)
	require.GreaterOrEqual(t, all[4], all[3], "the queue's 95th percentile is above its mean here")
	require.Equal(t, scene.Seeds{First: 1, Count: 2}, o.seeds)
}
