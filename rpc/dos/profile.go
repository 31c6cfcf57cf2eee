package dos

import (
	"errors"
	"fmt"
	"time"
)

// A Load is a number of calls, the bytes of their arguments, and the time of
// their handlers, including decoding and checks. It is either the amount
// used or a quota. In a quota, 0 means no quota.
type Load struct {
	Calls int
	Bytes int
	Time  time.Duration
}

// A State is a severity. A client enters it when it reaches one of its quotas.
type State struct {
	Name string

	Frame  Load          // within one frame. UE: EscalateQuotaRPCsPerFrame, EscalateTimeQuotaMSPerFrame
	Period Load          // within Window. UE: EscalateQuotaRPCsPerPeriod, EscalateTimeQuotaMSPerPeriod
	Window time.Duration // whole seconds, 1 to 16. UE: EscalateQuotaTimePeriod

	// Repeat limits the load of one method within RepeatWindow in this state. UE:
	// RPCRepeatLimitPerPeriod, RPCRepeatLimitMSPerPeriod, RPCRepeatLimitTimePeriod.
	//
	// Further calls are blocked: they are dropped and counted, and the connection continues.
	// If such a call is the question of an rpc.Request, it is answered with an error.
	Repeat       Load
	RepeatWindow time.Duration // 1 to 16 s

	// Cooloff is the time in which no quota may be reached and no call blocked before the
	// client leaves the state. It is rounded up to seconds.
	Cooloff time.Duration

	// AutoEscalate is the number of seconds in which a client goes on before it enters the
	// next state. It is rounded up, and 0 means never. UE: AutoEscalateTime.
	//
	// The client goes on in a second in which a call is blocked, a frame reaches a quota of
	// Frame, or the load reaches the sustained rate. The sustained rate is a second's share
	// of a quota of the sustained state's Period. The sustained state is the lowest with an
	// AutoEscalate and a Period. The load that led into the current state does not count.
	//
	// The count of these seconds restarts after a second in which the client does not go on.
	// There are two exceptions. The first is that the last seconds since the current state
	// began still reach a quota of that Period.
	//
	// The second is that the client sends in bursts. Its calls and bytes fill a bucket, from
	// which each second takes the sustained rate. As long as the bucket holds a quota of the
	// Period, the count does not restart and no state cools off.
	AutoEscalate time.Duration

	Log  bool // log a warning when the state begins, and a line when it has cooled off. UE: bLogEscalate
	Kick bool // close the connections when the state begins. UE: bKickPlayer
}

// A Profile sets the load that a server allows. It must not change while a world uses it.
type Profile struct {
	// States are ordered from calm to severe. There are at most 16. Every client begins in
	// the first state, which has no quotas.
	States []State

	// A frame follows a hitch of the server if it begins HitchTime after the previous frame,
	// not counting the time of handlers. A HitchTime of 0 means that no frame does. UE:
	// HitchTimeQuotaMS, HitchSuspendDetectionTimeMS, which suspend all detection.
	//
	// Calls that arrive within HitchSuspend after the hitch may have waited during it, and do
	// not count towards quotas of a frame. They do count towards quotas of periods, which a
	// flood still reaches. Otherwise clients could gain from making a server hitch, for
	// example by all joining at once. After a suspension, no other begins for the same time.
	HitchTime, HitchSuspend time.Duration

	// JoinTolerance is the time after a client's join in which the time of its handlers does
	// not count, because clients load and spawn then. UE: InitialConnectToleranceMS.
	//
	// It does count if the identity is in a state above the first, or was tolerated within
	// Remember. A client therefore gains nothing by joining repeatedly.
	JoinTolerance time.Duration

	// Methods, as "Class.Method", or "Class" for all methods of a class. The String method of
	// a method's handle returns its name.
	Unblocked []string // never blocked, but counted: methods that the game needs, such as movement. UE: RPCBlockAllowlist
	Exempt    []string // neither blocked nor counted towards quotas: methods that have limits of their own

	// Remember is how long the state of an identity is remembered after its last connection
	// ended. Identities is the maximum number of such states, at about 1 KB each. The state
	// of the identity that left first is dropped first.
	Remember   time.Duration
	Identities int
}

const (
	maxWindow = 16 // seconds of history. UE: quotas have periods of 1 to 16 s
	maxStates = 16
)

// validate returns an error if the profile is not valid.
func (p *Profile) validate() error {
	switch {
	case len(p.States) < 2 || len(p.States) > maxStates:
		return fmt.Errorf("dos: Profile.States has %d states, must have 2 to %d", len(p.States), maxStates)
	case p.States[0].Kick || p.States[0].limits():
		return errors.New("dos: Profile.States[0] has quotas, limits or Kick: it is the state of those who do nothing wrong")
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

func (s *State) validate() error {
	switch {
	case s.Name == "":
		return errors.New("it has no Name")
	case s.Frame.negative() || s.Period.negative() || s.Repeat.negative() || min(s.Cooloff, s.AutoEscalate) < 0:
		return errors.New("a quota, limit or time is negative")
	case s.Period != Load{} && (!inRange(s.Window) || s.Window%time.Second != 0):
		return fmt.Errorf("Window is %v, must be whole seconds, 1 to %d", s.Window, maxWindow)
	case s.Repeat != Load{} && !inRange(s.RepeatWindow):
		return fmt.Errorf("RepeatWindow is %v, must be 1 to %d s", s.RepeatWindow, maxWindow)
	}
	return nil
}

// limits reports whether the state has quotas or limits.
func (s *State) limits() bool { return s.Frame != Load{} || s.Period != Load{} || s.Repeat != Load{} }

// inRange reports whether a window has a valid length.
func inRange(window time.Duration) bool {
	return window >= time.Second && window <= maxWindow*time.Second
}

// share returns a second's part of the quotas of the period, rounded up.
func (s *State) share() *Load {
	n := max(1, int(s.Window/time.Second))
	up := func(quota int) int { return (quota + n - 1) / n }
	return &Load{up(s.Period.Calls), up(s.Period.Bytes), time.Duration(up(int(s.Period.Time)))}
}

func (l *Load) negative() bool { return l.Calls < 0 || l.Bytes < 0 || l.Time < 0 }

func (l *Load) add(other Load) {
	l.Calls += other.Calls
	l.Bytes += other.Bytes
	l.Time += other.Time
}

// peak raises each kind of l to that of other.
func (l *Load) peak(other Load) {
	l.Calls = max(l.Calls, other.Calls)
	l.Bytes = max(l.Bytes, other.Bytes)
	l.Time = max(l.Time, other.Time)
}

// reached returns the kind of the first quota of l that used reaches, or "" if it reaches none.
func (l *Load) reached(used Load) (kind string) {
	switch {
	case l.Calls > 0 && used.Calls >= l.Calls:
		return "Calls"
	case l.Bytes > 0 && used.Bytes >= l.Bytes:
		return "Bytes"
	case l.Time > 0 && used.Time >= l.Time:
		return "Time"
	}
	return ""
}

// of returns the amount of a kind, formatted for people.
func (l *Load) of(kind string) string {
	switch kind {
	case "Calls":
		return fmt.Sprintf("%d calls", l.Calls)
	case "Bytes":
		return fmt.Sprintf("%d bytes", l.Bytes)
	}
	return fmt.Sprintf("%v of handlers", l.Time)
}

// more reports whether l has more of a kind than other.
func (l *Load) more(kind string, other Load) bool {
	switch kind {
	case "Calls":
		return l.Calls > other.Calls
	case "Bytes":
		return l.Bytes > other.Bytes
	}
	return l.Time > other.Time
}
