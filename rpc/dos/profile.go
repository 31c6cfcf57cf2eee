package dos

import (
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/words"
)

// A Load is a number of calls, the bytes of their arguments, and the time that their handlers
// take, including decoding and checks. It is either a measured load or a quota. In a quota, 0
// means no limit.
type Load struct {
	Calls int
	Bytes int
	Time  time.Duration
}

// A State is one of a profile's levels of severity. A client enters a state by reaching one of
// its quotas.
type State struct {
	Name string

	Frame  Load          // within one frame. UE: EscalateQuotaRPCsPerFrame, EscalateTimeQuotaMSPerFrame
	Period Load          // within Window. UE: EscalateQuotaRPCsPerPeriod, EscalateTimeQuotaMSPerPeriod
	Window time.Duration // whole seconds, 1 to 16. UE: EscalateQuotaTimePeriod

	// Repeat limits the load of any one method within RepeatWindow while the client is in
	// this state. UE: RPCRepeatLimitPerPeriod, RPCRepeatLimitMSPerPeriod,
	// RPCRepeatLimitTimePeriod.
	//
	// Calls beyond this limit are blocked, which means that they are dropped and counted, while
	// the connection carries on. If such a call is the question of an rpc.Request, it is answered
	// with an error.
	Repeat       Load
	RepeatWindow time.Duration // 1 to 16 s

	// Cooloff is the time for which the client must neither reach a quota nor have a call blocked
	// before it leaves the state again. It is rounded up to seconds.
	Cooloff time.Duration

	// AutoEscalate is the time for which a client may persist before it enters the next state. It
	// is rounded up to seconds, and 0 means forever. UE: AutoEscalateTime.
	//
	// A client persists during a second in which a call is blocked, a frame reaches a quota of
	// Frame, or the load reaches the sustained rate. The sustained rate is a second's share of the
	// Period of the sustained state, which is the lowest state with both an AutoEscalate and a
	// Period. The load that led into the current state does not count.
	//
	// The count starts over after a second in which the client doesn't persist, with two
	// exceptions. The first is a client whose load over the last seconds, not counting the time
	// before the current state, still reaches a quota of that Period.
	//
	// The second exception is a client that sends in bursts. Its calls and bytes fill a bucket,
	// which drains at the sustained rate. As long as the bucket's content reaches a quota of the
	// Period, the count continues and no state cools off.
	AutoEscalate time.Duration

	Log  bool // warn in the log when the state begins, and log when it has cooled off. UE: bLogEscalate
	Kick bool // close the client's connections when the state begins. UE: bKickPlayer
}

// A Profile defines how much load a server tolerates. It must not change while a world uses it.
type Profile struct {
	// States are ordered from calm to severe. There are at most 16. Every client starts out
	// in the first one, which has no quotas.
	States []State

	// The server has hitched if a frame begins HitchTime or more after the previous frame, not
	// counting handler time. 0 means that the server never hitches. UE: HitchTimeQuotaMS,
	// HitchSuspendDetectionTimeMS, which suspend all detection.
	//
	// Calls that arrive within HitchSuspend after a hitch may have piled up during it, so they
	// don't count towards quotas of a frame. They still count towards quotas of periods, which a
	// flood reaches regardless. Otherwise clients could gain from making a server hitch, for
	// instance by all joining at once. After a suspension, no new suspension begins for the same
	// length of time.
	HitchTime, HitchSuspend time.Duration

	// JoinTolerance is the time after a client's join during which its handler time doesn't
	// count, because clients load and spawn then. UE: InitialConnectToleranceMS.
	//
	// There is no tolerance if the identity is in a state above the first, or had its
	// tolerance within Remember, so a client gains nothing by joining over and over.
	JoinTolerance time.Duration

	// Methods, as "Class.Method", or "Class" for all methods of a class. A method's handle has
	// a String method that returns its name.
	//
	// Unblocked methods are counted but never blocked, because the game can't do without them.
	// Movement is an example. Exempt methods are neither blocked nor counted, because they have
	// limits of their own. UE: RPCBlockAllowlist, for Unblocked.
	Unblocked []string
	Exempt    []string

	// Remember is the time for which the state of an identity is remembered after its last
	// connection has ended. Identities is the maximum number of remembered states, at about 1 KB
	// each. Beyond that, the identities that left first are forgotten.
	Remember   time.Duration
	Identities int
}

const (
	maxWindow = 16 // seconds of history. UE: quotas have periods of 1 to 16 s
	maxStates = 16
)

