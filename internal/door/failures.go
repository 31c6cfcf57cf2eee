package door

import (
	"crypto/rand"
	"crypto/sha256"
	"net/netip"
	"time"
)

const (
	// failureMemory is the time after the last failed login of an address after which the door forgets its failures.
	failureMemory = 10 * time.Minute
	// firstPause is the pause after the first failed login that is not free; each further one doubles it.
	firstPause = 250 * time.Millisecond
	// maxPause is the longest pause. It leaves an address 360 guesses an hour; and when a neighbour behind the same address has guessed, a
	// player with a new token waits no longer than this after the neighbour has stopped.
	maxPause = 10 * time.Second
	// maxFailures is how many addresses are remembered, with 64 B each.
	maxFailures = 4096
	// maxGoodTokens is how many digests of tokens that were right are remembered, with 16 B each and their place in a map.
	maxGoodTokens = 4096
)

// Failures slows down guesses of tokens. The rules:
//
//   - An address has some failed logins free (rpc.Config.MaxLoginFailures). From then on Authenticate is called for one of its
//     logins at a time, with a pause after each failure that doubles with each, up to maxPause. Logins during the pause are refused
//     without calling Authenticate, and do not lengthen it.
//   - Authenticate runs for no more logins of an address at once than may still fail for free; others wait for their turn. So it
//     makes no difference how many guesses come at once, and a party behind one address joins a few at a time.
//   - A wrong token counts even if the client did not wait for the answer. A right one is remembered only if it did.
//   - A login that succeeds takes no failure back: otherwise a guesser with a token of his own would begin anew with it.
//   - For a token that was right before, Authenticate is always called: a player who was here is not locked out by a neighbour
//     behind the same address. It does not help a guesser, who does not know the token.
//   - Only addresses with failures are remembered, so guesses from many addresses cost honest players nothing. The table is bounded
//     as in the Space-Saving algorithm (Metwally, Agrawal, El Abbadi 2005): a new address takes over the entry with the fewest
//     failures, with their count. So no address loses a failure by being pushed out and coming back.
type Failures struct {
	free    int // Failed logins without a pause; negative = no limit
	entries []failure
	places  map[netip.Prefix]int // of addresses in entries
	good    goodTokens
}

// failure is one address that failed to log in.
type failure struct {
	from  netip.Prefix
	count int
	last  time.Time // when the last login failed
	next  time.Time // when the pause ends
}

// NewFailures returns an empty table. free is how many failed logins of an address cost no pause; negative = all.
func NewFailures(free int) *Failures {
	return &Failures{free: free, places: make(map[netip.Prefix]int), good: newGoodTokens()}
}

// Ask reports whether Authenticate may be called for a token from an address while it runs for asking others of it. If not, pause is for
// how long logins of the address are refused; 0 if this one only has to wait for one of the others.
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

// find returns the entry of an address, nil if there is none or it is too old.
func (f *Failures) find(from netip.Prefix, now time.Time) *failure {
	i, ok := f.places[from]
	if !ok || now.Sub(f.entries[i].last) >= failureMemory {
		return nil
	}
	return &f.entries[i]
}

// pause returns how long an address with count failures must wait before its next login.
func (f *Failures) pause(count int) time.Duration {
	doublings := min(max(0, count-f.free), 6) // 250 ms << 6 is above maxPause
	return min(firstPause<<doublings, maxPause)
}

// Passed notes a token that was right.
func (f *Failures) Passed(token []byte) { f.good.add(token) }

// Failed notes a token that was wrong, and returns how many of the address were wrong.
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

// add makes an entry for an address that has none, or one that is too old.
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

// lightest returns the entry to take over: one that is too old to count, or the one with the fewest failures.
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

// goodTokens remembers tokens that were right, as digests under a key of this process. It forgets the oldest first.
type goodTokens struct {
	key    [16]byte
	ring   [][16]byte
	next   int // of ring, once it is full
	member map[[16]byte]int
}

func newGoodTokens() goodTokens {
	g := goodTokens{member: make(map[[16]byte]int)}
	_, _ = rand.Read(g.key[:]) // never fails
	return g
}

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
	g.ring[g.next], g.member[d] = d, g.next
	g.next = (g.next + 1) % maxGoodTokens
}

func (g *goodTokens) remove(token []byte) { delete(g.member, g.digest(token)) }
