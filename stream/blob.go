package stream

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"
)

// Blob is a topic whose transfers are bytes. Declare it once, in a package that both ends share.
type Blob struct{ name string }

// NewBlob declares a blob. The name has 1 to 64 bytes.
func NewBlob(name string) *Blob {
	mustTopic(name)
	return &Blob{name}
}

func mustTopic(name string) {
	if name == "" || len(name) > maxTopicBytes {
		panic(fmt.Sprintf("stream: topic name %q has %d bytes, not 1 to %d", name, len(name), maxTopicBytes))
	}
}

// Start sends size bytes of r to peer, or everything until io.EOF when size is negative. Pass -1 for a file that may grow: bytes of r
// beyond size are not read. Start returns at once; a goroutine of the transfer reads r, from where it stands. When the transfer fails, a Read
// in progress goes on, and what it returns is dropped. So another try, also one that a [Key] lets go on, needs a reader of its own, at the
// beginning of the content: of a file, io.NewSectionReader(file, 0, size).
func (b *Blob) Start(peer *Peer, r io.Reader, size int64, opts ...Option) (*Transfer, error) {
	if r == nil {
		return nil, fmt.Errorf("stream: blob %q: no reader", b.name)
	}
	if size > maxSize {
		return nil, fmt.Errorf("%w: blob %q of %d bytes; a header can say %d", ErrTooLarge, b.name, size, int64(maxSize))
	}
	size = max(size, -1)
	return peer.start(header{kind: kindBlob, topic: b.name, size: size}, &blobSource{r: r, left: size}, opts)
}

// Send is Start and Wait; when ctx ends, the transfer is canceled.
func (b *Blob) Send(ctx context.Context, peer *Peer, r io.Reader, size int64, opts ...Option) error {
	return send(ctx, peer, "Blob.Send", func() (*Transfer, error) { return b.Start(peer, r, size, opts...) })
}

// Create starts a blob whose content the caller writes. Each Write waits until the transfer has taken its bytes, so gather small ones
// with a bufio.Writer. Once the transfer has failed, Write returns the error that ended it. Of content that the receiver has already, by its
// [Key], Write drops the rest. Close marks the end of the content; Wait returns when the receiver has all of it.
func (b *Blob) Create(peer *Peer, opts ...Option) (*OutgoingBlob, error) {
	r, w := io.Pipe()
	t, err := b.Start(peer, r, -1, opts...)
	if err != nil {
		return nil, err
	}
	go func() {
		<-t.Done() // from now on nobody reads: a Write must not wait
		_ = r.CloseWithError(cmp.Or(t.Err(), io.ErrClosedPipe))
	}()
	return &OutgoingBlob{Transfer: t, pipe: w}, nil
}

// Handle makes fn handle incoming transfers of the blob, on the world's goroutine. Until a goroutine reads the transfer, the sender sends
// no more than its first credit, and it is rejected when nobody does within Config.ReadTime. When the connection ends before a header
// has arrived, fn is not called: a caller that waits for a transfer must also watch [rpc.Conn.Done]. Handle panics if fn is nil, or
// the blob has a handler already.
func (b *Blob) Handle(s *Streams, fn func(*IncomingBlob)) {
	s.handle(b.name, topic{kind: kindBlob, open: func(in *incoming) {
		fn(&IncomingBlob{Incoming: Incoming{in}})
	}}, fn == nil)
}

// OutgoingBlob is a blob whose content the caller writes: see [Blob.Create]. One goroutine at a time may call Write and Close; any
// goroutine may call the methods of Transfer.
type OutgoingBlob struct {
	*Transfer
	pipe   *io.PipeWriter
	closed bool
}

// Write implements io.Writer.
func (o *OutgoingBlob) Write(p []byte) (int, error) {
	if o.peer.inside() {
		return 0, fmt.Errorf("%w: OutgoingBlob.Write; write on another goroutine", ErrBlocking)
	}
	if err := o.Err(); err != nil {
		return 0, err
	}
	if o.closed {
		return 0, fmt.Errorf("stream: %s: Write after Close: %w", o.header.title(), io.ErrClosedPipe)
	}
	wrote, err := o.pipe.Write(p)
	if err == io.ErrClosedPipe { // it is complete, for the receiver had all of it under its key
		return len(p), nil
	}
	return wrote, err
}

// Close marks the end of the content. It neither waits nor fails: Wait tells whether the blob has arrived. Use Cancel to give the blob
// up.
func (o *OutgoingBlob) Close() error {
	o.closed = true
	return o.pipe.Close()
}

