package rpc

import (
	"bytes"
	"reflect"
	"unsafe"

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
