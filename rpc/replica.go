package rpc

import (
	"bytes"
	"reflect"
	"slices"
	"unsafe"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/state"
)

// replica is one state of one actor. It belongs to the world's goroutine.
type replica interface {
	declaration() *declaredState

	// changed reports, on the server, whether the struct may differ from what was encoded last.
	changed() bool
	// encode finds out, on the server, which fields differ as encoded, and keeps them.
	encode() (state.Mask, error)
	// size returns how many bytes fields take as encoded last.
	size(fields state.Mask) int
	// appendTo appends fields as encoded last.
	appendTo(b []byte, fields state.Mask) []byte

	// remember keeps, on a client, what the struct is before something is read into it.
	remember()
	// read fills in a field.
	read(b []byte, field int) (rest []byte, err error)
	// tell runs OnRep when there is one, and the struct is no longer what was remembered; or names an actor that has come or gone,
	// unless it is 0.
	tell(w *World, moved Ref)
	// file enters the replica, on a client, under the actors that it names now, or under none any more.
	file(under referrers, any bool)
}

// replicaOf is a replica with its types.
type replicaOf[T, S any] struct {
	bound  *boundState[T, S]
	object T
	live   *S            // in the game's object
	value  reflect.Value // *live
	last   S             // server: as encoded last; client: as remembered
	shadow state.Shadow  // server
	filed  []Ref         // client: under which it is filed
	named  []Ref         // scratch
}

func (r *replicaOf[T, S]) declaration() *declaredState { return r.bound.declared }

func (r *replicaOf[T, S]) changed() bool {
	return !r.bound.declared.plan.Comparable() || !r.same()
}

// same compares memory: it takes a few ns where a comparison field by field takes ten times that, and most states do not change
// at most ticks. Bytes between fields may differ without meaning, which encode finds out.
func (r *replicaOf[T, S]) same() bool {
	size := unsafe.Sizeof(r.last)
	return bytes.Equal(unsafe.Slice((*byte)(unsafe.Pointer(r.live)), size), unsafe.Slice((*byte)(unsafe.Pointer(&r.last)), size))
}

func (r *replicaOf[T, S]) encode() (state.Mask, error) {
	changed, err := r.shadow.Update(r.bound.declared.plan, r.value)
	r.last = *r.live
	return changed, err
}

func (r *replicaOf[T, S]) size(fields state.Mask) int { return r.shadow.Size(fields) }

func (r *replicaOf[T, S]) appendTo(b []byte, fields state.Mask) []byte {
	return r.shadow.Append(b, fields)
}

func (r *replicaOf[T, S]) remember() { r.last = *r.live }

func (r *replicaOf[T, S]) read(b []byte, field int) ([]byte, error) {
	return r.bound.declared.plan.Read(b, r.value, field)
}

func (r *replicaOf[T, S]) tell(w *World, moved Ref) {
	if r.bound.onRep == nil || moved == 0 && r.unchanged() {
		return
	}
	old := r.last
	var none S
	r.last = none // what it refers to may go
	w.doing = activity{what: "OnRep of ", class: r.bound.declared.class}
	r.bound.onRep(r.object, old)
}

// unchanged compares, on a client, by value.
func (r *replicaOf[T, S]) unchanged() bool {
	if r.bound.declared.plan.Comparable() && r.same() {
		return true
	}
	return reflect.DeepEqual(*r.live, r.last)
}

func (r *replicaOf[T, S]) file(under referrers, any bool) {
	r.named = r.named[:0]
	if any {
		r.bound.declared.plan.References(r.value, func(_ int, id uint64) { r.named = append(r.named, Ref(id)) })
	}
	r.filed = under.refile(r, r.filed, r.named)
}

// pending are the replicas that the newest packet has changed on a client, and of which OnRep has not run.
type pending struct {
	replicas []replica // from next on
	next     int
	packet   uint64
}

// applyUpdate takes an update of an actor's state from the server.
func (w *World) applyUpdate(c *Conn, a *Actor, m bunch.Message) *CloseError {
	fields, rest, err := state.ReadMask(m.Payload, a.class.fields)
	if err == nil {
		rest, err = w.readFields(c, a, fields, rest, m.Number)
	}
	if err != nil {
		return violationf(PayloadFail, "state of %v, %d bytes: %v", a, len(m.Payload), err)
	}
	if len(rest) > 0 {
		return violationf(PayloadFail, "state of %v: %d bytes left over of %d", a, len(rest), len(m.Payload))
	}
	return nil
}

// readFields fills in those of the fields of which nothing newer has come: packets overtake each other, and each field is as
// new as the packet that brought it.
func (w *World) readFields(c *Conn, a *Actor, fields state.Mask, b []byte, packet uint64) (rest []byte, err error) {
	for i := 0; fields>>i != 0; i++ {
		if fields&(1<<i) == 0 {
			continue
		}
		d := a.class.stateOf(i)
		r := a.replica(d)
		if d.isList() { // it stands alone and takes the rest
			return nil, c.readList(r, b, packet)
		}
		if r == nil || packet < a.newest[i] {
			b, err = d.plan.Skip(b, i-d.first)
		} else {
			c.touch(r)
			a.newest[i] = packet
			b, err = r.read(b, i-d.first)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// readList takes an update of a list; nobody keeps it here when r is nil.
func (c *Conn) readList(r replica, b []byte, packet uint64) error {
	if r == nil {
		return nil
	}
	c.touch(r)
	return r.(keeper).readItems(b, packet)
}

// replica returns the actor's replica of a declared state, nil when nothing keeps it here.
func (a *Actor) replica(d *declaredState) replica {
	if a.replicas == nil {
		return nil
	}
	return a.replicas[d.id]
}

// touch remembers what a state was before a packet changes it.
func (c *Conn) touch(r replica) {
	for _, other := range c.reps.replicas {
		if other == r {
			return
		}
	}
	r.remember()
	c.reps.replicas = append(c.reps.replicas, r)
}

// tellReps runs OnRep for all that a packet has changed.
func (w *World) tellReps(c *Conn) {
	p := &c.reps
	for p.next < len(p.replicas) {
		r := p.replicas[p.next]
		p.next++ // before the call: one that does not return is not repeated
		r.file(c.referrers, true)
		r.tell(w, 0)
	}
	clear(p.replicas)
	p.replicas, p.next = p.replicas[:0], 0
}

// tellReferrers runs OnRep for the states that name an actor which has just opened, or ended, here.
func (w *World) tellReferrers(c *Conn, ref Ref) {
	for _, r := range c.referrers.of(ref) {
		if slices.Contains(c.reps.replicas, r) { // a packet has changed it, and OnRep is about to run
			continue
		}
		r.remember()
		r.tell(w, ref)
	}
}

// unfile forgets what the states of an actor that has ended name.
func (a *Actor) unfile(c *Conn) {
	for _, r := range a.replicas {
		if r != nil {
			r.file(c.referrers, false)
		}
	}
}
