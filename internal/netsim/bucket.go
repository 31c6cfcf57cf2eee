package netsim

import "time"

// bucket is a token-bucket policer: it drops a packet for which it has too few
// tokens, and delays none.
type bucket struct {
	rate   int64     // bit/s
	size   float64   // bytes
	tokens float64   // bytes
	at     time.Time // when tokens was updated; zero = never
}

// take reports whether the policer passes a packet, and takes its tokens if so.
func (b *bucket) take(now time.Time, bytes int) bool {
	if !b.at.IsZero() {
		b.tokens = min(b.tokens+now.Sub(b.at).Seconds()*float64(b.rate)/8, b.size)
	}
	b.at = now
	if b.tokens < float64(bytes) {
		return false
	}
	b.tokens -= float64(bytes)
	return true
}
