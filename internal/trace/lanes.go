package trace

import "slices"

// maxLanes is the maximum number of overlapping slices of one kind. The encoder writes any
// more as instants.
const maxLanes = 64

// lanes are tracks with the same name and parent, one for each overlapping slice.
type lanes struct {
	parent uint64
	name   string
	all    []lane
}

// lane is a track whose slices do not overlap.
type lane struct {
	track uint64
	open  bool  // a slice has begun but not ended
	until int64 // when the last slice ended, in ns of the trace's clock
}

// idle reports whether no slice is open.
func (l *lanes) idle() bool {
	return !slices.ContainsFunc(l.all, func(one lane) bool { return one.open })
}

// open begins a slice on a free lane and returns the lane's index. If no lane is free and
// there are maxLanes lanes, it begins an instant and returns -1. The caller adds annotations
// and calls end.
func (e *encoder) open(l *lanes, at int64, name string) (place int) {
	place = slices.IndexFunc(l.all, func(one lane) bool { return !one.open && one.until <= at })
	switch {
	case place < 0 && len(l.all) == maxLanes:
		e.begin(instant, l.parent, at, name)
		return -1
	case place < 0:
		place = len(l.all)
		l.all = append(l.all, lane{track: e.id()})
		e.declare(l.all[place].track, l.parent, l.name)
	}
	l.all[place].open = true
	e.begin(sliceBegin, l.all[place].track, at, name)
	return place
}

// close ends the slice on a lane. how is the slice's fate, or empty if it has none. If place
// is -1, close writes nothing.
func (e *encoder) close(l *lanes, place int, at int64, how string) {
	if place < 0 {
		return
	}
	free := &l.all[place]
	free.open = false
	free.until = at
	e.begin(sliceEnd, free.track, at, "")
	if how != "" {
		e.text("fate", how)
	}
	e.end()
}
