package peer

import (
	"context"
	"encoding/binary"
	"io"
	"sync"
)

// The kinds of frames on a Line.
const (
	lineBlob byte = iota
	lineTalk
	lineCall
	lineAnswer
)

// linePiece is the size of the pieces of a blob, between which messages can be sent.
const linePiece = 16 << 10

// A Line sends blobs, messages and calls over one reliable byte stream, as users of a transport
// with a single stream do. It cuts blobs into pieces, between which it sends messages and calls.
type Line struct {
	client, server *lineEnd
	calls          *Calls
	Inlet
}

// NewLine starts a reader at each end; the readers end with the streams.
func NewLine(client, server io.ReadWriter) *Line {
	l := &Line{client: &lineEnd{w: client}, server: &lineEnd{w: server}}
	answers, feed := io.Pipe()
	l.calls = NewCalls(struct {
		io.Reader
		io.Writer
	}{answers, callWriter{l.client}})
	go func() { _ = Frames(server, l.atServer) }()
	go func() {
		feed.CloseWithError(Frames(client, func(m []byte) { _ = WriteFrame(feed, m[1:]) }))
	}()
	return l
}

// A lineEnd is the writer of one end.
type lineEnd struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

func (e *lineEnd) send(kind byte, message []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buf = binary.BigEndian.AppendUint32(e.buf[:0], uint32(1+len(message)))
	e.buf = append(append(e.buf, kind), message...)
	_, err := e.w.Write(e.buf)
	return err
}

// A callWriter turns the frames of Calls into those of a Line.
type callWriter struct{ end *lineEnd }

func (c callWriter) Write(frame []byte) (int, error) {
	return len(frame), c.end.send(lineCall, frame[4:])
}

func (l *Line) atServer(m []byte) {
	switch kind, m := m[0], m[1:]; kind {
	case lineTalk:
		l.Heard(m)
	case lineCall:
		_ = l.server.send(lineAnswer, m)
	case lineBlob:
		l.Take(m)
	}
}

// Move implements Mover.
func (l *Line) Move(ctx context.Context, blob []byte) error {
	return l.Inlet.Move(ctx, blob, linePiece, func(piece []byte) error { return l.client.send(lineBlob, piece) })
}

// Say implements Talker.
func (l *Line) Say(message []byte) error { return l.client.send(lineTalk, message) }

// Call implements Caller.
func (l *Line) Call(ctx context.Context, argument []byte) error { return l.calls.Call(ctx, argument) }
