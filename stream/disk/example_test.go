package disk_test

import (
	"log"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

// A world in which interrupted uploads resume where they stopped.
func ExampleNew() {
	store := disk.New("uploads")
	store.MaxBytes, store.MaxIdentityBytes = 100<<30, 1<<30
	world, err := rpc.NewWorld(rpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := stream.Install(world, stream.Config{Store: store}); err != nil {
		log.Fatal(err)
	}
}
