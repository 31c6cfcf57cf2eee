package peer

import (
	"bytes"
	"fmt"
	"io"
)

// A Sink is a writer that compares what arrives with what was sent.
type Sink struct {
	want []byte
	got  int
}

func NewSink(want []byte) *Sink { return &Sink{want: want} }

// Write returns an error if p differs from what was sent.
func (s *Sink) Write(p []byte) (int, error) {
	if rest := s.want[s.got:]; len(p) > len(rest) || !bytes.Equal(p, rest[:len(p)]) {
		return 0, fmt.Errorf("peer: %d bytes at offset %d differ from those that were sent", len(p), s.got)
	}
	s.got += len(p)
	return len(p), nil
}

// Full reports whether everything has arrived.
func (s *Sink) Full() bool { return s.got == len(s.want) }

// pieceBytes is how much peers with a stream write and read at a time.
const pieceBytes = 32 << 10

// Drain reads the whole blob. If the reader has no end, Drain returns after the last byte.
func (s *Sink) Drain(r io.Reader) error {
	buf := make([]byte, pieceBytes)
	for !s.Full() {
		n, err := r.Read(buf)
		if _, bad := s.Write(buf[:n]); bad != nil {
			return bad
		}
		if err != nil && !s.Full() {
			return fmt.Errorf("peer: got %d of %d bytes: %w", s.got, len(s.want), err)
		}
	}
	return nil
}

// Pour writes a blob in pieces.
func Pour(w io.Writer, blob []byte) error {
	for len(blob) > 0 {
		n := min(len(blob), pieceBytes)
		if _, err := w.Write(blob[:n]); err != nil {
			return err
		}
		blob = blob[n:]
	}
	return nil
}
