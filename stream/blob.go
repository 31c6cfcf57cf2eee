package stream

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/quivernet/quiver/internal/words"
)

// A Blob is a topic whose transfers are bytes. Declare it once, in a package that both ends
// share.
type Blob struct{ name string }

// NewBlob declares a blob. The name has 1 to 64 bytes.
func NewBlob(name string) *Blob {
	mustTopic(name)
	return &Blob{name}
}

// mustTopic panics unless name can be the name of a topic.
func mustTopic(name string) {
	if name == "" || len(name) > maxTopicBytes {
		panic(fmt.Sprintf("stream: topic name %q has %d bytes; it must have 1 to %d", name, len(name), maxTopicBytes))
	}
}

// Start sends size bytes of r to peer, or all bytes until io.EOF if size is negative. It never
// reads more than size bytes. For a file that may grow, pass -1.
//
// Start returns at once, and a goroutine of the transfer reads r from its current position. If the
// transfer fails, a Read may still be in progress, and the bytes that it returns are discarded. A
// second attempt, even one that resumes with a [Key], therefore needs a new reader at the beginning
// of the content. For a file, use io.NewSectionReader(file, 0, size).
func (b *Blob) Start(peer *Peer, r io.Reader, size int64, opts ...Option) (*Transfer, error) {
	if r == nil {
		return nil, fmt.Errorf("stream: Start of blob %q: reader is nil", b.name)
	}
	if size > maxSize {
		return nil, fmt.Errorf("%w: blob %q has %d bytes; the limit is %d", ErrTooLarge, b.name, size, int64(maxSize))
	}
	size = max(size, -1)
	return peer.start(header{kind: kindBlob, topic: b.name, size: size}, &blobSource{r: r, left: size}, opts)
}

// Send calls Start and waits until the transfer ends. If ctx ends first, Send cancels the
// transfer.
func (b *Blob) Send(ctx context.Context, peer *Peer, r io.Reader, size int64, opts ...Option) error {
	return send(ctx, peer, "Blob.Send", func() (*Transfer, error) { return b.Start(peer, r, size, opts...) })
}

// Create starts a blob whose content the caller writes.
//
// Each Write waits until the transfer has read its bytes, so small writes should be collected in a
// bufio.Writer. Once the transfer has failed, Write returns its error. If the receiver turns out to
// have stored all content under its [Key], Write discards the rest. Close marks the end of the
// content, and Wait returns when the receiver has consumed all of it.
func (b *Blob) Create(peer *Peer, opts ...Option) (*OutgoingBlob, error) {
	r, w := io.Pipe()
	t, err := b.Start(peer, r, -1, opts...)
	if err != nil {
		return nil, err
	}
	go func() {
		// Nothing reads the pipe after the transfer has ended, so a Write must not wait for that.
		<-t.Done()
		_ = r.CloseWithError(cmp.Or(t.Err(), io.ErrClosedPipe))
	}()
	return &OutgoingBlob{Transfer: t, pipe: w}, nil
}

// Handle makes fn the handler for incoming transfers of the blob. fn is called on the world's
// goroutine. Handle panics if fn is nil, or if the blob already has a handler.
//
// Until a goroutine reads the transfer, its sender sends no more than the first credit. If no
// goroutine reads it within Config.ReadTime, the transfer is rejected. If the connection ends
// before a header has arrived, fn is not called, so code that waits for a transfer must also watch
// [rpc.Conn.Done].
func (b *Blob) Handle(s *Streams, fn func(*IncomingBlob)) {
	t := topic{kind: kindBlob}
	if fn != nil {
		t.open = func(in *incoming) { fn(&IncomingBlob{Incoming: Incoming{in}}) }
	}
	s.handle(b.name, t)
}

// An OutgoingBlob is a blob whose content the caller writes. [Blob.Create] returns it. Write and
// Close must not be called concurrently, but the methods of Transfer may be.
type OutgoingBlob struct {
	*Transfer
	pipe   *io.PipeWriter
	closed bool
}

// Write implements io.Writer.
func (o *OutgoingBlob) Write(p []byte) (int, error) {
	if o.peer.onWorld() {
		return 0, fmt.Errorf("%w: OutgoingBlob.Write: use another goroutine", ErrBlocking)
	}
	if err := o.Err(); err != nil {
		return 0, err
	}
	if o.closed {
		return 0, fmt.Errorf("stream: %s: Write after Close: %w", o.header.title(), io.ErrClosedPipe)
	}
	n, err := o.pipe.Write(p)
	if err == io.ErrClosedPipe {
		// The transfer is complete, because the receiver had stored all content under its key.
		return len(p), nil
	}
	return n, err
}

// Close marks the end of the content. It never blocks and never fails. Use Wait to find out whether
// the blob has arrived, and Cancel to abort it.
func (o *OutgoingBlob) Close() error {
	o.closed = true
	return o.pipe.Close()
}

// An IncomingBlob is a blob at its receiver. It is an io.Reader that must not be used
// concurrently.
//
// Read waits for the sender, and the sender waits if nobody reads. Read returns the last piece only
// after the digest has been verified, and then io.EOF. Once the last piece has been read, the
// transfer is complete and the sender is notified.
//
// If content should count as consumed only once it has been written elsewhere, use WriteTo, as
// io.Copy does. It counts a piece after writing it.
type IncomingBlob struct {
	Incoming
	held piece  // the piece being read; released once rest is empty
	rest []byte // what is left to read of held
}

