package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"unicode"

	desk "github.com/quivernet/quiver/examples/savegame/olddesk"
	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream"
)

// errInterrupted is the cause of contexts that a signal ends.
var errInterrupted = errors.New("interrupted")

// plain shows a text of the other side's on a terminal: what that might obey, controls and marks that turn the direction of
// letters, stands there as U+FFFD.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// oneLine writes an error on one line. A server may have said some of it.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	return plain(strings.Join(lines, "; "))
}

// pin is a client's TLS configuration that remembers why it refused a server.
type pin struct {
	fingerprint string
	refusal     atomic.Pointer[error]
}

func (p *pin) config() *tls.Config {
	config := cert.Pinned(p.fingerprint)
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		err := verify(state)
		if err != nil {
			p.refusal.Store(&err)
		}
		return err
	}
	return config
}

// explainDial says why no connection came about.
func explainDial(server string, p *pin, err error) error {
	var closed *rpc.CloseError
	var timeout net.Error
	refusal := p.refusal.Load()
	switch {
	case refusal != nil:
		return fmt.Errorf("server %s: wrong fingerprint: %s", server, strings.TrimPrefix((*refusal).Error(), "rpc: "))
	case errors.Is(err, errInterrupted):
		return err
	case errors.As(err, &closed) && closed.Code == rpc.PreLoginFailure:
		return fmt.Errorf("server %s does not accept the token: %s", server, closed.Reason)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("server %s: no answer", server)
	}
	return fmt.Errorf("server %s: %w", server, err)
}

// explain says what went wrong with what was asked of a server.
func explain(server string, err error) error {
	var closed *rpc.CloseError
	switch {
	case errors.Is(err, desk.ErrRefused), errors.Is(err, errInterrupted):
		return err
	case errors.Is(err, vault.ErrChanged):
		return fmt.Errorf("%w; put it again", err)
	case errors.As(err, &closed) && closed.Code == rpc.ConnectionTimeout:
		return fmt.Errorf("server %s went away: %s", server, closed.Reason)
	case errors.As(err, &closed):
		return fmt.Errorf("server %s closed the connection: %v: %s", server, closed.Code, closed.Reason)
	case errors.Is(err, stream.ErrDigest):
		return fmt.Errorf("the content changed on its way, perhaps the file was written to meanwhile: %w", err)
	}
	return err
}
