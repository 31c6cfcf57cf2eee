package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
)

// Dial connects world to the server at addr ("host:port") and returns when the server has welcomed it. The world need not be
// driven for that, and may connect again later: see [World.Connect]. cert.Pinned makes a config that trusts one certificate.
// When it returns an error its socket is free, which may take up to a second; else [Conn.Wait] says when it is.
func Dial(ctx context.Context, addr string, config *tls.Config, world *World) (*Conn, error) {
	remote, host, err := resolve(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("rpc: Dial %q: %w", addr, err)
	}
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, fmt.Errorf("rpc: Dial %q: %w", addr, err)
	}
	c, err := dial(ctx, socket, remote, host, config, world, func() { _ = socket.Close() })
	if err != nil {
		return nil, fmt.Errorf("rpc: Dial %q: %w", addr, err)
	}
	return c, nil
}

// DialPacket is Dial from a socket of the caller, who closes it after [Conn.Wait], or after an error.
func DialPacket(ctx context.Context, socket net.PacketConn, addr net.Addr, config *tls.Config, world *World) (*Conn, error) {
	c, err := dial(ctx, socket, addr, "", config, world, func() {})
	if err != nil {
		return nil, fmt.Errorf("rpc: Dial %v: %w", addr, err)
	}
	return c, nil
}

// dial connects over a transport of its own. free is called when the socket is no longer used.
func dial(ctx context.Context, socket net.PacketConn, addr net.Addr, host string, config *tls.Config, world *World, free func()) (*Conn, error) {
	if config == nil {
		free()
		return nil, errors.New("a TLS config is needed; see cert.Pinned")
	}
	shared, sealed, unshare := world.share(socket)
	transport := &quic.Transport{Conn: shared, ConnectionIDLength: connectionIDBytes}
	release := func() {
		_ = transport.Close()
		unshare()
		free()
	}
	conn, err := transport.Dial(ctx, addr, tlsConfig(config, host), world.config.quic())
	if err != nil {
		release()
		return nil, dialError(ctx, err)
	}
	carrier := newQUICCarrier(conn, sealed)
	carrier.free = make(chan struct{})
	context.AfterFunc(conn.Context(), func() {
		if closedHere(conn) { // the transport outlives the connection, to repeat a close that was lost
			time.Sleep(lingerTime(conn))
		}
		release()
		close(carrier.free)
	})
	c, err := world.Connect(ctx, carrier)
	if err != nil {
		<-carrier.free
	}
	return c, err
}

// closedHere reports whether a connection that has ended did so because this side closed it.
func closedHere(conn *quic.Conn) bool {
	var app *quic.ApplicationError
	return errors.As(context.Cause(conn.Context()), &app) && !app.Remote
}

// dialError says why no QUIC connection came about.
func dialError(ctx context.Context, err error) error {
	var silent *quic.IdleTimeoutError
	var slow *quic.HandshakeTimeoutError
	var refused *quic.TransportError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &silent), errors.As(err, &slow):
		return fmt.Errorf("no answer: %w", err)
	case errors.As(err, &refused) && refused.Remote && refused.ErrorCode == quic.ConnectionRefused:
		return &CloseError{Code: ServerFull, Reason: "the server takes no handshake now, or none from this address", Remote: true, cause: err}
	}
	return err
}

// resolve looks addr up; of several addresses it takes the first of version 4, as package net does.
func resolve(ctx context.Context, addr string) (remote *net.UDPAddr, host string, err error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, "", err
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, "", err
	}
	if len(ips) == 0 {
		return nil, "", fmt.Errorf("%s has no address (port %s)", host, strconv.Itoa(port))
	}
	best := ips[0]
	for _, ip := range ips {
		if ip.IP.To4() != nil {
			best = ip
			break
		}
	}
	return &net.UDPAddr{IP: best.IP, Port: port, Zone: best.Zone}, host, nil
}
