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

// A RefusedError is returned by a dial if the server accepts no handshakes at the moment, or none
// from the client's address.
type RefusedError struct{ cause error }

func (e *RefusedError) Error() string { return e.cause.Error() }

func (e *RefusedError) Unwrap() error { return e.cause }

// Dial connects to whichever address answers first, with a new transport on socket. shared is the
// same socket if sealed packets share it, or nil.
//
// free is called when the socket is no longer in use. That is before Dial returns if there is an
// error, and otherwise after the carrier has ended, which [Carrier.Wait] waits for.
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
		err = explain(ctx, err, unsent(socket))
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
		// The transport outlives the connection, so that it can repeat a close that gets lost.
		time.Sleep(LingerTime(conn))
		release()
		close(carrier.free)
	})
	return carrier, nil
}

// An unsenter is a socket that knows why the system refused its latest packet, such as the QUIC
// side of a sealed.Socket. Unsent returns nil if the packet was sent.
type unsenter interface{ Unsent() error }

// unsent returns why the system refused QUIC's latest packet, as far as the socket knows.
func unsent(socket net.PacketConn) error {
	if s, ok := socket.(unsenter); ok {
		return s.Unsent()
	}
	return nil
}

// explain replaces the error of a dial by one that is easier to understand, if there is such an
// error, or wraps it in one. unsent is why the system refused the latest packet, or nil.
func explain(ctx context.Context, err, unsent error) error {
	silent := "no server answered"
	if unsent != nil {
		silent = fmt.Sprintf("no packet could be sent: %v", unsent)
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
		return fmt.Errorf("the network interface does not send packets of %d bytes, which QUIC requires: %w",
			initialPacket, unsent)
	case errors.As(err, &refused) && refused.Remote && refused.ErrorCode == quic.ConnectionRefused:
		return &RefusedError{err}
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w: to trust one certificate without an authority, whatever its names and dates, "+
			"use cert.Pinned with its fingerprint", err)
	}
	return err
}
