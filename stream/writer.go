package stream

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// A writer is the goroutine of an incoming transfer. It first delivers stored content to the
// application. Then it takes the arriving content in order, and hashes, stores, decodes and
// delivers it.
type writer struct {
	in      *incoming
	decoded int64 // elements of an array that were decoded
	// The last piece of stored content. It waits for more content, or for the digest to be
	// verified, and is charged meanwhile. It is nil if no piece is held.
	held *piece
}

// run runs on the writer's goroutine.
func (w *writer) run() {
	w.in.guard(w.in.header.receives(), func() {
		if err := w.receive(); err != nil && err != io.EOF {
			w.in.finish(err)
		}
	})
	w.letGo()
	w.in.peer.streams.writers.CompareAndDelete(storeKey{w.in.peer.conn.Identity(), w.in.header.key}, w.in)
	w.in.peer.streams.writing.Return(&w.in.peer.receiver.writing)
}

// receive delivers all of the content. If the digest differs, receive deletes what was stored.
// Otherwise that stays and can be resumed.
func (w *writer) receive() error {
	to, err := w.prepare()
	if err != nil || to == nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // a function of the game panicked
			_ = to.Close()
		}
	}()
	if err = w.resume(to); err == nil {
		err = w.transfer(to)
	}
	ended = true
	if errors.Is(err, ErrDigest) {
		return closedWith(err, to.Delete())
	}
	return closedWith(err, to.Close())
}

// transfer delivers blocks as they arrive. The last block waits until the digest is verified,
// so an application that reads a known number of bytes never gets all of a wrong content.
func (w *writer) transfer(to *body) error {
	for {
		b, err := w.in.arrival.next()
		if err != nil {
			return err
		}
		if b == nil { // the end message arrived after the last block
			return w.conclude(to, nil)
		}

		if _, err := to.Write(b.payload()); err != nil {
			return bodyError(err)
		}
		if w.in.arrival.isLast(b) {
			return w.conclude(to, b)
		}

		if err := w.passHeld(); err != nil {
			return err
		}
		if err := w.pass(b); err != nil {
			return err
		}
	}
}

// conclude verifies the digest and delivers the last block, unless last is nil.
func (w *writer) conclude(to *body, last *block) error {
	tail, err := w.in.arrival.waitTail()
	if err != nil {
		return err
	}
	if last != nil && last.end() != tail.size {
		return fmt.Errorf("%w: its sender hashed %d bytes, %d came", ErrDigest, tail.size, last.end())
	}
	if err := to.Commit(w.in.header.hash.digest(tail.sum)); err != nil {
		return bodyError(err)
	}
	if err := w.passHeld(); err != nil {
		return err
	}
	if last != nil {
		if err := w.pass(last); err != nil {
			return err
		}
	}
	w.in.delivery.verify(tail.size)
	return nil
}

// hold keeps a piece until passHeld.
func (w *writer) hold(p piece) {
	w.held = &p
	w.in.peer.account.MustBorrow(p.cost)
}

// letGo returns the held piece and ends its charge. It returns nil if no piece is held.
func (w *writer) letGo() (p *piece) {
	p = w.held
	w.held = nil
	if p != nil {
		w.in.peer.account.Repay(p.cost)
	}
	return p
}

// passHeld delivers the held piece, if there is one.
func (w *writer) passHeld() error {
	if p := w.letGo(); p != nil {
		return w.in.delivery.add(*p)
	}
	return nil
}

// pass delivers a block to the application.
func (w *writer) pass(b *block) error {
	p := piece{block: b, bytes: int64(b.size()), units: int64(b.size()), cost: b.cost()}
	if w.in.header.kind == kindBlob {
		if b.index != 0 || b.count != 0 {
			return errors.New("a part of a blob has elements")
		}
		return w.in.delivery.add(p)
	}
	if err := w.passElements(b); err != nil {
		return err
	}
	b.Free()
	w.in.mu.Lock()
	defer w.in.mu.Unlock()
	w.in.delivery.release(p)
	return nil
}

