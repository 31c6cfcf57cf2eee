package stream

// repairs makes the repair slices of chunks whose slices have all left, when nothing more is to leave behind them: loss at
// the end of a transfer would cost a round trip, which its last bytes have nothing to fill with.
type repairs struct {
	coders coders
	next   uint64 // number of the chunk that is to be repaired next
	loss   lossPrior
	sent   uint64

	// Of the chunk before next.
	current repairSlice
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

// take returns the next repair slice for what s has under way. Its shard is valid until the next call.
func (r *repairs) take(s *slicer, loss float64) (slice repairSlice, ok bool) {
	for r.next <= s.first || r.current.index >= r.current.parity { // the current chunk is through, or its repair slices are
		if r.next = max(r.next, s.first); r.next >= s.first+uint64(s.count) {
			return repairSlice{}, false
		}
		r.prepare(s, r.next, r.loss.estimate(loss))
		r.next++
	}
	slice = r.current
	slice.shard = r.shards[slice.count+slice.index]
	r.current.index++
	return slice, true
}

// prepare makes the repair slices of a chunk, as many as what is under way of it is likely to need.
func (r *repairs) prepare(s *slicer, number uint64, loss float64) {
	r.current = repairSlice{}
	message := s.messages[number%slicePipeline]
	count := (len(message) + sliceBytes - 1) / sliceBytes
	parity := parityFor(s.flight.flying(uint16(number)), loss)
	if parity == 0 || count > maxRepaired {
		return
	}
	code, err := r.coders.get(count, parity)
	if err != nil {
		return
	}
	r.lay(message, count, parity)
	if code.Encode(r.shards) == nil {
		r.current = repairSlice{id: uint16(number), count: count, parity: parity, last: len(message) - (count-1)*sliceBytes}
	}
}

// lay cuts a message into shards with room for parity behind them.
func (r *repairs) lay(message []byte, count, parity int) {
	if r.memory == nil {
		r.memory = make([]byte, (maxParity+1)*sliceBytes)
	}
	r.shards = r.shards[:0]
	for i := range count - 1 {
		r.shards = append(r.shards, message[i*sliceBytes:(i+1)*sliceBytes])
	}
	last := r.memory[:sliceBytes]
	clear(last[copy(last, message[(count-1)*sliceBytes:]):])
	r.shards = append(r.shards, last)
	for i := range parity {
		r.shards = append(r.shards, r.memory[(i+1)*sliceBytes:(i+2)*sliceBytes])
	}
}

// trim gives up the memory.
func (r *repairs) trim() { *r = repairs{next: r.next, loss: r.loss, sent: r.sent} }

// flying returns how many slices of a chunk are under way.
func (f *sliceFlight) flying(id uint16) (n int) {
	c := f.sent(id)
	if c == nil {
		return 0
	}
	for _, newest := range c.newest {
		if newest == 0 {
			continue
		}
		if p := f.get(newest - 1); p != nil && p.fate == sliceFlying {
			n++
		}
	}
	return n
}
