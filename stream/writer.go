package stream

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/quivernet/quiver/internal/words"
)

// A writer is the goroutine that carries an incoming transfer from the network to the
// application.
//
// If the store already has some of the content, the writer delivers that first, so that the
// application can't tell a resumed transfer from a new one. It then takes the arriving blocks
// in order, and hashes, stores, decodes and delivers each of them. Any of these steps may have
// to wait for a disk or for the application, so they can't run on the goroutine that drives the
// rpc.World.
//
// In this file, a part is what the network carries. A [Part] in the store is called a partial.
type writer struct {
	in      *incoming
	decoded int64 // elements of an array decoded so far

	// The last piece of the stored content, or nil. It may be the end of all content, so it isn't
	// delivered until more content has arrived or the digest has been verified.
	held *piece
}

// run is the body of the goroutine.
func (w *writer) run() {
	w.in.guard(w.in.header.writerCallbacks(), func() {
		if err := w.receive(); err != nil && err != io.EOF {
			w.in.finish(err)
		}
	})
	w.removeHeld()

	// Another transfer may have taken over the partial. The entry is then no longer ours.
	w.in.peer.streams.writers.CompareAndDelete(storeKey{w.in.peer.conn.Identity(), w.in.header.key}, w.in)
	w.in.peer.receiver.writerDone()
}

// receive delivers all of the content. If the digest turns out to be wrong, receive deletes what
// was stored. After any other error, it keeps what was stored, so that a later transfer can resume.
func (w *writer) receive() error {
	dest, err := w.prepare()
	if err != nil || dest == nil { // failed, or delivered from the store
		return err
	}

	panicking := true // cleared once the calls below, which run application code, have returned
	defer func() {
		if panicking {
			_ = dest.Close()
		}
	}()
	if err = w.resume(dest); err == nil {
		err = w.receiveBlocks(dest)
	}
	panicking = false
	if errors.Is(err, ErrDigest) {
		return closedWith(err, dest.Delete())
	}
	return closedWith(err, dest.Close())
}

// receiveBlocks delivers blocks as they arrive. It withholds the last block until the digest has
// been verified. Otherwise an application that knows how much to read could have all of the content
// before we find out that the content is wrong.
func (w *writer) receiveBlocks(dest *body) error {
	for {
		b, err := w.in.arrival.next()
		if err == io.EOF { // the previous block was the last, but was delivered since we couldn't tell
			return w.conclude(dest, nil)
		}
		if err != nil {
			return err
		}

		if _, err := dest.Write(b.payload()); err != nil {
			return bodyError(err)
		}
		if w.in.arrival.isLast(b) {
			return w.conclude(dest, b)
		}

		if err := w.deliverHeld(); err != nil {
			return err
		}
		if err := w.deliver(b); err != nil {
			return err
		}
	}
}

// conclude waits for the sender's end message and verifies the digest. It then delivers the content
// that was withheld: the held piece and the last block, either of which may be nil.
func (w *writer) conclude(dest *body, last *block) error {
	tail, err := w.in.arrival.waitEnd()
	if err != nil {
		return err
	}
	if last != nil && last.end() != tail.size {
		return otherSize("hashed", tail.size, last.end(), "arrived")
	}
	if err := dest.Commit(w.in.header.hash.digest(tail.sum)); err != nil {
		return bodyError(err)
	}
	if err := w.deliverHeld(); err != nil {
		return err
	}
	if last != nil {
		if err := w.deliver(last); err != nil {
			return err
		}
	}
	w.in.delivery.markVerified(tail.size)
	return nil
}

// hold withholds a piece and charges its memory to the peer's account until removeHeld is called.
func (w *writer) hold(p piece) {
	w.held = &p
	w.in.peer.account.MustBorrow(p.cost)
}

// removeHeld removes and returns the held piece, and stops charging for it. It returns nil if there
// is none.
func (w *writer) removeHeld() (p *piece) {
	p = w.held
	w.held = nil
	if p != nil {
		w.in.peer.account.Repay(p.cost)
	}
	return p
}

// deliverHeld delivers the held piece, if there is one.
func (w *writer) deliverHeld() error {
	if p := w.removeHeld(); p != nil {
		return w.in.delivery.add(*p)
	}
	return nil
}

