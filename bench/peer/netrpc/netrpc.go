// Package netrpc is the standard library's net/rpc as a contender for calls.
package netrpc

import (
	"bytes"
	"context"
	"errors"
	"net/rpc"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/peer/tcp"
)

// Peers returns the one contender.
func Peers() []peer.Peer {
	return []peer.Peer{{
		Name: "net/rpc", Calls: true,
		Settings: "gob over one TCP connection on the loopback, no encryption",
		Open:     func(ctx context.Context, _ emulate.Net) (peer.Pair, error) { return open(ctx) },
	}}
}

// Echo is the service.
type Echo struct{}

// Say answers with its argument.
func (Echo) Say(argument []byte, answer *[]byte) error {
	*answer = argument
	return nil
}

type pair struct{ client *rpc.Client }

func open(ctx context.Context) (*pair, error) {
	near, far, err := tcp.Pipe(ctx, tcp.Loopback{})
	if err != nil {
		return nil, err
	}
	server := rpc.NewServer()
	if err := server.Register(Echo{}); err != nil {
		return nil, err
	}
	go server.ServeConn(far)
	return &pair{rpc.NewClient(near)}, nil
}

// Call makes a call.
func (p *pair) Call(ctx context.Context, argument []byte) error {
	var answer []byte
	call := p.client.Go("Echo.Say", argument, &answer, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		if call.Error == nil && !bytes.Equal(answer, argument) {
			return errors.New("netrpc: a wrong answer")
		}
		return call.Error
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close closes the connection.
func (p *pair) Close() { _ = p.client.Close() }
