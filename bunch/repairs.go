package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/parity"
)

const (
	// maxRepaired is the maximum number of entries in a group. A part of a transfer takes
	// 30.
	maxRepaired = 32
	// minRepaired is the minimum number of entries in a message that gets repair bunches.
	// Two or three entries would get as many repair bunches, and a game may send such
	// messages in every tick.
	minRepaired = 4
)

// repairs makes repair bunches for long bulk messages in flight, once everything queued has
// been sent and the owner has no more. Without them, a loss at the end of a transfer would
// cost a round trip in which the path carries nothing else. They are made only if the
// carrier reports fates.
type repairs struct {
	loss parity.Loss
	runs queue[sentRun] // runs that were sent and may not be acknowledged yet
	sent uint64         // repair bunches sent

	// The repair bunches of the run last removed from runs.
	run     sentRun
	current repair   // the next one to send, if more returns true
	shards  [][]byte // the entries of its group, followed by the group's repair bunches
	memory  []byte   // for the repair bunches
}

// A sentRun is a long message, or the first entries of one, that was sent once.
type sentRun struct {
	channel *channel
	last    uint64 // the sequence of its last entry
}

func (s sentRun) acked() bool { return s.last < s.channel.first }

// note adds the run whose last entry is being sent for the first time.
func (r *repairs) note(ch *channel, last uint64) {
	r.forget()
	r.runs.push(sentRun{ch, last})
}

// forget removes the oldest runs that are acknowledged.
func (r *repairs) forget() {
	for r.runs.len() > 0 && r.runs.peek().acked() {
		r.runs.pop()
	}
}

// more reports whether repair bunches of current remain that were not sent and may be
// useful. They are useless once the whole group is acknowledged. After 65,536 entries,
// their sequence would be that of other entries.
func (r *repairs) more() bool { return r.current.index < r.current.total && !r.run.acked() }

// next makes current a repair bunch that was not sent, and reports whether there is one.
func (r *repairs) next(measured float64) bool {
	for !r.more() {
		if r.runs.len() == 0 {
			return false
		}
		if s := r.runs.pop(); !s.acked() {
			r.prepare(s.channel, s.last, r.loss.Estimate(measured))
		}
	}
	return true
}

// prepare makes the repair bunches of the group that ends with entry last. It makes as many
// as the group's entries in flight are likely to need.
func (r *repairs) prepare(ch *channel, last uint64, loss float64) {
	g, flying, ok := groupOf(ch, last)
	if !ok {
		return
	}
	if g.flags&flagBegin == 0 && g.first > ch.first { // the entries before it form another group
		r.runs.insert(0, sentRun{ch, g.first - 1})
	}
	g.total = parity.Count(flying, loss)
	if g.total == 0 {
		return
	}
	r.cut(ch, g)
	parity.Make(r.shards, g.count)
	r.run = sentRun{ch, last}
	r.current = repair{group: g}
}

// groupOf returns the group that ends with entry last. The group extends back through the
// run as far as the reliable buffer still has its entries, up to maxRepaired of them.
// flying is the number of its entries that are not acknowledged.
//
// ok is false for a message that opens or closes the channel, and for one that is too
// short.
func groupOf(ch *channel, last uint64) (g group, flying int, ok bool) {
	end := ch.out.at(last)
	g = group{channel: ch.number, first: last + 1, last: len(end.payload)}
	for begins := false; !begins && g.first > ch.first && last+1-g.first < maxRepaired; {
		g.first--
		e := ch.out.at(g.first)
		if e.flags&(flagOpen|flagClose) != 0 {
			return g, 0, false
		}
		begins = e.flags&flagBegin != 0
		g.flags = flagRepair | e.flags&(flagBegin|deliveryMask) | end.flags&flagEnd
		if !e.acked() {
			flying++
		}
	}
	g.count = int(last-g.first) + 1
	return g, flying, g.flags&flagWhole != flagWhole || g.count >= minRepaired
}

// cut lists the entries of a group as shards, followed by memory for its repair bunches.
func (r *repairs) cut(ch *channel, g group) {
	if r.memory == nil {
		r.memory = make([]byte, parity.Most*EntryBytes)
	}
	r.shards = r.shards[:0]
	for i := range uint64(g.count) {
		r.shards = append(r.shards, ch.out.at(g.first+i).payload)
	}
	r.shards = slices.AppendSeq(r.shards, slices.Chunk(r.memory[:g.total*EntryBytes], EntryBytes))
}

// spare reports whether trim can free memory, now or later.
func (r *repairs) spare() bool { return r.memory != nil || r.runs.len() > 0 }

// trim frees the memory that unsent repair bunches do not need.
func (r *repairs) trim() {
	r.forget()
	r.runs.release()
	if !r.more() {
		*r = repairs{loss: r.loss, runs: r.runs, sent: r.sent}
	}
}

// due reports whether a repair bunch must be sent: no bulk is queued, the owner has no
// more, and the path loses packets or too few packets were sent to know that it does not.
func (r *repairs) due(path *pathState, bulk *level) bool {
	return path.Fates && !path.More && bulk.fresh.len()+bulk.resend.len() == 0 &&
		r.loss.Estimate(path.Loss) >= tailLoss && r.next(path.Loss)
}

// place adds repair bunches to the packet while they fit. Unsent does not restore them,
// because no data is lost without them.
func (r *repairs) place(b *builder, path *pathState, bulk *level) {
	for b.bunches < maxBunches && b.room() >= maxBunchHeader+EntryBytes && r.due(path, bulk) {
		r.current.shard = r.shards[r.current.count+r.current.index]
		b.buf = appendRepair(b.buf, r.current)
		b.bunches++
		r.current.index++
		r.sent++
	}
}
