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

// refusedWait is how much longer a dial waits for addresses that haven't answered after another one
// refused or answered with a wrong certificate. That is long enough for a first packet to get lost,
// because QUIC sends it again after a second.
const refusedWait = 2 * time.Second

// dialFirst dials the addresses in order, each of them attemptDelay after the one before, or as
// soon as any attempt fails. It returns the connection of the first address that answers, and
// abandons the others.
//
// It fails if no address answers, or if none does within refusedWait after one refused. Its error
// is the first one that isn't a timeout, if there is one, or the caller's if the caller canceled.
func dialFirst(
	ctx context.Context, addrs []net.Addr, dial func(context.Context, net.Addr) (*quic.Conn, error),
) (*quic.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &race{dial: dial, addrs: addrs, ended: make(chan attempt)}
	defer func() {
		cancel()
		r.abandon()
	}()
	var giveUp <-chan time.Time // fires refusedWait after a refusal
	for len(r.addrs) > 0 || r.dialing > 0 {
		var next <-chan time.Time // fires when it's time for the next address
		if len(r.addrs) > 0 {
			r.start(ctx)
			next = time.After(attemptDelay)
		}
		if len(r.addrs) == 0 && giveUp == nil && r.refused {
			// All the other addresses may be silent forever.
			giveUp = time.After(refusedWait)
		}
		select {
		case <-next:
		case <-giveUp:
			return nil, r.err
		case a := <-r.ended:
			r.dialing--
			if a.err == nil {
				return a.conn, nil
			}
			r.addError(ctx, a.err)
		}
	}
	return nil, r.err
}

// A race is a dial to several addresses at once, which the first one to answer wins.
type race struct {
	dial    func(context.Context, net.Addr) (*quic.Conn, error)
	addrs   []net.Addr // not dialed yet
	dialing int        // how many attempts are running
	ended   chan attempt
	err     error // what to return if no address answers
	refused bool  // an address refused, even if err is another one's error
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

// addError decides whether the error of an attempt replaces err. If ctx is done, it also makes the
// dial end with the attempts that are running.
func (r *race) addError(ctx context.Context, err error) {
	if isRefusal(err) {
		r.refused = true
	}
	canceled := errors.Is(ctx.Err(), context.Canceled)
	if r.err == nil || isTimeout(r.err) && !isTimeout(err) || canceled {
		r.err = err
	}
	if ctx.Err() != nil {
		r.addrs = nil
	}
}

// abandon waits for the attempts that are still running, and closes their connections if they
// succeed.
func (r *race) abandon() {
	for range r.dialing {
		if a := <-r.ended; a.err == nil {
			_ = a.conn.CloseWithError(0, "another address answered first")
		}
	}
}

// isTimeout reports whether err says that no server answered.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// isRefusal reports whether err says that one side ended a handshake after it began.
func isRefusal(err error) bool {
	failed, ok := errors.AsType[*quic.TransportError](err)
	return ok && (failed.Remote || failed.ErrorCode.IsCryptoError())
}
