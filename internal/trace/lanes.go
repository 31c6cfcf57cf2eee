package trace

// maxLanes is how many slices of one kind may overlap in a track; the encoder draws further ones as instants.
const maxLanes = 64

// lanes holds tracks with the same name and parent, one for each of the slices that overlap.
type lanes struct {
	parent uint64
	name   string
	all    []lane
}

// lane is a track on which slices follow each other.
type lane struct {
	track uint64
	open  bool  // a slice has begun and not ended
	until int64 // when the last slice ended, in ns of the trace's clock
}

// lane returns the place in l.all of a lane that is free at time from, -1 when maxLanes are taken. The caller opens a slice on it.
func (e *encoder) lane(l *lanes, from int64) int {
	for i := range l.all {
		if free := &l.all[i]; !free.open && free.until <= from {
			free.open = true
			return i
		}
	}
	if len(l.all) == maxLanes {
		return -1
	}
	l.all = append(l.all, lane{track: e.id(), open: true})
	e.declare(l.all[len(l.all)-1].track, l.parent, l.name)
	return len(l.all) - 1
}

// idle reports whether no slice is open.
func (l *lanes) idle() bool {
	for i := range l.all {
		if l.all[i].open {
			return false
		}
	}
	return true
}

// open begins a slice on a free lane and returns the lane's place. Without a free lane it begins an instant and returns -1. The caller
// adds notes and calls end.
func (e *encoder) open(l *lanes, at int64, name string) (place int) {
	kind, track := uint64(sliceBegin), uint64(0)
	if place = e.lane(l, at); place < 0 {
		kind, track = instant, l.parent
	} else {
		track = l.all[place].track
	}
	e.begin(kind, track, at, name)
	return place
}

// close begins the end of the slice on a lane; the caller then calls end. It returns false, and writes nothing, for place -1.
func (e *encoder) close(l *lanes, place int, at int64) bool {
	if place < 0 {
		return false
	}
	free := &l.all[place]
	free.open, free.until = false, at
	e.begin(sliceEnd, free.track, at, "")
	return true
}
