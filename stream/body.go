package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// bodyError returns the error that ends a transfer after an error of its body. Either the
// content was wrong, or the store failed.
func bodyError(err error) error {
	if errors.Is(err, ErrDigest) {
		return err
	}
	return storeError(err)
}

// storeError wraps an error of the store. Its text is shown at this end but not sent to the
// peer, because it may hold paths.
func storeError(err error) error {
	return &concealed{public: "the receiver could not store the content", cause: fmt.Errorf("%w: %w", ErrRejected, err)}
}

// closedWith returns the error of a transfer that failed with err and then closed or deleted
// its part or content. It joins err and closing, the error of that, if closing is not nil.
func closedWith(err, closing error) error {
	if closing == nil {
		return err
	}
	return errors.Join(err, storeError(closing))
}

// A hasher computes the digest of content.
type hasher struct {
	*Hasher
	name Digest // the digest in the content's key; zero if there is none
	// Computes the digest to compare with name. It is nil if there is no name, or if Hasher
	// uses the same algorithm.
	byName *Hasher
}

// newHasher returns an empty hasher. It uses algorithm a and that of name.
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

// check returns an error unless the bytes written have the expected digest, and the digest in
// their key, if any. by is a clause for the error's text that says who expects digest.
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

// differs returns the error for content whose digest is got. by is a clause about the expected
// digest.
func differs(expected Digest, by string, got Digest) error {
	return fmt.Errorf("%w: expected %v, %s, got %v", ErrDigest, expected, by, got)
}

// A body hashes content before the application gets it, and stores it if it has a key.
//
// An array resumes at a whole element. If the stored bytes end within an element, the sender
// repeats that element from its beginning. Write compares the bytes that are already stored
// and stores the rest.
type body struct {
	hasher
	part     Part   // nil if the content is not stored, or no longer, because the store became full
	offset   int64  // in the content, of the next byte to be written
	unstored func() // counts the transfer as one that continues without the store
}

// Write hashes and stores p. If the store is full, Write deletes the part, and from then on
// only hashes the content.
func (b *body) Write(p []byte) (int, error) {
	b.hasher.Write(p)
	if b.part == nil {
		return len(p), nil
	}
	again := min(int64(len(p)), b.part.Offset()-b.offset)
	if again > 0 {
		if err := b.compare(p[:again]); err != nil {
			return 0, err
		}
	}
	b.offset += int64(len(p))
	n, err := b.part.Write(p[again:])
	if errors.Is(err, ErrStoreFull) {
		// The size was not known when the part was opened. The part can never be completed,
		// so it should take no room.
		n = len(p)
		err = b.part.Delete()
		b.part = nil
		b.unstored()
	}
	return n, err
}

// compare returns an error unless p equals the stored bytes at offset.
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

// Commit completes the content if it has the given digest. Otherwise it returns an error that
// Is ErrDigest, and completes nothing.
func (b *body) Commit(digest Digest) error {
	if err := b.check(digest, "which its sender announced"); err != nil || b.part == nil {
		return err
	}
	if !b.name.IsZero() {
		digest = b.name // the digest by which Lookup's caller knows the content
	}
	return b.part.Commit(digest)
}

// Close keeps what was written, so that it can be resumed. After Commit it does nothing.
// Delete deletes what was written.
func (b *body) Close() error  { return b.end(Part.Close) }
func (b *body) Delete() error { return b.end(Part.Delete) }

// end ends the part, if there is one, by calling how.
func (b *body) end(how func(Part) error) error {
	if b.part == nil {
		return nil
	}
	return ignoreEnded(how(b.part))
}

// ignoreEnded returns err, or nil if err says that Commit has already ended the part.
func ignoreEnded(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// readAt fills p with the bytes at offset.
func readAt(r io.ReaderAt, p []byte, offset int64) error {
	if n, err := r.ReadAt(p, offset); n < len(p) {
		return storeError(fmt.Errorf("reading %d stored bytes at %d: %w", len(p), offset, err))
	}
	return nil
}
