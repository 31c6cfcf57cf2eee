package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/rpc/emulation"
)

// Parameters of the match, in main and in the test.
const (
	Bots   = 16
	Uplink = 20e6 // bit/s of the server, shared by all its clients
	Settle = 3 * time.Second
	Part   = 10 * time.Second // length of the measurements before the download and after it
)

// usage prints what the program does. It has no arguments.
func usage() {
	fmt.Fprintf(flag.CommandLine.Output(), `Usage: go run ./examples/arena

Plays a match on loopback, with an emulated bad network at each socket: %d bots shoot at each other, and one more joins late and downloads
the level while all continue to play. After half a minute, it prints how long calls and states took before, during and after the download.
`, Bots)
}

func main() {
	flag.Usage = usage
	if flag.Parse(); flag.NArg() > 0 {
		usage()
		os.Exit(2)
	}
	ctx, end := context.WithCancel(context.Background())
	var playing sync.WaitGroup
	start := func(w *rpc.World, tick func(now time.Time)) {
		playing.Go(func() { drive(ctx, w, tick) })
	}
	network := must(emulation.Profile("Bad"))
	uplink := network
	// The emulation is applied to the server's socket, so everything that the server
	// sends shares this rate.
	uplink.Rate = Uplink

	seed := uint64(0)
	f := newFelt()
	server := newServer(rpc.Config{Sealed: true, Emulation: &uplink}, seed)
	certificate := must(cert.Development("localhost"))
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	listener := must(rpc.Listen("localhost:0", config, server.world))
	defer listener.Close()
	start(server.world, server.tick)
	join := func(who string) *bot {
		seed++
		b := newBot(rpc.Config{Sealed: true, Emulation: &network}, seed, f, who)
		pin := must(cert.Pinned(cert.Fingerprint(certificate)))
		must(rpc.Dial(ctx, listener.Addr().String(), pin, b.world))
		start(b.world, b.tick)
		return b
	}

	for range Bots {
		join("others")
	}
	fmt.Printf("%d bots play; one more joins in %v, and the figures come after half a minute\n", Bots, Settle+Part)
	time.Sleep(Settle)
	f.begin("before")
	time.Sleep(Part)
	f.begin("during")
	began := time.Now()
	late := join("joiner")
	select {
	case err := <-late.hasLevel:
		fmt.Printf("%d bots play, and one more has downloaded %d MiB in %.1f s\n",
			Bots, must(LevelSize>>20, err), time.Since(began).Seconds())
	case <-time.After(3 * time.Minute):
		log.Fatal("download did not finish within 3 minutes")
	}
	f.begin("after")
	time.Sleep(Part)

	end()
	playing.Wait() // from now on, nothing drives the worlds
	fmt.Printf("%d of %d shots hit; the late one killed %d and saw %d die\n",
		server.hits, server.shots, late.kills, late.booms)
	f.print(os.Stdout)
}

// drive ticks a world until ctx ends. A tick consists of Unreal's TickDispatch, the simulation, and
// TickFlush. Each world has its own goroutine, as if it were a separate process.
func drive(ctx context.Context, w *rpc.World, tick func(now time.Time)) {
	ticker := time.NewTicker(time.Second / TickRate)
	defer ticker.Stop()
	for ctx.Err() == nil {
		<-ticker.C
		now := time.Now() // not the ticker's time, because the goroutine may be late
		w.Dispatch(now)
		tick(now)
		w.Flush(now)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
