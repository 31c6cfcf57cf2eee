package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/quivernet/quiver/stream"
)

// sendBytes is the exercise at the article's end: whatever the game has becomes a TArray<uint8>, and that is streamed. A blob does the
// rest: pieces, gates and a digest. JSON stands for Unreal's FMemoryWriter; a game takes the format of its save games.
func sendBytes(peer *stream.Peer, value any) (*stream.Transfer, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return SaveGame.Start(peer, bytes.NewReader(b), int64(len(b)))
}

// receiveBytes is FMemoryReader. It is for a goroutine of its own, which waits while the world goes on, and reads to the end: the
// digest is right then, and the sender hears that all is here. What came from a client needs a look before it is used.
func receiveBytes(in io.Reader, value any) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, value)
}
