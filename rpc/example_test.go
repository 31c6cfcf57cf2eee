package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
)

// Both sides share the declaration.
var (
	chatClass = rpc.NewClass("Chat")

	say  = rpc.Server[line](chatClass, "Say", rpc.Reliable, rpc.RateLimit(20))
	hear = rpc.Client[line](chatClass, "Hear", rpc.Reliable)
)

type line struct{ Text string }

func (l line) Validate() error {
	if len(l.Text) > 200 {
		return errors.New("more than 200 bytes")
	}
	return nil
}

// serverChat is a chat on the server, clientChat the same chat on its owner's side.
type (
	serverChat struct{ actor *rpc.Actor }
	clientChat struct {
		actor *rpc.Actor
		heard chan string
	}
)

func (s *serverChat) say(call *rpc.Call, l line) {
	_ = hear.Call(s.actor, line{strings.ToUpper(l.Text) + ", " + call.Conn.Identity()})
}

func (c *clientChat) hear(_ *rpc.Call, l line) { c.heard <- l.Text }

// Example shows a server and a client on one page.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	certificate, err := cert.Development()
	if err != nil {
		panic(err)
	}

	server, err := rpc.NewWorld(rpc.Config{
		Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
		OnConnect:    func(w *rpc.World, c *rpc.Conn) { _, _ = w.Spawn(chatClass, c) },
		// During development: a client with an old declaration is told what differs.
		ExplainMismatch: true,
	})
	if err != nil {
		panic(err)
	}
	chats := rpc.Bind(server, chatClass, func(a *rpc.Actor) *serverChat { return &serverChat{a} })
	rpc.On(chats, say, (*serverChat).say)
	listener, err := rpc.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, server)
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	go server.Run(ctx)

	client, err := rpc.NewWorld(rpc.Config{Token: []byte("ann")})
	if err != nil {
		panic(err)
	}
	heard := make(chan string)
	mine := rpc.Bind(client, chatClass, func(a *rpc.Actor) *clientChat {
		_ = say.Call(a, line{"hello"}) // the server has given us a chat
		return &clientChat{a, heard}
	})
	rpc.On(mine, hear, (*clientChat).hear)
	pin, err := cert.Pinned(cert.Fingerprint(certificate))
	if err != nil {
		panic(err)
	}
	conn, err := rpc.Dial(ctx, listener.Addr().String(), pin, client)
	if err != nil {
		panic(err)
	}
	defer conn.Close(0, "bye")
	go client.Run(ctx)

	fmt.Println(<-heard)
	// Output: HELLO, ann
}

// Calls from other goroutines than the world's use Do.
func ExampleWorld_Do() {
	world, _ := rpc.NewWorld(rpc.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- world.Run(ctx) }()

	score := 0
	err := world.Do(ctx, func() { score = 7 })
	fmt.Println(score, err)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// 7 <nil>
	// context canceled
}

// An argument that Validate refuses would end the connection of the client that
// sent it, so the client's own Call refuses it.
func ExampleServerRPC_Call() {
	world, _ := rpc.NewWorld(rpc.Config{})
	chats := rpc.Bind(world, chatClass, func(a *rpc.Actor) *serverChat { return &serverChat{a} })
	rpc.On(chats, say, (*serverChat).say)
	chat, _ := world.Spawn(chatClass, nil)
	fmt.Println(say.Call(chat, line{strings.Repeat("x", 201)}))
	// Output: rpc: Chat.Say refused: more than 200 bytes
}
