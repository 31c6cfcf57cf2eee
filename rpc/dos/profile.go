package dos

import (
	"errors"
	"fmt"
	"time"
)

// A Load is a number of calls, the bytes of their arguments, and the time of their handlers,
// including decoding and checks. It is what was used, or a quota; in a quota 0 = no quota.
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

	// Repeat is how much of one method runs within RepeatWindow in this state.
	// Further calls are blocked: they are dropped and counted, and the connection
	// continues; the question of an rpc.Request is answered with an error. UE:
	// RPCRepeatLimitPerPeriod, RPCRepeatLimitMSPerPeriod, RPCRepeatLimitTimePeriod.
	Repeat       Load
	RepeatWindow time.Duration // 1 to 16 s

	// How long no quota may be reached and no call blocked before the client
	// leaves the state; rounded up to seconds.
	Cooloff time.Duration
	// AutoEscalate is the number of seconds in which a client goes on before it
	// enters the next state, rounded up; 0 = never. UE: AutoEscalateTime.
	//
	// The client goes on in a second in which a call is blocked, a frame reaches a quota
	// of Frame, or the load reaches the sustained rate: a second's share of a quota of
	// the sustained state's Period. The sustained state is the lowest with an
	// AutoEscalate and a Period. The load that led into the present state does not count.
	//
	// The count of these seconds restarts after a second in which the client does not go on,
	// with two exceptions: the last seconds since the present state began still reach a quota
	// of that Period, or the client sends in bursts. For the latter, its calls and bytes fill
	// a bucket, from which each second takes the sustained rate. As long as the bucket holds
	// a quota of the Period, the count does not restart, and no state cools off.
	AutoEscalate time.Duration
	Log          bool // log a warning when the state begins, and a line when it has cooled off. UE: bLogEscalate
	Kick         bool // close the connections when the state begins. UE: bKickPlayer
}

// A Profile sets the load that a server allows. It must not change while a world uses it.
type Profile struct {
	// States are ordered from calm to severe, at most 16. Every client begins
	// in the first, which has no quotas.
	States []State

	// A frame that begins HitchTime after the one before it, without the time of handlers,
	// follows a hitch of the server. Calls that arrive within HitchSuspend after it may have
	// waited during the hitch, and count towards no quota of a frame. They count towards those of
	// periods, which a flood still reaches, because clients can make a server hitch, for example
	// if all join at once. After a suspension no other begins for the same time. HitchTime 0 =
	// never. UE: HitchTimeQuotaMS, HitchSuspendDetectionTimeMS, which suspend all detection.
	HitchTime, HitchSuspend time.Duration
	// JoinTolerance is how long after a client's join the time of its handlers does
	// not count, because they load and spawn then. It does count if the identity
	// has earned a state above the first, or was tolerated within Remember, so that
	// a client gains nothing by joining repeatedly. UE: InitialConnectToleranceMS.
	JoinTolerance time.Duration

	// Methods, as "Class.Method", or "Class" for all methods of a class. String
	// of a method's handle returns its name.
	Unblocked []string // never blocked, but counted: methods that the game needs, such as movement. UE: RPCBlockAllowlist
	Exempt    []string // neither blocked nor counted towards quotas: methods that have limits of their own

	// Remember is how long the state of an identity is kept after its last
	// connection has ended. Identities is how many of those are kept, about 1
	// KB each; the one that left first is dropped first.
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
	case p.States[0].Kick || p.States[0].Frame != Load{} || p.States[0].Period != Load{} || p.States[0].Repeat != Load{}:
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
	case s.Period != Load{} && (s.Window < time.Second || s.Window > maxWindow*time.Second || s.Window%time.Second != 0):
		return fmt.Errorf("Window is %v, must be whole seconds, 1 to %d", s.Window, maxWindow)
	case s.Repeat != Load{} && (s.RepeatWindow < time.Second || s.RepeatWindow > maxWindow*time.Second):
		return fmt.Errorf("RepeatWindow is %v, must be 1 to %d s", s.RepeatWindow, maxWindow)
	}
	return nil
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
	l.Calls, l.Bytes, l.Time = max(l.Calls, other.Calls), max(l.Bytes, other.Bytes), max(l.Time, other.Time)
}

// reached returns the kind of the first quota of l that used has reached, or "" if there is none.
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
