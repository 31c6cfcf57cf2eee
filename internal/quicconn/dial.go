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

// A RefusedError is returned by a dial if the server accepts no handshakes now, or none from
// this address.
type RefusedError struct{ cause error }

func (e *RefusedError) Error() string { return e.cause.Error() }

func (e *RefusedError) Unwrap() error { return e.cause }

// Dial connects to the address that answers first. It uses a new transport on socket. If
// shared is not nil, sealed packets share the socket.
//
// free is called when the socket is no longer used: before Dial returns an error, or after
// the carrier has ended. [Carrier.Wait] waits for the latter.
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
		time.Sleep(LingerTime(conn)) // the transport outlives the connection, to repeat a lost close
		release()
		close(carrier.free)
	})
	return carrier, nil
}

// unsent returns the reason the system refused QUIC's latest packet, if the socket is one of
// package sealed. It returns nil if the packet was sent.
func unsent(socket net.PacketConn) error {
	if s, ok := socket.(interface{ Unsent() error }); ok {
		return s.Unsent()
	}
	return nil
}

// dialError returns the reason a dial failed. It is err, or a cause that is easier to
// understand if there is one.
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
