package sealed

// Kind says what ended a carrier.
type Kind uint8

const (
	// Unheard: nothing was acked for 10 s. The path does not carry sealed packets now; another carrier may.
	Unheard Kind = iota
	// Violation: a sealed packet of the peer broke the protocol. The connection is to be closed.
	Violation
	// Worn: the keys were used too often or attacked too often. Another carrier may be opened.
	Worn
	// Stopped: the owner closed it, or its socket was closed.
	Stopped
)

// Error is why a carrier ended.
type Error struct {
	Kind   Kind
	Reason string
	Cause  error // may be nil
}

func (e *Error) Error() string { return "sealed: " + e.Reason }

func (e *Error) Unwrap() error { return e.Cause }

func violation(reason string) *Error { return &Error{Kind: Violation, Reason: reason} }
