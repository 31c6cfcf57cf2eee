package stream

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A reclaimer gets memory back from transfers and peers that don't use it, when others need it.
//
// Memory is promised to a transfer as credit, and held for content that has arrived. Credit
// that a sender has not used lately can be taken back at any time, because the transfer asks
// for it again if the sender does use it later. Content can't, so as a last resort the
// reclaimer evicts whoever holds it, provided that it's stuck: its peer has long sent nothing
// of use.
//
// It is used on the world's goroutine only.
type reclaimer struct {
	streams *Streams

	// Results of the last search for stuck hoarders.
	searched time.Time
	stuck    []stuckHoarder                  // the one that has been stuck longest first
	byParty  map[budget.Party][]stuckHoarder // those of stuck that hold content
}

// A hoarder may hold memory that others need. It is a transfer, or the receiver of a peer whose
// slices don't add up to complete chunks.
type hoarder interface {
	// takeBack takes back memory that was not used lately. It reports whether the hoarder is
	// stuck, and since when.
	takeBack(now time.Time) (since time.Time, stuck bool)
	// holder returns the hoarder's connection, and whether the hoarder holds content.
	holder() (conn *rpc.Conn, holds bool)
	// evict frees the memory of a hoarder that has been stuck for the duration idle.
	evict(idle time.Duration)
}

// A stuckHoarder has received nothing useful from its peer since a certain time.
type stuckHoarder struct {
	hoarder
	since time.Time
}

// searchPause is how long the results of a search are good for.
const searchPause = 100 * time.Millisecond

// makeRoom is called before memory is needed. It is a no-op unless the reserved half of the
// memory is in use. Otherwise it takes back from all transfers what they have not used lately,
// and then evicts stuck hoarders, the one stuck longest first, for as long as the world is
// crowded.
func (r *reclaimer) makeRoom(now time.Time) {
	if r.streams.memory.Free() >= r.streams.config.maxMemory()/2 {
		return
	}
	r.searchIfDue(now)
	for len(r.stuck) > 0 && r.crowded() {
		oldest := r.stuck[0].hoarder
		r.stuck = r.stuck[1:]
		r.tryEvict(oldest, now)
	}
}

// evictFor is called when there is no memory for one of the transfers that to receives. Of the
// stuck hoarders that belong to the same party and hold content, it evicts the one that has
// been stuck longest. It reports whether there was one.
//
// makeRoom doesn't do this, because a party may reach its limit long before the world is
// crowded.
func (r *reclaimer) evictFor(to *receiver, now time.Time) bool {
	party := extend.PartyOf(to.peer.conn)
	if party == (budget.Party{}) {
		return false
	}
	r.searchIfDue(now)
	for i, candidate := range r.byParty[party] {
		if candidate.hoarder == hoarder(to) {
			continue // evicting it would close the connection that needs the memory
		}
		if r.tryEvict(candidate.hoarder, now) {
			r.byParty[party] = slices.Delete(r.byParty[party], i, i+1)
			return true
		}
	}
	return false
}

// tryEvict evicts a hoarder if it is still stuck, which may have changed since the search.
func (r *reclaimer) tryEvict(who hoarder, now time.Time) (evicted bool) {
	since, stuck := who.takeBack(now)
	if stuck {
		who.evict(now.Sub(since).Round(time.Second))
	}
	return stuck
}

// crowded reports whether less memory is free than a connection may always have.
func (r *reclaimer) crowded() bool {
	config := &r.streams.config
	return r.streams.memory.Free() < min(config.terms(config.early()).Floor, config.maxMemory()/4)
}

// searchIfDue searches, unless the results of the last search are still good.
func (r *reclaimer) searchIfDue(now time.Time) {
	if now.Sub(r.searched) >= searchPause {
		r.search(now)
	}
}

// search takes back from all hoarders what they have not used lately, and records which of them
// are stuck.
func (r *reclaimer) search(now time.Time) {
	r.searched = now
	var found []stuckHoarder
	visit := func(who hoarder) {
		if since, stuck := who.takeBack(now); stuck {
			found = append(found, stuckHoarder{who, since})
		}
	}
	for _, p := range r.streams.joined {
		visit(&p.receiver)
		for _, in := range p.receiver.receiving {
			visit(in)
		}
	}
	r.record(found)
}

// record sorts the hoarders that a search has found, and indexes them by party. Thousands of
// transfers may find no memory in one tick, and evictFor must not look at all hoarders for each
// of them.
func (r *reclaimer) record(found []stuckHoarder) {
	slices.SortFunc(found, func(a, b stuckHoarder) int { return a.since.Compare(b.since) })
	r.stuck = found
	r.byParty = make(map[budget.Party][]stuckHoarder)
	for _, one := range found {
		if conn, holds := one.holder(); holds {
			party := extend.PartyOf(conn)
			r.byParty[party] = append(r.byParty[party], one)
		}
	}
}
