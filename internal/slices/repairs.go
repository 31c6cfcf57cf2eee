package slices

// repairs makes the repair slices of chunks whose slices have all left, when nothing more is to leave behind them: loss at
// the end of a transfer would cost a round trip, which its last bytes have nothing to fill with.
type repairs struct {
	coders coders
	next   uint64 // number of the chunk that is to be repaired next
	loss   lossPrior
	sent   uint64

	// Of the chunk before next.
	current repair
	shards  [][]byte
	memory  []byte
}

// lossPrior turns the measured share of losses into one to reckon with while little is known.
type lossPrior struct{ decided int } // packets, at most priorMemory

const (
	priorLoss   = 0.02
	priorWeight = 64  // packets
	priorMemory = 256 // packets over which losses are averaged
)

func (l *lossPrior) note() { l.decided = min(l.decided+1, priorMemory) }

func (l *lossPrior) estimate(measured float64) float64 {
	n := float64(l.decided)
	return (measured*n + priorLoss*priorWeight) / (n + priorWeight)
}

// take returns the next repair slice for what o has under way. Its shard is valid until the next call.
func (r *repairs) take(o *outbox, loss float64) (slice repair, ok bool) {
	for r.next <= o.chunks.Oldest || r.current.index >= r.current.parity { // the current chunk is through, or its repair slices are
		if r.next = max(r.next, o.chunks.Oldest); r.next >= o.chunks.Next {
			return repair{}, false
		}
		r.prepare(o, r.next, r.loss.estimate(loss))
		r.next++
	}
	slice = r.current
	slice.shard = r.shards[slice.count+slice.index]
	r.current.index++
	r.sent++
	return slice, true
}

// prepare makes the repair slices of a chunk, as many as what is under way of it is likely to need.
func (r *repairs) prepare(o *outbox, number uint64, loss float64) {
	r.current = repair{}
	c := o.chunk(number)
	message, count := c.message, len(c.newest)
	parity := parityFor(o.underWay(c), loss)
	if parity == 0 || count > maxRepaired {
		return
	}
	code, err := r.coders.get(count, parity)
	if err != nil {
		return
	}
	r.lay(message, count, parity)
	if code.Encode(r.shards) == nil {
		r.current = repair{id: c.id, count: count, parity: parity, last: len(message) - (count-1)*Size}
	}
}

// lay cuts a message into shards with room for parity behind them.
func (r *repairs) lay(message []byte, count, parity int) {
	if r.memory == nil {
		r.memory = make([]byte, (maxParity+1)*Size)
	}
	r.shards = r.shards[:0]
	for i := range count - 1 {
		r.shards = append(r.shards, message[i*Size:(i+1)*Size])
	}
	last := r.memory[:Size]
	clear(last[copy(last, message[(count-1)*Size:]):])
	r.shards = append(r.shards, last)
	for i := range parity {
		r.shards = append(r.shards, r.memory[(i+1)*Size:(i+2)*Size])
	}
}

// trim gives up the memory.
func (r *repairs) trim() { *r = repairs{next: r.next, loss: r.loss, sent: r.sent} }