// validate returns an error if a value is out of range or makes no sense.
func (p *Profile) validate() error {
	switch {
	case len(p.States) < 2 || len(p.States) > maxStates:
		return fmt.Errorf("dos: Profile.States has %s; it must have 2 to %d", words.Plural(len(p.States), "state", "states"), maxStates)
	case p.States[0].Kick || p.States[0].hasLimits():
		return errors.New("dos: Profile.States[0] must not have quotas, limits or Kick, because every client starts there")
	case min(p.HitchTime, p.HitchSuspend, p.JoinTolerance, p.Remember) < 0 || p.Identities < 0:
		return errors.New("dos: a time or number of the Profile is negative")
	}
	for i := range p.States {
		if err := p.States[i].validate(); err != nil {
			return fmt.Errorf("dos: Profile.States[%d] %q: %w", i, p.States[i].Name, err)
		}
	}
	return nil
}

// validate returns an error if a value of the state is out of range or makes no sense.
func (s *State) validate() error {
	switch {
	case s.Name == "":
		return errors.New("Name is empty")
	case s.Frame.negative() || s.Period.negative() || s.Repeat.negative() || min(s.Cooloff, s.AutoEscalate) < 0:
		return errors.New("a quota, limit or time is negative")
	case s.Period != Load{} && (!validWindow(s.Window) || s.Window%time.Second != 0):
		return fmt.Errorf("Window is %v; it must be 1 to %d whole seconds", s.Window, maxWindow)
	case s.Repeat != Load{} && !validWindow(s.RepeatWindow):
		return fmt.Errorf("RepeatWindow is %v; it must be 1 to %d s", s.RepeatWindow, maxWindow)
	}
	return nil
}

// hasLimits reports whether the state has any quota, or limits a method's load.
func (s *State) hasLimits() bool {
	return s.Frame != Load{} || s.Period != Load{} || s.Repeat != Load{}
}

// validWindow reports whether a window is as long as the history allows.
func validWindow(window time.Duration) bool {
	return window >= time.Second && window <= maxWindow*time.Second
}

// share returns a second's share of the Period, rounded up.
func (s *State) share() *Load {
	seconds := max(1, int(s.Window/time.Second))
	return &Load{
		Calls: divideUp(s.Period.Calls, seconds),
		Bytes: divideUp(s.Period.Bytes, seconds),
		Time:  divideUp(s.Period.Time, time.Duration(seconds)),
	}
}

// divideUp returns n divided by d, rounded up. It doesn't overflow, however large n is.
func divideUp[T int | time.Duration](n, d T) T {
	if n%d > 0 {
		return n/d + 1
	}
	return n / d
}

// negative reports whether any part of l is negative.
func (l *Load) negative() bool { return l.Calls < 0 || l.Bytes < 0 || l.Time < 0 }

// add adds other to l.
func (l *Load) add(other Load) {
	l.Calls += other.Calls
	l.Bytes += other.Bytes
	l.Time += other.Time
}

// peak raises each part of l to the same part of other, if that is greater.
func (l *Load) peak(other Load) {
	l.Calls = max(l.Calls, other.Calls)
	l.Bytes = max(l.Bytes, other.Bytes)
	l.Time = max(l.Time, other.Time)
}

// lower lowers each part of l to the remainder of the quota after used, if that is less, but
// never below 1.
func (l *Load) lower(quota, used Load) {
	if quota.Calls > 0 {
		l.Calls = min(l.Calls, max(1, quota.Calls-used.Calls))
	}
	if quota.Bytes > 0 {
		l.Bytes = min(l.Bytes, max(1, quota.Bytes-used.Bytes))
	}
	if quota.Time > 0 {
		l.Time = min(l.Time, max(1, quota.Time-used.Time))
	}
}

// A loadKind is one of the fields of a Load.
type loadKind uint8

const (
	noLoad loadKind = iota
	callsLoad
	bytesLoad
	timeLoad
)

// String returns the name of the field.
func (k loadKind) String() string { return loadNames[k] }

var loadNames = [...]string{noLoad: "", callsLoad: "Calls", bytesLoad: "Bytes", timeLoad: "Time"}

// reached returns the kind of the first part of used that reaches the quota l, or noLoad if none
// does.
func (l *Load) reached(used Load) loadKind {
	switch {
	case l.Calls > 0 && used.Calls >= l.Calls:
		return callsLoad
	case l.Bytes > 0 && used.Bytes >= l.Bytes:
		return bytesLoad
	case l.Time > 0 && used.Time >= l.Time:
		return timeLoad
	}
	return noLoad
}

// describe describes the part of l that has the given kind.
func (l *Load) describe(kind loadKind) string {
	switch kind {
	case callsLoad:
		return words.Plural(l.Calls, "call", "calls")
	case bytesLoad:
		return words.Bytes(l.Bytes)
	}
	return fmt.Sprintf("%v of handlers", l.Time)
}

// hasMore reports whether l has more of the given kind than other.
func (l *Load) hasMore(kind loadKind, other Load) bool {
	switch kind {
	case callsLoad:
		return l.Calls > other.Calls
	case bytesLoad:
		return l.Bytes > other.Bytes
	}
	return l.Time > other.Time
}
