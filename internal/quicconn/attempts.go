package quicconn

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// attemptDelay is how long a dial waits for an address before it also tries the next one (RFC
// 8305, section 5).
const attemptDelay = 250 * time.Millisecond

// silenceTime is how much longer a dial waits for silent addresses after another address has
// refused or has answered with a wrong certificate. It is long enough for a lost first
// packet, which QUIC sends again after a second.
const silenceTime = 2 * time.Second

// dialFirst dials the addresses in order. It dials the next one after attemptDelay, or at once
// if one has failed. It returns the connection of the first address that answers and abandons
// the others.
//
// If no address answers, or none within silenceTime after one has refused, dialFirst returns an
// error. It is the first error that says more than that no server answered or that the caller
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
	var enough <-chan time.Time // fires when silenceTime has passed
	for len(r.addrs) > 0 || r.dialing > 0 {
		var late <-chan time.Time // fires when the next address is due
		if len(r.addrs) > 0 {
			r.start(ctx)
			late = time.After(attemptDelay)
		}
		if len(r.addrs) == 0 && enough == nil && r.refused {
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

// A race is a dial of several addresses, of which the first to answer wins.
type race struct {
	dial    func(context.Context, net.Addr) (*quic.Conn, error)
	addrs   []net.Addr // not dialed yet
	dialing int        // number of running attempts
	ended   chan attempt
	failed  error // the error to return if no address answers
	refused bool  // an address has refused; failed may still be another's error
}

// attempt is the result of dialing one address.
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

// fail records the error of an attempt. If ctx is done, no more addresses are dialed.
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

// giveUp waits for the attempts that are still running. If one of them succeeds, giveUp closes
// its connection.
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
