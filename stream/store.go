package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// A Store keeps incoming content after a connection has ended: parts, which a later transfer can
// resume, and complete content, which needn't be sent again.
//
// Content is stored under the identity of the peer that sends it and the key that the peer gave
// it. No peer can see or change content that is stored under another identity. Identities and
// keys are arbitrary strings from outside.
//
// At a client, the identity is the client's own, by which the server knows it. Servers that know
// the client by the same identity therefore share the content that it stores. Each server needs a
// Store of its own, unless all its keys are digests in text form, which are verified (see
// [Incoming.SetStore]).
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
// If Open or a part's Write returns ErrStoreFull, the transfer continues without the Store. If Open
// returns ErrPartBusy, the transfer retries for 3 s before it continues without the Store. Any
// other error ends the transfer with ErrRejected at both ends, but the sender doesn't see the
// error's text. The stored bytes of a part are kept.
type Store interface {
	// Open begins a part, or resumes one. size is the size of the whole content, or -1 if it is
	// unknown. If more than size bytes are stored, they are discarded. Complete content under the
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
	// Offset returns the number of stored bytes, which is where the next Write continues. If it
	// turns out to be less than what was written, the transfer ends with ErrRejected.
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
	// Close closes the part. Its stored bytes are kept, so that a later Open can resume it.
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

// A body hashes content on its way to the application and, if the content has a key, stores it.
//
// An array resumes at the beginning of an element. If the stored bytes end in the middle of an
// element, the sender therefore repeats that element, and Write compares the repeated bytes with
// the stored ones before it stores the rest.
type body struct {
	hasher
	partial       Part   // nil if the content isn't stored, or once the store has become full
	offset        int64  // offset in the content of the next byte to be written
	countUnstored func() // counts a transfer that continues without the store
}

// Write hashes and stores p. If the store is full, Write deletes the part, and from then on only
// hashes the content.
func (b *body) Write(p []byte) (int, error) {
	b.hasher.Write(p)
	if b.partial == nil {
		return len(p), nil
	}
	ahead, err := b.ahead()
	if err != nil {
		return 0, err
	}
	repeated := min(int64(len(p)), ahead)
	if err := b.compare(p[:repeated]); err != nil {
		return 0, err
	}
	_, err = b.partial.Write(p[repeated:]) // ahead notices if it wrote less without an error
	if errors.Is(err, ErrStoreFull) {
		// This can happen if the size wasn't known when the part was opened. The part can no
		// longer become complete, so it shouldn't take up room.
		err = b.partial.Delete()
		b.partial = nil
		b.countUnstored()
	}
	if err != nil {
		return 0, err
	}
	b.offset += int64(len(p))
	return len(p), nil
}

// ahead returns how many bytes after offset are stored already, because the transfer was resumed.
// It returns an error if bytes before offset are missing, because a Store that loses bytes must not
// complete the part.
func (b *body) ahead() (int64, error) {
	stored := b.partial.Offset()
	if stored < b.offset {
		return 0, fmt.Errorf("part has %d bytes, but %d were written to it", stored, b.offset)
	}
	return stored - b.offset, nil
}

// compare returns an error unless the bytes stored at offset are equal to p.
func (b *body) compare(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	stored := make([]byte, len(p))
	if err := readAt(b.partial, stored, b.offset); err != nil {
		return err
	}
	if !bytes.Equal(p, stored) {
		return fmt.Errorf("%w: element at byte %d differs from the stored one", ErrDigest, b.offset)
	}
	return nil
}

// Commit makes the content complete if it has the given digest. Otherwise it returns an error
// that Is ErrDigest, and completes nothing.
func (b *body) Commit(digest Digest) error {
	if err := b.check(digest, "announced by the sender"); err != nil || b.partial == nil {
		return err
	}
	switch ahead, err := b.ahead(); {
	case err != nil:
		return err
	case ahead > 0:
		// The part ends within an element that the sender doesn't have.
		return otherSize("has", b.offset, b.offset+ahead, "are stored")
	}
	if !b.name.IsZero() {
		digest = b.name // the content will be looked up by this digest
	}
	return b.partial.Commit(digest)
}

// Close keeps the bytes written so far, so that the transfer can be resumed. It's a no-op after
// Commit.
func (b *body) Close() error { return b.end(Part.Close) }

// Delete deletes the bytes written so far.
func (b *body) Delete() error { return b.end(Part.Delete) }

// end ends the part by calling how, if there is a part.
func (b *body) end(how func(Part) error) error {
	if b.partial == nil {
		return nil
	}
	return ignoreEnded(how(b.partial))
}

// ignoreEnded returns nil for the error of ending a part that Commit has already ended.
func ignoreEnded(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// readAt fills p with the stored bytes at offset.
func readAt(r io.ReaderAt, p []byte, offset int64) error {
	if n, err := r.ReadAt(p, offset); n < len(p) {
		return storeError(fmt.Errorf("reading %d stored bytes at offset %d: %w", len(p), offset, err))
	}
	return nil
}

// bodyError returns the error that ends a transfer after its body has failed, because either the
// content was wrong or the store could not keep it.
func bodyError(err error) error {
	if errors.Is(err, ErrDigest) {
		return err
	}
	return storeError(err)
}

// storeError wraps an error of the store. Only this end sees its text, because it may contain
// paths.
func storeError(err error) error {
	return &localError{public: "receiver could not store the content", cause: fmt.Errorf("%w: %w", ErrRejected, err)}
}

// closedWith adds the error of closing or deleting a part or content to err, the error with
// which the transfer failed. Either may be nil.
func closedWith(err, closing error) error {
	if closing == nil {
		return err
	}
	return errors.Join(err, storeError(closing))
}