// deliver passes a block to the application. A block of an array is decoded into elements first.
func (w *writer) deliver(b *block) error {
	p := piece{block: b, bytes: int64(b.size()), units: int64(b.size()), cost: b.cost()}
	if w.in.header.kind == kindBlob {
		if b.index != 0 || b.count != 0 {
			return fmt.Errorf("part of a blob has %d elements from index %d; both must be 0", b.count, b.index)
		}
		return w.in.delivery.add(p)
	}
	if err := w.deliverElements(b); err != nil {
		return err
	}

	// The elements are copies, and each batch is charged separately, so the block can be freed.
	b.Free()
	w.in.mu.Lock()
	defer w.in.mu.Unlock()
	w.in.delivery.release(p)
	return nil
}

// deliverElements decodes a block and delivers its elements in batches, since a few bytes may
// decode into a lot of memory.
func (w *writer) deliverElements(b *block) error {
	rest, last := b.payload(), b.index+int64(b.count)
	if b.index != w.decoded || last > w.in.header.count {
		return fmt.Errorf("part has %d elements from index %d; expected at most %d from index %d",
			b.count, b.index, w.in.header.count-w.decoded, w.decoded)
	}
	for w.decoded < last {
		p, err := w.in.decode(rest, int(last-w.decoded))
		if err != nil {
			return fmt.Errorf("element %d: %w", w.decoded+p.units, err)
		}
		w.decoded += p.units
		rest = rest[p.bytes:]
		if err := w.in.delivery.add(p); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("part has %s left over after its %s", words.Bytes(len(rest)), words.Plural(b.count, "element", "elements"))
	}
	return nil
}

// prepare looks for the content in the store. If the store has all of it, prepare delivers it and
// returns nil. Otherwise it returns the body that receives the arriving content. If the transfer
// has to continue without the store, that body only hashes the content.
func (w *writer) prepare() (*body, error) {
	store, key := w.in.store, w.in.header.key
	dest := &body{
		hasher:        newHasher(w.in.header.hash, w.in.header.keyDigest()),
		countUnstored: func() { w.in.peer.counts.unstored.Add(1) },
	}
	if store == nil || key == "" {
		return dest, nil
	}

	identity := w.in.peer.conn.Identity()
	stored, err := w.replayContent(store, identity, key)
	switch {
	case stored:
		return nil, err
	case errors.Is(err, errNamedBlob):
		dest.countUnstored() // storing the array would eventually replace the blob
		return dest, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, storeError(err)
	}

	partial, err := w.openPartial(store, storeKey{identity, key})
	switch {
	case errors.Is(err, ErrPartBusy), errors.Is(err, ErrStoreFull):
		dest.countUnstored() // the content can still be received, but the transfer can't be resumed
		return dest, nil
	case err != nil:
		return nil, storeError(err)
	}
	dest.partial = partial
	return dest, nil
}

// match returns the number of elements in stored content if that may be the content that the sender
// announced. Otherwise it returns fs.ErrNotExist, as if nothing were stored, or errNamedBlob.
func (w *writer) match(c Content) (elements int64, err error) {
	h, name, digest := &w.in.header, w.in.header.keyDigest(), c.Digest()
	switch {
	case digest.IsZero():
		return 0, fs.ErrNotExist
	case h.size >= 0 && c.Size() != h.size:
		return 0, fs.ErrNotExist
	case digest.algorithm == name.algorithm && digest != name:
		return 0, fs.ErrNotExist // on a client, it may have been stored for another server
	}

	// The content of an array must also decode into the number of elements that the sender
	// announced.
	whole, elements, err := w.scan(c, c.Size())
	matches := whole == c.Size() && (h.kind == kindBlob || elements == h.count)
	switch {
	case err != nil || matches:
		return elements, err
	case h.kind == kindArray && digest.String() == h.key:
		return 0, errNamedBlob
	}
	return 0, fs.ErrNotExist
}

// errNamedBlob means that the key of an array is the text of a stored blob's digest. We can't
// know whether the encoded array has that digest too, so the array must not replace the blob.
var errNamedBlob = errors.New("stream: key of the array is the digest of a stored blob")

