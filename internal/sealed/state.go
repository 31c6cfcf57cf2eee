package sealed

// State is how a carrier stands.
type State uint8

const (
	// Opening: no packet was acked yet. Nothing but probes leaves.
	Opening State = iota
	// Open: payloads leave.
	Open
	// Silent: nothing was acked for silentPTOs, and for silentTime as well while bulk is in flight, though the peer was heard over
	// the other carrier. All payloads in flight were given back as lost, none is asked for; a ping each PTO looks whether the path
	// comes back, which makes the carrier Open.
	Silent
	// Closed: by its owner, after 10 s of silence, or by a violation. It never opens again.
	Closed
)

func (s State) String() string {
	names := [...]string{"opening", "open", "silent", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// setState notes a change that the owner is told of.
func (s *Session) setState(to State) {
	if s.state != to {
		s.state, s.changed = to, true
	}
}