// Size returns the size of the blob in bytes, or -1 if the sender did not know it when it started
// the transfer.
func (b *IncomingBlob) Size() int64 { return b.in.header.size }

// Read implements io.Reader.
func (b *IncomingBlob) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := b.fetch(); err != nil {
		return 0, err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if len(b.rest) == 0 {
		b.release()
	}
	return n, nil
}

// WriteTo implements io.WriterTo.
func (b *IncomingBlob) WriteTo(w io.Writer) (total int64, err error) {
	for {
		err := b.fetch()
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}

		n, err := w.Write(b.rest)
		n = min(max(n, 0), len(b.rest)) // a Writer may miscount
		total += int64(n)
		b.rest = b.rest[n:]

		// Bytes that were written count as consumed even if the Write failed.
		if len(b.rest) == 0 {
			b.release()
		} else if err == nil {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

// fetch waits for the next piece unless the current one has bytes left.
func (b *IncomingBlob) fetch() error {
	if len(b.rest) > 0 {
		return b.in.cause()
	}
	held, err := b.in.delivery.pull(context.Background())
	if err != nil {
		return err
	}
	b.held = held
	b.rest = held.block.payload()
	return nil
}

// release frees the held piece, which has been read completely, and counts it as consumed.
func (b *IncomingBlob) release() {
	b.rest = nil
	b.held.block.Free()
	b.in.delivery.markConsumed(b.held)
}

// A blobSource reads the content of a blob from the application's io.Reader.
type blobSource struct {
	r        io.Reader
	left     int64 // bytes left to read; -1 means until io.EOF
	throttle throttle
}

func (s *blobSource) callbackName() string    { return "Read of the source" }
func (s *blobSource) readsCallerMemory() bool { return false }

// maxEmptyReads is the maximum number of consecutive Reads that return neither bytes nor an error,
// as in package bufio.
const maxEmptyReads = 100

// fill reads at most one block. It calls Read only once unless Read returns nothing.
func (s *blobSource) fill(b *block, _ int64) error {
	room := b.room()
	if s.left >= 0 {
		room = room[:min(int64(len(room)), s.left)]
	}
	if len(room) == 0 {
		return io.EOF
	}

	throttled := s.throttle.applies(b.offset)
	if throttled {
		room = s.throttle.limit(room)
	}
	for range maxEmptyReads {
		n, err := s.r.Read(room)
		if n < 0 || n > len(room) {
			return fmt.Errorf("%T returned %d bytes from a Read of %d", s.r, n, len(room))
		}
		b.buf = b.buf[:len(b.buf)+n]
		if s.left >= 0 {
			s.left -= int64(n)
		}
		if throttled {
			s.throttle.wait(n)
		}
		err = s.fillError(err)
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// fillError returns the error of fill after a Read that returned err. It is io.EOF if all content
// has been read.
func (s *blobSource) fillError(err error) error {
	switch {
	case s.left == 0:
		return io.EOF
	case err == io.EOF && s.left > 0:
		return fmt.Errorf("source ended %s short of the size given to Start, "+
			"which reads from the current position: %w", words.Bytes(s.left), io.ErrUnexpectedEOF)
	case err != nil && err != io.EOF:
		return &localError{
			public: "sender could not read its source",
			cause:  fmt.Errorf("reading the source: %w", err),
		}
	}
	return err
}

// # Rate

// A throttle limits the rate at which a source is read, for the option Rate. It is used by the
// reader's goroutine only.
type throttle struct {
	rate int       // bytes per second; 0 means no limit
	due  time.Time // when the next read may begin; zero before the first wait

	// skips reports whether the receiver already has the content at an offset. Such content isn't
	// sent but only read to be hashed, so the rate doesn't apply to it.
	skips func(offset int64) bool
}

// applies reports whether content at an offset is read at the limited rate.
func (t *throttle) applies(offset int64) bool {
	return t.rate > 0 && !t.skips(offset)
}

const (
	// readsPerSecond limits a read to what the rate allows in a twentieth of a second, so that a
	// reader that is stopped never sleeps for long.
	readsPerSecond = 20
	// catchUp is the maximum delay that a source may make up for by exceeding its rate.
	catchUp = 250 * time.Millisecond
)

// limit returns the front of room that may be read at once.
func (t *throttle) limit(room []byte) []byte {
	return room[:min(len(room), max(1, t.rate/readsPerSecond))]
}

// wait sleeps for the time that n bytes take at the rate, minus the time by which the source has
// fallen behind. Slow reads, and sleeps that end late on a busy machine, therefore don't lower the
// rate.
func (t *throttle) wait(n int) {
	now := time.Now()
	earliest := now.Add(-catchUp)
	if t.due.IsZero() {
		t.due = now
	} else if t.due.Before(earliest) {
		t.due = earliest
	}
	t.due = t.due.Add(time.Duration(n) * time.Second / time.Duration(t.rate))
	time.Sleep(time.Until(t.due))
}
