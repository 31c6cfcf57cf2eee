package stream

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

const (
	// mostAckBytes is what a packet with an ack takes, with the byte before it.
	mostAckBytes = 1 + chunk.Overhead + chunk.MaxSlices/8
	// ackToken plus its chunk's id stands for an ack, otherToken for what is of no interest; all others are numbers of slices.
	ackToken   = 1 << 63
	otherToken = 1 << 62
)

// sealedSource is a [sealedLink] as its sealed carrier sees it, an rpc.RawSource.
type sealedSource struct{ link *sealedLink }

// work runs fn with the machine in hand, and wakes the world if that brought news.
func (s sealedSource) work(fn func(l *sealedLink)) {
	l := s.link
	l.mu.Lock()
	fn(l)
	wake := l.sliceLink.Wake()
	l.mu.Unlock()
	if wake {
		l.wake()
	}
}

// AppendPayload appends the packet of an ack or a slice. Both take the same bytes over QUIC, so that chunks can move.
func (s sealedSource) AppendPayload(now time.Time, buf []byte, most int) (b []byte, token uint64, ok bool) {
	s.work(func(l *sealedLink) { b, token, ok = l.appendPayload(now, buf, most) })
	return b, token, ok
}

func (l *sealedLink) appendPayload(now time.Time, buf []byte, most int) (b []byte, token uint64, ok bool) {
	if most < mostAckBytes {
		return buf, 0, false
	}
	if !l.sealed {
		return buf, 0, false
	}
	if a, ok := l.inbox.next(now); ok {
		l.ackDue = false
		return l.format.AppendAck(append(buf, sealedProtocol), a), ackToken + uint64(a.ChunkID), true
	}
	if most < sliceDatagram {
		return buf, 0, false
	}
	slice, token, ok := l.next(now)
	if !ok {
		return l.appendRepair(buf)
	}
	l.sealedRate = l.path.Rate()
	l.active, l.moved = now, now
	l.count++
	l.checkWatch()
	return l.format.AppendSlice(append(buf, sealedProtocol), slice), token, true
}

// appendRepair appends a repair slice, when the end of what is to be sent has left.
func (l *sealedLink) appendRepair(buf []byte) (b []byte, token uint64, ok bool) {
	if !l.tail {
		return buf, 0, false
	}
	r, ok := l.repairs.take(&l.slicer, l.path.Loss())
	if !ok {
		return buf, 0, false
	}
	l.repairs.sent++
	return r.append(buf), otherToken, true
}

// Acked says that a packet arrived. That its slice is kept, the ack of its chunk will say.
func (s sealedSource) Acked(now time.Time, token uint64) {
	s.work(func(l *sealedLink) {
		l.repairs.loss.note()
		if token < otherToken {
			l.moved = now
			l.arrive(token)
		}
	})
}

// Lost has a slice leave again, and all that was acked lately be acked again.
func (s sealedSource) Lost(_ time.Time, token uint64) {
	s.work(func(l *sealedLink) {
		l.repairs.loss.note()
		switch {
		case token >= ackToken:
			l.inbox.again(uint16(token))
		case token < otherToken:
			l.lose(token)
		}
	})
}

// Receive takes a packet.
func (s sealedSource) Receive(now time.Time, payload []byte) {
	s.work(func(l *sealedLink) {
		if len(payload) == 0 {
			l.inbox.malformed++
			return
		}
		if payload[0] == repairProtocol {
			l.receiveRepair(now, payload)
			return
		}
		_ = l.sliceMachine.Receive(now, payload) // it never fails
	})
}

func (l *sealedLink) receiveRepair(now time.Time, payload []byte) {
	r, err := parseRepair(payload)
	if err != nil {
		l.inbox.malformed++
		return
	}
	l.sliceMachine.wake = l.mender.add(now, r, &l.inbox) || l.sliceMachine.wake
}

// Advance gives up what left over QUIC before the sealed carrier opened, and has not arrived, and what was not kept.
func (s sealedSource) Advance(now time.Time) {
	s.work(func(l *sealedLink) {
		l.ackDue = l.inbox.asking > 0 && !now.Before(l.inbox.deadline)
		if l.stale > 0 && !now.Before(l.until) {
			for n := l.flight.oldest; n < l.stale; n++ {
				l.lose(n)
			}
			l.stale = 0
		}
		l.checkKept(now)
	})
}

// Waiting returns how many bytes of parts were never sent.
func (s sealedSource) Waiting() (bytes int) {
	s.work(func(l *sealedLink) { bytes = l.unsent })
	return bytes
}

// NextTimeout returns when Advance or AppendPayload is to be called again.
func (s sealedSource) NextTimeout() (next time.Time, any bool) {
	l := s.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sealed {
		return time.Time{}, false
	}
	var first earliest
	first.of(l.inbox.deadline, l.inbox.asking > 0 && !l.ackDue)
	first.of(l.until, l.stale > 0)
	first.of(l.againAt())
	return first.at, first.any
}
