package netsim

import (
	"net"
	"time"
)

// arrival is a packet on its way.
type arrival struct {
	at     time.Time
	order  uint64 // orders packets that arrive at the same time: the one sent first comes first
	packet []byte
	addr   *net.UDPAddr // see Link.send
}

func (a *arrival) before(b *arrival) bool {
	if a.at.Equal(b.at) {
		return a.order < b.order
	}
	return a.at.Before(b.at)
}

// arrivals is a binary heap, earliest on top.
type arrivals []arrival

func (h *arrivals) push(a arrival) {
	*h = append(*h, a)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s[i].before(&s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

func (h *arrivals) pop() arrival {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = arrival{}
	s = s[:last]
	*h = s
	s.sink()
	return top
}

// sink restores the order after the top was replaced.
func (h arrivals) sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
