package stream

import "io"

// A Store keeps incoming content beyond the end of a connection: parts, which a later transfer
// can resume, and complete content, which needn't be sent again.
//
// Content is stored under the identity of the peer that sends it and the key that the peer gave
// it. No peer can see or change what is stored under another identity. Both are arbitrary
// strings from outside.
//
// At a client, the identity is the client's own, by which the server knows it. Servers that
// know the client by the same identity therefore share what it stores. Their keys should be the
// texts of digests, which are verified. Otherwise each server needs a Store of its own (see
// [Incoming.SetStore]).
//
// If identities change when the server is restarted, as those of package rpc/users do, stored
// content isn't found again. A game can then wrap a Store in one of its own, which passes
// users.UserOf of the identity.
//
// The methods of a Store, a Part and a Content may wait for a disk, and are never called
// on a world's goroutine. A Store must be safe for concurrent use. A Part or Content is used by
// one goroutine at a time. If a transfer, connection or world ends during a call, the call goes
// on and is followed by a Close. rpc.World.Close waits for neither.
//
// If Open or a part's Write returns ErrStoreFull, the transfer goes on without the Store. If
// Open returns ErrPartBusy, the same happens after it has tried again for 3 s. Any other error
// ends the transfer with ErrRejected at both ends, but the sender doesn't see the error's text.
// What is stored of a part stays.
type Store interface {
	// Open begins a part, or resumes one. size is the size of the whole content, or -1 if it is
	// unknown. If more than that is stored, it is dropped. Complete content under the key stays,
	// for Lookup to find, until Commit of the part replaces it. Open returns ErrPartBusy if
	// another transfer is writing the part, and ErrStoreFull if there is no room.
	Open(identity, key string, size int64) (Part, error)
	// Lookup opens the complete content. If there is none, it returns an error that Is
	// fs.ErrNotExist.
	Lookup(identity, key string) (Content, error)
	// Remove deletes the part and the content that are stored under the key. It returns nil if
	// there is nothing.
	Remove(identity, key string) error
}

// A Part is content that is still arriving. Commit, Close or Delete ends it, and Write, Commit
// and Delete fail with fs.ErrClosed from then on. After Commit, the content can still be read
// until Close. A second Close is a no-op.
type Part interface {
	// Offset returns how many bytes are stored, which is where the next Write continues.
	Offset() int64
	// Write appends p. If it fails, Offset still returns the number of stored bytes. If it
	// returns ErrStoreFull, the caller deletes the part.
	Write(p []byte) (int, error)
	// ReadAt reads stored bytes before Offset.
	io.ReaderAt

	// Commit turns the part into complete content, durably and atomically, and stores digest
	// along with it. The caller has verified the digest. Complete content that was there under
	// the same key is replaced. Lookup doesn't find the content before Commit.
	Commit(digest Digest) error
	// Close closes the part. What is stored stays, so that a later Open can resume it.
	Close() error
	// Delete deletes what is stored of the part.
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
