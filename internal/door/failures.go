package door

import (
	"crypto/rand"
	"crypto/sha256"
	"net/netip"
	"time"
)

const (
	// failureMemory is how long an address's failures are remembered after its last failed
	// login.
	failureMemory = 10 * time.Minute
	// firstPause is the pause after the first failed login that causes a pause. Each further
	// failure doubles the pause.
	firstPause = 250 * time.Millisecond
	// maxPause is the longest pause. It allows an address 360 guesses an hour. After a
	// neighbour with the same address has stopped guessing tokens, a player with a new token
	// waits no longer than this.
	maxPause = 10 * time.Second
	// maxFailures is the number of addresses remembered, at 64 bytes each.
	maxFailures = 4096
	// maxGoodTokens is the number of digests of correct tokens remembered, at 16 bytes each
	// plus a map entry.
	maxGoodTokens = 4096
)

// Failures slows down guesses of tokens. The rules:
//
//   - An address has some free failures (rpc.Config.MaxLoginFailures). After those,
//     Authenticate is called for one login of the address at a time, with a pause after
//     each failure. The pause doubles with each failure, up to maxPause. Logins during the
//     pause are refused without calling Authenticate and do not lengthen the pause.
//   - Authenticate is never called for more concurrent logins of an address than the
//     address has free failures left. Other logins wait. So many concurrent guesses gain
//     nothing, and the clients of a party with one address join a few at a time.
//   - A wrong token counts even if the client did not wait for the answer. A correct token
//     is remembered only if the client did.
//   - A login that succeeds does not reduce the failures. Otherwise a guesser with a valid
//     token could use it to start again.
//   - Authenticate is always called for a token that was correct before. So a neighbour
//     with the same address cannot lock out a player who was here. This does not help a
//     guesser, who does not know the token.
//   - Only addresses with failures are remembered, so guesses from many addresses cost
//     honest players nothing. The table is bounded as in the Space-Saving algorithm
//     (Metwally, Agrawal, El Abbadi 2005): a new address replaces the one with the fewest
//     failures and takes over its count. So no address loses a failure by being replaced
//     and coming back.
type Failures struct {
	free    int // failed logins that cause no pause; negative = no limit
	entries []failure
	places  map[netip.Prefix]int // index of each address in entries
	good    goodTokens
}

// failure is the entry of an address with failed logins.
type failure struct {
	from  netip.Prefix
	count int
	last  time.Time // when the last login failed
	next  time.Time // end of the pause
}

// NewFailures returns Failures without entries. free is the number of failed logins of an
// address that cause no pause. If it is negative, no failed login causes a pause.
func NewFailures(free int) *Failures {
	return &Failures{free: free, places: make(map[netip.Prefix]int), good: newGoodTokens()}
}

// Ask reports whether Authenticate may be called for a token from an address. asking is the
// number of the address's logins for which Authenticate is running. If the answer is no,
// logins of the address are refused for pause. A pause of 0 means that this login only has to
// wait for one of the others.
func (f *Failures) Ask(from netip.Prefix, token []byte, asking int, now time.Time) (may bool, pause time.Duration) {
	if f.free < 0 || !from.IsValid() || f.good.has(token) {
		return true, 0
	}
	count := 0
	if e := f.find(from, now); e != nil {
		if now.Before(e.next) {
			return false, e.next.Sub(now)
		}
		count = e.count
	}
	return asking < max(1, f.free-count), 0
}

// find returns the entry of an address, or nil if there is none or the entry is too old.
func (f *Failures) find(from netip.Prefix, now time.Time) *failure {
	i, ok := f.places[from]
	if !ok || now.Sub(f.entries[i].last) >= failureMemory {
		return nil
	}
	return &f.entries[i]
}

// pause returns the time an address with count failures must wait before its next login.
func (f *Failures) pause(count int) time.Duration {
	doublings := min(max(0, count-f.free), 6) // 250 ms << 6 is above maxPause
	return min(firstPause<<doublings, maxPause)
}

// Passed records a correct token.
func (f *Failures) Passed(token []byte) { f.good.add(token) }

// Failed records a wrong token and returns the number of failures of the address.
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
		e.next = now.Add(f.pause(e.count))
	}
	return e.count
}

// add makes an entry for an address that has no entry or one that is too old.
func (f *Failures) add(from netip.Prefix, now time.Time) *failure {
	i, ok := f.places[from]
	inherited := 0
	if !ok && len(f.entries) < maxFailures {
		i = len(f.entries)
		f.entries = append(f.entries, failure{})
	} else if !ok {
		i = f.lightest(now)
		if now.Sub(f.entries[i].last) < failureMemory {
			inherited = f.entries[i].count
		}
		delete(f.places, f.entries[i].from)
	}
	f.entries[i] = failure{from: from, count: inherited}
	f.places[from] = i
	return &f.entries[i]
}

// lightest returns the index of the entry to replace: one that is too old to count, or the
// one with the fewest failures.
func (f *Failures) lightest(now time.Time) int {
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

// goodTokens remembers correct tokens as digests under a key of this process. The oldest are
// forgotten first.
type goodTokens struct {
	key    [16]byte         // random
	ring   [][16]byte       // digests; a new one replaces the oldest when there are maxGoodTokens
	next   int              // index of the oldest digest once ring is full
	member map[[16]byte]int // index of each digest in ring
}

func newGoodTokens() goodTokens {
	g := goodTokens{member: make(map[[16]byte]int)}
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
	_, ok := g.member[g.digest(token)]
	return ok
}

func (g *goodTokens) add(token []byte) {
	d := g.digest(token)
	if _, ok := g.member[d]; ok {
		return
	}
	if len(g.ring) < maxGoodTokens {
		g.member[d] = len(g.ring)
		g.ring = append(g.ring, d)
		return
	}
	if old := g.ring[g.next]; g.member[old] == g.next {
		delete(g.member, old)
	}
	g.ring[g.next] = d
	g.member[d] = g.next
	g.next = (g.next + 1) % maxGoodTokens
}

func (g *goodTokens) remove(token []byte) { delete(g.member, g.digest(token)) }
