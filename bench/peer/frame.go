package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// maxFrame is the most bytes of a message over a stream.
const maxFrame = 1 << 20

// AppendFrame appends a message with its length.
func AppendFrame(b, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(message))), message...)
}

// WriteFrame writes a message with its length.
func WriteFrame(w io.Writer, message []byte) error {
	_, err := w.Write(AppendFrame(make([]byte, 0, 4+len(message)), message))
	return err
}

// ReadFrame reads what WriteFrame has written, into buf if that has room.
func ReadFrame(r io.Reader, buf []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > maxFrame {
		return nil, fmt.Errorf("peer: a frame of %d bytes, the limit is %d", n, maxFrame)
	}
	if n > cap(buf) {
		buf = make([]byte, n)
	}
	_, err := io.ReadFull(r, buf[:n])
	return buf[:n], err
}

// Frames calls fn with every message until the reader ends. The bytes are valid during the call.
func Frames(r io.Reader, fn func(message []byte)) error {
	in := buffered(r)
	var buf []byte
	for {
		m, err := ReadFrame(in, buf)
		if err != nil {
			return err
		}
		buf = m
		fn(m)
	}
}

// Echo answers every message with itself, and flushes when it has read all that has arrived.
func Echo(rw io.ReadWriter) error {
	in, out := buffered(rw), newWriter(rw)
	var buf []byte
	for {
		m, err := ReadFrame(in, buf)
		if err != nil {
			return err
		}
		buf = m
		if err := WriteFrame(out, m); err != nil {
			return err
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

// A Calls multiplexes calls over one stream whose other end runs Echo, so answers arrive in order.
type Calls struct {
	mu      sync.Mutex
	w       io.Writer
	waiting []chan error
	err     error
}

// NewCalls starts the reader of answers, which ends with the stream.
func NewCalls(rw io.ReadWriter) *Calls {
	c := &Calls{w: rw}
	go c.read(rw)
	return c
}

func (c *Calls) read(r io.Reader) {
	err := Frames(r, func([]byte) {
		c.mu.Lock()
		done := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
		done <- nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, done := range c.waiting {
		done <- err
	}
}

// Call sends one message and waits for its answer.
func (c *Calls) Call(ctx context.Context, argument []byte) error {
	done := make(chan error, 1)
	if err := c.send(argument, done); err != nil {
		return err
	}
	return await(ctx, done)
}

func (c *Calls) send(argument []byte, done chan error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.waiting = append(c.waiting, done)
	return WriteFrame(c.w, argument)
}
