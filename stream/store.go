package stream

import (
	"io"
)

// Store keeps incoming blobs between connections: parts that wait to be resumed, and complete contents that need not
// be sent again. Everything in it is named by the identity of the peer that sends and the key that the peer gave to
// the content; no peer can see or touch what another identity stored. At a client, where it stores what the
// server sends, the identity is the client's own, by which the server knows it. Both are arbitrary strings from outside.
//
// All methods of a Store, its parts and contents may wait for a disk: none is called on a world's goroutine. A Store
// is safe for concurrent use; one Part or Content is used by one goroutine at a time.
type Store interface {
	// Open begins or resumes a part. Size is the size of the whole content, -1 when unknown; a stored prefix that does
	// not fit it is dropped. Errors: ErrPartBusy, ErrStoreFull.
	Open(identity, key string, size int64) (Part, error)
	// Lookup opens the complete content, or fails with an error that Is fs.ErrNotExist.
	Lookup(identity, key string) (Content, error)
	// Remove deletes what is stored, part or content. It is no error when there is nothing.
	Remove(identity, key string) error
}

// Part is content that is not complete yet. One of Commit, Close and Delete ends it; then Write, Commit and Delete fail
// with fs.ErrClosed. After Commit, what was stored can be read until Close; a Close too many does nothing.
type Part interface {
	// Offset is how many bytes are stored; the next Write continues there.
	Offset() int64
	// Write appends. When it fails, Offset says how much is stored all the same.
	Write(p []byte) (int, error)
	// ReadAt reads what is stored, below Offset.
	io.ReaderAt

	// Commit makes the part the complete content, durably and in one step, and keeps its digest, which is verified. The
	// content is not visible before.
	Commit(digest Digest) error
	// Close keeps what is stored so that a later Open resumes it.
	Close() error
	// Delete forgets what is stored.
	Delete() error
}

// Content is complete and was verified before it was stored.
type Content interface {
	io.ReadSeekCloser
	io.ReaderAt
	Size() int64
	Digest() Digest
}
