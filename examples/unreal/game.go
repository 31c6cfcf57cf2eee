// Unreal is the article on streaming data over Unreal's reliable RPCs, in Go: its game mode and its player controller, the two
// ways that fail, and the one that works. It is for those who know the original: a comment names what stands there in Unreal.
//
// Read it in this order: game.go has what both ends declare, gamemode.go what fails, controller.go what works, nested.go arrays
// inside of arrays, bytes.go the exercise at the article's end, end.go a server and a client, story.go what is played, main.go the
// sockets. unreal_test.go plays the same, most of it in virtual time.
package main

import (
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// MyData is FMyData: an element without anything inside.
type MyData struct {
	ID      uint32
	X, Y, Z float32
}

const (
	maxBytesPerRPC = 32 << 10 // MaxBytesPerRPC: half of NetMaxConstructedPartialBunchSizeBytes
	// elementSize is ElementSize, the pessimistic sizeof: as it travels, a struct has a byte in front and these fields up to 5 each.
	elementSize = 1 + 4*5
	maxChunk    = maxBytesPerRPC / elementSize // MAXCHUNKSIZE, in elements

	elements = 40_000 // of Data: 26 RPCs, where the reliable buffer has place for 8
)

// AMyPlayerController: a class and its net functions are variables here, declared once for both ends.
var (
	PlayerController = rpc.NewClass("PlayerController")

	ClientReceiveData           = rpc.Client[[]MyData](PlayerController, "ClientReceiveData", rpc.Reliable)           // UFUNCTION(Client, Reliable)
	ClientNotifyAllDataReceived = rpc.Client[rpc.None](PlayerController, "ClientNotifyAllDataReceived", rpc.Reliable) // UFUNCTION(Client, Reliable)
	ServerReceiveData           = rpc.Server[[]MyData](PlayerController, "ServerReceiveData", rpc.Reliable)           // UFUNCTION(Server, Reliable)
	ServerNotifyAllDataReceived = rpc.Server[rpc.None](PlayerController, "ServerNotifyAllDataReceived", rpc.Reliable) // UFUNCTION(Server, Reliable)
)

// Topics of the streamer need no actor and no RPCs of the game's: see nested.go and bytes.go.
var (
	Bounded  = stream.NewArray[BoundedStruct]("bounded")
	Structs  = stream.NewArray[Struct]("structs")
	Floats   = stream.NewArray[float32]("floats", stream.MaxBytesPerRPC(8<<10))
	SaveGame = stream.NewBlob("savegame")
)

// makeData is the Data that the game mode has, or the client.
func makeData(n int) []MyData {
	data := make([]MyData, n)
	for i := range data {
		data[i] = MyData{ID: uint32(i), X: float32(i), Y: -float32(i), Z: 0.5}
	}
	return data
}
