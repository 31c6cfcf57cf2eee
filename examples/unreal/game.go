// Unreal is a Go version of the article on streaming data over Unreal's reliable RPCs. It has the
// article's game mode and player controller, the two ways that fail, and the one that works. For
// readers who know the original, comments give the Unreal name of each thing.
//
// Read the files in this order:
//
//   - game.go declares what both ends share
//   - gamemode.go is what fails
//   - controller.go is what works
//   - nested.go sends arrays inside of arrays
//   - bytes.go is the exercise at the end of the article
//   - end.go is a server or a client
//   - story.go plays all of this
//   - main.go connects the ends over sockets
//
// unreal_test.go plays the same story, most of it in virtual time.
package main

import (
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// MyData is FMyData: an element that contains no array.
type MyData struct {
	ID      uint32
	X, Y, Z float32
}

const (
	maxBytesPerRPC = 32 << 10 // MaxBytesPerRPC: half of NetMaxConstructedPartialBunchSizeBytes
	// elementSize is ElementSize, an upper bound of the encoded size: one byte for the struct, and
	// up to 5 bytes for each of its fields.
	elementSize = 1 + 4*5
	maxChunk    = maxBytesPerRPC / elementSize // MAXCHUNKSIZE, in elements

	elements = 40_000 // elements of Data; they need 26 RPCs, but the reliable buffer has room for only 8
)

// AMyPlayerController. A class and its RPCs are variables, declared once for both ends.
var (
	PlayerController = rpc.NewClass("PlayerController")

	// UFUNCTION(Client, Reliable).
	ClientReceiveData = rpc.Client[[]MyData](PlayerController, "ClientReceiveData", rpc.Reliable)
	// UFUNCTION(Client, Reliable).
	ClientNotifyAllDataReceived = rpc.Client[rpc.None](PlayerController, "ClientNotifyAllDataReceived", rpc.Reliable)
	// UFUNCTION(Server, Reliable).
	ServerReceiveData = rpc.Server[[]MyData](PlayerController, "ServerReceiveData", rpc.Reliable)
	// UFUNCTION(Server, Reliable).
	ServerNotifyAllDataReceived = rpc.Server[rpc.None](PlayerController, "ServerNotifyAllDataReceived", rpc.Reliable)
)

// Topics of the streamer, which need neither actors nor RPCs of the game. See nested.go and
// bytes.go.
var (
	Bounded  = stream.NewArray[BoundedStruct]("bounded")
	Structs  = stream.NewArray[Struct]("structs")
	Floats   = stream.NewArray[float32]("floats", stream.MaxBytesPerRPC(8<<10))
	SaveGame = stream.NewBlob("savegame")
)

// makeData returns n elements of Data.
func makeData(n int) []MyData {
	data := make([]MyData, n)
	for i := range data {
		data[i] = MyData{ID: uint32(i), X: float32(i), Y: -float32(i), Z: 0.5}
	}
	return data
}
