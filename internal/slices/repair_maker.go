package slices

import (
	"slices"

	"github.com/quivernet/quiver/internal/parity"
)

// A repairMaker makes repair slices for the chunks in flight, once all slices have been sent and no
// more messages follow. Without them, a loss at the end of a transfer would cost a round trip
// during which there's nothing else to send.
type repairMaker struct {
	nextChunk uint64 // the next chunk to make repair slices for
	sent      uint64 // number of repair slices sent

	// The repair slices of the chunk before nextChunk.
	current repair   // the next one to send
	shards  [][]byte // that chunk's slices, and then its repair slices
	memory  []byte   // of the repair slices
}

// next takes the next repair slice for a chunk that o has in flight. Its shard is valid until the
// next call. loss is the loss rate to expect, which decides how many repair slices a chunk
// gets.
func (r *repairMaker) next(o *outbox, loss float64) (slice repair, ok bool) {
	// Move to the next chunk if the current one has been acked, or if all its repair slices have
	// been sent.
	for r.nextChunk <= o.chunks.Oldest || r.current.index >= r.current.total {
		r.nextChunk = max(r.nextChunk, o.chunks.Oldest)
		if r.nextChunk >= o.chunks.Next {
			return repair{}, false
		}
		r.prepare(o, r.nextChunk, loss)
		r.nextChunk++
	}
	slice = r.current
	slice.shard = r.shards[slice.count+slice.index]
	r.current.index++
	r.sent++
	return slice, true
}

// prepare makes as many repair slices for a chunk as its slices in flight are likely to need.
func (r *repairMaker) prepare(o *outbox, number uint64, loss float64) {
	r.current = repair{}
	c := o.chunks.At(number)
	message := c.message
	count := len(c.newest)
	extra := parity.Count(o.inFlight(c), loss)
	unsent := slices.Contains(c.newest, 0) // the peer must not restore, and ack, what we haven't sent
	if extra == 0 || count > maxRepaired || unsent {
		return
	}
	r.split(message, extra)
	parity.Make(r.shards, count)
	r.current = repair{id: c.id, count: count, total: extra, last: len(message) - (count-1)*Size}
}

// split splits a message into shards and appends memory for its repair slices.
func (r *repairMaker) split(message []byte, extra int) {
	if r.memory == nil {
		r.memory = make([]byte, parity.Most*Size)
	}
	r.shards = slices.AppendSeq(r.shards[:0], slices.Chunk(message, Size))
	r.shards = slices.AppendSeq(r.shards, slices.Chunk(r.memory[:extra*Size], Size))
}

// trim frees the memory of the current chunk.
func (r *repairMaker) trim() { *r = repairMaker{nextChunk: r.nextChunk, sent: r.sent} }
