package stream

// Stats is a snapshot of a peer's streams.
type Stats struct {
	Sending, Waiting, Receiving  int    // transfers; those that wait have not sent their header
	Lanes                        int    // open
	PeakOut, Slots               int    // entries that a lane ever had outstanding, of its reliable buffer
	Slices, SlicesResent         uint64 // sent; of them, again
	SlicesSealed                 uint64 // of those sent, in sealed packets
	RepairSlices, SlicesRestored uint64 // sent; made at this end from those that came
	SlicesRefused                uint64 // that came beyond the credit, or malformed; they were dropped
	Late                         uint64 // parts and messages of transfers that had ended; they were dropped
	Unstored                     uint64 // incoming transfers with a key that the Store had no room for; they can not be resumed
}

// Stats returns the state as of the last tick. It is safe from any goroutine.
func (p *Peer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

func (p *Peer) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats = p.snapshot()
}

// quiet reports whether a tick would find nothing to do, as in most of a game's.
func (p *Peer) quiet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.greeted && len(p.starting)+len(p.queue)+len(p.sending)+len(p.receiving) == 0 &&
		p.window.held == 0 && !p.slices.link.news.Load() && p.stats == p.snapshot()
}

// snapshot is the state now. The lock is held.
func (p *Peer) snapshot() Stats {
	chunks := &p.slices.stats
	return Stats{
		Sending: len(p.sending), Waiting: len(p.queue), Receiving: len(p.receiving),
		Lanes: len(p.window.lanes), PeakOut: p.window.peak, Slots: p.window.slots, Late: p.late, Unstored: p.unstored,
		Slices: chunks.Slices, SlicesSealed: chunks.Fated, SlicesResent: chunks.Resent,
		RepairSlices: chunks.Repairs, SlicesRestored: chunks.Restored, SlicesRefused: chunks.Refused + chunks.Malformed,
	}
}

// countUnstored counts a transfer that goes on without its store.
func (p *Peer) countUnstored() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unstored++
}
