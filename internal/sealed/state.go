package sealed

// State is the state of a carrier.
type State uint8

const (
	// Opening: no packet was acked yet. Only probes, the train and feedback leave.
	Opening State = iota
	// Open: payloads leave.
	Open
	// Silent: nothing was acked for silentPTOs, and for silentTime while bulk was in flight, though the peer was heard over the other
	// carrier. All payloads in flight count as lost, and the source is not asked for more. A probe leaves each PTO; an ack makes the
	// carrier Open again.
	Silent
	// Closed: by its owner, after 10 s without an ack, or by an error. It never opens again.
	Closed
)

func (s State) String() string {
	names := [...]string{"opening", "open", "silent", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}
