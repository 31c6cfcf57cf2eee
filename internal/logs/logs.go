package logs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Category is what a record is about.
type Category uint8

// The categories, with Unreal's beside them.
const (
	Handshake Category = iota // messages of the handshake. UE: LogHandshake, LogNet
	Channel                   // channels of actors open and close. UE: LogNetTraffic
	Partial                   // messages that need more than one bunch. UE: LogNetPartialBunch
	Reliable                  // reliable calls, and what fills their buffers. UE: net.Reliable.Debug
	Rep                       // updates of states. UE: LogRep, LogRepTraffic
	Relevancy                 // actors become relevant, or no longer are
	Dormancy                  // actors fall asleep and wake. UE: LogNetDormancy
	categories
)

var names = [categories]string{"handshake", "channel", "partial", "reliable", "rep", "relevancy", "dormancy"}

// Set is a logger of all records, and one for each category. Its methods are safe from any goroutine.
type Set struct {
	All    *slog.Logger
	level  *slog.LevelVar
	levels [categories]own
	of     [categories]*slog.Logger

	strangers strangers
}

// own is the level of a category.
type own struct {
	level slog.LevelVar
	set   atomic.Bool // else it is that of all records
}

// New returns the loggers over a handler. logger may be nil: then nothing is ever enabled.
func New(logger *slog.Logger, level *slog.LevelVar) *Set {
	handler := slog.Handler(slog.DiscardHandler)
	if logger != nil {
		handler = logger.Handler()
	}
	s := &Set{All: slog.New(leveled{handler, level, nil}), level: level}
	for c := range s.of {
		attr := []slog.Attr{slog.String("category", names[c])}
		s.of[c] = slog.New(leveled{handler.WithAttrs(attr), level, &s.levels[c]})
	}
	return s
}

// Debug returns the logger of a category, nil when its records at Debug are off: then nothing is formatted.
func (s *Set) Debug(c Category) *slog.Logger {
	if log := s.of[c]; log.Enabled(context.Background(), slog.LevelDebug) {
		return log
	}
	return nil
}

// debugIf is Debug of what is worth a record. Most calls are not, and to ask a handler for its level costs more than to look at a call.
func (s *Set) debugIf(worth bool, c Category) *slog.Logger {
	if !worth {
		return nil
	}
	return s.Debug(c)
}

// Failed records the error of a call, which its caller has got and may ignore. UE: net.RPC.Debug.
func (s *Set) Failed(rpc fmt.Stringer, err error) {
	if log := s.Debug(Reliable); log != nil {
		log.Debug("call failed", "rpc", rpc.String(), "error", err)
	}
}

// Guest logs what a client that has joined did, unless its party, or all clients, have had enough records of that in this minute: then it
// only counts this one. It is safe from any goroutine.
func (s *Set) Guest(level slog.Level, of Deed, party any, message string, args ...any) {
	pass := func(now time.Time) (hidden int, ok bool) { return s.strangers.guests[of].pass(party, now) }
	s.bounded(pass, level, message, args)
}

// bounded logs what clients did, if it may pass now, and how many records were hidden before.
func (s *Set) bounded(pass func(now time.Time) (hidden int, ok bool), level slog.Level, message string, args []any) {
	s.strangers.mu.Lock()
	hidden, ok := pass(time.Now())
	s.strangers.mu.Unlock()
	if !ok {
		return
	}
	if hidden > 0 {
		args = append(args, "hidden", hidden)
	}
	s.All.Log(context.Background(), level, message, args...)
}

// SetLevel sets the level of categories from now on, by their names; without one that of all records, but for the categories
// that have a level of their own.
func (s *Set) SetLevel(level slog.Level, of ...string) error {
	for _, name := range of {
		if !slices.Contains(names[:], name) {
			return fmt.Errorf("rpc: no log category is called %q: there are %s", name, strings.Join(names[:], ", "))
		}
	}
	for _, name := range of {
		c := &s.levels[slices.Index(names[:], name)]
		c.level.Set(level)
		c.set.Store(true)
	}
	if len(of) == 0 {
		s.level.Set(level)
	}
	return nil
}

// leveled puts a level that may change at run time in front of a handler.
type leveled struct {
	slog.Handler
	level *slog.LevelVar
	own   *own // nil = none
}

func (h leveled) Enabled(ctx context.Context, level slog.Level) bool {
	least := h.level.Level()
	if h.own != nil && h.own.set.Load() {
		least = h.own.level.Level()
	}
	return level >= least && h.Handler.Enabled(ctx, level)
}

func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level, h.own}
}

func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level, h.own}
}
