package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/quivernet/quiver/internal/wire"
	"github.com/quivernet/quiver/internal/words"
)

// Limits on the fields of a message.
const (
	maxTopicBytes  = 64        // the name of a topic
	maxNameBytes   = 255       // the Name of a transfer
	maxKeyBytes    = 128       // the Key of a transfer; a SHA-512 in hex fits
	maxSize        = 1<<62 - 1 // bytes of a blob; a header encodes size+1, or 0 if unknown
	maxReasonBytes = 256       // the reason in a stop; the same limit as for a connection's close
	maxIncoming    = 1024      // transfers that a peer may accept at once (Config.MaxTransfers)
	maxHashes      = 16        // algorithms that a peer may announce
	maxSumBytes    = 64        // a digest by any algorithm, known or not; a SHA-512 fits

	// maxLanes is the maximum number of lanes per connection. Half of the buffers of 32 lanes
	// is 4.5 MB, about as much as the receive limit of 4 MiB and bunch's history of 4,096 packets
	// allow in flight.
	maxLanes = 32
)

const (
	// earlyBytes is the number of bytes that may be sent before headers are answered, unless
	// Config.MaxPending is lower. It's the bandwidth-delay product of 84 Mbit/s and 100 ms.
	earlyBytes = 1 << 20
	// earlyKeyedBytes is the part of earlyBytes that a transfer with a key may use. It's small
	// because the receiver may already have the content, and offering it should cost little.
	earlyKeyedBytes = 4 << 10
)

// Messages of the control pipe. The sender of a transfer chooses its id, and the ids of the two
// directions are independent.
//
// Parsing is strict: a length above its limit, an offset above 2^62, or bytes after the last
// field are errors, for which package rpc closes the connection.
type (
	// limits announces what this end accepts. It's the first message in each direction. A
	// client sends it again to ask for lanes.
	limits struct {
		transfers int         // incoming transfers at once
		lanes     int         // lanes that a client wants, or that a server keeps open
		early     int         // bytes that all transfers may send before we answer their headers
		hashes    []Algorithm // known to this end, the preferred one first
	}
	// header opens a transfer. Ids begin at 1 and increase by one.
	header struct {
		id    uint64
		kind  kind
		topic string
		name  string
		key   string
		hash  Algorithm
		parts uint8  // reserved for digests of single parts; always 0
		size  int64  // bytes of a blob; -1 = unknown
		count int64  // elements of an array
		shape uint64 // of the array's element type
	}
	// accept answers a header. It says how much of the content the receiver has stored, so that
	// the sender continues at byte offset, where element index begins if it's an array.
	accept struct {
		id     uint64
		offset int64
		index  int64
		limit  int64 // as in grant
		hasAll bool  // the receiver has stored all of the content, so nothing needs to be sent
	}
	// grant gives the sender credit. The sender may send content below limit, which never
	// decreases.
	grant struct {
		id    uint64
		limit int64
		acked int64 // bytes or elements that the application has consumed
	}
	// end follows the last content of a transfer, with the content's size and digest.
	end struct {
		id    uint64
		size  int64 // bytes
		count int64 // elements
		sum   []byte
	}
	// stop says why a transfer ends early. A stop from the sender is called Cancel, which the
	// receiver answers with Reject or Done. A stop from the receiver is called Reject, and is the
	// last message about its id, whether or not it answers a Cancel.
	stop struct {
		id     uint64
		code   stopCode
		reason string
	}
	// done says that the digest is right and that the application has consumed all content.
	// It's the last message about its id.
	done struct {
		id uint64
	}
)

// progress returns what Progress counts: the bytes of a blob, or the elements of an array.
func (h *header) progress(bytes, elements int64) int64 {
	if h.kind == kindArray {
		return elements
	}
	return bytes
}

// total returns Progress.Total, or -1 if the header doesn't contain it.
func (h *header) total() int64 { return h.progress(h.size, h.count) }

