package rpc

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// leveled puts a level that may change at run time in front of a handler.
type leveled struct {
	slog.Handler
	level *slog.LevelVar
}

// newLogger returns a logger that is never nil.
func newLogger(logger *slog.Logger, level *slog.LevelVar) *slog.Logger {
	if logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(leveled{logger.Handler(), level})
}

func (h leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level.Level() && h.Handler.Enabled(ctx, level)
}

func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level}
}

func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}

// warnEvery is the shortest time between two warnings for one reason, of one connection, of those that have not joined, or of
// one method.
const warnEvery = time.Second

// warnGate lets one warning a second through and counts the others.
type warnGate struct {
	last   time.Time
	hidden int
}

// What strangers can make a world warn about, so that each kind is written once a second at most.
const (
	warnRetry = iota
	warnRefused
	warnFailed
	warnLogin
	warnKinds
)

// warn writes a warning about strangers, unless one of its kind was written within the last second: then it is counted.
func (w *World) warn(kind int, message string, args ...any) {
	w.warnMu.Lock()
	hidden, ok := w.warns[kind].pass(time.Now())
	w.warnMu.Unlock()
	if !ok {
		return
	}
	if hidden > 0 {
		args = append(args, "hidden", hidden)
	}
	w.log.Warn(message, args...)
}

// pass reports whether a warning may be written, and how many were not since the last one.
func (g *warnGate) pass(now time.Time) (hidden int, ok bool) {
	if !g.last.IsZero() && now.Sub(g.last) < warnEvery && !now.Before(g.last) {
		g.hidden++
		return 0, false
	}
	hidden, g.hidden, g.last = g.hidden, 0, now
	return hidden, true
}

// callFailed logs an error that Call returns, at most once a second for each method. That an actor or its connection is
// gone is no mistake, and is logged where it ended.
func (w *World) callFailed(m *method, err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	gate := w.failed[m]
	hidden, ok := gate.pass(time.Now()) // the world's own time stands still between ticks
	w.failed[m] = gate
	if ok {
		w.log.Warn("call failed", "rpc", m.String(), "error", err, "more", hidden)
	}
}
