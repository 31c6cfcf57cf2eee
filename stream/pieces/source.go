package pieces

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// A source provides the content that Send sends: the pieces, each created when
// the stream reads that far. The stream reads directly into its own memory.
type source struct {
	*Talk
	ctx         context.Context // its end ends the wait for a buffer
	fail        func(err error) // called at most once
	appendPiece func(buffer []byte, index int) ([]byte, error)

	// mu guards the fields below. Read, and what it calls, run on a goroutine
	// of the stream; end runs on that of Send.
	mu    sync.Mutex
	lacks []int // pieces that were not created yet
	// From the pool sent: holds the piece that is being read, or is reused for
	// the next one in the same Read; nil = none.
	held *[]byte
	rest []byte // the part of held that was not read yet
	err  error  // why the source has ended; io.EOF = everything was read, or end was called
}

// Read implements io.Reader. It fills p with as many pieces as fit, and ends
// early if one cannot be created. All pieces of a Read use the same buffer, so
// that no piece that was begun waits for the memory of another.
func (s *source) Read(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) && s.err == nil {
		if len(s.rest) == 0 {
			s.next()
		}
		k := copy(p[n:], s.rest)
		n, s.rest = n+k, s.rest[k:]
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
	if s.err = s.fill(s.lacks[0]); s.err != nil {
		s.fail(s.err)
	}
	s.lacks = s.lacks[1:]
}

// fill creates a piece, in a buffer that is held until the piece has been read.
func (s *source) fill(index int) (err error) {
	if s.held == nil {
		if s.held, err = s.takeBuffer(s.ctx, &sent, header); err != nil {
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
	if most := header + min(cap(piece), s.MaxPiece); most > cap(*b) {
		*b = make([]byte, header, most) // so that appendPiece needs no other memory next time
	}
	*b = append((*b)[:header], piece...) // copies nothing unless the buffer was too small
	binary.LittleEndian.PutUint32(*b, uint32(len(piece)))
	s.rest = *b
	return nil
}

// free returns the buffer to the pool. The caller holds mu.
func (s *source) free() {
	if s.held != nil {
		s.giveBuffer(&sent, s.held)
		s.held, s.rest = nil, nil
	}
}

// end ends the source: no more pieces are created. It waits for a Read in
// progress, and returns the error of appendPiece if that has failed.
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
