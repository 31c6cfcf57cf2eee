// Package drpc is storj.io/drpc as a contender for calls.
package drpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"storj.io/drpc"
	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcserver"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/peer/tcp"
)

// conns is how many connections a pair has, and so how many calls can be in
// flight: a connection carries one at a time.
const conns = 64

// Peers returns the one contender.
func Peers() []peer.Peer {
	return []peer.Peer{{
		Name: "storj/drpc", Module: "storj.io/drpc", Calls: true,
		Settings: "64 TCP connections on the loopback, because one carries one call at a time; bytes as they are, no encryption",
		Open:     func(ctx context.Context, _ emulate.Net) (peer.Pair, error) { return open(ctx) },
	}}
}

// A plain passes messages, which are *[]byte, unchanged.
type plain struct{}

func (plain) Marshal(m drpc.Message) ([]byte, error) { return *m.(*[]byte), nil }

func (plain) Unmarshal(b []byte, m drpc.Message) error {
	into := m.(*[]byte)
	*into = append((*into)[:0], b...)
	return nil
}

// An echo is the service: it answers a call with its argument.
type echo struct{}

// HandleRPC implements drpc.Handler.
func (echo) HandleRPC(s drpc.Stream, _ string) error {
	var m []byte
	if err := s.MsgRecv(&m, plain{}); err != nil {
		return err
	}
	return s.MsgSend(&m, plain{})
}

// A pair is a client and a server with many connections.
type pair struct {
	free   chan *drpcconn.Conn // the client's ends that carry no call
	cancel context.CancelFunc  // ends the server
}

func open(ctx context.Context) (*pair, error) {
	running, cancel := context.WithCancel(context.Background())
	p := &pair{free: make(chan *drpcconn.Conn, conns), cancel: cancel}
	server := drpcserver.New(echo{})
	for range conns {
		near, far, err := tcp.Pipe(ctx, tcp.Loopback{})
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("drpc: %w", err)
		}
		go func() { _ = server.ServeOne(running, far) }()
		p.free <- drpcconn.New(near)
	}
	return p, nil
}

// Call waits for a free connection and makes a call over it.
func (p *pair) Call(ctx context.Context, argument []byte) error {
	c := <-p.free
	defer func() { p.free <- c }()
	var answer []byte
	if err := c.Invoke(ctx, "Echo", plain{}, &argument, &answer); err != nil {
		return err
	}
	if !bytes.Equal(argument, answer) {
		return errors.New("drpc: a wrong answer")
	}
	return nil
}

// Close closes the server and the connections that carry no call.
func (p *pair) Close() {
	p.cancel()
	for len(p.free) > 0 {
		_ = (<-p.free).Close()
	}
}