// passElements decodes a block and delivers its elements in batches of limited memory.
func (w *writer) passElements(b *block) error {
	rest, last := b.payload(), b.index+int64(b.count)
	if b.index != w.decoded || last > w.in.header.count {
		return fmt.Errorf("elements %d to %d follow element %d of %d", b.index, last-1, w.decoded-1, w.in.header.count)
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
		return fmt.Errorf("%d bytes left over behind element %d", len(rest), last)
	}
	return nil
}

// prepare delivers all of the content if it is stored. Otherwise it returns the body for the
// content that will arrive. If both results are nil, everything was delivered.
func (w *writer) prepare() (*body, error) {
	store, key := w.in.store, w.in.header.key
	to := &body{
		hasher:   newHasher(w.in.header.hash, w.in.header.named()),
		unstored: func() { w.in.peer.unstored.Add(1) },
	}
	if store == nil || key == "" {
		return to, nil
	}

	identity := w.in.peer.conn.Identity()
	stored, err := w.replayContent(store, identity, key)
	switch {
	case stored:
		return nil, err
	case errors.Is(err, errNamedBlob):
		to.unstored()
		return to, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, storeError(err)
	}

	part, err := w.openPart(store, storeKey{identity, key})
	switch {
	case errors.Is(err, ErrPartBusy), errors.Is(err, ErrStoreFull):
		to.unstored()
		return to, nil
	case err != nil:
		return nil, storeError(err)
	}
	to.part = part
	return to, nil
}

