package input_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/rpc/input"
)

// A cart rolls one metre a tick in the direction that its player wants, 200 ticks a second.
var (
	cartClass = rpc.NewClass("Cart")
	cartState = rpc.NewState[rolled](cartClass)
	cartWants = input.New[wants](cartClass, "Wants", 200)
)

type wants struct{ Direction int8 }

// rolled is the cart's position after a server tick.
type rolled struct {
	Tick uint64
	X    int32
}

type cart struct {
	at     rolled
	inputs input.Queue[wants]      // at the server
	wants  *input.Predictor[wants] // at the client that owns it
	x      int32                   // there, as it is predicted
}

func (c *cart) roll(w wants) { c.x += int32(w.Direction) }

// corrected is OnRep. It sets the cart to the server's state after a tick, and
// applies the player's inputs since then.
func (c *cart) corrected(rolled) {
	c.x = c.at.X
	c.wants.Saw(c.at.Tick)
	for _, w := range c.wants.After(c.at.Tick) {
		c.roll(w)
	}
}

// carts is a world in which carts roll.
func carts(config rpc.Config) (*rpc.World, *rpc.Binding[*cart]) {
	world, _ := rpc.NewWorld(config)
	carts := rpc.Bind(world, cartClass, func(a *rpc.Actor) *cart { return &cart{wants: cartWants.Predictor(a)} })
	rpc.Replicate(carts, cartState, func(c *cart) *rolled { return &c.at })
	rpc.OnRep(carts, cartState, (*cart).corrected)
	input.Serve(carts, cartWants, func(c *cart) *input.Queue[wants] { return &c.inputs })
	input.Predict(carts, cartWants, func(c *cart) *input.Predictor[wants] { return c.wants })
	return world, carts
}

// drive drives a server and its client. It returns after so many ticks in a row
// in which the cart was where its player had seen it.
func drive(server, client *rpc.World, served, mine *rpc.Binding[*cart], inARow int) {
	seen := make(map[uint64]int32) // by tick, when the player made its input
	for tick, right := uint64(1), 0; right < inARow; tick++ {
		time.Sleep(time.Second / 200)
		now := time.Now()
		server.Dispatch(now)
		for _, c := range served.All() {
			want, _ := c.inputs.Take(now, tick) // the last one again if this one is late
			c.roll(want)
			c.at = rolled{tick, c.x}
			if right++; seen[tick] != c.x {
				right = 0
			}
		}
		server.Flush(now)

		client.Dispatch(now)
		for _, c := range mine.All() {
			_ = c.wants.Tick(now, func(tick uint64) wants { // an error: the connection has ended
				want := wants{Direction: 1} // what the keys say
				c.roll(want)
				seen[tick] = c.x
				return want
			})
		}
		client.Flush(now)
	}
}

// A client's cart is where the server's will be, before the server has the player's input.
func Example() {
	ctx := context.Background()
	var served *rpc.Binding[*cart]
	server, served := carts(rpc.Config{OnConnect: func(_ *rpc.World, c *rpc.Conn) { _, _, _ = rpc.Spawn(served, c, nil) }})
	certificate, _ := cert.Development("localhost")
	listener, err := rpc.Listen("localhost:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, server)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer listener.Close()
	client, mine := carts(rpc.Config{})
	pin, err := cert.Pinned(cert.Fingerprint(certificate))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := rpc.Dial(ctx, listener.Addr().String(), pin, client); err != nil {
		fmt.Println(err)
		return
	}
	drive(server, client, served, mine, 40)
	fmt.Println("for 40 ticks the server did what the client had foreseen")
	_ = client.Close(ctx, rpc.HostClosedConnection, "enough")
	_ = server.Close(ctx, rpc.HostClosedConnection, "enough")
	// Output: for 40 ticks the server did what the client had foreseen
}
