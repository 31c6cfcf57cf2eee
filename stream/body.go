package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// bodyError returns the error that a transfer ends with after err of a body: the content was wrong, or the store failed.
func bodyError(err error) error {
	if errors.Is(err, ErrDigest) {
		return err
	}
	return storeError(err)
}

// storeError wraps a failure of the store: this end sees its text, the peer does not, for it may hold paths.
func storeError(err error) error {
	return &concealed{public: "the receiver could not store the content", cause: fmt.Errorf("%w: %w", ErrRejected, err)}
}

// closedWith returns the error of a transfer whose part or content in the store was then closed or deleted, with another error if that failed.
func closedWith(err, closing error) error {
	if closing == nil {
		return err
	}
	return errors.Join(err, storeError(closing))
}

// hasher makes the digests of content.
type hasher struct {
	*Hasher
	name   Digest  // that the content's key says it has; zero = it says none
	byName *Hasher // makes a digest to compare with name, when the Hasher's algorithm is another; else nil
}

// newHasher returns a hasher to which nothing was written.
func newHasher(a Algorithm, name Digest) hasher {
	h := hasher{Hasher: a.New(), name: name}
	if !name.IsZero() && name.algorithm != a {
		h.byName = name.algorithm.New()
	}
	return h
}

func (h hasher) Write(p []byte) (int, error) {
	if h.byName != nil {
		h.byName.Write(p)
	}
	return h.Hasher.Write(p)
}

// check returns an error unless what was written has the expected digest, and also the one that its key names, if it names one. by tells in
// the error's text who expects digest.
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

// differs returns the error of content whose digest is got; by continues the sentence about the expected one.
func differs(expected Digest, by string, got Digest) error {
	return fmt.Errorf("%w: expected %v, %s, got %v", ErrDigest, expected, by, got)
}

// body hashes content on its way to the application, and stores it if it has a key. An array resumes at a whole element: the first bytes of one
// that was cut are stored, and come again. Write compares those, and stores the rest.
type body struct {
	hasher
	part     Part   // nil where the content is not stored, or once the store had no room for more of it
	offset   int64  // in the content, of the next byte to be written
	unstored func() // counts the transfer, which goes on without the store
}

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
	if errors.Is(err, ErrStoreFull) { // the size was not known when the part was opened
		n, err = len(p), b.part.Delete() // it cannot end, so it takes no room either
		b.part = nil
		b.unstored()
	}
	return n, err
}

// compare fails unless the stored bytes equal p.
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

// Commit keeps the content if its digest is the given one; otherwise the error Is ErrDigest and nothing is kept.
func (b *body) Commit(digest Digest) error {
	if err := b.check(digest, "which its sender announced"); err != nil || b.part == nil {
		return err
	}
	if !b.name.IsZero() {
		digest = b.name // by which the content will be looked for
	}
	return b.part.Commit(digest)
}

// Close keeps what was written so that it can be resumed; after Commit it does nothing. Delete forgets it.
func (b *body) Close() error  { return b.end(Part.Close) }
func (b *body) Delete() error { return b.end(Part.Delete) }

func (b *body) end(how func(Part) error) error {
	if b.part == nil {
		return nil
	}
	return ignoreEnded(how(b.part))
}

// ignoreEnded drops the error of a part that was ended before, by Commit.
func ignoreEnded(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// readAt fills p from offset.
func readAt(r io.ReaderAt, p []byte, offset int64) error {
	if n, err := r.ReadAt(p, offset); n < len(p) {
		return storeError(fmt.Errorf("reading %d stored bytes at %d: %w", len(p), offset, err))
	}
	return nil
}
