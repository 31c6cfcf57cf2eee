package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/rpc/emulation"
)

func main() {
	profile := flag.String("profile", "Off", "Unreal's packet emulation in both directions: Off, Average, Bad or BufferBloat")
	flag.Parse()
	if err := play(os.Stdout, must(emulation.Profile(*profile))); err != nil {
		log.Fatal(err)
	}
}

// play plays the story over loopback.
func play(w io.Writer, network emulation.Settings) error {
	config := rpc.Config{Sealed: true}
	if network != (emulation.Settings{}) {
		config.Emulation = &network
	}
	server := newServer(config)
	certificate := must(cert.Development("localhost"))
	tlsConfig := &tls.Config{Certificates: []tls.Certificate{certificate}}
	listener := must(rpc.Listen("localhost:0", tlsConfig, server.world))
	defer listener.Close()
	loopback := &sockets{
		addr:   listener.Addr().String(),
		pin:    cert.Fingerprint(certificate),
		worlds: []*rpc.World{server.world},
	}
	defer loopback.close()

	s := &stage{network: loopback, server: server, mode: gameMode{data: makeData(elements)}}
	return s.tell(w, config)
}

// A sockets is a network over loopback.
type sockets struct {
	addr, pin string
	worlds    []*rpc.World
}

func (n *sockets) join(w *rpc.World) error {
	pin, err := cert.Pinned(n.pin)
	if err != nil {
		return err
	}
	n.worlds = append(n.worlds, w)
	joined := make(chan error, 1)
	go func() { // Dial waits for the server, so the worlds must tick in the meantime.
		_, err := rpc.Dial(context.Background(), n.addr, pin, w)
		joined <- err
	}()
	if !n.until(patience, func() bool { return len(joined) > 0 }) {
		return fmt.Errorf("no connection within %v", patience)
	}
	return <-joined
}

func (n *sockets) until(limit time.Duration, done func() bool) bool {
	ticker := time.NewTicker(time.Second / 60)
	defer ticker.Stop()
	end := time.Now().Add(limit)
	for !done() {
		now := <-ticker.C
		if now.After(end) {
			return false
		}
		for _, w := range n.worlds {
			w.Tick(now) // TickDispatch and TickFlush
		}
	}
	return true
}

// close closes all connections, beginning with the clients'.
func (n *sockets) close() {
	for _, w := range slices.Backward(n.worlds) {
		_ = w.Close(context.Background(), rpc.HostClosedConnection, "the story is over")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
