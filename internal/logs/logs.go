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

// A Category is the subject of a log record. Each category can have its own level.
type Category uint8

// The categories, with Unreal's equivalents.
const (
	Handshake Category = iota // messages of the handshake. UE: LogHandshake, LogNet
	Channel                   // channels of actors open and close. UE: LogNetTraffic
	Partial                   // messages that need more than one bunch. UE: LogNetPartialBunch
	Reliable                  // reliable calls, and what fills their buffers. UE: net.Reliable.Debug
	Rep                       // updates of states. UE: LogRep, LogRepTraffic
	Relevancy                 // actors become relevant or irrelevant
	Dormancy                  // actors fall asleep and wake. UE: LogNetDormancy
	categories
)

// names holds the names of the categories.
var names = [categories]string{
	"handshake", "channel", "partial", "reliable", "rep", "relevancy", "dormancy",
}

// A Set is the logger of a world, with a logger for each category. Its methods may be called
// concurrently.
type Set struct {
	All    *slog.Logger             // for records without a category
	level  *slog.LevelVar           // level of all records; the caller of New may also change it
	levels [categories]own          // set by SetLevel
	of     [categories]*slog.Logger // by category

	strangers strangers // limits the records that clients can cause
}

// own is a category's own level, if SetLevel has set one.
type own struct {
	level slog.LevelVar
	set   atomic.Bool // if false, Set.level applies
}

// New returns a Set that writes to logger's handler. If logger is nil, the Set discards all
// records.
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

// Debug returns the logger of a category, or nil if the category's records at Debug are off.
// The caller can then skip formatting them.
func (s *Set) Debug(c Category) *slog.Logger {
	if log := s.of[c]; log.Enabled(context.Background(), slog.LevelDebug) {
		return log
	}
	return nil
}

// debugIf is Debug if worth is true, and otherwise returns nil. Most calls are not worth a
// record, and checking that first is cheaper than asking the handler for its level.
func (s *Set) debugIf(worth bool, c Category) *slog.Logger {
	if !worth {
		return nil
	}
	return s.Debug(c)
}

// Failed logs the error of a call at Debug. The caller has the same error but may ignore it.
// UE: net.RPC.Debug.
func (s *Set) Failed(rpc fmt.Stringer, err error) {
	if log := s.Debug(Reliable); log != nil {
		log.Debug("call failed", "rpc", rpc.String(), "error", err)
	}
}

// Guest logs an action of a client that has joined. If the client's party, or all clients
// together, have used up their records of this kind for the minute, Guest only counts the
// record.
func (s *Set) Guest(level slog.Level, of Deed, party any, message string, args ...any) {
	pass := func(now time.Time) (hidden int, ok bool) {
		return s.strangers.guests[of].pass(party, now)
	}
	s.bounded(pass, level, message, args)
}

// bounded logs a record if pass allows it. The record contains the number of records not
// logged since the last one.
func (s *Set) bounded(
	pass func(now time.Time) (hidden int, ok bool), level slog.Level, message string, args []any,
) {
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

// SetLevel sets the level of the named categories. Without names, it sets the level of all
// records, except those of categories whose own level was set.
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

// leveled is a handler whose level may change at run time. Before a record reaches Handler,
// it must pass own if that is set, and otherwise level.
type leveled struct {
	slog.Handler
	level *slog.LevelVar
	own   *own // level of the category; nil if there is none
}

// Enabled implements slog.Handler.
func (h leveled) Enabled(ctx context.Context, level slog.Level) bool {
	least := h.level.Level()
	if h.own != nil && h.own.set.Load() {
		least = h.own.level.Level()
	}
	return level >= least && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level, h.own}
}

// WithGroup implements slog.Handler.
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level, h.own}
}
