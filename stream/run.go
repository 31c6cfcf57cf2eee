package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// body is where content goes beside the application: it is hashed, and stored if it has a key.
type body interface {
	io.Writer
	// Commit keeps the content if digest is its digest; otherwise the error Is ErrDigest and nothing is kept.
	Commit(digest Digest) error
	// Close keeps what was written so that it can be resumed; after Commit it does nothing.
	Close() error
	// Delete forgets what was written.
	Delete() error
}

// run receives the content. It is the transfer's goroutine.
func (in *incoming) run() {
	in.guard(in.header.receives(), func() {
		if err := in.receive(); err != nil && err != io.EOF {
			in.finish(err)
		}
	})
	in.peer.streams.dropWriter(storeKey{in.peer.conn.Identity(), in.header.key}, in)
}

func (in *incoming) receive() error {
	b, err := in.prepare()
	if err != nil || b == nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // a function of the game panicked
			_ = b.Close()
		}
	}()
	err = in.transfer(b)
	ended = true
	if errors.Is(err, ErrDigest) {
		return errors.Join(err, b.Delete())
	}
	return errors.Join(err, b.Close())
}

// transfer moves blocks to the application as they come. The last one waits until the whole is verified, so that
// whoever reads to a known size has not read what is wrong.
func (in *incoming) transfer(b body) error {
	var last *block
	for last == nil {
		c, err := in.next()
		if err != nil {
			return err
		}
		if c == nil {
			break
		}
		if _, err := b.Write(c.payload()); err != nil {
			return bodyError(err)
		}
		if in.isLast(c) {
			last = c
			break
		}
		if err := in.pass(c); err != nil {
			return err
		}
	}
	return in.conclude(b, last)
}

// isLast reports whether c is known to end the content.
func (in *incoming) isLast(c *block) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.tail != nil:
		return c.end() >= in.tail.size
	case in.header.kind == kindArray:
		return c.index+int64(c.count) >= in.header.count
	}
	return in.header.size >= 0 && c.end() >= in.header.size
}

// conclude verifies the whole and delivers what was held back.
func (in *incoming) conclude(b body, last *block) error {
	tail, err := in.waitTail()
	if err != nil {
		return err
	}
	if last != nil && last.end() != tail.size {
		return fmt.Errorf("%w: %d bytes arrived, the sender hashed %d", ErrDigest, last.end(), tail.size)
	}
	if err := b.Commit(in.header.hash.digest(tail.sum)); err != nil {
		return bodyError(err)
	}
	if last != nil {
		if err := in.pass(last); err != nil {
			return err
		}
	}
	in.verify(tail.size)
	return nil
}

// pass delivers c to the application.
func (in *incoming) pass(c *block) error {
	p := piece{block: c, bytes: int64(c.size()), cost: c.cost()}
	if in.header.kind == kindBlob {
		if c.index != 0 || c.count != 0 {
			return errors.New("a part of a blob has elements")
		}
		return in.deliver(p)
	}
	if err := in.passElements(c); err != nil {
		return err
	}
	c.Free()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.release(p)
	return nil
}

// passElements decodes c and delivers its elements, not too many at once.
func (in *incoming) passElements(c *block) error {
	rest, last := c.payload(), c.index+int64(c.count)
	if c.index != in.decoded || last > in.header.count {
		return fmt.Errorf("elements %d to %d follow element %d of %d", c.index, last-1, in.decoded-1, in.header.count)
	}
	for in.decoded < last {
		d, err := in.decode(rest, int(last-in.decoded))
		if err != nil {
			return fmt.Errorf("element %d: %w", in.decoded+int64(d.count), err)
		}
		p := d.piece(len(rest) - len(d.rest))
		in.decoded, rest = in.decoded+p.count, d.rest
		if err := in.deliver(p); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes left over behind element %d", len(rest), last)
	}
	return nil
}

// bodyError is what content that is wrong, or a store that fails, ends a transfer with.
func bodyError(err error) error {
	if errors.Is(err, ErrDigest) {
		return err
	}
	return storeError(err)
}

// storeError is what this end sees of its store's failure; the peer does not see paths.
func storeError(err error) error {
	return &concealed{public: "the receiver could not store the content", cause: fmt.Errorf("%w: %w", ErrRejected, err)}
}

// hasher is the body of what is not stored.
type hasher struct{ *Hasher }

func (h hasher) Commit(digest Digest) error {
	if got := h.Digest(); got != digest {
		return fmt.Errorf("%w: content %v, sender %v", ErrDigest, got, digest)
	}
	return nil
}

func (h hasher) Close() error  { return nil }
func (h hasher) Delete() error { return nil }

// keeper is the body of what is stored, as far as that goes beyond what was there.
type keeper struct {
	hasher
	part   Part
	offset int64 // of the content; up to what is stored, an element that was cut comes again
}

func (k *keeper) Write(p []byte) (int, error) {
	k.hasher.Write(p)
	again := min(int64(len(p)), k.part.Offset()-k.offset)
	if again > 0 {
		if err := k.compare(p[:again]); err != nil {
			return 0, err
		}
	}
	k.offset += int64(len(p))
	return k.part.Write(p[again:])
}

// compare fails unless p is what is stored.
func (k *keeper) compare(p []byte) error {
	stored := make([]byte, len(p))
	if err := readAt(k.part, stored, k.offset); err != nil {
		return err
	}
	if !bytes.Equal(p, stored) {
		return fmt.Errorf("%w: what is stored at byte %d is another element", ErrDigest, k.offset)
	}
	return nil
}

func (k *keeper) Commit(digest Digest) error {
	if err := k.hasher.Commit(digest); err != nil {
		return err
	}
	return k.part.Commit(digest)
}

func (k *keeper) Close() error  { return ignoreEnded(k.part.Close()) }
func (k *keeper) Delete() error { return ignoreEnded(k.part.Delete()) }

// ignoreEnded drops the error of a part that Commit has ended.
func ignoreEnded(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}
