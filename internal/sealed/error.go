package sealed

// Kind says what ended a carrier.
type Kind uint8

const (
	// Unheard: nothing was acked for 10 s. The path does not carry sealed packets now; a later carrier may work.
	Unheard Kind = iota
	// Violation: a sealed packet of the peer broke the protocol. The owner must close the connection.
	Violation
	// KeysUsedUp: the keys have sealed as many packets as they may, or too many packets did not open. The owner may open another
	// carrier, which has keys of its own.
	KeysUsedUp
	// Stopped: the owner closed the carrier, or the socket was closed.
	Stopped
)

// Error tells why a carrier ended.
type Error struct {
	Kind   Kind
	Reason string
	Cause  error // may be nil
}

func (e *Error) Error() string { return "sealed: " + e.Reason }

func (e *Error) Unwrap() error { return e.Cause }

func violation(reason string) *Error { return &Error{Kind: Violation, Reason: reason} }
