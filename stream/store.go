package stream

import "io"

// A Store keeps incoming content between connections: parts that can be resumed, and complete
// contents that need not be sent again.
//
// Content is named by the identity of the peer that sends it, and by the key that the peer
// gave it. No peer can see or change what is stored for another identity. Identity and key are
// arbitrary strings from outside.
//
// At a client, the identity is the client's own, by which the server knows it. Servers that
// know the client by the same identity share what it stores. Their keys should therefore be
// the texts of digests, which are verified. Otherwise each server needs a Store of its own:
// see [Incoming.SetStore].
//
// If identities change when the server is restarted, as those of package rpc/users do, stored
// content is not found again. A game can then wrap a Store in one of its own, which passes
// users.UserOf of the identity.
//
// The methods of a Store, its parts and its contents may wait for a disk. None of them is
// called on a world's goroutine. A Store must be safe for concurrent use. A Part or Content is
// used by one goroutine at a time. If a transfer, connection or world ends during a call, the
// call continues and is followed by a Close. rpc.World.Close waits for neither.
//
// If Open or a part's Write returns ErrStoreFull, the transfer continues without the Store.
// After ErrPartBusy, it first tries again for 3 s. Any other error ends the transfer with
// ErrRejected at both ends. The sender does not see the error's text. What is stored of a part
// stays.
type Store interface {
	// Open begins or resumes a part. size is the size of the whole content, or -1 if it is
	// unknown. A longer stored prefix is dropped. If there is complete content under the key,
	// Lookup finds it until Commit of the part replaces it. Open returns ErrPartBusy if
	// another transfer writes the part, and ErrStoreFull if there is no room.
	Open(identity, key string, size int64) (Part, error)
	// Lookup opens the complete content. If there is none, it returns an error that Is
	// fs.ErrNotExist.
	Lookup(identity, key string) (Content, error)
	// Remove deletes the part and the content that are stored under the key. It returns nil if
	// there is nothing.
	Remove(identity, key string) error
}

// A Part is incomplete content. Commit, Close or Delete ends it. After that, Write, Commit and
// Delete fail with fs.ErrClosed. After Commit, the content can still be read until Close. A
// second Close does nothing.
type Part interface {
	// Offset returns the number of stored bytes. The next Write continues there.
	Offset() int64
	// Write appends p. If it fails, Offset still returns the number of stored bytes. If it
	// returns ErrStoreFull, the caller deletes the part.
	Write(p []byte) (int, error)
	// ReadAt reads stored bytes before Offset.
	io.ReaderAt

	// Commit makes the part the complete content, durably and atomically, and stores digest
	// with it. It replaces complete content under the same key. The caller has verified the
	// digest. Before Commit, Lookup does not find the content.
	Commit(digest Digest) error
	// Close keeps what is stored, so that a later Open can resume it.
	Close() error
	// Delete deletes what is stored of the part.
	Delete() error
}

// Content is complete content. Its digest was verified before Commit.
type Content interface {
	io.ReadSeekCloser
	io.ReaderAt
	Size() int64
	Digest() Digest
}

// A storeKey names content in a Store.
type storeKey struct{ identity, key string }
