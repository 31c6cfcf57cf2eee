package stream

import (
	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
)

// lanesFor returns the lanes that a transfer may use now and the gate before each. While the world's stock is short these are
// fewer lanes, and less of their buffers: what is sent lies there until it is acked.
func (w *window) lanesFor(settings Window) ([]*rpc.Actor, Gate) {
	lanes, gate := w.usable(settings), Gate{Share: settings.Share, QueueTime: w.queue}
	most := w.stocked.stock.limit()
	if most >= int64(len(lanes))*laneBytes {
		return lanes, gate
	}
	lanes = lanes[:min(len(lanes), max(1, int(most/laneBytes)))]
	if len(lanes) > 0 {
		_, slots := lanes[0].Channel(w.conn).Reliable()
		entries := float64(most) / float64(len(lanes)) / bunch.EntryBytes
		gate.Share = min(gate.share(), entries/float64(max(1, slots)))
	}
	return lanes, gate
}

// note takes over what of the stock the lanes hold.
func (w *window) note() {
	if w.held == 0 {
		return
	}
	entries := 0
	for _, lane := range w.lanes {
		out, _ := lane.Channel(w.conn).Reliable()
		entries += out
	}
	w.hold(entries*bunch.EntryBytes - w.held)
}

// hold notes n more bytes on the lanes.
func (w *window) hold(n int) {
	w.held += n
	w.stocked.add(int64(n))
}
