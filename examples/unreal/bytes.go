package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/quivernet/quiver/stream"
)

// sendBytes is the exercise at the article's end: any value becomes a TArray<uint8>,
// which is then streamed. A blob does the rest: pieces, gates and a digest.
//
// JSON stands in for Unreal's FMemoryWriter. A game uses the format of its save games.
func sendBytes(peer *stream.Peer, value any) (*stream.Transfer, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return SaveGame.Start(peer, bytes.NewReader(b), int64(len(b)))
}

// receiveBytes is FMemoryReader. Call it on a goroutine of its own, because it waits
// while the world continues.
//
// It reads to the end, where the digest is checked and the sender is told that everything
// has arrived. Validate a client's data before you use it.
func receiveBytes(in io.Reader, value any) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, value)
}
