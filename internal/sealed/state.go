package sealed

import "fmt"

// State is the state of a carrier.
type State uint8

const (
	// Opening means that no packet has been acked yet. Only probes, the train and reports are
	// sent.
	Opening State = iota
	// Open means that payloads are sent.
	Open
	// Silent means that no ack has arrived for silentPTOs probe timeouts. Unless there is another
	// carrier and only play was in flight, silentTime has passed as well. If there is another
	// carrier, the peer has been heard over it.
	//
	// All payloads in flight count as lost, and the source is not asked for more. A probe is
	// sent every probe timeout, and an ack makes the carrier Open again.
	Silent
	// Closed means that the carrier was closed by its owner, after stopTime without an ack, or
	// because of another [Error]. It never opens again.
	Closed
)

func (s State) String() string {
	switch s {
	case Opening:
		return "opening"
	case Open:
		return "open"
	case Silent:
		return "silent"
	case Closed:
		return "closed"
	}
	return "unknown"
}

// An Error is why a carrier closed: its owner closed it, the socket was closed, no ack arrived
// for stopTime, packet numbers were exhausted, too many packets failed to decrypt, or the peer
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
func violation(format string, args ...any) *Error {
	return &Error{Reason: fmt.Sprintf(format, args...), Violation: true}
}