const (
	// busyPause is how long openPartial waits before it tries again to open a partial that another
	// transfer is writing. Any fraction of a second would do.
	busyPause = 250 * time.Millisecond
	// maxBusyPauses is the number of pauses, 3 s in total, after which openPartial gives up.
	maxBusyPauses = 12
	// deadPauses is the number of consecutive pauses, 1 s in total, after which the other
	// transfer's connection counts as dead if it has received nothing. Its idle timeout is much
	// longer.
	deadPauses = 4
)

// openPartial opens the partial that the transfer will write.
//
// When a peer loses its connection and reconnects immediately, the transfer on the lost connection
// may still be writing the partial. If that connection is dead, openPartial ends its transfer and
// takes over the partial.
func (w *writer) openPartial(store Store, key storeKey) (Part, error) {
	var watch busyWatch
	for pauses := 0; ; pauses++ {
		partial, err := store.Open(key.identity, key.key, w.in.header.size)
		if err == nil {
			w.in.peer.streams.writers.Store(key, w.in)
		}
		if !errors.Is(err, ErrPartBusy) || pauses == maxBusyPauses {
			return partial, err
		}

		value, _ := w.in.peer.streams.writers.Load(key)
		other, _ := value.(*incoming) // nil if no transfer in this world is writing the partial
		if watch.update(other, w.in.peer) {
			other.finish(canceled(errTakenOver))
		}

		select {
		case <-w.in.done:
			return nil, w.in.cause()
		case <-time.After(busyPause):
		}
	}
}

// A busyWatch watches, from one pause to the next, the other transfer that is writing the partial.
type busyWatch struct {
	transfer *incoming // the transfer seen in the last pause; nil before the first
	received uint64    // bytes that its connection had received in that pause
	silent   int       // consecutive pauses since received last changed
}

// update is called in each pause with the transfer that is writing the partial that p wants, or
// with nil. It reports whether that transfer's connection is dead: whether it has now received
// nothing for deadPauses pauses.
func (w *busyWatch) update(transfer *incoming, p *Peer) (dead bool) {
	received, known := transfer.bytesReceived(p)
	if !known {
		w.silent = 0
		return false
	}
	if transfer != w.transfer || received != w.received {
		// Either another transfer is writing the partial now, or the connection is alive.
		*w = busyWatch{transfer: transfer, received: received}
		return false
	}
	w.silent++
	return w.silent == deadPauses
}

// errTakenOver ends a transfer whose partial is now written by a transfer on another connection
// from the same peer.
var errTakenOver = fmt.Errorf("nothing was received on its connection for %v, so another connection has taken over its content",
	deadPauses*busyPause)

// resume tells the sender how much of the content is stored, and delivers the stored content.
func (w *writer) resume(dest *body) error {
	if dest.partial == nil {
		w.in.answer.resume(accept{})
		return nil
	}
	offset, index, err := w.scan(dest.partial, dest.partial.Offset())
	if err != nil {
		return err
	}
	dest.offset = offset
	w.in.answer.resume(accept{offset: offset, index: index})
	return w.replay(dest.partial, offset, dest.hasher)
}

// replayContent delivers the complete content that is stored under a key. It sets stored to false
// if there is none.
//
// Content that no longer matches its digest is removed, because no sender can cause this: the store
// must have damaged it. Content that can't be what the sender announced counts as missing, but it
// isn't removed, because a sender could otherwise delete content by lying about it. If the sender
// is honest, its own content will replace the stored content once it has been verified.
func (w *writer) replayContent(store Store, identity, key string) (stored bool, err error) {
	content, err := store.Lookup(identity, key)
	if err != nil {
		return false, err
	}
	damaged := false
	defer func() {
		err = closedWith(err, content.Close())
		if damaged {
			err = closedWith(err, store.Remove(identity, key))
		}
	}()
	elements, err := w.match(content)
	if err != nil {
		return false, err
	}
	size := content.Size()
	w.in.answer.resume(accept{offset: size, index: elements, hasAll: true})

	// Hash the content again, because the disk may have damaged it since it was stored.
	digest := newHasher(content.Digest().algorithm, w.in.header.keyDigest())
	if err := w.replay(content, size, digest); err != nil {
		return true, err
	}
	if err := digest.check(content.Digest(), "stored with the content"); err != nil {
		damaged = true
		return true, err
	}
	if err := w.deliverHeld(); err != nil {
		return true, err
	}
	w.in.delivery.markVerified(size)
	return true, nil
}

