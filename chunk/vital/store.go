package vital

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A store holds our vital chunks until the peer acknowledges them, and knows which of them must be
// sent again. Their sequence numbers start at 1, and they don't wrap here although only their low
// 10 bits are sent.
type store struct {
	chunks recovery.Ring[unackedChunk] // by sequence
	data   ring

	sendNext   uint64 // next one to send for the first time
	resendNext uint64 // resend chunks in the range [resendNext, resendEnd)
	resendEnd  uint64 // equal to resendNext if there's nothing to resend
}

// An unackedChunk is a vital chunk that the peer hasn't acknowledged. Its data is in
// store.data.
type unackedChunk struct {
	span
	first, last time.Time // when it was first and last sent; zero if never
	resent      bool      // sent more than once
}

// newStore returns an empty store for chunks of so many bytes.
func newStore(bytes int) store {
	s := store{data: ring{limit: bytes}, sendNext: 1, resendNext: 1, resendEnd: 1}
	s.chunks.Oldest = 1
	s.chunks.Next = 1
	return s
}

// put adds a chunk, which stays until it is acknowledged.
func (s *store) put(data []byte) (span, error) {
	if s.chunks.Len() >= maxOutstanding {
		return span{}, fmt.Errorf("%w: %d vital chunks are not acknowledged", ErrStoreFull, s.chunks.Len())
	}
	at, ok := s.data.put(data)
	if !ok {
		return span{}, fmt.Errorf("%w: %d bytes in %d vital chunks are not acknowledged, "+
			"and %d more exceed Config.StoreBytes = %d",
			ErrStoreFull, s.data.used, s.chunks.Len(), len(data), s.data.limit)
	}
	last := s.chunks.Push(firstPlaces)
	*last = unackedChunk{span: at}
	return at, nil
}

// acked returns the sequence number up to which the peer has acknowledged everything.
func (s *store) acked() uint64 { return s.chunks.Oldest - 1 }

// ack frees the n oldest chunks, which the peer has acknowledged. It returns the newest of them.
func (s *store) ack(n uint64) (newest unackedChunk) {
	for range n {
		newest = s.chunks.Take()
		s.data.free(newest.span)
	}
	s.resendNext = max(s.resendNext, s.chunks.Oldest)
	s.resendEnd = max(s.resendEnd, s.resendNext)
	return newest
}

// hasUnacked reports whether a chunk was sent and is not acknowledged.
func (s *store) hasUnacked() bool { return s.chunks.Oldest < s.sendNext }

// oldest returns the oldest chunk, or nil if there is none or it hasn't been sent yet. A chunk that
// was too large for its packet counts as sent.
func (s *store) oldest() *unackedChunk {
	if s.chunks.Len() == 0 || s.chunks.At(s.chunks.Oldest).first.IsZero() {
		return nil
	}
	return s.chunks.At(s.chunks.Oldest)
}

// mustResend reports whether there are chunks to resend.
func (s *store) mustResend() bool { return s.resendNext < s.resendEnd }

// resendAll schedules every chunk that was sent and not acknowledged.
func (s *store) resendAll() { s.resendNext, s.resendEnd = s.chunks.Oldest, s.sendNext }

// markSent records that a chunk is sent now, or would be if it were not too large.
func (s *store) markSent(sequence uint64, now time.Time) {
	v := s.chunks.At(sequence)
	v.last = now
	if v.first.IsZero() {
		v.first = now
	}
}
