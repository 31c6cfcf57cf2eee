package vital_test

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/chunk/vital"
)

func Example() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // a program's own clock
	// The handshake of the two programs has drawn the tokens.
	client, err := vital.NewConn(now, vital.Config{Version: vital.V07, Token: 0x1234, PeerToken: 0x5678, MaxPacket: 1200})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := vital.NewConn(now, vital.Config{Version: vital.V07, Token: 0x5678, PeerToken: 0x1234, MaxPacket: 1200})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Send(vital.Vital, []byte("join")); err != nil {
		fmt.Println(err)
		return
	}
	client.Flush() // at the end of a tick
	for range 60 {
		for _, ends := range [2][2]*vital.Conn{{client, server}, {server, client}} {
			from, to := ends[0], ends[1]
			if err := from.Advance(now); err != nil {
				fmt.Println(err) // the connection is over
				return
			}
			for p, _, ok := from.AppendPacket(now, nil, 1200); ok; p, _, ok = from.AppendPacket(now, nil, 1200) {
				if err := to.Receive(now, p); err != nil { // over the network
					fmt.Println(err)
					return
				}
			}
		}
		for c, ok := server.Next(); ok; c, ok = server.Next() {
			fmt.Printf("%s, chunk %d\n", c.Data, c.Sequence)
		}
		now = now.Add(time.Second / 60)
	}
	fmt.Println(client.Outstanding(), "not acknowledged")
	// Output:
	// join, chunk 1
	// 0 not acknowledged
}
