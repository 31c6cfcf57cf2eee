package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/parity"
)

const (
	// maxRepaired is how many entries a group has at most: a part of a transfer takes 30.
	maxRepaired = 32
	// leastRepaired is how many entries a message needs to get repair bunches. Two or three entries would get as many again, and a game may send
	// such messages at every tick.
	leastRepaired = 4
)

// repairs makes repair bunches for long messages of bulk in flight, when all that waited has left and the owner gives no more: a loss at the end of
// a transfer would cost a round trip in which the path carries nothing else. It does so where the carrier tells fates.
type repairs struct {
	loss parity.Loss
	runs queue[sentRun] // those that have left and may not be acknowledged yet
	sent uint64         // repair bunches

	// The repair bunches of the run that was taken out of runs last.
	run     sentRun
	current repair   // the next of them to leave: see more
	shards  [][]byte // the entries of its group, then its repair bunches
	memory  []byte   // of the repair bunches
}

// sentRun is a long message, or the first entries of one, that has left once.
type sentRun struct {
	channel *channel
	last    uint64 // the sequence of its last entry
}

func (s sentRun) acked() bool { return s.last < s.channel.first }

// note adds the run whose last entry leaves now for the first time.
func (r *repairs) note(ch *channel, last uint64) {
	r.forget()
	r.runs.push(sentRun{ch, last})
}

// forget forgets the oldest runs, as far as they are acknowledged.
func (r *repairs) forget() {
	for r.runs.len() > 0 && r.runs.peek().acked() {
		r.runs.pop()
	}
}

// more reports whether repair bunches of current have not left and may be of use. Once all of the group is acknowledged they are not, and after
// 65,536 entries their sequence would be that of other entries.
func (r *repairs) more() bool { return r.current.index < r.current.total && !r.run.acked() }

// next makes current a repair bunch that has not left, and reports whether there is one.
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

// prepare makes the repair bunches of the group that ends with the entry last, as many as its entries in flight are likely to need.
func (r *repairs) prepare(ch *channel, last uint64, loss float64) {
	g, flying, ok := groupOf(ch, last)
	if !ok {
		return
	}
	if g.flags&flagBegin == 0 && g.first > ch.first {
		r.runs.insert(0, sentRun{ch, g.first - 1}) // the entries before it are another group
	}
	if g.total = parity.Count(flying, loss); g.total == 0 {
		return
	}
	r.cut(ch, g)
	parity.Make(r.shards, g.count)
	r.run, r.current = sentRun{ch, last}, repair{group: g}
}

// groupOf returns the group that ends with the entry last: those before it in its run, as many as may be, that are in the reliable buffer still; and
// how many are not acknowledged. It is not ok for the one that opens the channel or closes it, nor for a short message.
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
	return g, flying, g.flags&flagWhole != flagWhole || g.count >= leastRepaired
}

// cut lists the entries of a group as shards, and behind them memory for its repair bunches.
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

// spare reports whether trim has memory to give up, now or later.
func (r *repairs) spare() bool { return r.memory != nil || r.runs.len() > 0 }

// trim gives up what no repair bunch needs that is still to leave.
func (r *repairs) trim() {
	r.forget()
	r.runs.release()
	if !r.more() {
		*r = repairs{loss: r.loss, runs: r.runs, sent: r.sent}
	}
}

// due reports whether a repair bunch is to leave: nothing of bulk waits, nor will the owner give more, and the path loses packets, or too few have
// been sent to know that it does not.
func (r *repairs) due(path *pathState, bulk *level) bool {
	return path.Fates && !path.More && bulk.fresh.len()+bulk.resend.len() == 0 && r.loss.Estimate(path.Loss) >= tailLoss && r.next(path.Loss)
}

// place appends repair bunches to the packet as long as they fit. Unsent does not bring them back: nothing is lost without them.
func (r *repairs) place(b *builder, path *pathState, bulk *level) {
	for b.bunches < maxBunches && b.room() >= maxBunchHeader+EntryBytes && r.due(path, bulk) {
		r.current.shard = r.shards[r.current.count+r.current.index]
		b.buf = appendRepair(b.buf, r.current)
		b.bunches++
		r.current.index++
		r.sent++
	}
}
