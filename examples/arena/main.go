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
)

// The match, here and in the test.
const (
	Bots   = 16
	Uplink = 20e6 // bit/s of the server, for all its clients together
	Settle = 3 * time.Second
	Part   = 10 * time.Second // before the download, and after it
)

// arena is a match over loopback. Each world has a goroutine of its own, as if it were a process.
type arena struct {
	ctx     context.Context
	network rpc.Emulation
	server  *server
	address string
	trust   *tls.Config
	felt    *felt
	bots    []*bot
	playing sync.WaitGroup
}

func main() {
	profile := flag.String("profile", "Bad", "Unreal's packet emulation: Off, Average or Bad")
	flag.Parse()
	ctx, end := context.WithCancel(context.Background())
	a := &arena{ctx: ctx, network: must(rpc.EmulationProfile(*profile)), felt: newFelt()}
	defer a.listen().Close()
	for range Bots {
		a.join("others")
	}
	time.Sleep(Settle)
	a.felt.begin("before")
	time.Sleep(Part)

	a.felt.begin("during")
	began := time.Now()
	err := <-a.join("joiner").hasLevel
	fmt.Printf("%d bots play, and one more has downloaded %d MiB in %.1f s: %v\n", Bots, LevelSize>>20, time.Since(began).Seconds(), err)
	a.felt.begin("after")
	time.Sleep(Part)

	end()
	a.playing.Wait() // nobody drives the worlds any more
	fmt.Printf("%d of %d shots hit; the joiner killed %d and saw %d die\n", a.server.hits, a.server.shots, a.bots[Bots].kills, a.bots[Bots].booms)
	a.felt.print(os.Stdout)
}

// listen starts the server. The emulation stands before its socket, so that all that it sends shares the uplink.
func (a *arena) listen() *rpc.Listener {
	uplink := a.network
	uplink.Rate = Uplink
	a.server = must(newServer(rpc.Config{Sealed: true, Emulation: &uplink}, 1))
	cert := must(rpc.DevelopmentCertificate("localhost"))
	listener := must(rpc.Listen("localhost:0", &tls.Config{Certificates: []tls.Certificate{cert}}, a.server.world))
	a.address, a.trust = listener.Addr().String(), rpc.PinnedTLS(rpc.Fingerprint(cert))
	a.drive(a.server.world, a.server.tick)
	return listener
}

// join has one more player come.
func (a *arena) join(who string) *bot {
	b := must(newBot(rpc.Config{Sealed: true, Emulation: &a.network}, uint64(len(a.bots)), a.felt, who))
	b.needsLevel = who == "joiner"
	must(rpc.Dial(a.ctx, a.address, a.trust, b.world))
	a.drive(b.world, b.tick)
	a.bots = append(a.bots, b)
	return b
}

// drive ticks a world until the match ends: UE's TickDispatch, the simulation, and TickFlush.
func (a *arena) drive(w *rpc.World, tick func(now time.Time)) {
	a.playing.Go(func() {
		ticker := time.NewTicker(time.Second / TickRate)
		defer ticker.Stop()
		for a.ctx.Err() == nil {
			<-ticker.C
			now := time.Now() // as late as the goroutine is
			w.Dispatch(now)
			tick(now)
			w.Flush(now)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
