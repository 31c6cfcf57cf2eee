package vital

import (
	"errors"
	"fmt"
)

var (
	// ErrMalformed means that no correct sender sends such a packet. The errors
	// that wrap it say why.
	ErrMalformed = errors.New("vital: malformed packet")
	// ErrConnless means that a packet belongs to no connection (see ParseConnless).
	ErrConnless = errors.New("vital: packet without a connection")

	// ErrChunkSize means that a chunk does not fit into a packet.
	ErrChunkSize = errors.New("vital: chunk size")
	// ErrStoreFull means that too many vital chunks are unacknowledged. The
	// chunk was not queued.
	ErrStoreFull = errors.New("vital: resend store is full")
	// ErrQueueFull means that too many chunks are queued. The chunk was not queued.
	ErrQueueFull = errors.New("vital: send queue is full")

	// ErrTimeout means that the connection ended because nothing was received
	// for Config.Timeout.
	ErrTimeout = errors.New("vital: nothing received within Config.Timeout")
	// ErrNotAcked means that the connection ended because vital chunks were outstanding and
	// the peer acknowledged none for Config.Timeout.
	ErrNotAcked = errors.New("vital: no vital chunk acknowledged within Config.Timeout")
)

var (
	errHeader   = fmt.Errorf("%w: ends within a chunk's header", ErrMalformed)
	errData     = fmt.Errorf("%w: ends within a chunk's data", ErrMalformed)
	errCopies   = fmt.Errorf("%w: a chunk's header whose unused or doubled bits are wrong", ErrMalformed)
	errPacket   = fmt.Errorf("%w: ends within the packet's header", ErrMalformed)
	errLong     = fmt.Errorf("%w: over 1,400 bytes", ErrMalformed)
	errReserved = fmt.Errorf("%w: reserved bits in the packet's flags", ErrMalformed)
	errControl  = fmt.Errorf("%w: control packet with chunks or without a message", ErrMalformed)
	errTrailing = fmt.Errorf("%w: bytes after the last chunk", ErrMalformed)
	errCode     = fmt.Errorf("%w: a Huffman code without an end", ErrMalformed)
	errPad      = fmt.Errorf("%w: bytes after the end of a Huffman code", ErrMalformed)
	errInflated = fmt.Errorf("%w: more in a Huffman code than a packet holds", ErrMalformed)
	errNoToken  = fmt.Errorf("%w: ends within the token", ErrMalformed)
	errMessage  = fmt.Errorf("%w: message id", ErrMalformed)
)

// errToken means that a packet has the wrong token. A Conn drops such a packet.
var errToken = errors.New("vital: wrong token")

// A CloseError means that one side closed the connection.
type CloseError struct {
	Reason string
	Remote bool // closed by the peer
}

func (e *CloseError) Error() string {
	who := "here"
	if e.Remote {
		who = "by the peer"
	}
	if e.Reason == "" {
		return "vital: connection closed " + who
	}
	return fmt.Sprintf("vital: connection closed %s: %q", who, e.Reason)
}
