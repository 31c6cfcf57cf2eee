package stream

import "io"

// Store keeps incoming content between connections: parts that wait to be resumed, and complete contents that need not be
// sent again. Each is named by the identity of the peer that sends it and the key that the peer gave it; no peer can see or
// touch what another identity has stored. At a client the identity is the client's own, by which the server knows it: servers that know it
// by the same one share what it stores, so their keys should be texts of digests, which are verified, or each has a store of its own, by
// [Incoming.SetStore]. An identity that is another one after a restart of the server, as those of package rpc/users are, finds nothing
// again: there a Store of the game's own asks another by users.UserOf of it.
// Identity and key are arbitrary strings from outside.
//
// The methods of a Store, its parts and contents may wait for a disk: none is called on a world's goroutine. A Store must
// be safe for concurrent use; a Part or Content is used by one goroutine at a time. A call that has begun goes on when its transfer, its
// connection or its world ends, and a Close follows it: rpc.World.Close waits for neither.
//
// With ErrStoreFull, of Open or of a part's Write, a transfer goes on without the store; with ErrPartBusy it asks again for 3 s before it does.
// Any other error ends it with ErrRejected at both ends, the sender without the error's text; what is stored of a part stays.
type Store interface {
	// Open begins or resumes a part. size is that of the whole content, -1 when unknown; a stored prefix that is longer is
	// dropped. A complete content under the key stays, for Lookup to find, until Commit of the part replaces it. Errors: ErrPartBusy,
	// ErrStoreFull.
	Open(identity, key string, size int64) (Part, error)
	// Lookup opens the complete content, or fails with an error that Is fs.ErrNotExist.
	Lookup(identity, key string) (Content, error)
	// Remove deletes what is stored, part or content. It is no error when there is nothing.
	Remove(identity, key string) error
}

// Part is content that is not complete yet. Commit, Close or Delete ends it; after that Write, Commit and Delete fail with
// fs.ErrClosed. After Commit the content can still be read until Close. A second Close does nothing.
type Part interface {
	// Offset returns the number of bytes that are stored; the next Write continues there.
	Offset() int64
	// Write appends. When it fails, Offset still says how much is stored. With ErrStoreFull the part is deleted.
	Write(p []byte) (int, error)
	// ReadAt reads what is stored, below Offset.
	io.ReaderAt

	// Commit makes the part the complete content, durably and in one step, in place of one that is there, and keeps digest with it; the
	// caller has verified that. Lookup does not find the content before.
	Commit(digest Digest) error
	// Close keeps what is stored so that a later Open resumes it.
	Close() error
	// Delete forgets what is stored of the part.
	Delete() error
}

// Content is complete, and was verified before Commit.
type Content interface {
	io.ReadSeekCloser
	io.ReaderAt
	Size() int64
	Digest() Digest
}

// storeKey names content in a store.
type storeKey struct{ identity, key string }
