package quicconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/sealed"
)

// A RefusedError is returned by a dial if the server accepts no handshakes at the moment, or
// none from this address.
type RefusedError struct{ cause error }

func (e *RefusedError) Error() string { return e.cause.Error() }

func (e *RefusedError) Unwrap() error { return e.cause }

// Dial connects to whichever address answers first, with a new transport on socket. If sealed
// packets are to share the socket, shared is not nil.
//
// free is called when the socket is no longer in use. That is before Dial returns, if there is
// an error, and otherwise after the carrier has ended, which [Carrier.Wait] waits for.
func Dial(
	ctx context.Context, socket net.PacketConn, shared *sealed.Socket, addrs []net.Addr,
	tlsConfig *tls.Config, config *quic.Config, free func(),
) (*Carrier, error) {
	transport := &quic.Transport{Conn: socket, ConnectionIDLength: ConnectionIDBytes}
	release := func() {
		_ = transport.Close()
		free()
	}
	conn, err := dialFirst(ctx, addrs, func(ctx context.Context, addr net.Addr) (*quic.Conn, error) {
		conn, err := transport.Dial(ctx, addr, tlsConfig, config)
		if err == nil {
			return conn, nil
		}
		err = dialError(ctx, err, unsent(socket))
		if len(addrs) > 1 {
			err = fmt.Errorf("%v: %w", addr, err)
		}
		return nil, err
	})
	if err != nil {
		release()
		return nil, err
	}
	carrier := NewCarrier(conn, shared)
	carrier.local = socket
	carrier.free = make(chan struct{})
	context.AfterFunc(conn.Context(), func() {
		// The transport outlives the connection, to repeat a close that gets lost.
		time.Sleep(LingerTime(conn))
		release()
		close(carrier.free)
	})
	return carrier, nil
}

// unsent returns why the system has refused QUIC's latest packet, as far as the socket knows. It
// returns nil if the packet was sent, or if the socket isn't one of package sealed.
func unsent(socket net.PacketConn) error {
	if s, ok := socket.(interface{ Unsent() error }); ok {
		return s.Unsent()
	}
	return nil
}

// dialError returns why a dial has failed, in words that are easier to understand than err's if
// we have any.
func dialError(ctx context.Context, err, unsent error) error {
	silent := "no server has answered there"
	if unsent != nil {
		silent = fmt.Sprintf("no packet could leave for it: %v", unsent)
	}
	var refused *quic.TransportError
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", silent, context.Cause(ctx))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, new(*quic.IdleTimeoutError)), errors.As(err, new(*quic.HandshakeTimeoutError)):
		return fmt.Errorf("%s: %w", silent, err)
	case errors.As(err, &refused) && !refused.Remote && errors.Is(unsent, syscall.EMSGSIZE):
		return fmt.Errorf("this machine's interface to it takes no packet of 1,200 bytes, with which QUIC begins: %w",
			unsent)
	case errors.As(err, &refused) && refused.Remote && refused.ErrorCode == quic.ConnectionRefused:
		return &RefusedError{err}
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w; to trust one certificate without an authority, whatever its names and dates, "+
			"use cert.Pinned with its fingerprint", err)
	}
	return err
}
