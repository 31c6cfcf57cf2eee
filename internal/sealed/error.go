package sealed

// An Error is why a carrier ended: its owner closed it, the socket was closed, no ack
// arrived for 10 s, packet numbers were used up, too many packets did not open, or the peer
// violated the protocol. Except after a violation, the owner may open another carrier,
// which has other keys.
type Error struct {
	Reason    string
	Violation bool  // the peer's packet violated the protocol; the owner must close the connection
	Cause     error // nil if there is none
}

func (e *Error) Error() string { return "sealed: " + e.Reason }

func (e *Error) Unwrap() error { return e.Cause }

// violation returns the Error for a packet that violates the protocol.
func violation(reason string) *Error { return &Error{Reason: reason, Violation: true} }