// replay hashes and delivers the first size bytes of r, no faster than the application consumes
// them, except that it withholds the last piece, which may be the end of the content.
func (w *writer) replay(r io.ReaderAt, size int64, digest hasher) error {
	return w.walk(r, size, func(p piece, raw []byte) error {
		hash := func() error {
			digest.Write(raw)
			return nil
		}
		if err := w.inTurn(hash); err != nil {
			return err
		}
		if err := w.deliverHeld(); err != nil {
			return err
		}
		w.decoded += p.units
		w.hold(p)
		return nil
	})
}

// scan determines how much of the first size bytes of r a resumed transfer can use: all bytes of a
// blob, but only the complete elements of an array, which end at offset and before element index.
// It returns early if the transfer ends.
func (w *writer) scan(r io.ReaderAt, size int64) (offset, index int64, err error) {
	if w.in.header.kind == kindBlob {
		return size, 0, nil
	}

	err = w.walk(r, size, func(p piece, _ []byte) error {
		offset += p.bytes
		index += p.units
		return w.in.ended()
	})
	return offset, index, err
}

// inTurn waits for this transfer's turn and then runs fn, which reads or hashes a piece of stored
// content. If the transfer ends first, inTurn returns an error without running fn.
//
// Streams.turns lets these functions use at most half of the processors at once. A header of a few
// bytes is enough to make us read a lot of stored content, which must not delay play (the game's
// own traffic).
func (w *writer) inTurn(fn func() error) (err error) {
	if !w.in.peer.streams.turns.Do(w.in.done, func() { err = fn() }) {
		return w.in.ended()
	}
	return err
}

// walk calls visit with the first size bytes of r, piece by piece. For an array, it stops early
// if the rest isn't a complete element.
func (w *writer) walk(r io.ReaderAt, size int64, visit func(p piece, raw []byte) error) error {
	if w.in.header.kind == kindBlob {
		return w.walkBlob(r, size, visit)
	}
	buf := make([]byte, 0, 2*maxElementBytes)
	w.in.peer.account.MustBorrow(int64(cap(buf)))
	defer w.in.peer.account.Repay(int64(cap(buf)))
	for offset := int64(0); offset < size || len(buf) > 0; {
		var p piece
		n := min(int64(cap(buf)-len(buf)), size-offset)

		// The buffer may begin with an incomplete element from the previous read. Fill up the
		// buffer and decode the complete elements in it.
		err := w.inTurn(func() error {
			if err := readAt(r, buf[len(buf):len(buf)+int(n)], offset); err != nil {
				return err
			}
			buf = buf[:len(buf)+int(n)]
			p, _ = w.in.decode(buf, -1) // after an error, p has the elements before it
			return nil
		})
		if err != nil || p.units == 0 {
			return err
		}

		offset += n
		if err := visit(p, buf[:p.bytes]); err != nil {
			return err
		}
		buf = append(buf[:0], buf[p.bytes:]...)
	}
	return nil
}

// walkBlob is like walk, for a blob. All pieces but the last have the size of a full part.
func (w *writer) walkBlob(r io.ReaderAt, size int64, visit func(p piece, raw []byte) error) error {
	for offset := int64(0); offset < size; {
		b := newPageBlock(partBytes)
		b.offset = offset
		n := min(int64(len(b.room())), size-offset)
		b.buf = b.buf[:len(b.buf)+int(n)]
		p := piece{block: b, bytes: n, units: n, cost: b.cost(), fresh: true}
		w.in.peer.account.MustBorrow(p.cost) // until visit has charged it
		err := w.inTurn(func() error { return readAt(r, b.payload(), offset) })
		if err == nil {
			err = visit(p, b.payload())
		}
		w.in.peer.account.Repay(p.cost)
		if err != nil {
			return err
		}
		offset += n
	}
	return nil
}
