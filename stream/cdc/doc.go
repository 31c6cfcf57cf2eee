// Package cdc cuts content into chunks that are named by their digests (content-defined
// chunking). What two versions of the content share is then stored and sent once.
//
// [Cut] chooses the cuts by the bytes around them and not by their position. An insertion
// changes the chunk that it falls into and leaves the others alone. [Pack] converts a
// chunk into the form in which it is stored or sent, which is compressed if that pays.
// [Unpack] does the reverse.
//
//	err := cdc.Cut(file, func(c cdc.Chunk, data []byte) error {
//		chunks = append(chunks, c)
//		if store[c.Digest] == nil {
//			store[c.Digest] = cdc.Pack(nil, data)
//		}
//		return nil
//	})
//	data, err := cdc.Unpack(buffer, store[c.Digest], c)
//
// Package manifest lists the chunks of files and folders. Package pieces sends the chunks
// that the other end does not have.
//
// Chunks from outside must go through Unpack or [Verify]. These functions trust nothing:
// they never panic, need no more memory than the largest chunk, and verify the digest.
package cdc
