package sealed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

const ms = time.Millisecond

// export is an exporter like that of a TLS connection with a secret.
func export(secret string) Exporter {
	return func(label string, context []byte, length int) ([]byte, error) {
		h := hmac.New(sha256.New, []byte(secret))
		h.Write([]byte(label))
		h.Write(context)
		return h.Sum(nil)[:length], nil
	}
}

// pieces is a source that moves numbered pieces of a size reliably, and takes those of the peer.
type pieces struct {
	size  int
	total int // to send

	next   int
	again  []int
	acked  []bool
	ackedN int
	open   map[uint64]int // times that a token is neither acked nor lost
	faults []string

	got       map[int]int // how often a piece arrived
	doneAt    time.Time
	want      int
	bad       int
	hold      bool // nothing to send
	refuseTil time.Time
}

func newPieces(size, total, want int) *pieces {
	return &pieces{size: size, total: total, want: want, acked: make([]bool, total), open: make(map[uint64]int), got: make(map[int]int)}
}

func (p *pieces) AppendPayload(now time.Time, buf []byte, room Room) ([]byte, uint64, Content, bool) {
	for len(p.again) > 0 && p.acked[p.again[0]] {
		p.again = p.again[1:]
	}
	if room.Max < p.size || !room.Bulk || p.hold || now.Before(p.refuseTil) {
		return buf, 0, Content{}, false
	}
	var n int
	switch {
	case len(p.again) > 0:
		n, p.again = p.again[0], p.again[1:]
	case p.next < p.total:
		n = p.next
		p.next++
	default:
		return buf, 0, Content{}, false
	}
	p.open[uint64(n)]++
	return appendPiece(buf, n, p.size), uint64(n), Content{Bulk: true}, true
}

func appendPiece(b []byte, n, size int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	for i := 4; i < size; i++ {
		b = append(b, byte(n+i))
	}
	return b
}

func (p *pieces) Acked(_ time.Time, token uint64) {
	if !p.acked[token] {
		p.acked[token] = true
		p.ackedN++
	}
}

func (p *pieces) Lost(_ time.Time, token uint64) {
	if p.open[token]--; p.open[token] < 0 {
		p.faults = append(p.faults, "lost twice")
	}
	if !p.acked[token] {
		p.again = append(p.again, int(token))
	}
}

func (p *pieces) Receive(now time.Time, b []byte) {
	n := int(binary.BigEndian.Uint32(b))
	if string(b) != string(appendPiece(nil, n, len(b))) {
		p.bad++
	}
	p.got[n]++
	if len(p.got) == p.want && p.doneAt.IsZero() {
		p.doneAt = now
	}
}

func (p *pieces) Waiting() int { return 0 }

func (p *pieces) Moved(time.Time) {}

func (p *pieces) Advance(now time.Time) {
	if !p.refuseTil.IsZero() && !now.Before(p.refuseTil) {
		p.refuseTil = time.Time{}
	}
}

func (p *pieces) NextTimeout() (time.Time, bool) { return p.refuseTil, !p.refuseTil.IsZero() }

func (p *pieces) delivered() bool { return p.ackedN == p.total }
