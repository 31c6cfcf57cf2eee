package stream_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream"
)

// The topics, in a package that client and server share.
var (
	inventory = stream.NewArray[thing]("inventory")
	saveGame  = stream.NewBlob("savegame")
)

type thing struct {
	ID   uint32
	Name string `quiver:"max=40"`
}

// A client uploads a save game, and gets an inventory when it joins.
func Example() {
	certificate, err := cert.Development("localhost")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// The server.
	server, err := rpc.NewWorld(rpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	streams, err := stream.Install(server, stream.Config{})
	if err != nil {
		log.Fatal(err)
	}
	server.OnConnect(func(conn *rpc.Conn) {
		items := []thing{{1, "sword"}, {2, "lamp"}}
		if _, err := inventory.Start(streams.Peer(conn), items); err != nil {
			log.Print(err)
		}
	})
	saved := make(chan string)
	saveGame.Handle(streams, func(in *stream.IncomingBlob) {
		go func() {
			all, err := io.ReadAll(in)
			saved <- fmt.Sprintf("%s: %d bytes, %v", in.Name(), len(all), err)
		}()
	})
	listener, err := rpc.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, server)
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()
	go server.Run(ctx)

	// The client.
	client, err := rpc.NewWorld(rpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	clientStreams, err := stream.Install(client, stream.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	inventory.Handle(clientStreams, func(in *stream.IncomingArray[thing]) {
		in.OnBatch(func(batch []thing) { fmt.Println("got", batch) })
		in.OnEnd(func(err error) { ended <- err })
	})
	go client.Run(ctx)
	pin, err := cert.Pinned(cert.Fingerprint(certificate))
	if err != nil {
		log.Fatal(err)
	}
	conn, err := rpc.Dial(ctx, listener.Addr().String(), pin, client)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("inventory:", <-ended)

	world := strings.NewReader(strings.Repeat("all work and no play ", 10_000))
	sent := make(chan error)
	go func() {
		sent <- saveGame.Send(ctx, clientStreams.Peer(conn), world, world.Size(), stream.Name("slot 1"))
	}()
	fmt.Println("server:", <-saved)
	fmt.Println("client:", <-sent)
	_ = client.Close(ctx, 0, "bye")
	_ = server.Close(ctx, 0, "bye")

	// Output:
	// got [{1 sword} {2 lamp}]
	// inventory: <nil>
	// server: slot 1: 210000 bytes, <nil>
	// client: <nil>
}

// A line for players, the same at both ends: what a game asks Transfer.Progress
// or Incoming.Progress for, a few times a second.
func ExampleProgress_Left() {
	line := func(p stream.Progress) string {
		text := fmt.Sprintf("%.1f MB", float64(p.Acked)/1e6)
		if p.Total > 0 {
			text = fmt.Sprintf("%d %%", 100*p.Acked/p.Total)
		}
		if p.Rate > 0 {
			text += fmt.Sprintf(", %.1f MB/s", p.Rate/1e6)
		}
		if left, ok := p.Left(); ok {
			text += fmt.Sprintf(", %v left", left.Round(time.Second))
		}
		return text
	}
	fmt.Println("just begun:", line(stream.Progress{Total: 40e6}))
	fmt.Println("on its way:", line(stream.Progress{Acked: 10e6, Total: 40e6, Rate: 2.5e6}))
	fmt.Println("a quiet network:", line(stream.Progress{Acked: 10e6, Total: 40e6}))
	fmt.Println("of unknown size:", line(stream.Progress{Acked: 10e6, Total: -1, Rate: 2.5e6}))
	fmt.Println("complete:", line(stream.Progress{Acked: 40e6, Total: 40e6, Rate: 2e6}))

	// Output:
	// just begun: 0 %
	// on its way: 25 %, 2.5 MB/s, 12s left
	// a quiet network: 25 %
	// of unknown size: 10.0 MB, 2.5 MB/s
	// complete: 100 %, 2.0 MB/s, 0s left
}
