package netsim

import "time"

// A bucket is a token-bucket policer. It drops a packet if there are too few tokens for it, and
// never delays one.
type bucket struct {
	rate   int64     // bit/s
	size   float64   // bytes
	tokens float64   // bytes
	at     time.Time // when tokens was last updated; zero if it wasn't yet
}

// admit takes the tokens for a packet out of the bucket. If there are too few, it returns false,
// and the packet must be dropped.
func (b *bucket) admit(now time.Time, bytes int) bool {
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
