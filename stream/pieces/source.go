package pieces

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// A source is the content that Send sends. It creates each piece when the stream reads that
// far. The stream reads the pieces directly into its own memory.
type source struct {
	*Talk
	ctx         context.Context // ends the wait for a buffer
	fail        func(err error) // called at most once
	appendPiece func(buffer []byte, index int) ([]byte, error)

	// mu guards the fields below. Read and the methods that it calls run on a goroutine of
	// the stream. end runs on the goroutine of Send.
	mu    sync.Mutex
	lacks []int // pieces not created yet
	// held is a buffer from the pool sent. It holds the piece being read, and is reused for
	// the next piece in the same Read. nil = none.
	held *[]byte
	rest []byte // part of held not read yet
	err  error  // why the source has ended; io.EOF = everything was read, or end was called
}

// Read implements io.Reader. It fills p with as many pieces as fit, and ends early if one
// cannot be created.
//
// All pieces of a Read use the same buffer. So a piece that was begun never waits for the
// memory of another.
func (s *source) Read(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) && s.err == nil {
		if len(s.rest) == 0 {
			s.next()
		}
		k := copy(p[n:], s.rest)
		n += k
		s.rest = s.rest[k:]
	}
	if len(s.rest) == 0 {
		s.free()
	}
	if s.err != nil {
		err = io.EOF
	}
	return n, err
}

// next creates the next piece, or ends the source. The caller holds mu.
func (s *source) next() {
	if len(s.lacks) == 0 {
		s.err = io.EOF
		return
	}
	s.err = s.fill(s.lacks[0])
	if s.err != nil {
		s.fail(s.err)
	}
	s.lacks = s.lacks[1:]
}

// fill creates a piece in held, which stays in use until the piece was read.
func (s *source) fill(index int) (err error) {
	if s.held == nil {
		s.held, err = s.takeBuffer(s.ctx, &sent, header)
		if err != nil {
			return err
		}
	}
	b := s.held
	piece, err := s.appendPiece((*b)[header:header], index)
	if err != nil {
		return fmt.Errorf("pieces: piece %d: %w", index, err)
	}
	if len(piece) > s.MaxPiece {
		return fmt.Errorf("pieces: piece %d has %d bytes, MaxPiece is %d", index, len(piece), s.MaxPiece)
	}
	// If the buffer was too small, enlarge it, so that appendPiece needs no other memory
	// next time. Otherwise the append below copies nothing.
	needed := header + min(cap(piece), s.MaxPiece)
	if needed > cap(*b) {
		*b = make([]byte, header, needed)
	}
	*b = append((*b)[:header], piece...)
	binary.LittleEndian.PutUint32(*b, uint32(len(piece)))
	s.rest = *b
	return nil
}

// free returns the buffer to the pool. The caller holds mu.
func (s *source) free() {
	if s.held != nil {
		s.giveBuffer(&sent, s.held)
		s.held = nil
		s.rest = nil
	}
}

// end ends the source: it creates no more pieces. It waits for a Read in progress, and
// returns the error of appendPiece if that failed.
func (s *source) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free()
	if s.err == nil || s.err == io.EOF {
		s.err = io.EOF
		return nil
	}
	return s.err
}
