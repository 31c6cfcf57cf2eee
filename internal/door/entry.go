package door

import (
	"fmt"
	"net/netip"
	"time"
)

// Counts counts what became of clients on the way in; the game sees it as rpc.HandshakeStats.
type Counts struct {
	Begun, Retries, Refused, Evicted, Failed uint64
	LoginsFailed, LoginsSlowed               uint64
}

// Entry decides who gets into a world: with the door, the limits of guesses and the claims of identities. It counts the world's
// connections, from their admission until the world has said good-bye to them.
type Entry[C any] struct {
	*Door[C]
	Failures *Failures
	Claims   *Claims[C]
	Counts   Counts

	most  int // connections; rpc.Config.MaxConns
	conns int
}

// NewEntry returns the entry of a world without connections.
func NewEntry[C any](d *Door[C], f *Failures, c *Claims[C], most int) *Entry[C] {
	return &Entry[C]{Door: d, Failures: f, Claims: c, most: most}
}

// Conns returns how many connections there are.
func (e *Entry[C]) Conns() int { return e.conns }

// MustProve reports whether a client that has not proven its address gets a Retry, and how many clients are on the way in. suspect says that
// it gets one in any case: see [Paths.MustProve].
func (e *Entry[C]) MustProve(suspect bool, now time.Time) (must bool, open int) {
	open = e.Open(now)
	if must = suspect || open >= e.RetryAbove; must {
		e.Counts.Retries++
	}
	return must, open
}

// Arrive is [Door.Begin] for a client whose first packet has come, and counts the result. The caller closes out, unless nil.
func (e *Entry[C]) Arrive(from netip.Prefix, proven bool, now time.Time) (v *Visit[C], out *C, full *Full) {
	v, out, full = e.Begin(from, proven, now)
	e.tally(v != nil, out, full)
	return v, out, full
}

// Admit admits and counts a connection. v is the place that its client got when it arrived, nil when its carrier came without one. Admit
// calls enter last, to take what else the connection needs. The caller closes out, unless nil, even if the connection itself is refused.
// Then Admit has ended the visit.
func (e *Entry[C]) Admit(v *Visit[C], from netip.Prefix, now time.Time, enter func() *Full) (_ *Visit[C], out *C, full *Full) {
	arrived := v != nil
	if arrived {
		out, full = e.Prove(v)
	} else {
		v, out, full = e.Begin(from, true, now)
	}
	if full == nil && out == nil && e.conns >= e.most {
		out, full = e.MakeRoom(AmongConnections, true, fmt.Sprintf("as many connections as Config.MaxConns allows, %d", e.conns))
	}
	if full == nil {
		full = enter()
	}
	e.tally(!arrived && full == nil, out, full)
	if full == nil {
		e.conns++
	} else if v != nil {
		e.Leave(v)
	}
	return v, out, full
}

// TurnAway ends the visit, if there is one, of a client that finds the world closed.
func (e *Entry[C]) TurnAway(v *Visit[C]) {
	e.Counts.Refused++
	if v != nil {
		e.Leave(v)
	}
}

// Fail takes back a connection that has ended and had not joined.
func (e *Entry[C]) Fail(v *Visit[C]) {
	e.Leave(v)
	e.Counts.Failed++
	e.conns--
}

// End takes back a connection that had joined and has quit, once the world has said good-bye to it.
func (e *Entry[C]) End() { e.conns-- }

func (e *Entry[C]) tally(begun bool, out *C, full *Full) {
	if begun {
		e.Counts.Begun++
	}
	if out != nil {
		e.Counts.Evicted++
	}
	if full != nil {
		e.Counts.Refused++
	}
}

// MayAsk reports whether the world may call Authenticate with a token of a visit's client, and if so, notes that it does. If not, logins of
// that address are refused for the pause; without a pause this one waits until Authenticate has answered another.
func (e *Entry[C]) MayAsk(v *Visit[C], token []byte, now time.Time) (may bool, pause time.Duration) {
	may, pause = e.Failures.Ask(v.From(), token, e.Asking(v.From()), now)
	switch {
	case may:
		e.Ask(v)
	case pause > 0:
		e.Counts.LoginsSlowed++
	}
	return may, pause
}

// Refused notes that Authenticate refused the token of a visit's client, and returns how many of its address it has refused.
func (e *Entry[C]) Refused(v *Visit[C], token []byte, now time.Time) (count int) {
	e.Counts.LoginsFailed++
	return e.Failures.Failed(v.From(), token, now)
}
