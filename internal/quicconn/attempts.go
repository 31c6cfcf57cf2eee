package quicconn

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// attemptDelay is how long a dial waits for one address before it tries the next one beside it (RFC 8305, section 5).
const attemptDelay = 250 * time.Millisecond

// silenceTime is how long the addresses that are silent have left when another has refused, or has answered with a wrong certificate: enough
// for a first packet that was lost, which QUIC sends again after a second.
const silenceTime = 2 * time.Second

// attempt is how the dial of one address has ended.
type attempt struct {
	conn *quic.Conn
	err  error
}

// dialFirst dials one address after the other: the next one when attemptDelay has passed, or at once when one has failed. It returns the connection
// of the first that answers, and gives up the others. When none does, or none within silenceTime after one has refused, the error is the first that
// says more than that nobody has answered, or that the caller has given up.
func dialFirst(ctx context.Context, addrs []net.Addr, dial func(context.Context, net.Addr) (*quic.Conn, error)) (*quic.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, dialing := make(chan attempt), 0
	var failed error
	refused := false            // one has refused, which failed need not tell
	var enough <-chan time.Time // when silenceTime is over
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

// giveUp waits for the attempts that still go on. One that has been answered meanwhile is closed.
func giveUp(ended <-chan attempt, dialing int) {
	for range dialing {
		if a := <-ended; a.err == nil {
			_ = a.conn.CloseWithError(0, "another address has answered first")
		}
	}
}

// isSilence reports whether err is that nobody has answered.
func isSilence(err error) bool {
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout()
}

// isRefusal reports whether err is that one side of a handshake, which has begun, does not want the other.
func isRefusal(err error) bool {
	failed, ok := errors.AsType[*quic.TransportError](err)
	return ok && (failed.Remote || failed.ErrorCode.IsCryptoError())
}
