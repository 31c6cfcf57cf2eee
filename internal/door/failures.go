package door

import (
	"crypto/rand"
	"crypto/sha256"
	"net/netip"
	"time"
)

const (
	// failureMemory is the time for which we remember an address after its last failed login.
	failureMemory = 10 * time.Minute

	// firstPause is the pause of an address that has used up its free failures. Each further
	// failure doubles the pause.
	firstPause = 250 * time.Millisecond

	// maxPause is the longest pause, which leaves an address 360 guesses per hour. It is also the
	// longest that a player with a new token must wait after somebody at the same address was
	// guessing tokens.
	maxPause = 10 * time.Second

	maxFailures   = 4096 // addresses, at 64 bytes each
	maxGoodTokens = 4096 // digests of correct tokens, at 16 bytes and a map entry each
)

// Failures is a rate limiter for failed logins, which makes guessing tokens slow. It follows these
// rules:
//
//   - An address has some free failures (rpc.Config.MaxLoginFailures). When they are used up,
//     Authenticate is called for only one login of the address at a time, and each failure is
//     followed by a pause, which is twice as long as the one before, up to maxPause. Logins
//     during a pause are refused without calling Authenticate, and don't extend the pause.
//   - Authenticate never runs for more logins of an address at once than the address has free
//     failures left, and other logins wait. So there is nothing to gain from guessing many tokens
//     at once, and when many clients share an address, they join a few at a time.
//   - A wrong token counts even if the client didn't wait for the answer. A correct token is
//     remembered only if the client waited.
//   - A login that succeeds doesn't take any failures back. Otherwise somebody with a valid
//     token could log in to get free guesses.
//   - Authenticate is always called for a token that was correct before, so that a returning
//     player can't be locked out by a neighbor with the same address. This is no help to somebody
//     who is guessing, because a guesser doesn't know the token.
//   - Only addresses with failures are remembered, so guesses from many addresses cost honest
//     players nothing. The table is bounded as in the Space-Saving algorithm (Metwally, Agrawal,
//     El Abbadi 2005): a new address replaces the one with the fewest failures, and inherits its
//     count, so no address can get rid of failures by being replaced and coming back.
type Failures struct {
	free    int // number of failures without a pause; negative if there's never a pause
	entries []failure
	index   map[netip.Prefix]int // index of each address in entries
	good    goodTokens
}

// A failure is the entry for an address with failed logins.
type failure struct {
	from     netip.Prefix
	count    int
	last     time.Time // when the last login failed
	pauseEnd time.Time // end of the pause
}

// NewFailures returns Failures without entries. free is the number of failed logins that an
// address may have before they cause a pause. If it's negative, they never do.
func NewFailures(free int) *Failures {
	return &Failures{free: free, index: make(map[netip.Prefix]int), good: newGoodTokens()}
}

// Ask reports whether Authenticate may be called for a token from an address. running is the number
// of other logins from that address for which Authenticate is running. If allowed is false, logins
// of the address are refused for the duration of pause. If pause is 0, this login only has to wait
// for one of the other logins.
func (f *Failures) Ask(from netip.Prefix, token []byte, running int, now time.Time) (allowed bool, pause time.Duration) {
	if f.free < 0 || !from.IsValid() || f.good.has(token) {
		return true, 0
	}
	count := 0
	if e := f.find(from, now); e != nil {
		if now.Before(e.pauseEnd) {
			return false, e.pauseEnd.Sub(now)
		}
		count = e.count
	}
	return running < max(1, f.free-count), 0
}

// find returns an address's entry, or nil if it has none that still counts.
func (f *Failures) find(from netip.Prefix, now time.Time) *failure {
	i, ok := f.index[from]
	if !ok || now.Sub(f.entries[i].last) >= failureMemory {
		return nil
	}
	return &f.entries[i]
}

// pause returns the time that an address with count failures must wait before its next login.
func (f *Failures) pause(count int) time.Duration {
	doublings := min(max(0, count-f.free), 6) // firstPause << 6 is above maxPause
	return min(firstPause<<doublings, maxPause)
}

// Passed records a correct token.
func (f *Failures) Passed(token []byte) { f.good.add(token) }

// Failed records a wrong token, and returns the number of failures that the address has now.
func (f *Failures) Failed(from netip.Prefix, token []byte, now time.Time) (count int) {
	f.good.remove(token)
	if f.free < 0 || !from.IsValid() {
		return 0
	}
	e := f.find(from, now)
	if e == nil {
		e = f.add(from, now)
	}
	e.count++
	e.last = now
	if e.count >= f.free {
		e.pauseEnd = now.Add(f.pause(e.count))
	}
	return e.count
}

// add makes an entry for an address that has none, or whose entry is too old to count.
func (f *Failures) add(from netip.Prefix, now time.Time) *failure {
	i, ok := f.index[from]
	inherited := 0
	if !ok && len(f.entries) < maxFailures {
		i = len(f.entries)
		f.entries = append(f.entries, failure{})
	} else if !ok {
		// The table is full.
		i = f.replaceable(now)
		if now.Sub(f.entries[i].last) < failureMemory {
			inherited = f.entries[i].count
		}
		delete(f.index, f.entries[i].from)
	}
	f.entries[i] = failure{from: from, count: inherited}
	f.index[from] = i
	return &f.entries[i]
}

// replaceable returns the index of the entry to replace: an entry that no longer counts, or
// otherwise the one with the fewest failures.
func (f *Failures) replaceable(now time.Time) int {
	best := 0
	for i, e := range f.entries {
		if now.Sub(e.last) >= failureMemory {
			return i
		}
		if e.count < f.entries[best].count {
			best = i
		}
	}
	return best
}

// goodTokens is a bounded set of correct tokens. The oldest tokens drop out first. It stores only
// digests of the tokens, made with a key that is different in each process.
type goodTokens struct {
	key    [16]byte         // random
	ring   [][16]byte       // digests; a new one replaces the oldest if there are maxGoodTokens
	oldest int              // index of the oldest digest once ring is full
	index  map[[16]byte]int // index of each digest in ring
}

func newGoodTokens() goodTokens {
	g := goodTokens{index: make(map[[16]byte]int)}
	_, _ = rand.Read(g.key[:]) // never fails
	return g
}

// digest returns the digest of a token.
func (g *goodTokens) digest(token []byte) (d [16]byte) {
	h := sha256.New()
	h.Write(g.key[:])
	h.Write(token)
	copy(d[:], h.Sum(nil))
	return d
}

func (g *goodTokens) has(token []byte) bool {
	_, ok := g.index[g.digest(token)]
	return ok
}

func (g *goodTokens) add(token []byte) {
	d := g.digest(token)
	if _, ok := g.index[d]; ok {
		return
	}
	if len(g.ring) < maxGoodTokens {
		g.index[d] = len(g.ring)
		g.ring = append(g.ring, d)
		return
	}
	// The oldest may have been removed, and even added again elsewhere.
	if old := g.ring[g.oldest]; g.index[old] == g.oldest {
		delete(g.index, old)
	}
	g.ring[g.oldest] = d
	g.index[d] = g.oldest
	g.oldest = (g.oldest + 1) % maxGoodTokens
}

func (g *goodTokens) remove(token []byte) { delete(g.index, g.digest(token)) }
