package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/parity"
)

const (
	// maxGroupEntries is the maximum number of entries in a group. It's enough for the longest
	// messages in a transfer, which take 30.
	maxGroupEntries = 32

	// minMessageEntries is the minimum number of entries in a message that gets repair bunches. A
	// message of two or three entries would need as many repair bunches, which is too many for
	// messages that a game may send in every tick.
	minMessageEntries = 4
)

// repairs makes repair bunches, which carry parity for the end of a bulk transfer. Without them,
// each loss at the end would cost a round trip during which the path carries nothing else.
//
// Only long messages in flight get repair bunches, and only over a carrier that reports fates
// (whether each packet arrived or was lost). We send them once no bulk is queued and the owner has
// no more to queue, unless the path hardly loses any packets.
type repairs struct {
	runs queue[sentRun] // long messages that were sent; some may have been acknowledged since
	sent uint64         // repair bunches sent
	currentGroup
}

// A currentGroup is the group of entries whose repair bunches are being sent.
type currentGroup struct {
	run     sentRun
	current repair   // the next repair bunch to send; there is none if its index is total
	shards  [][]byte // the entries of the group, followed by its repair bunches
	memory  []byte   // for the repair bunches
}

// A sentRun is a long message that was sent, or the first entries of one.
type sentRun struct {
	channel *channel
	last    uint64 // sequence of its last entry
}

func (s sentRun) acked() bool { return s.last < s.channel.first }

// noteSent is called when the last entry of a long message is sent for the first time.
func (r *repairs) noteSent(ch *channel, last uint64) {
	r.dropAcked()
	r.runs.push(sentRun{ch, last})
}

// dropAcked drops the oldest runs, up to the first that isn't acknowledged.
func (r *repairs) dropAcked() {
	for r.runs.len() > 0 && r.runs.peek().acked() {
		r.runs.pop()
	}
}

// more reports whether the group has repair bunches left that may be useful.
//
// They're useless once the whole group is acknowledged. After another 65,536 entries they would
// even be harmful, because the 16 bits of their sequence would then refer to other entries.
func (c *currentGroup) more() bool { return c.current.index < c.current.total && !c.run.acked() }

// due reports whether a repair bunch should be sent now. If so, due also makes it current.
func (r *repairs) due(path *pathState, bulk *level) bool {
	if !path.Fates || path.More || bulk.unsent.len()+bulk.resend.len() > 0 {
		return false
	}
	loss := parity.Loss(path.Loss, path.LossOf)
	return loss >= tailLoss && r.ensureCurrent(loss)
}

// ensureCurrent makes sure that current is a repair bunch to send, and reports whether there is
// one. loss is the loss rate to expect.
func (r *repairs) ensureCurrent(loss float64) bool {
	for !r.more() {
		if r.runs.len() == 0 {
			return false
		}
		if s := r.runs.pop(); !s.acked() {
			r.startGroup(s, loss)
		}
	}
	return true
}

// startGroup makes as many repair bunches for the last entries of a run as are likely to be needed
// at this loss rate. The entries before them become a run of their own, which goes next.
func (r *repairs) startGroup(s sentRun, loss float64) {
	ch := s.channel
	g, unacked, ok := groupOf(ch, s.last)
	if !ok {
		return
	}
	if g.flags&flagBegin == 0 && g.first > ch.first {
		r.runs.insert(0, sentRun{ch, g.first - 1})
	}
	g.total = parity.Count(unacked, loss)
	if g.total == 0 {
		return
	}
	r.collectShards(ch, g)
	parity.Make(r.shards, g.count)
	r.run = s
	r.current = repair{group: g}
}

// groupOf returns the group that ends with the entry at sequence last. The group begins where the
// message does, unless it would then exceed maxGroupEntries, or the first entries are no longer in
// the reliable buffer. unacked is the number of its entries that aren't acknowledged.
//
// ok is false if the message is too short, or if the group opens or closes the channel.
func groupOf(ch *channel, last uint64) (g group, unacked int, ok bool) {
	end := ch.out.at(last)
	g = group{channel: ch.number, first: last, lastBytes: len(end.payload)}
	first := end
	for {
		if first.flags&(flagOpen|flagClose) != 0 {
			return g, 0, false
		}
		if !first.isAcked() {
			unacked++
		}
		g.count++
		if first.flags&flagBegin != 0 || g.first == ch.first || g.count == maxGroupEntries {
			break
		}
		g.first--
		first = ch.out.at(g.first)
	}
	g.flags = flagRepair | first.flags&(flagBegin|deliveryMask) | end.flags&flagEnd
	isMessage := g.flags&flagWhole == flagWhole // rather than a part of one
	return g, unacked, !isMessage || g.count >= minMessageEntries
}

// collectShards sets shards to the entries of g, followed by memory for its repair bunches.
func (c *currentGroup) collectShards(ch *channel, g group) {
	if c.memory == nil {
		c.memory = make([]byte, parity.Most*EntryBytes)
	}
	c.shards = c.shards[:0]
	for i := range uint64(g.count) {
		c.shards = append(c.shards, ch.out.at(g.first+i).payload)
	}
	c.shards = slices.AppendSeq(c.shards, slices.Chunk(c.memory[:g.total*EntryBytes], EntryBytes))
}

// hasSpare reports whether there's memory that trim can free, now or later.
func (r *repairs) hasSpare() bool { return r.memory != nil || r.runs.len() > 0 }

// trim frees the memory that isn't needed for repair bunches that have yet to be sent.
func (r *repairs) trim() {
	r.dropAcked()
	r.runs.release()
	if !r.more() {
		r.currentGroup = currentGroup{}
	}
}

// place adds as many repair bunches to the packet as fit. If Unsent takes the packet back, they
// aren't sent again, since no data is lost without them.
func (r *repairs) place(b *builder, path *pathState, bulk *level) {
	for b.bunches < maxBunches && b.room() >= maxBunchHeader+EntryBytes {
		if !r.due(path, bulk) {
			return
		}
		r.current.shard = r.shards[r.current.count+r.current.index]
		b.buf = appendRepair(b.buf, r.current)
		b.bunches++
		r.current.index++
		r.sent++
	}
}
