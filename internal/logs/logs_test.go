package logs

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// onlyRep is a handler that is enabled for the category rep, and fails when it
// is asked to format another.
type onlyRep struct {
	slog.Handler
	t        *testing.T
	category string
}

func (d onlyRep) Enabled(context.Context, slog.Level) bool { return d.category == "rep" }

func (d onlyRep) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key == "category" {
			d.category = a.Value.String()
		}
	}
	d.Handler = d.Handler.WithAttrs(attrs)
	return d
}

func (d onlyRep) Handle(ctx context.Context, r slog.Record) error {
	require.Equal(d.t, "rep", d.category)
	return d.Handler.Handle(ctx, r)
}

// TestAHandlerMayDecide by the attribute that it is given before any record.
func TestAHandlerMayDecide(t *testing.T) {
	var out strings.Builder
	level := new(slog.LevelVar)
	level.Set(slog.LevelDebug)
	s := New(slog.New(onlyRep{Handler: slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}), t: t}), level)
	require.Nil(t, s.Debug(Channel))
	s.Debug(Rep).With("a", 1).WithGroup("g").Debug("hello", "b", 2)
	require.Contains(t, out.String(), "level=DEBUG msg=hello category=rep a=1 g.b=2")
}

// TestLevels of all records, and of categories.
func TestLevels(t *testing.T) {
	level := new(slog.LevelVar)
	s := New(slog.New(slog.NewTextHandler(new(strings.Builder), &slog.HandlerOptions{Level: slog.LevelDebug})), level)
	on := func() (list []string) {
		for c := range numCategories {
			if s.Debug(c) != nil {
				list = append(list, categoryNames[c])
			}
		}
		return list
	}
	require.Empty(t, on())
	require.NoError(t, s.SetLevel(slog.LevelDebug, "rep", "partial"))
	require.Equal(t, []string{"partial", "rep"}, on())
	require.False(t, s.All.Enabled(t.Context(), slog.LevelDebug), "nothing else")
	require.NoError(t, s.SetLevel(slog.LevelDebug))
	require.Len(t, on(), int(numCategories))
	require.NoError(t, s.SetLevel(slog.LevelInfo, "rep"))
	require.NotContains(t, on(), "rep")
	require.ErrorContains(t, s.SetLevel(slog.LevelDebug, "channel", "wrong"), `"wrong": use handshake, channel,`)
	require.Nil(t, New(nil, level).Debug(Channel))
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Debug(Rep) }))
}
