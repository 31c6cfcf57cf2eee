package stream

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// prepare answers the header, and delivers what is here already. A nil body means that all was.
func (in *incoming) prepare() (body, error) {
	store, key := in.store, in.header.key
	if store == nil || key == "" {
		in.answer(0, 0, false)
		return in.hasher(), nil
	}
	identity := in.peer.conn.Identity()
	content, err := store.Lookup(identity, key)
	switch {
	case err == nil:
		return nil, in.replayContent(content, func() error { return store.Remove(identity, key) })
	case !errors.Is(err, fs.ErrNotExist):
		return nil, storeError(err)
	}
	part, err := in.openPart(store, storeKey{identity, key})
	switch {
	case errors.Is(err, ErrPartBusy), errors.Is(err, ErrStoreFull):
		in.peer.unstored.Add(1)
		in.answer(0, 0, false) // it goes on without being stored
		return in.hasher(), nil
	case err != nil:
		return nil, storeError(err)
	}
	return in.resumePart(part)
}

func (in *incoming) hasher() hasher { return hasher{in.header.hash.New()} }

// storeKey names content in a store.
type storeKey struct{ identity, key string }

const (
	// busyPause is how often a part that another transfer writes is asked for again.
	busyPause = 250 * time.Millisecond
	// busyPauses is how often it is asked for, and stalledPauses after how many of them without progress the other
	// transfer is given up: its connection is dead, only nobody has noticed yet.
	busyPauses    = 12
	stalledPauses = 4
)

// openPart opens the part that the transfer will write. Whoever was cut off and comes back at once finds the part
// still written by the transfer of the connection that was lost, and takes it over.
func (in *incoming) openPart(store Store, key storeKey) (Part, error) {
	var writer *incoming
	var seen int64
	for pauses, stalled := 0, 0; ; pauses++ {
		part, err := store.Open(key.identity, key.key, in.header.size)
		if err == nil {
			in.peer.streams.setWriter(key, in)
		}
		if !errors.Is(err, ErrPartBusy) || pauses == busyPauses {
			return part, err
		}
		other := in.peer.streams.writer(key)
		if at := other.received(); other != writer || at != seen {
			writer, seen, stalled = other, at, 0
		} else if stalled++; stalled == stalledPauses && other != nil {
			other.finish(canceled(errTakenOver))
		}
		select {
		case <-in.done:
			return nil, in.cause()
		case <-time.After(busyPause):
		}
	}
}

var errTakenOver = errors.New("the transfer stalled, and another connection goes on with its content")

func (s *Streams) setWriter(key storeKey, in *incoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[key] = in
}

func (s *Streams) writer(key storeKey) *incoming {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[key]
}

// dropWriter forgets that in writes what has that key.
func (s *Streams) dropWriter(key storeKey, in *incoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts[key] == in {
		delete(s.parts, key)
	}
}

// received is how many bytes have arrived in order; 0 of nobody.
func (in *incoming) received() int64 {
	if in == nil {
		return 0
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.parts.next
}

// resumePart answers with what is stored of the content, and delivers it.
func (in *incoming) resumePart(part Part) (body, error) {
	replayed := false
	defer func() {
		if !replayed { // an element's own decoding panicked
			_ = part.Close()
		}
	}()
	offset, index, err := in.scan(part, part.Offset())
	digest := in.hasher()
	if err == nil {
		in.answer(offset, index, false)
		err = in.replay(part, offset, digest)
	}
	replayed = true
	switch {
	case errors.Is(err, ErrDigest):
		return nil, errors.Join(err, part.Delete())
	case err != nil:
		return nil, errors.Join(err, part.Close())
	}
	return &keeper{digest, part, offset}, nil
}

// replayContent delivers complete content from the store. Content that has changed there is removed.
func (in *incoming) replayContent(content Content, remove func() error) (err error) {
	defer func() {
		err = errors.Join(err, content.Close())
		if errors.Is(err, ErrDigest) {
			err = errors.Join(err, remove())
		}
	}()
	size := content.Size()
	switch offset, index, err := in.scan(content, size); {
	case err != nil:
		return err
	case content.Digest().IsZero():
		return fmt.Errorf("%w: what is stored under the key has none", ErrDigest)
	case offset != size, in.header.size >= 0 && in.header.size != size, in.header.kind == kindArray && index != in.header.count:
		return fmt.Errorf("%w: what is stored under the key has %d bytes and %d whole elements", ErrDigest, size, index)
	default:
		in.answer(offset, index, true)
	}
	digest := hasher{content.Digest().algorithm.New()}
	if err := in.replay(content, size, digest); err != nil {
		return err
	}
	if err := digest.Commit(content.Digest()); err != nil {
		return err
	}
	in.verify(size)
	return nil
}

// replay delivers the first size bytes of r as the application consumes them, and hashes them.
func (in *incoming) replay(r io.ReaderAt, size int64, digest hasher) error {
	return in.walk(r, size, func(p piece, raw []byte) error {
		digest.Write(raw)
		in.decoded += p.count
		return in.deliver(p)
	})
}

// scan finds how much of the first size bytes of r can be resumed: all of a blob, the whole elements of an array.
func (in *incoming) scan(r io.ReaderAt, size int64) (offset, index int64, err error) {
	if in.header.kind == kindBlob {
		return size, 0, nil
	}
	err = in.walk(r, size, func(p piece, _ []byte) error {
		offset += p.bytes
		index += p.count
		return nil
	})
	return offset, index, err
}

// walk cuts the first size bytes of r into pieces. It ends early where an array has no whole element.
func (in *incoming) walk(r io.ReaderAt, size int64, visit func(p piece, raw []byte) error) error {
	if in.header.kind == kindBlob {
		return walkBlob(r, size, visit)
	}
	buf := make([]byte, 0, 2*maxElementBytes)
	in.peer.account.MustBorrow(int64(cap(buf)))
	defer in.peer.account.Repay(int64(cap(buf)))
	for offset := int64(0); offset < size || len(buf) > 0; {
		n := min(int64(cap(buf)-len(buf)), size-offset)
		if err := readAt(r, buf[len(buf):len(buf)+int(n)], offset); err != nil {
			return err
		}
		offset += n
		buf = buf[:len(buf)+int(n)]
		d, _ := in.decode(buf, -1) // an error: fewer are whole
		if d.count == 0 {
			return nil
		}
		used := len(buf) - len(d.rest)
		if err := visit(d.piece(used), buf[:used]); err != nil {
			return err
		}
		buf = append(buf[:0], d.rest...)
	}
	return nil
}

func walkBlob(r io.ReaderAt, size int64, visit func(p piece, raw []byte) error) error {
	for offset := int64(0); offset < size; {
		c := fullBlock(partBytes)
		c.offset = offset
		n := min(int64(len(c.room())), size-offset)
		c.buf = c.buf[:len(c.buf)+int(n)]
		if err := readAt(r, c.payload(), offset); err != nil {
			return err
		}
		offset += n
		if err := visit(piece{block: c, bytes: n, cost: c.cost(), fresh: true}, c.payload()); err != nil {
			return err
		}
	}
	return nil
}

// readAt fills p from offset.
func readAt(r io.ReaderAt, p []byte, offset int64) error {
	if n, err := r.ReadAt(p, offset); n < len(p) {
		return storeError(fmt.Errorf("reading %d stored bytes at %d: %w", len(p), offset, err))
	}
	return nil
}
