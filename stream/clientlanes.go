package stream

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// laneIdle is how long no part has travelled, either way, when a client lets go of the lanes that were opened for a transfer.
const laneIdle = 10 * time.Second

// clientLanes lets go, on a client, of the lanes that were opened for transfers, once none has been used for laneIdle. Owned by the world's
// goroutine.
type clientLanes struct {
	peer *Peer

	// Whether the lanes are idle.
	touched bool      // a lane was opened, or a part has arrived, since the last tick; nobody asks at a server
	used    time.Time // the last tick that found touched set, or a transfer that sends on lanes
	idle    alarm     // has a tick come once lanes may have been idle for laneIdle

	parting []*rpc.Actor // this end has let go of them, and the server has yet to close them
}

// letGo lets go of the lanes that do not stay, if they are idle. A message on each of them tells the server, which alone can close it, that nothing
// more comes there.
func (c *clientLanes) letGo(now time.Time) error {
	w, stay := c.peer.window, c.peer.lanes.stay
	if c.touched || c.peer.sender.usesLanes() {
		c.touched, c.used = false, now
	}
	if stay == 0 || len(w.lanes) <= stay {
		return nil
	}
	if wait := laneIdle - now.Sub(c.used); wait > 0 {
		c.idle.set(c.peer, wait)
		return nil
	}
	for _, lane := range w.lanes[stay:] {
		if err := leaveLane.Call(lane, nil); err != nil {
			return err
		}
	}
	c.parting = append(c.parting, w.lanes[stay:]...)
	clear(w.lanes[stay:])
	w.lanes = w.lanes[:stay]
	c.peer.lanes.asked = stay
	return nil
}

// closing reports whether the server has yet to close lanes that this end has let go of; it forgets those that are closed. The client asks for
// no more until then, because the server would count them as open.
func (c *clientLanes) closing() bool {
	c.parting = slices.DeleteFunc(c.parting, func(a *rpc.Actor) bool { return !a.Alive() })
	return len(c.parting) > 0
}
