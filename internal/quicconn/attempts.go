package quicconn

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// attemptDelay is how long a dial waits for one address before it tries the next as well (RFC 8305,
// section 5).
const attemptDelay = 250 * time.Millisecond

// silenceTime is how much longer a dial waits for addresses that haven't answered, once another
// one has refused or has answered with a wrong certificate. It's enough for a first packet that
// gets lost, which QUIC sends again after a second.
const silenceTime = 2 * time.Second

// dialFirst dials the addresses in order, each of them attemptDelay after the one before, or as
// soon as any has failed. It returns the connection of the first address that answers, and
// abandons the others.
//
// It fails if no address answers, or if none does within silenceTime after one has refused. The
// error is the first that says anything more than that no server has answered or that the caller
// canceled.
func dialFirst(
	ctx context.Context, addrs []net.Addr, dial func(context.Context, net.Addr) (*quic.Conn, error),
) (*quic.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &race{dial: dial, addrs: addrs, ended: make(chan attempt)}
	defer func() {
		cancel()
		r.giveUp()
	}()
	var enough <-chan time.Time // fires once silenceTime has passed
	for len(r.addrs) > 0 || r.dialing > 0 {
		var late <-chan time.Time // fires when it's time for the next address
		if len(r.addrs) > 0 {
			r.start(ctx)
			late = time.After(attemptDelay)
		}
		if len(r.addrs) == 0 && enough == nil && r.refused {
			// All the others may be silent forever.
			enough = time.After(silenceTime)
		}
		select {
		case <-late:
		case <-enough:
			return nil, r.failed
		case a := <-r.ended:
			r.dialing--
			if a.err == nil {
				return a.conn, nil
			}
			r.fail(ctx, a.err)
		}
	}
	return nil, r.failed
}

// A race is a dial to several addresses at once, which the first one to answer wins.
type race struct {
	dial    func(context.Context, net.Addr) (*quic.Conn, error)
	addrs   []net.Addr // not dialed yet
	dialing int        // how many attempts are running
	ended   chan attempt
	failed  error // what to return if no address answers
	refused bool  // an address has refused, although failed may be another one's error
}

// An attempt is the result of dialing one address.
type attempt struct {
	conn *quic.Conn
	err  error
}

// start dials the next address.
func (r *race) start(ctx context.Context) {
	addr := r.addrs[0]
	r.addrs = r.addrs[1:]
	r.dialing++
	go func() {
		conn, err := r.dial(ctx, addr)
		r.ended <- attempt{conn, err}
	}()
}

// fail takes the error of an attempt into account. No more addresses are dialed once ctx is done.
func (r *race) fail(ctx context.Context, err error) {
	r.refused = r.refused || isRefusal(err)
	canceled := errors.Is(ctx.Err(), context.Canceled)
	if r.failed == nil || isSilence(r.failed) && !isSilence(err) || canceled {
		r.failed = err
	}
	if ctx.Err() != nil {
		r.addrs = nil
	}
}

// giveUp waits for the attempts that are still running, and closes their connections if they
// succeed.
func (r *race) giveUp() {
	for range r.dialing {
		if a := <-r.ended; a.err == nil {
			_ = a.conn.CloseWithError(0, "another address has answered first")
		}
	}
}

// isSilence reports whether err says that no server answered.
func isSilence(err error) bool {
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout()
}

// isRefusal reports whether err says that one side ended a handshake that had begun.
func isRefusal(err error) bool {
	failed, ok := errors.AsType[*quic.TransportError](err)
	return ok && (failed.Remote || failed.ErrorCode.IsCryptoError())
}
