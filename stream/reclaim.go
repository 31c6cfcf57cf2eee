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
// Memory is promised to a transfer as credit, and held for content that has arrived. Credit that
// a sender has not used lately can be taken back at any time, because the transfer asks for it
// again if the sender does use it later. Content can't be taken back. As a last resort, the
// reclaimer evicts a hoarder that holds content, but only if the hoarder is stuck: its peer
// hasn't sent anything useful for a long time.
//
// It is used on the world's goroutine only.
type reclaimer struct {
	streams *Streams

	// Results of the last search for stuck hoarders.
	searched time.Time
	stuck    []stuckHoarder                  // longest stuck first
	byParty  map[budget.Party][]stuckHoarder // the elements of stuck that hold content
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

// searchPause is how long the results of a search remain valid.
const searchPause = 100 * time.Millisecond

// makeRoom is called before memory is needed. It is a no-op while the reserved half of the memory
// is free. Otherwise it takes back the memory that transfers have not used lately. Then, as long
// as the world is crowded, it evicts stuck hoarders, starting with the one that has been stuck
// longest.
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
// stuck hoarders that belong to the same party and hold content, it evicts the one that has been
// stuck longest. It reports whether it has evicted one.
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

// crowded reports whether less memory is free than the amount that a connection may always use.
func (r *reclaimer) crowded() bool {
	config := &r.streams.config
	return r.streams.memory.Free() < min(config.terms(config.early()).Floor, config.maxMemory()/4)
}

// searchIfDue searches, unless the results of the last search are still valid.
func (r *reclaimer) searchIfDue(now time.Time) {
	if now.Sub(r.searched) >= searchPause {
		r.search(now)
	}
}

// search takes back the memory that hoarders have not used lately, and records which hoarders are
// stuck.
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
