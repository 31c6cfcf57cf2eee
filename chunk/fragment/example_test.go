package fragment_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/quivernet/quiver/chunk/fragment"
)

func Example() {
	config := fragment.Config{ProtocolID: 0xcafe, MaxFragments: 8} // both ends agree on the id
	r, err := fragment.NewReassembler(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // a program's own clock
	parts, err := fragment.Split(0, []byte(strings.Repeat("state, ", 400)))
	if err != nil {
		fmt.Println(err)
		return
	}
	var buf []byte
	for i := parts.Len() - 1; i >= 0; i-- { // over the network, where one may overtake another
		buf = fragment.Append(buf[:0], config.ProtocolID, parts.At(i))
		block, ok, err := r.Receive(now, buf)
		if err != nil {
			continue // a packet that makes no sense is no reason to stop
		}
		if ok {
			fmt.Printf("block %d: %d bytes\n", block.Sequence, len(block.Data)) // read it before the next Receive
		}
	}
	r.Advance(now) // each tick; gives up what is too old
	// Output: block 0: 2800 bytes
}
