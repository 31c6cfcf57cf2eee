package pieces

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// A source is the content of the blob that Send sends: the missing pieces, one after another,
// each preceded by its size.
//
// It creates a piece only when the stream has read everything before it, and Read copies the
// piece straight into the stream's memory. Read and the functions that it calls run on a
// goroutine of the stream. end runs on the goroutine of Send.
type source struct {
	*Talk
	ctx         context.Context // ends the wait for a buffer
	fail        func(err error) // cancels ctx; called at most once
	appendPiece func(buffer []byte, index int) ([]byte, error)

	// mu guards the fields below.
	mu      sync.Mutex
	missing []int   // indices of the pieces not created yet
	buffer  *[]byte // holds the current piece; from the pool sentBuffers, or nil
	rest    []byte  // what is left to read of the buffer
	err     error   // why there are no more pieces; io.EOF after the last one or after end
}

// Read implements io.Reader. It fills p with as many pieces as fit, and stops early if a piece
// cannot be created.
//
// All pieces of a Read use the same buffer, so a piece that has begun never waits for the memory
// of another piece.
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

// next creates the next piece, or ends the source if there are no more. The caller holds mu.
func (s *source) next() {
	if len(s.missing) == 0 {
		s.err = io.EOF
		return
	}
	s.err = s.fill(s.missing[0])
	if s.err != nil {
		s.fail(s.err)
	}
	s.missing = s.missing[1:]
}

// fill creates a piece in the buffer, which stays in use until the piece has been read.
func (s *source) fill(index int) (err error) {
	if s.buffer == nil {
		s.buffer, err = s.takeBuffer(s.ctx, &sentBuffers, headerBytes)
		if err != nil {
			return err
		}
	}

	// Leave room for the size in front of the piece.
	b := s.buffer
	piece, err := s.appendPiece((*b)[headerBytes:headerBytes], index)
	if err != nil {
		return fmt.Errorf("pieces: piece %d: %w", index, err)
	}
	if len(piece) > s.MaxPiece {
		return fmt.Errorf("pieces: piece %d has %d bytes; the limit is %d (MaxPiece)", index, len(piece), s.MaxPiece)
	}

	// If the buffer was too small, appendPiece has allocated another one. Enlarge ours, so that
	// this happens only once. If it was large enough, the piece is in place already, and the
	// append below copies it onto itself.
	needed := headerBytes + min(cap(piece), s.MaxPiece)
	if needed > cap(*b) {
		*b = make([]byte, headerBytes, needed)
	}
	*b = append((*b)[:headerBytes], piece...)
	binary.LittleEndian.PutUint32(*b, uint32(len(piece)))
	s.rest = *b
	return nil
}

// free returns the buffer to the pool. The caller holds mu.
func (s *source) free() {
	if s.buffer != nil {
		s.giveBuffer(&sentBuffers, s.buffer)
		s.buffer = nil
		s.rest = nil
	}
}

// end ends the source, so that it creates no more pieces. It waits for a Read in progress, and
// returns the error of appendPiece if that has failed.
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
