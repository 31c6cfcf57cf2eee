package rpc_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// wire is one end of a network in memory: a [rpc.Carrier] that delays datagrams
// and loses every nth. That is all that the test of a game needs for a network
// in the virtual time of testing/synctest.
type wire struct {
	peer    *wire
	delay   time.Duration
	nth     uint64
	sent    atomic.Uint64
	arrived chan []byte
	ended   context.Context
	end     context.CancelCauseFunc
}

func newWires(delay time.Duration, nth uint64) (a, b *wire) {
	a, b = &wire{delay: delay, nth: nth}, &wire{delay: delay, nth: nth}
	a.peer, b.peer = b, a
	for _, w := range []*wire{a, b} {
		w.arrived = make(chan []byte, 1000)
		w.ended, w.end = context.WithCancelCause(context.Background())
	}
	return a, b
}

func (w *wire) SendDatagram(p []byte) error {
	if w.sent.Add(1)%w.nth != 0 {
		p = append([]byte(nil), p...)
		time.AfterFunc(w.delay, func() {
			select {
			case w.peer.arrived <- p:
			default: // too many wait: lost
			}
		})
	}
	return context.Cause(w.ended)
}

func (w *wire) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	select {
	case p := <-w.arrived:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.ended.Done():
		return nil, context.Cause(w.ended)
	}
}

func (w *wire) Path() rpc.Path { return rpc.Path{} }

func (w *wire) CloseWithError(code uint64, reason string) error {
	w.end(errors.New("closed at this end"))
	time.AfterFunc(w.delay, func() {
		w.peer.end(&rpc.CloseError{Code: rpc.Code(code), Reason: reason, Remote: true})
	})
	return nil
}

// TestGameInABubble shows how a game tests itself on a bad network in virtual
// time, with the chat of [Example].
func TestGameInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop() // ends Run, after both ends of the connection
		server, err := rpc.NewWorld(rpc.Config{
			OnConnect: func(w *rpc.World, c *rpc.Conn) { _, _ = w.Spawn(chatClass, c) },
		})
		if err != nil {
			t.Fatal(err)
		}
		chats := rpc.Bind(server, chatClass, func(a *rpc.Actor) *serverChat { return &serverChat{a} })
		rpc.On(chats, say, (*serverChat).say)
		client, err := rpc.NewWorld(rpc.Config{})
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan string, 1)
		mine := rpc.Bind(client, chatClass, func(a *rpc.Actor) *clientChat {
			_ = say.Call(a, line{"hello"})
			return &clientChat{a, heard}
		})
		rpc.On(mine, hear, (*clientChat).hear)

		began := time.Now()
		near, far := newWires(50*time.Millisecond, 4)
		accepted, err := server.Attach(far)
		if err != nil {
			t.Fatal(err)
		}
		go server.Run(ctx)
		dialed, err := client.Connect(ctx, near)
		if err != nil {
			t.Fatal(err)
		}
		go client.Run(ctx)
		if got := <-heard; got != "HELLO, " {
			t.Errorf("heard %q", got)
		}
		// Hello, Welcome, Join, the call and its echo: five ways at least, and probes, the
		// first of them after a second, where a packet that nobody follows is the lost one.
		if took := time.Since(began); took < 250*time.Millisecond || took > 5*time.Second {
			t.Errorf("it took %v of virtual time, not some 50 ms a way", took)
		}

		dialed.Close(0, "the test is over")
		for _, c := range []*rpc.Conn{dialed, accepted} { // a bubble ends only when no goroutine is left
			if err := c.Wait(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}
