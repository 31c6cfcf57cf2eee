package stream

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A reclaimer takes memory back from transfers and peers that don't use it when others need it.
//
// Memory is promised to a transfer as credit, and held for content that has arrived. Credit that
// a sender has not used recently can be taken back at any time, because the transfer asks for it
// again if the sender uses it later. Content can't be taken back. As a last resort, the reclaimer
// evicts a holder that holds content, but only if the holder is stuck, that is, if its peer
// hasn't sent anything useful for a long time.
//
// It is used on the world's goroutine only.
type reclaimer struct {
	streams *Streams

	// Results of the last search for stuck holders.
	searched time.Time
	stuck    []stuckHolder                  // longest stuck first
	byParty  map[budget.Party][]stuckHolder // the elements of stuck that hold content
}

// A holder may hold memory that others need. It is either an incoming transfer, or the receiver of
// a peer whose slices don't add up to complete chunks.
type holder interface {
	// takeBack takes back memory that was not used recently. Then it reports whether the holder is
	// stuck, and when it last received something useful.
	takeBack(now time.Time) (since time.Time, stuck bool)
	// owner returns the holder's connection, and whether the holder holds content.
	owner() (conn *rpc.Conn, holds bool)
	// evict frees the memory of a holder that has been stuck for the duration idle.
	evict(idle time.Duration)
}

// A stuckHolder has received nothing useful from its peer since a certain time.
type stuckHolder struct {
	holder
	since time.Time
}

// searchPause is how long the results of a search are used. It's much shorter than idleTime, after
// which a holder is stuck.
const searchPause = 100 * time.Millisecond

// makeRoom is called before memory is needed. It does nothing while the reserved half of the memory
// is free. Otherwise it takes back the memory that transfers have not used recently and then, as
// long as the world is crowded, evicts stuck holders, starting with the one that has been stuck
// longest.
func (r *reclaimer) makeRoom(now time.Time) {
	if r.streams.memory.Free() >= r.streams.config.maxMemory()/2 {
		return
	}
	r.searchIfDue(now)
	for len(r.stuck) > 0 && r.crowded() {
		oldest := r.stuck[0].holder
		r.stuck = r.stuck[1:]
		r.tryEvict(oldest, now)
	}
}

// makeRoomIfCrowded calls makeRoom if the world is crowded. It's called for each part that arrives,
// so it doesn't look at the clock otherwise.
func (r *reclaimer) makeRoomIfCrowded() {
	if r.crowded() {
		r.makeRoom(time.Now())
	}
}

// evictFor is called when there is no memory for one of needy's transfers. Of the stuck holders
// that belong to the same party and hold content, it evicts the one that has been stuck longest. It
// returns false if there is none.
//
// makeRoom isn't enough, because a party may reach its limit long before the world is crowded.
func (r *reclaimer) evictFor(needy *receiver, now time.Time) bool {
	party := extend.PartyOf(needy.peer.conn)
	if party == (budget.Party{}) {
		return false
	}
	r.searchIfDue(now)
	for i, candidate := range r.byParty[party] {
		if candidate.holder == holder(needy) {
			continue // evicting it would close the connection that needs the memory
		}
		if r.tryEvict(candidate.holder, now) {
			r.byParty[party] = slices.Delete(r.byParty[party], i, i+1)
			return true
		}
	}
	return false
}

// tryEvict evicts a holder unless it is no longer stuck, which may have changed since the search.
func (r *reclaimer) tryEvict(h holder, now time.Time) (evicted bool) {
	since, stuck := h.takeBack(now)
	if stuck {
		h.evict(now.Sub(since).Round(time.Second))
	}
	return stuck
}

// crowded reports whether less memory is free than the amount that a connection may always use.
func (r *reclaimer) crowded() bool {
	config := &r.streams.config
	return r.streams.memory.Free() < min(config.terms(config.early()).Floor, config.maxMemory()/4)
}

// searchIfDue searches unless the results of the last search can still be used.
func (r *reclaimer) searchIfDue(now time.Time) {
	if now.Sub(r.searched) >= searchPause {
		r.search(now)
	}
}

// search takes back the memory that holders have not used recently, and records which holders are
// stuck.
func (r *reclaimer) search(now time.Time) {
	r.searched = now
	var found []stuckHolder
	check := func(h holder) {
		if since, stuck := h.takeBack(now); stuck {
			found = append(found, stuckHolder{h, since})
		}
	}
	for _, p := range r.streams.joined {
		check(&p.receiver)
		for _, in := range p.receiver.receiving {
			check(in)
		}
	}
	r.record(found)
}

// record sorts the holders that a search found, and indexes them by party because thousands of
// transfers may find no memory in one tick, and evictFor must not examine all holders for each of
// them.
func (r *reclaimer) record(found []stuckHolder) {
	slices.SortFunc(found, func(a, b stuckHolder) int { return a.since.Compare(b.since) })
	r.stuck = found
	r.byParty = make(map[budget.Party][]stuckHolder)
	for _, one := range found {
		if conn, holds := one.owner(); holds {
			party := extend.PartyOf(conn)
			r.byParty[party] = append(r.byParty[party], one)
		}
	}
}