// match returns the number of elements of a complete content. It returns an error that Is
// fs.ErrNotExist if this cannot be the content that the sender announces.
func (w *writer) match(c Content) (elements int64, err error) {
	h, name, digest := &w.in.header, w.in.header.named(), c.Digest()
	switch {
	case digest.IsZero(), h.size >= 0 && c.Size() != h.size:
		return 0, fs.ErrNotExist
	case digest.algorithm == name.algorithm && digest != name:
		return 0, fs.ErrNotExist // at a client, it may have been stored for another server
	}
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

// errNamedBlob means that an array's key is the text of the digest of a stored blob. The
// array's encoding may or may not have that digest, so the array does not replace the blob.
var errNamedBlob = errors.New("stream: the content that the key names is stored")

const (
	// busyPause is the time between two attempts to open a part that another transfer is
	// writing.
	busyPause = 250 * time.Millisecond
	// busyPauses is the maximum number of pauses in openPart. If nothing was received on the
	// other transfer's connection for stalledPauses, 1 s, openPart counts that connection as
	// dead, even before its idle timeout, and cancels the transfer.
	busyPauses    = 12
	stalledPauses = 4
)

// openPart opens the part that the transfer will write. If a peer loses its connection and
// reconnects at once, the transfer of the lost connection is still writing the part. openPart
// then takes it over.
func (w *writer) openPart(store Store, key storeKey) (Part, error) {
	var holder partHolder
	for pauses := 0; ; pauses++ {
		part, err := store.Open(key.identity, key.key, w.in.header.size)
		if err == nil {
			w.in.peer.streams.writers.Store(key, w.in)
		}
		if !errors.Is(err, ErrPartBusy) || pauses == busyPauses {
			return part, err
		}

		// If the connection of the transfer that writes the part is dead, end that transfer.
		writes, _ := w.in.peer.streams.writers.Load(key)
		other, _ := writes.(*incoming) // nil if there is none
		if holder.isDead(other, w.in.peer) {
			other.finish(canceled(errTakenOver))
		}

		select {
		case <-w.in.done:
			return nil, w.in.cause()
		case <-time.After(busyPause):
		}
	}
}

// A partHolder watches the transfer that is writing a part, from pause to pause of openPart.
type partHolder struct {
	transfer *incoming // nil if there is none
	heard    uint64    // bytes received on its connection
	stalled  int       // pauses in a row in which nothing was received
}

// isDead is called once a pause with the transfer that is writing the part for p, or nil. It
// reports whether nothing was received on the transfer's connection for stalledPauses.
func (h *partHolder) isDead(transfer *incoming, p *Peer) bool {
	heard, telling := transfer.heard(p)
	if !telling {
		h.stalled = 0
		return false
	}
	if transfer != h.transfer || heard != h.heard {
		*h = partHolder{transfer: transfer, heard: heard}
		return false
	}
	h.stalled++
	return h.stalled == stalledPauses
}

// errTakenOver ends a transfer whose part is continued by another connection of its peer.
var errTakenOver = errors.New("nothing came from its connection any more, and another one goes on with the content")

// resume answers the header with the size of the stored part, and delivers that part.
func (w *writer) resume(to *body) error {
	if to.part == nil {
		w.in.answer.resume(0, 0, false)
		return nil
	}
	offset, index, err := w.scan(to.part, to.part.Offset())
	if err != nil {
		return err
	}
	to.offset = offset
	w.in.answer.resume(offset, index, false)
	return w.replay(to.part, offset, to.hasher)
}

// replayContent delivers the complete content under a key. stored is false if there is none.
//
// If the content no longer has its digest, replayContent removes it. Nothing that the sender
// sends can cause that. Content that cannot be what the sender announces counts as missing but
// stays, so a lying sender deletes nothing. An honest sender's content replaces it once
// verified.
func (w *writer) replayContent(store Store, identity, key string) (stored bool, err error) {
	content, err := store.Lookup(identity, key)
	if err != nil {
		return false, err
	}
	decayed := false
	defer func() {
		err = closedWith(err, content.Close())
		if decayed {
			err = closedWith(err, store.Remove(identity, key))
		}
	}()
	elements, err := w.match(content)
	if err != nil {
		return false, err
	}
	size := content.Size()
	w.in.answer.resume(size, elements, true)

	// Hash it again: a disk may have damaged it since it was stored.
	digest := newHasher(content.Digest().algorithm, w.in.header.named())
	if err := w.replay(content, size, digest); err != nil {
		return true, err
	}
	if err := digest.check(content.Digest(), "as which it was stored"); err != nil {
		decayed = true
		return true, err
	}
	if err := w.passHeld(); err != nil {
		return true, err
	}
	w.in.delivery.verify(size)
	return true, nil
}

// replay delivers and hashes the first size bytes of r, as fast as the application consumes
// them. It holds back the last piece, which may be the end of the content.
func (w *writer) replay(r io.ReaderAt, size int64, digest hasher) error {
	return w.walk(r, size, func(p piece, raw []byte) error {
		hash := func() error {
			digest.Write(raw)
			return nil
		}
		if err := w.inReplay(hash); err != nil {
			return err
		}
		if err := w.passHeld(); err != nil {
			return err
		}
		w.decoded += p.units
		w.hold(p)
		return nil
	})
}

// scan returns the part of the first size bytes of r that can be resumed. For a blob that is
// all of them, for an array the complete elements. scan stops if the transfer ends.
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

// inReplay runs fn, which reads or hashes a piece of stored content. It fails if the transfer
// ends before fn runs.
//
// At most half as many of these functions run at once as there are processors. A header of a
// few bytes can make this end read a large stored content, and play must not wait for that.
func (w *writer) inReplay(fn func() error) (err error) {
	if !w.in.peer.streams.turns.Do(w.in.done, func() { err = fn() }) {
		return w.in.ended()
	}
	return err
}

// walk calls visit with the first size bytes of r, in pieces. It stops early when no complete
// element of an array is left.
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

		// Fill buf, and decode the complete elements in it.
		err := w.inReplay(func() error {
			if err := readAt(r, buf[len(buf):len(buf)+int(n)], offset); err != nil {
				return err
			}
			buf = buf[:len(buf)+int(n)]
			p, _ = w.in.decode(buf, -1) // an error only means that fewer are complete
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

// walkBlob is walk for a blob.
func (w *writer) walkBlob(r io.ReaderAt, size int64, visit func(p piece, raw []byte) error) error {
	for offset := int64(0); offset < size; {
		b := newPageBlock(partBytes)
		b.offset = offset
		n := min(int64(len(b.room())), size-offset)
		b.buf = b.buf[:len(b.buf)+int(n)]
		p := piece{block: b, bytes: n, units: n, cost: b.cost(), fresh: true}
		w.in.peer.account.MustBorrow(p.cost) // until visit has charged it
		err := w.inReplay(func() error { return readAt(r, b.payload(), offset) })
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
