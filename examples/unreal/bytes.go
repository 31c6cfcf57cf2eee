package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/quivernet/quiver/stream"
)

// sendBytes is the exercise at the end of the article: it turns any value into a TArray<uint8> and
// streams that. A blob takes care of cutting it into pieces, of flow control and of a digest.
//
// JSON stands in for Unreal's FMemoryWriter. A game uses the format of its save games.
func sendBytes(peer *stream.Peer, value any) (*stream.Transfer, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return SaveGame.Start(peer, bytes.NewReader(b), int64(len(b)))
}

// receiveBytes is the counterpart of FMemoryReader. Call it on a separate goroutine, because it
// blocks while the world continues.
//
// It reads to the end, because only then is the digest verified and the sender told that everything
// arrived. Validate a client's data before using it.
func receiveBytes(in io.Reader, value any) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, value)
}
