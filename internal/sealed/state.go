package sealed

// State is the state of a carrier.
type State uint8

const (
	// Opening means that no packet has been acked yet. Only probes, the train and reports are
	// sent.
	Opening State = iota
	// Open means that payloads are sent.
	Open
	// Silent means that no ack has arrived for silentPTOs. Unless there is another carrier and
	// only play was in flight, silentTime has passed as well. If there is another carrier, the
	// peer has been heard over it.
	//
	// All payloads in flight count as lost, and the source is not asked for more. A probe is
	// sent every PTO, and an ack makes the carrier Open again.
	Silent
	// Closed means that the carrier was closed by its owner, after 10 s without an ack, or by
	// an error. It never opens again.
	Closed
)

func (s State) String() string {
	names := [...]string{"opening", "open", "silent", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// An Error is why a carrier has closed: its owner closed it, the socket was closed, no ack
// arrived for 10 s, packet numbers were used up, too many packets did not open, or the peer
// violated the protocol. Except after a violation, the owner may open another carrier, which
// has other keys.
type Error struct {
	Reason    string
	Violation bool  // the peer violated the protocol, so the owner must close the connection
	Cause     error // nil if there is none
}

func (e *Error) Error() string { return "sealed: " + e.Reason }

func (e *Error) Unwrap() error { return e.Cause }

// violation returns the Error for a packet that violates the protocol.
func violation(reason string) *Error { return &Error{Reason: reason, Violation: true} }
