package stream

import "io"

// A Store keeps incoming content beyond the end of a connection: parts, which a later transfer
// can resume, and complete content, which needn't be sent again.
//
// Content is stored under the identity of the peer that sends it and the key that the peer gave
// it. No peer can see or change content that is stored under another identity. Identities and
// keys are arbitrary strings from outside.
//
// At a client, the identity is the client's own, the one by which the server knows it. Servers
// that know the client by the same identity therefore share the content that it stores. Their
// keys should be the texts of digests, because those are verified. Otherwise each server needs a
// Store of its own (see [Incoming.SetStore]).
//
// If identities change when the server is restarted, as those of package rpc/users do, stored
// content isn't found again. A game can then wrap a Store in a Store of its own, which passes on
// users.UserOf of the identity instead.
//
// The methods of a Store, a Part and a Content may wait for a disk, and are never called on a
// world's goroutine. A Store must be safe for concurrent use. A Part or Content is used by one
// goroutine at a time. If a transfer, connection or world ends during a call, the call continues
// and is followed by a Close. rpc.World.Close waits for neither of them.
//
// If Open or a part's Write returns ErrStoreFull, the transfer goes on without the Store. If Open
// returns ErrPartBusy, the transfer retries for 3 s, and then goes on without the Store, too. Any
// other error ends the transfer with ErrRejected at both ends, but the sender doesn't see the
// error's text. The stored bytes of a part stay.
type Store interface {
	// Open begins a part, or resumes one. size is the size of the whole content, or -1 if it is
	// unknown. If more than size bytes are stored, they are dropped. Complete content under the
	// key stays available to Lookup until the part's Commit replaces it. Open returns ErrPartBusy
	// if another transfer is writing the part, and ErrStoreFull if there is no room.
	Open(identity, key string, size int64) (Part, error)
	// Lookup opens the complete content. If there is none, it returns an error that Is
	// fs.ErrNotExist.
	Lookup(identity, key string) (Content, error)
	// Remove deletes the part and the content that are stored under the key. It returns nil if
	// nothing is stored.
	Remove(identity, key string) error
}

// A Part is content that is still arriving. Commit, Close or Delete ends it. After that, Write,
// Commit and Delete fail with fs.ErrClosed. After Commit, the content can still be read until
// Close. A second Close is a no-op.
type Part interface {
	// Offset returns the number of stored bytes, which is where the next Write continues.
	Offset() int64
	// Write appends p. If it fails, Offset still returns the number of stored bytes. If it
	// returns ErrStoreFull, the caller deletes the part.
	Write(p []byte) (int, error)
	// ReadAt reads stored bytes before Offset.
	io.ReaderAt

	// Commit turns the part into complete content, durably and atomically, and stores digest
	// along with it. The caller has verified the digest. It replaces complete content that was
	// stored under the same key. Lookup doesn't find the content before Commit.
	Commit(digest Digest) error
	// Close closes the part. Its stored bytes stay, so that a later Open can resume it.
	Close() error
	// Delete deletes the stored bytes of the part.
	Delete() error
}

// Content is complete content, whose digest was verified before Commit.
type Content interface {
	io.ReadSeekCloser
	io.ReaderAt
	Size() int64
	Digest() Digest
}

// A storeKey names content in a Store.
type storeKey struct{ identity, key string }
