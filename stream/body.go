package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// bodyError returns the error that ends a transfer after its body has failed. Either the
// content was wrong or the store could not take it.
func bodyError(err error) error {
	if errors.Is(err, ErrDigest) {
		return err
	}
	return storeError(err)
}

// storeError wraps an error of the store. This end sees its text, but the peer doesn't,
// because it may contain paths.
func storeError(err error) error {
	return &concealed{public: "the receiver could not store the content", cause: fmt.Errorf("%w: %w", ErrRejected, err)}
}

// closedWith adds the error of closing or deleting a part or content to err, the error with
// which the transfer failed. Either may be nil.
func closedWith(err, closing error) error {
	if closing == nil {
		return err
	}
	return errors.Join(err, storeError(closing))
}

// A hasher computes the digest of content. If the content's key is a digest by another algorithm,
// it computes that digest as well.
type hasher struct {
	*Hasher
	name   Digest  // the digest that is the content's key; zero if the key isn't a digest
	byName *Hasher // computes the digest to compare with name; nil if Hasher does
}

// newHasher returns a hasher that has seen no content. It uses algorithm a and the algorithm of
// name.
func newHasher(a Algorithm, name Digest) hasher {
	h := hasher{Hasher: a.New(), name: name}
	if !name.IsZero() && name.algorithm != a {
		h.byName = name.algorithm.New()
	}
	return h
}

// Write hashes p. It never fails.
func (h hasher) Write(p []byte) (int, error) {
	if h.byName != nil {
		h.byName.Write(p)
	}
	return h.Hasher.Write(p)
}

// check returns an error unless the content has the given digest. If the content's key is a digest,
// the content must match it too. by says in the error who expects digest.
func (h hasher) check(digest Digest, by string) error {
	got := h.Digest()
	if got != digest {
		return differs(digest, by, got)
	}
	if h.byName != nil {
		got = h.byName.Digest()
	}
	if !h.name.IsZero() && got != h.name {
		return differs(h.name, "which its key says", got)
	}
	return nil
}

// differs returns the error for content whose digest is got instead of expected. by says who
// expects it.
func differs(expected Digest, by string, got Digest) error {
	return fmt.Errorf("%w: expected %v, %s, got %v", ErrDigest, expected, by, got)
}

// A body takes content on its way to the application. It hashes the content and, if the content has
// a key, stores it.
//
// An array resumes at a whole element. If the stored bytes end in the middle of an element, the
// sender therefore repeats that element from its beginning. Write compares the repeated bytes with
// the stored ones, and stores the rest.
type body struct {
	hasher
	part     Part   // nil if the content isn't stored, or if the store became full
	offset   int64  // offset in the content of the next byte to be written
	unstored func() // called if the transfer goes on without the store, to count it
}

// Write hashes and stores p. If the store is full, Write deletes the part, and from then on only
// hashes the content.
func (b *body) Write(p []byte) (int, error) {
	b.hasher.Write(p)
	if b.part == nil {
		return len(p), nil
	}
	repeated := min(int64(len(p)), b.part.Offset()-b.offset)
	if repeated > 0 {
		if err := b.compare(p[:repeated]); err != nil {
			return 0, err
		}
	}
	b.offset += int64(len(p))
	n, err := b.part.Write(p[repeated:])
	if errors.Is(err, ErrStoreFull) {
		// The size wasn't known when the part was opened. The part can't become complete any more,
		// so it shouldn't take up room.
		n = len(p)
		err = b.part.Delete()
		b.part = nil
		b.unstored()
	}
	return n, err
}

// compare returns an error unless the bytes stored at offset are equal to p.
func (b *body) compare(p []byte) error {
	stored := make([]byte, len(p))
	if err := readAt(b.part, stored, b.offset); err != nil {
		return err
	}
	if !bytes.Equal(p, stored) {
		return fmt.Errorf("%w: what is stored at byte %d is another element", ErrDigest, b.offset)
	}
	return nil
}

// Commit makes the content complete if it has the given digest. Otherwise it returns an error
// that Is ErrDigest, and completes nothing.
func (b *body) Commit(digest Digest) error {
	if err := b.check(digest, "which its sender announced"); err != nil || b.part == nil {
		return err
	}
	if !b.name.IsZero() {
		digest = b.name // the content will be looked up by this digest
	}
	return b.part.Commit(digest)
}

// Close keeps the bytes written so far, so that the transfer can be resumed. After Commit, it's a
// no-op.
func (b *body) Close() error { return b.end(Part.Close) }

// Delete deletes the bytes written so far.
func (b *body) Delete() error { return b.end(Part.Delete) }

// end ends the part by calling how, if there is a part.
func (b *body) end(how func(Part) error) error {
	if b.part == nil {
		return nil
	}
	return ignoreEnded(how(b.part))
}

// ignoreEnded drops the error of ending a part that Commit has already ended.
func ignoreEnded(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// readAt fills p with the stored bytes at offset.
func readAt(r io.ReaderAt, p []byte, offset int64) error {
	if n, err := r.ReadAt(p, offset); n < len(p) {
		return storeError(fmt.Errorf("reading %d stored bytes at %d: %w", len(p), offset, err))
	}
	return nil
}
