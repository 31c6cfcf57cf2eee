package control

import "time"

const (
	// LeastRetryTime is how long a sealed carrier stays closed before the client opens the next one. It doubles while none opens, up
	// to mostRetryTime: a path that takes no sealed packets at all is not to be asked for ever.
	LeastRetryTime = 10 * time.Second
	mostRetryTime  = 10 * time.Minute
	// A server lets a client open freeInstances at any time, and one more for each instanceTime since the first. That is half of the pause
	// that the client keeps, for messages that a dark path held up arrive together.
	freeInstances = 8
	instanceTime  = LeastRetryTime / 2
	// FewSpares is the number of spare ids below which an end asks for more.
	FewSpares = 2
)

// Instances is what one end knows of the sealed carriers that it has agreed on with the other: instances, one after another, each with a
// number. The zero Instances has had none.
type Instances struct {
	began  time.Time     // of the first
	newest uint32        // 0 before the first
	live   bool          // the newest is to be used
	asked  bool          // this end has asked for more ids of the newest
	ended  time.Time     // when the newest did
	pause  time.Duration // from then to the next
}

// Begin says when the first instance begins.
func (i *Instances) Begin(now time.Time) { i.began, i.pause = now, LeastRetryTime }

// Newest returns the newest instance, 0 before the first.
func (i *Instances) Newest() uint32 { return i.newest }

// Live reports whether the newest instance is to be used.
func (i *Instances) Live() bool { return i.live }

// Renew makes an instance the newest, which is to be used.
func (i *Instances) Renew(instance uint32) { i.newest, i.live, i.asked = instance, true, false }

// Fail makes an instance the newest that could not be made.
func (i *Instances) Fail(instance uint32, now time.Time) {
	i.newest = instance
	i.End(now)
}

// End notes that the newest is no longer to be used.
func (i *Instances) End(now time.Time) { i.live, i.ended = false, now }

// Opened notes that packets get through: after the next end the pause is short again.
func (i *Instances) Opened() { i.pause = LeastRetryTime }

// Next returns how long a client waits before it opens the next instance; 0: it opens it now, and waits twice as long after that.
func (i *Instances) Next(now time.Time) (wait time.Duration) {
	if left := i.pause - now.Sub(i.ended); left > 0 {
		return left
	}
	i.pause = min(2*i.pause, mostRetryTime)
	return 0
}

// Want reports whether to ask for more ids now, when there are so many spare ones; the caller then does, and does not again until Given.
func (i *Instances) Want(spares int) bool {
	if i.asked || spares >= FewSpares {
		return false
	}
	i.asked = true
	return true
}

// MayOpen reports whether a client may open an instance now.
func (i *Instances) MayOpen(instance uint32, now time.Time) bool {
	most := freeInstances + uint64(max(0, now.Sub(i.began)/instanceTime))
	return instance == i.newest+1 && !i.live && uint64(instance) <= most
}

// Has judges the instance of a message. It is current when it is the newest and in use. One that is over is ok, for the message may have
// crossed its end; one that has not begun is not, for no honest peer names it.
func (i *Instances) Has(instance uint32) (current, ok bool) {
	return instance == i.newest && i.live, instance <= i.newest
}

// Given is [Instances.Has] for a message that brings ids, which must have been asked for.
func (i *Instances) Given(instance uint32) (current, ok bool) {
	if instance == i.newest && !i.asked {
		return false, false
	}
	current, ok = i.Has(instance)
	if current {
		i.asked = false
	}
	return current, ok
}