// IncomingBlob is a blob at its receiver: an io.Reader for one goroutine at a time. Read waits for the sender, and the sender waits while
// nobody reads. Read returns the last piece only after the digest has proved to be the sender's; then io.EOF follows. Once the last piece
// was read, the sender is told that the transfer is complete. If content counts only after it was written elsewhere, use WriteTo, as
// io.Copy does: it counts a piece after writing it.
type IncomingBlob struct {
	Incoming
	held piece  // pulled from the delivery; given back once rest is empty
	rest []byte // the part of held that was not read yet
}

// Size returns the size of the blob in bytes, -1 when the sender did not know it at the start.
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
		if err := b.fetch(); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(b.rest)
		n = min(max(n, 0), len(b.rest)) // a Writer may miscount
		total += int64(n)
		b.rest = b.rest[n:]
		if err == nil && len(b.rest) > 0 {
			err = io.ErrShortWrite
		}
		if len(b.rest) == 0 {
			b.release()
		}
		if err != nil {
			return total, err
		}
	}
}

// fetch waits for the next piece, unless bytes of the last one are left.
func (b *IncomingBlob) fetch() error {
	if len(b.rest) > 0 {
		return b.in.cause()
	}
	held, err := b.in.delivery.pull(context.Background())
	if err != nil {
		return err
	}
	b.held, b.rest = held, held.block.payload()
	return nil
}

// release gives back the piece, which was read to its end.
func (b *IncomingBlob) release() {
	b.rest = nil
	b.held.block.Free()
	b.in.delivery.consumed(b.held)
}

// blobSource reads a blob.
type blobSource struct {
	r        io.Reader
	left     int64 // bytes to read; -1: until io.EOF
	throttle throttle
}

// throttle holds the reading of a source to a rate. The reader's goroutine owns it.
type throttle struct {
	rate  int                     // bytes a second; 0: any
	skips func(offset int64) bool // the receiver has the content there: it is only hashed, as fast as it comes
	due   time.Time               // when more may be read; zero before the first wait
}

// applies reports whether content at an offset is read at the rate.
func (t *throttle) applies(offset int64) bool {
	return t.rate > 0 && !t.skips(offset)
}

// limit cuts room to what may be read at once: the bytes of a twentieth of a second, at least one. So a reader that is stopped does not sleep for
// long.
func (t *throttle) limit(room []byte) []byte { return room[:min(len(room), max(1, t.rate/20))] }

// catchUp is how far a source that was late may run ahead of its rate to make up for it.
const catchUp = 250 * time.Millisecond

// wait sleeps for as long as n bytes take, less the time by which the source is late: reads that take long, and sleeps that end late on a busy
// machine, do not lower the rate.
func (t *throttle) wait(n int) {
	now := time.Now()
	if t.due.IsZero() {
		t.due = now
	} else if earliest := now.Add(-catchUp); t.due.Before(earliest) {
		t.due = earliest
	}
	t.due = t.due.Add(time.Duration(n) * time.Second / time.Duration(t.rate))
	time.Sleep(time.Until(t.due))
}

// maxEmptyReads is how many Reads in a row may return neither bytes nor an error, as in package bufio.
const maxEmptyReads = 100

func (s *blobSource) callee() string { return "Read of the source" }
func (s *blobSource) lent() bool     { return false }

func (s *blobSource) fill(b *block, _ int64) error {
	room := b.room()
	if s.left >= 0 {
		room = room[:min(int64(len(room)), s.left)]
	}
	if len(room) == 0 {
		return io.EOF
	}
	paced := s.throttle.applies(b.offset)
	if paced {
		room = s.throttle.limit(room)
	}
	for range maxEmptyReads {
		n, err := s.r.Read(room)
		if n < 0 || n > len(room) {
			return fmt.Errorf("%T read %d bytes into a buffer of %d", s.r, n, len(room))
		}
		b.buf = b.buf[:len(b.buf)+n]
		if s.left >= 0 {
			s.left -= int64(n)
		}
		if paced {
			s.throttle.wait(n)
		}
		if err = s.ended(err); n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// ended returns the error of fill after Read returned err.
func (s *blobSource) ended(err error) error {
	switch {
	case s.left == 0:
		return io.EOF
	case err == io.EOF && s.left > 0:
		return fmt.Errorf("the source ended %d bytes short of the size given to Start, which reads it from where it stands: %w", s.left, io.ErrUnexpectedEOF)
	case err != nil && err != io.EOF:
		return &concealed{public: "the sender could not read its source", cause: fmt.Errorf("reading the source: %w", err)}
	}
	return err
}
