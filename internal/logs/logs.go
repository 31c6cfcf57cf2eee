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

// These are the categories. "UE:" names the log category or command of Unreal Engine that shows the
// same.
const (
	Handshake Category = iota // messages of the handshake. UE: LogHandshake, LogNet
	Channel                   // channels of actors open and close. UE: LogNetTraffic
	Partial                   // messages that need more than one bunch. UE: LogNetPartialBunch
	Reliable                  // reliable calls, and what fills their buffers. UE: net.Reliable.Debug
	Rep                       // updates of states. UE: LogRep, LogRepTraffic
	Relevancy                 // actors become relevant or irrelevant
	Dormancy                  // actors go dormant and wake. UE: LogNetDormancy
	numCategories
)

// categoryNames holds the names of the categories.
var categoryNames = [numCategories]string{
	"handshake", "channel", "partial", "reliable", "rep", "relevancy", "dormancy",
}

// A Set is the logger of a world, with one more logger for each category. Its methods may be
// called concurrently.
type Set struct {
	All *slog.Logger                // for records without a category
	of  [numCategories]*slog.Logger // by category

	// Levels, which may change at any time.
	level  *slog.LevelVar               // of all records; shared with the caller of New
	levels [numCategories]categoryLevel // of each category

	limits recordLimits // limits the records that clients can cause
}

// A categoryLevel is the level that SetLevel has given to a category, if any.
type categoryLevel struct {
	level slog.LevelVar
	set   atomic.Bool // if false, Set.level applies
}

// New returns a Set that writes to logger's handler, or that discards all records if logger is
// nil.
func New(logger *slog.Logger, level *slog.LevelVar) *Set {
	handler := slog.Handler(slog.DiscardHandler)
	if logger != nil {
		handler = logger.Handler()
	}
	s := &Set{All: slog.New(leveled{handler, level, nil}), level: level}
	for c := range s.of {
		attr := []slog.Attr{slog.String("category", categoryNames[c])}
		s.of[c] = slog.New(leveled{handler.WithAttrs(attr), level, &s.levels[c]})
	}
	return s
}

// Debug returns the logger of a category, or nil if its records at Debug are off, so that the
// caller needn't format them.
func (s *Set) Debug(c Category) *slog.Logger {
	if log := s.of[c]; log.Enabled(context.Background(), slog.LevelDebug) {
		return log
	}
	return nil
}

// debugWhen is Debug, but returns nil immediately unless worth is true. Most calls aren't worth a
// record, and checking that first is cheaper than asking the handler for its level.
func (s *Set) debugWhen(worth bool, c Category) *slog.Logger {
	if !worth {
		return nil
	}
	return s.Debug(c)
}

// Failed logs the error of a call at Debug, because the caller gets the same error but may ignore
// it. UE: net.RPC.Debug.
func (s *Set) Failed(rpc fmt.Stringer, err error) {
	if log := s.Debug(Reliable); log != nil {
		log.Debug("call failed", "rpc", rpc.String(), "error", err)
	}
}

// LogJoined logs what a client that has joined did. If its party has used up its records of this
// kind for the minute, or all clients together have, LogJoined only counts the record.
func (s *Set) LogJoined(level slog.Level, of Activity, party any, message string, args ...any) {
	pass := func(now time.Time) (hidden int, ok bool) {
		return s.limits.joined[of].pass(party, now)
	}
	s.logLimited(pass, level, message, args)
}

// logLimited logs a record if pass allows it. The record also says how many were hidden since the
// last one, if any.
func (s *Set) logLimited(
	pass func(now time.Time) (hidden int, ok bool), level slog.Level, message string, args []any,
) {
	s.limits.mu.Lock()
	hidden, ok := pass(time.Now())
	s.limits.mu.Unlock()
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
		if !slices.Contains(categoryNames[:], name) {
			return fmt.Errorf("rpc: unknown log category %q: use %s", name, strings.Join(categoryNames[:], ", "))
		}
	}
	for _, name := range of {
		c := &s.levels[slices.Index(categoryNames[:], name)]
		c.level.Set(level)
		c.set.Store(true)
	}
	if len(of) == 0 {
		s.level.Set(level)
	}
	return nil
}

// A leveled is a handler whose level may change at run time. The category's own level decides which
// records get to Handler, or level if the category has none.
type leveled struct {
	slog.Handler
	level    *slog.LevelVar
	category *categoryLevel // nil if there is no category
}

// Enabled implements slog.Handler.
func (h leveled) Enabled(ctx context.Context, level slog.Level) bool {
	minimum := h.level.Level()
	if h.category != nil && h.category.set.Load() {
		minimum = h.category.level.Level()
	}
	return level >= minimum && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level, h.category}
}

// WithGroup implements slog.Handler.
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level, h.category}
}
