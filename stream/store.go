package stream

import "io"

// A Store keeps incoming content between connections: parts that can be resumed, and
// complete contents that need not be sent again. Each is named by the identity of the
// peer that sends it and the key that the peer gave it. No peer can see or change what
// is stored for another identity. Identity and key are arbitrary strings from outside.
//
// At a client the identity is the client's own, by which the server knows it. Servers that know
// it by the same identity share what it stores. So their keys should be the texts of digests,
// which are verified, or each needs a Store of its own: see [Incoming.SetStore]. If identities
// change when the server is restarted, as those of package rpc/users do, nothing is found again.
// A game can then wrap a Store in one of its own, which passes users.UserOf of the identity.
//
// The methods of a Store, its parts and contents may wait for a disk: none is called on a
// world's goroutine. A Store must be safe for concurrent use; a Part or Content is used by
// one goroutine at a time. A call that has begun continues when its transfer, connection
// or world ends, and is followed by a Close. rpc.World.Close waits for neither.
//
// If Open or a part's Write returns ErrStoreFull, the transfer continues without the Store. After
// ErrPartBusy it first asks again for 3 s. Any other error ends the transfer with ErrRejected at
// both ends; the sender does not see the error's text. What is stored of a part stays.
type Store interface {
	// Open begins or resumes a part. size is that of the whole content, or -1 if it is
	// unknown; a longer stored prefix is dropped. If there is complete content under the key,
	// Lookup finds it until Commit of the part replaces it. Errors: ErrPartBusy, ErrStoreFull.
	Open(identity, key string, size int64) (Part, error)
	// Lookup opens the complete content, or fails with an error that Is fs.ErrNotExist.
	Lookup(identity, key string) (Content, error)
	// Remove deletes what is stored under the key, part and content. It returns
	// nil if there is nothing.
	Remove(identity, key string) error
}

// A Part is incomplete content. Commit, Close or Delete ends it; after that,
// Write, Commit and Delete fail with fs.ErrClosed. After Commit the content can
// still be read until Close. A second Close does nothing.
type Part interface {
	// Offset returns the number of stored bytes; the next Write continues there.
	Offset() int64
	// Write appends p. If it fails, Offset still returns how much is stored. If
	// it returns ErrStoreFull, the part is deleted.
	Write(p []byte) (int, error)
	// ReadAt reads stored bytes, below Offset.
	io.ReaderAt

	// Commit makes the part the complete content, durably and atomically, and stores
	// digest with it. It replaces complete content under the same key. The caller
	// has verified the digest. Before Commit, Lookup does not find the content.
	Commit(digest Digest) error
	// Close keeps what is stored, so that a later Open can resume it.
	Close() error
	// Delete deletes what is stored of the part.
	Delete() error
}

// Content is complete content; its digest was verified before Commit.
type Content interface {
	io.ReadSeekCloser
	io.ReaderAt
	Size() int64
	Digest() Digest
}

// A storeKey names content in a Store.
type storeKey struct{ identity, key string }
