package pieces_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"strconv"
	"strings"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/pieces"
)

// Both ends share the declarations. The manifest of these assets are their names, a line each.
var (
	deskClass = rpc.NewClass("Desk").Errors(pieces.ErrViolation)
	put       = rpc.ServerRequest[int, string](deskClass, "Put") // of a number that the client counts

	talks = stream.NewBlob("talks")
)

const most = 100 // bytes of an asset

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	certificate := must(cert.Development())

	// The server has the lamp already.
	has := map[string]string{"lamp": "a lamp"}
	server := must(rpc.NewWorld(rpc.Config{OnConnect: func(w *rpc.World, c *rpc.Conn) { must(w.Spawn(deskClass, c)) }}))
	serverStreams := must(stream.Install(server, stream.Config{}))
	talks.Handle(serverStreams, stream.ToInbox)
	desks := rpc.Bind(server, deskClass, func(a *rpc.Actor) *rpc.Actor { return a })
	rpc.OnRequest(desks, put, func(a *rpc.Actor, call *rpc.Call, number int) (string, error) {
		t := &pieces.Talk{Blob: talks, Peer: serverStreams.Peer(a.Conn()), Name: strconv.Itoa(number), MaxPiece: most}
		put.Go(call, func(ctx context.Context) (string, error) { return receive(ctx, t, has) })
		return "", nil // Go answers
	})
	listener := must(rpc.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, server))
	defer listener.Close()
	go server.Run(ctx)

	// The client.
	client, opened := must(rpc.NewWorld(rpc.Config{})), make(chan *rpc.Actor, 1)
	clientStreams := must(stream.Install(client, stream.Config{}))
	talks.Handle(clientStreams, stream.ToInbox)
	rpc.Bind(client, deskClass, func(a *rpc.Actor) *rpc.Actor { opened <- a; return a })
	go client.Run(ctx)
	conn := must(rpc.Dial(ctx, listener.Addr().String(), must(cert.Pinned(cert.Fingerprint(certificate))), client))
	desk := <-opened

	names := []string{"lamp", "rope", "sword"}
	for number := range 2 {
		answer, err := pieces.WithRequest(ctx, func(ctx context.Context) (string, error) {
			return put.Ask(ctx, desk, number)
		}, func(ctx context.Context) error {
			t := &pieces.Talk{Blob: talks, Peer: clientStreams.Peer(conn), Name: strconv.Itoa(number), MaxPiece: most}
			lacks, err := t.Offer(ctx, []byte(strings.Join(names, "\n")), len(names))
			if err != nil {
				return err
			}
			return t.Send(ctx, lacks, func(b []byte, i int) ([]byte, error) { return append(b, "a "+names[i]...), nil })
		})
		fmt.Println(answer, err)
	}
	// Output:
	// got [rope sword] <nil>
	// got [] <nil>
}

// receive takes the assets that has lacks.
func receive(ctx context.Context, t *pieces.Talk, has map[string]string) (string, error) {
	manifest, err := t.ReadBlob(ctx, pieces.Manifest, 1000)
	if err != nil {
		return "", err
	}
	var lacks []int
	names := strings.Split(string(manifest), "\n")
	for i, name := range names {
		if has[name] == "" {
			lacks = append(lacks, i)
		}
	}
	var got []string
	err = t.Fetch(ctx, lacks, func(i int, piece []byte, free func()) error {
		defer free()
		has[names[i]] = string(piece) // whether it is the right one a game checks here
		got = append(got, names[i])
		return nil
	})
	return fmt.Sprint("got ", got), err
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
