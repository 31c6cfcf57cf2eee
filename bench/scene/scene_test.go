package scene

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/scenes"
)

func TestRows(t *testing.T) {
	require.Empty(t, Rows(""))
	require.Len(t, Rows("*"), len(scenes.Table()))
	require.Len(t, Rows("way back: "), 1)
}

func TestSeeds(t *testing.T) {
	require.Equal(t, []uint64{4, 5, 6}, Seeds{4, 3}.All())
	require.Equal(t, "seeds 4 to 6", Seeds{4, 3}.String())
	require.Equal(t, "seed 4", Seeds{4, 1}.String())
	row := Rows("loss: 10 Mbit/s 20 ms 5 %")[:1]
	all, err := Play(context.Background(), row, Seeds{4, 2}, func(Outcome) {})
	require.NoError(t, err)
	require.Equal(t, row[0].Play(4, 5), all[0].Figures)
}

// TestPlay plays a row that holds and one that does not, which others play as well.
func TestPlay(t *testing.T) {
	impossible := Rows("way back: ")[0]
	impossible.Judge = func(scenes.Result) []scenes.Figure { return []scenes.Figure{{Name: "never", Value: 2, Most: 1}} }
	told := 0
	all, err := Play(context.Background(), append(Rows("way back: "), impossible), Seeds{1, 2}, func(Outcome) { told++ })
	require.NoError(t, err)
	require.Equal(t, 2, told)
	require.False(t, all[0].Missed(), "%v", all[0].Figures)
	require.Empty(t, all[0].Others)
	require.True(t, all[1].Missed())
	require.Len(t, all[1].Others, 3)
}

func TestPlayEnds(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	all, err := Play(ctx, Rows("little"), Seeds{1, 1}, func(Outcome) { stop() })
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, len(all), 3)
}
