package netsim

import "time"

// bucket is a token-bucket policer: what exceeds the rate for longer than the bucket lasts is dropped, and nothing waits.
type bucket struct {
	rate   int64   // bit/s
	size   float64 // bytes
	tokens float64 // bytes
	at     time.Time
}

// take reports whether the policer lets so many bytes pass.
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
