// Package cdc cuts content into chunks that are named by their digests, so that what two versions of it share is stored and sent once (content
// defined chunking). [Cut] chooses the cuts by the bytes around them and not by their position: bytes that are inserted in front change the
// chunk that they fall into and leave the others alone. [Pack] and [Unpack] turn a chunk into what a store or the wire carries, compressed where
// that pays, and back.
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
// Package manifest lists the chunks of files and folders, and package pieces sends those that the other side lacks.
//
// Chunks that come from outside go through Unpack or [Verify], which trust nothing: they never panic, need no more memory than the largest chunk
// has, and compare the digest.
package cdc
