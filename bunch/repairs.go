package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/parity"
)

const (
	// maxRepaired is the maximum number of entries in a group. It's enough for the longest
	// messages of a transfer, which take 30.
	maxRepaired = 32

	// minRepaired is the minimum number of entries in a message that gets repair bunches. A
	// message of two or three entries would need as many repair bunches, which is too many for
	// messages that a game may send in every tick.
	minRepaired = 4
)

// repairs makes repair bunches, which contain parity for the end of a bulk transfer over a carrier
// that reports fates. Without them, each loss at the end would cost a round trip during which the
// path carries nothing else.
//
// They're made for long messages in flight, once everything queued has been sent and the owner
// has nothing more to send.
type repairs struct {
	runs queue[sentRun] // long messages that were sent; some may have been acknowledged since
	sent uint64         // repair bunches sent

	// The group whose repair bunches are being sent.
	run     sentRun
	current repair   // the next one to send, if there are more
	shards  [][]byte // the entries of the group, followed by its repair bunches
	memory  []byte   // for the repair bunches
}

// A sentRun is a long message that was sent, or the first entries of one.
type sentRun struct {
	channel *channel
	last    uint64 // sequence of its last entry
}

func (s sentRun) acked() bool { return s.last < s.channel.first }

// note is called when the last entry of a long message is sent for the first time.
func (r *repairs) note(ch *channel, last uint64) {
	r.forget()
	r.runs.push(sentRun{ch, last})
}

// forget removes the oldest runs, up to the first that isn't acknowledged.
func (r *repairs) forget() {
	for r.runs.len() > 0 && r.runs.peek().acked() {
		r.runs.pop()
	}
}

// more reports whether the current group has repair bunches left that may be useful.
//
// They aren't once all of the group is acknowledged. They would even be harmful after 65,536 more
// entries, when the 16 bits of their sequence refer to other entries.
func (r *repairs) more() bool { return r.current.index < r.current.total && !r.run.acked() }

// prepareNext makes sure that current is a repair bunch to send, and reports whether there is
// one. loss is the loss rate to expect.
func (r *repairs) prepareNext(loss float64) bool {
	for !r.more() {
		if r.runs.len() == 0 {
			return false
		}
		if s := r.runs.pop(); !s.acked() {
			r.prepare(s.channel, s.last, loss)
		}
	}
	return true
}

// prepare makes as many repair bunches for the group that ends with entry last as are likely to be
// needed at this loss rate.
func (r *repairs) prepare(ch *channel, last uint64, loss float64) {
	g, unacked, ok := groupOf(ch, last)
	if !ok {
		return
	}
	if g.flags&flagBegin == 0 && g.first > ch.first {
		// The entries before it form another group, which goes next.
		r.runs.insert(0, sentRun{ch, g.first - 1})
	}
	g.total = parity.Count(unacked, loss)
	if g.total == 0 {
		return
	}
	r.listShards(ch, g)
	parity.Make(r.shards, g.count)
	r.run = sentRun{ch, last}
	r.current = repair{group: g}
}

// groupOf returns the group that ends with entry last. It begins where the message does, unless
// that would make more than maxRepaired entries, or some of them are no longer in the reliable
// buffer. unacked is the number of its entries that aren't acknowledged.
//
// ok is false if the message is too short, or opens or closes the channel.
func groupOf(ch *channel, last uint64) (g group, unacked int, ok bool) {
	end := ch.out.at(last)
	g = group{channel: ch.number, first: last, last: len(end.payload)}
	for {
		e := ch.out.at(g.first)
		if e.flags&(flagOpen|flagClose) != 0 {
			return g, 0, false
		}
		if !e.isAcked() {
			unacked++
		}
		g.count++
		g.flags = flagRepair | e.flags&(flagBegin|deliveryMask) | end.flags&flagEnd
		begins := e.flags&flagBegin != 0
		if begins || g.first == ch.first || g.count == maxRepaired {
			break
		}
		g.first--
	}
	isMessage := g.flags&flagWhole == flagWhole // rather than a part of one
	return g, unacked, !isMessage || g.count >= minRepaired
}

// listShards sets shards to the entries of a group, followed by memory for its repair bunches.
func (r *repairs) listShards(ch *channel, g group) {
	if r.memory == nil {
		r.memory = make([]byte, parity.Most*EntryBytes)
	}
	r.shards = r.shards[:0]
	for i := range uint64(g.count) {
		r.shards = append(r.shards, ch.out.at(g.first+i).payload)
	}
	r.shards = slices.AppendSeq(r.shards, slices.Chunk(r.memory[:g.total*EntryBytes], EntryBytes))
}

// hasSpare reports whether there's memory that trim can free, now or later.
func (r *repairs) hasSpare() bool { return r.memory != nil || r.runs.len() > 0 }

// trim frees the memory that isn't needed for repair bunches that have yet to be sent.
func (r *repairs) trim() {
	r.forget()
	r.runs.release()
	if !r.more() {
		*r = repairs{runs: r.runs, sent: r.sent}
	}
}

// prepareDue prepares the next repair bunch if it should be sent now, and reports whether there is
// one. It should once no bulk is queued and the owner has no more of it, unless we have sent enough
// packets to know that the path hardly loses any.
func (r *repairs) prepareDue(path *pathState, bulk *level) bool {
	if !path.Fates || path.More || bulk.unsent.len()+bulk.resend.len() > 0 {
		return false
	}
	loss := parity.Loss(path.Loss, path.LossOf)
	return loss >= tailLoss && r.prepareNext(loss)
}

// place adds as many repair bunches to the packet as fit. If Unsent takes the packet back, they
// aren't sent again, since no data is lost without them.
func (r *repairs) place(b *builder, path *pathState, bulk *level) {
	for b.bunches < maxBunches && b.room() >= maxBunchHeader+EntryBytes && r.prepareDue(path, bulk) {
		r.current.shard = r.shards[r.current.count+r.current.index]
		b.buf = appendRepair(b.buf, r.current)
		b.bunches++
		r.current.index++
		r.sent++
	}
}
