package cdc_test

import (
	"bytes"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/quivernet/quiver/stream/cdc"
)

// Two versions of a save share a store, and with it all chunks but one.
func Example() {
	save := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(save)
	store := make(map[cdc.Digest][]byte)

	first := put(store, save)
	fmt.Println(len(first), "chunks,", len(store), "stored")
	save = append([]byte("a knight arrives"), save...)
	second := put(store, save)
	fmt.Println(len(second), "chunks,", len(store), "stored")

	var got []byte
	for _, c := range second {
		data, err := cdc.Unpack(nil, store[c.Digest], c) // which finds out what is damaged
		if err != nil {
			log.Fatal(err)
		}
		got = append(got, data...)
	}
	fmt.Println(bytes.Equal(got, save))
	// Output:
	// 23 chunks, 23 stored
	// 23 chunks, 24 stored
	// true
}

// put cuts a content, and packs the chunks that are new.
func put(store map[cdc.Digest][]byte, content []byte) (chunks []cdc.Chunk) {
	err := cdc.Cut(bytes.NewReader(content), func(c cdc.Chunk, data []byte) error {
		chunks = append(chunks, c)
		if store[c.Digest] == nil {
			store[c.Digest] = cdc.Pack(nil, data)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	return chunks
}
