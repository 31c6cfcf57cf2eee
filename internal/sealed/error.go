package sealed

// Error tells why a carrier ended: nothing was acked for 10 s, the keys or the packet numbers are used up, or the owner or the socket was closed.
// The owner may open another carrier, which has keys of its own.
type Error struct {
	Reason    string
	Violation bool  // a sealed packet of the peer broke the protocol: the owner must close the connection
	Cause     error // may be nil
}

func (e *Error) Error() string { return "sealed: " + e.Reason }

func (e *Error) Unwrap() error { return e.Cause }

func violation(reason string) *Error { return &Error{Reason: reason, Violation: true} }
