package stream

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
)

const (
	// A server opens at most mostOpenings lanes for a connection in openingTime: all that there can be, twice as often as an honest client can
	// let go of them. A client that lets go of lanes as soon as they are open gets no more until that time is over.
	openingTime  = laneIdle / 2
	mostOpenings = maxLanes
)

// serverLanes opens the lanes of a connection on a server, and closes those that its client has let go of. Owned by the world's goroutine.
type serverLanes struct {
	peer *Peer

	// At most mostOpenings lanes are opened in openingTime.
	opened      int       // lanes opened since openedSince
	openedSince time.Time // when opened was last set to 0
}

// begin opens the lanes that stay: one even if the backend is not [Window], for transfers that choose Window by [Via].
func (s *serverLanes) begin(backend Backend) error {
	stay := 1
	if w := backend.window(); w != nil {
		stay = cmp.Or(w.Lanes, defaultLanes)
	}
	s.peer.lanes.stay, s.peer.lanes.asked = stay, stay
	return s.peer.window.grow(stay)
}

// open opens the lanes that are missing, but at most mostOpenings in openingTime, and none in place of those that the client has let go of and not
// acknowledged; later ticks open the others.
func (s *serverLanes) open(now time.Time) error {
	window := s.peer.window
	before := len(window.lanes)
	if now.Sub(s.openedSince) >= openingTime {
		s.openedSince, s.opened = now, 0
	}
	want := min(s.peer.lanes.asked, before+mostOpenings-s.opened)
	if len(window.parting) > 0 && want > before {
		window.unacked() // forgets those that are acknowledged
		want = min(want, max(before, maxLanes-len(window.parting)))
	}
	err := window.grow(want)
	s.opened += len(window.lanes) - before
	if len(window.lanes) < want { // the connection has no channel left: try again after openingTime, not in each tick
		s.opened = mostOpenings
	}
	return err
}

// onLeave closes a lane that the client has let go of. Parts on their way to the client arrive before the close.
func (s *serverLanes) onLeave(lane *rpc.Actor) {
	w := s.peer.window
	if i := slices.Index(w.lanes, lane); i >= 0 && len(w.lanes) > s.peer.lanes.stay {
		w.lanes = slices.Delete(w.lanes, i, i+1)
		w.parting = append(w.parting, lane.Channel(s.peer.conn))
		s.peer.lanes.asked = len(w.lanes)
		if err := s.peer.streams.world.Destroy(lane); err != nil {
			s.peer.fail(err)
		}
		return
	}
	s.peer.violate("a lane was let go, of %d that stay", s.peer.lanes.stay)
}
