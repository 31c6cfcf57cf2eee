package quicconn

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// attemptDelay is how long a dial waits for an address before it also tries the
// next one (RFC 8305, section 5).
const attemptDelay = 250 * time.Millisecond

// silenceTime is how much longer silent addresses are waited for after another
// one has refused, or has answered with a wrong certificate. It is enough for a
// first packet that was lost, which QUIC sends again after a second.
const silenceTime = 2 * time.Second

// attempt is the result of dialing one address.
type attempt struct {
	conn *quic.Conn
	err  error
}

// dialFirst dials the addresses in order: the next one after attemptDelay, or at once if one
// has failed. It returns the connection of the first that answers, and abandons the others.
// If none does, or none within silenceTime after one has refused, it returns the first error
// that says more than that no server has answered, or that the caller has canceled.
func dialFirst(ctx context.Context, addrs []net.Addr, dial func(context.Context, net.Addr) (*quic.Conn, error)) (*quic.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, dialing := make(chan attempt), 0
	var failed error
	refused := false            // one has refused, although failed may be another's error
	var enough <-chan time.Time // fires when silenceTime has passed
	for len(addrs) > 0 || dialing > 0 {
		var late <-chan time.Time
		if len(addrs) > 0 {
			go func(addr net.Addr) {
				conn, err := dial(ctx, addr)
				ended <- attempt{conn, err}
			}(addrs[0])
			addrs, dialing, late = addrs[1:], dialing+1, time.After(attemptDelay)
		}
		if len(addrs) == 0 && enough == nil && refused {
			enough = time.After(silenceTime)
		}
		select {
		case <-late:
		case <-enough:
			cancel()
			giveUp(ended, dialing)
			return nil, failed
		case a := <-ended:
			dialing--
			if a.err == nil {
				cancel()
				giveUp(ended, dialing)
				return a.conn, nil
			}
			refused = refused || isRefusal(a.err)
			if failed == nil || isSilence(failed) && !isSilence(a.err) || errors.Is(ctx.Err(), context.Canceled) {
				failed = a.err
			}
			if ctx.Err() != nil {
				addrs = nil
			}
		}
	}
	return nil, failed
}

// giveUp waits for the attempts that are still running. If one succeeds after
// all, its connection is closed.
func giveUp(ended <-chan attempt, dialing int) {
	for range dialing {
		if a := <-ended; a.err == nil {
			_ = a.conn.CloseWithError(0, "another address has answered first")
		}
	}
}

// isSilence reports whether err says that no server has answered.
func isSilence(err error) bool {
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout()
}

// isRefusal reports whether err says that one side has ended a handshake that had begun.
func isRefusal(err error) bool {
	failed, ok := errors.AsType[*quic.TransportError](err)
	return ok && (failed.Remote || failed.ErrorCode.IsCryptoError())
}