// early returns the number of bytes that may be sent before the header is answered. It's 0 for an
// array with a key, because the first part must begin at the element that the answer names.
func (h *header) early() int64 {
	switch {
	case h.key == "":
		return earlyBytes
	case h.kind == kindArray:
		return 0
	}
	return earlyKeyedBytes
}

// keyDigest returns the digest whose text is the key of a blob, or the zero Digest if the key
// isn't the text of a digest. The key of an array never counts as the digest of its encoding.
func (h *header) keyDigest() Digest {
	if h.kind != kindBlob {
		return Digest{}
	}
	d, _ := ParseDigest(h.key)
	return d
}

// String returns the kind and the topic.
func (h *header) String() string { return fmt.Sprintf("%v %q", h.kind, h.topic) }

// describe names a function of the game that runs for the transfer, for rpc.Config.OnPanic and
// the log.
func (h *header) describe(function string) string { return h.title() + ": " + function }

// title returns String and, if the sender gave one, the transfer's name.
func (h *header) title() string {
	if h.name == "" {
		return h.String()
	}
	return fmt.Sprintf("%v named %q", h, h.name)
}

// units names what Progress counts, for errors.
func (h *header) units() string {
	if h.kind == kindArray {
		return "elements"
	}
	return "bytes"
}

// writerCallbacks names the functions of the game that the receiver's writer calls, for the error
// after one of them panicked. It can't tell which.
func (h *header) writerCallbacks() string {
	if h.kind == kindArray {
		return "Store, or decoding of an element"
	}
	return "Store"
}

// A stopCode says in a stop message why the transfer ended early. See stopKinds.
type stopCode uint8

const (
	stopCanceled stopCode = 1 + iota
	stopRejected
	stopTooLarge
	stopDigest
	stopPanicked
	stopFields
	stopCodes // one more than the last code
)

// A kind is blob or array. The values are part of the wire format.
type kind uint8

const (
	kindBlob kind = 1 + iota
	kindArray
)

func (k kind) String() string {
	if k == kindArray {
		return "array"
	}
	return "blob"
}

// errMalformed is wrapped by the errors for messages that can't be parsed.
var errMalformed = errors.New("malformed message")

// AppendBinary implements encoding.BinaryAppender, as do the AppendBinary methods below. They
// never fail.
func (m limits) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(m.transfers))
	b = binary.AppendUvarint(b, uint64(m.lanes))
	b = binary.AppendUvarint(b, uint64(m.early))
	b = binary.AppendUvarint(b, uint64(len(m.hashes)))
	for _, a := range m.hashes {
		b = append(b, byte(a))
	}
	return b, nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler, as do the UnmarshalBinary methods
// below.
func (m *limits) UnmarshalBinary(b []byte) error {
	p := parse(b)
	m.transfers = int(p.Uvarint(maxIncoming))
	m.lanes = int(p.Uvarint(maxLanes))
	m.early = int(p.Uvarint(earlyBytes))
	m.hashes = nil
	for _, code := range p.Bytes(maxHashes) {
		m.hashes = append(m.hashes, Algorithm(code))
	}
	return p.end("limits")
}

// AppendBinary appends count and shape only for an array, and the size only for a blob. The
// size is encoded as size+1, so that an unknown size (-1) takes a single byte.
func (h header) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, h.id)
	b = append(b, byte(h.kind))
	b = wire.AppendBytes(b, h.topic)
	b = wire.AppendBytes(b, h.name)
	b = wire.AppendBytes(b, h.key)
	b = append(b, byte(h.hash), h.parts)
	if h.kind == kindArray {
		b = binary.AppendUvarint(b, uint64(h.count))
		return binary.BigEndian.AppendUint64(b, h.shape), nil
	}
	return binary.AppendUvarint(b, uint64(h.size+1)), nil
}

func (h *header) UnmarshalBinary(b []byte) error {
	p := parse(b)
	h.id = p.id()
	h.kind = kind(p.Byte())
	h.topic = p.text(maxTopicBytes)
	h.name = p.text(maxNameBytes)
	h.key = p.text(maxKeyBytes)
	h.hash = Algorithm(p.Byte())
	if h.hash == 0 || h.hash == NoDigest && h.key != "" { // stored content needs a digest
		p.Fail(fmt.Errorf("invalid algorithm %d with a key of %d bytes", h.hash, len(h.key)))
	}
	h.parts = p.Byte()
	h.size = -1
	switch h.kind {
	case kindArray:
		h.count = p.offset()
		h.shape = p.Uint64()
	case kindBlob:
		h.size = p.offset() - 1
	default:
		p.Fail(fmt.Errorf("unknown kind %d", h.kind))
	}
	return p.end("header")
}

func (m accept) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, m.id)
	b = wire.AppendFlag(b, m.hasAll)
	b = binary.AppendUvarint(b, uint64(m.offset))
	b = binary.AppendUvarint(b, uint64(m.index))
	return binary.AppendUvarint(b, uint64(m.limit)), nil
}

func (m *accept) UnmarshalBinary(b []byte) error {
	p := parse(b)
	m.id = p.id()
	m.hasAll = p.Flag()
	m.offset = p.offset()
	m.index = p.offset()
	m.limit = p.offset()
	return p.end("accept")
}

func (m grant) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, m.id)
	b = binary.AppendUvarint(b, uint64(m.limit))
	return binary.AppendUvarint(b, uint64(m.acked)), nil
}

func (m *grant) UnmarshalBinary(b []byte) error {
	p := parse(b)
	m.id = p.id()
	m.limit = p.offset()
	m.acked = p.offset()
	return p.end("grant")
}

func (m end) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, m.id)
	b = binary.AppendUvarint(b, uint64(m.size))
	b = binary.AppendUvarint(b, uint64(m.count))
	return wire.AppendBytes(b, m.sum), nil
}

func (m *end) UnmarshalBinary(b []byte) error {
	p := parse(b)
	m.id = p.id()
	m.size = p.offset()
	m.count = p.offset()
	m.sum = append([]byte{}, p.Bytes(maxSumBytes)...)
	return p.end("end")
}

func (m stop) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, m.id)
	b = append(b, byte(m.code))
	return wire.AppendBytes(b, words.Cut(m.reason, maxReasonBytes)), nil
}

func (m *stop) UnmarshalBinary(b []byte) error {
	p := parse(b)
	m.id = p.id()
	m.code = stopCode(p.Byte())
	if m.code == 0 || m.code >= stopCodes {
		p.Fail(fmt.Errorf("unknown code %d", m.code))
	}
	m.reason = p.text(maxReasonBytes)
	return p.end("stop")
}

func (m done) AppendBinary(b []byte) ([]byte, error) { return binary.AppendUvarint(b, m.id), nil }

func (m *done) UnmarshalBinary(b []byte) error {
	p := parse(b)
	m.id = p.id()
	return p.end("done")
}

// # Parsing

// A parser reads the fields of a message. It adds methods for the fields that these messages have
// in common to those of wire.Reader. Like wire.Reader, it keeps the first error for end to return.
type parser struct{ wire.Reader }

func parse(b []byte) parser { return parser{wire.Reader{Left: b}} }

// id reads the id of a transfer.
func (p *parser) id() uint64 { return p.Positive(math.MaxInt64, "ids begin at 1") }

// offset reads an offset, count or limit. The value is at most 2^62, so that the sum of two
// such values can't overflow.
func (p *parser) offset() int64 { return int64(p.Uvarint(maxSize + 1)) }

// text reads a length of at most limit, followed by a string of that many bytes.
func (p *parser) text(limit uint64) string { return string(p.Bytes(limit)) }

// end returns an error if a field was malformed or if bytes are left over. message names the
// message.
func (p *parser) end(message string) error {
	if err := p.End(); err != nil {
		return fmt.Errorf("%w: %s: %w", errMalformed, message, err)
	}
	return nil
}
