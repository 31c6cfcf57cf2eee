package control

import "time"

const (
	// leastRetryTime is how long after a sealed carrier has closed the client opens
	// the next one. The wait doubles, up to mostRetryTime, while none opens, because
	// a path that takes no sealed packets at all must not be tried again and again.
	leastRetryTime = 10 * time.Second
	mostRetryTime  = 10 * time.Minute
	// A server lets a client open freeInstances at any time, and one more for
	// each instanceTime since the first. instanceTime is half of leastRetryTime,
	// because messages that an interrupted path has held up arrive together.
	freeInstances = 8
	instanceTime  = leastRetryTime / 2
	// fewSpares is the number of spare ids below which an end asks for more.
	fewSpares = 2
)

// Instances is one end's record of the sealed carriers agreed on with the peer.
// They are called instances, are used one after another, and are numbered
// from 1. In the zero Instances there was none.
type Instances struct {
	began  time.Time     // when the first instance began
	newest uint32        // 0 before the first
	live   bool          // the newest instance is in use
	asked  bool          // this end has asked for more ids of the newest
	ended  time.Time     // when the newest instance ended
	pause  time.Duration // how long after ended the client may open the next one
}

// Begin records when the first instance begins.
func (i *Instances) Begin(now time.Time) { i.began, i.pause = now, leastRetryTime }

// Newest returns the number of the newest instance; 0 = there was none.
func (i *Instances) Newest() uint32 { return i.newest }

// Live reports whether the newest instance is in use.
func (i *Instances) Live() bool { return i.live }

// Renew records a new instance, which is in use from now on.
func (i *Instances) Renew(instance uint32) { i.newest, i.live, i.asked = instance, true, false }

// End records that the newest instance is no longer in use.
func (i *Instances) End(now time.Time) { i.live, i.ended = false, now }

// Opened is called when packets of the newest instance arrive. The wait after
// its end is then leastRetryTime again.
func (i *Instances) Opened() { i.pause = leastRetryTime }

// Next returns how long the client must wait before it opens the next instance.
// If that is 0, the client opens it now, and Next has doubled the next wait.
func (i *Instances) Next(now time.Time) (wait time.Duration) {
	if left := i.pause - now.Sub(i.ended); left > 0 {
		return left
	}
	i.pause = min(2*i.pause, mostRetryTime)
	return 0
}

// Want reports whether the caller must ask the peer for more ids now, given the
// number of spare ones. After it has returned true, it returns false until Given.
func (i *Instances) Want(spares int) bool {
	if i.asked || spares >= fewSpares {
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

// Has checks the instance that a message names. current is true if it is the newest and in
// use. ok is true also for an instance that has ended, because the message may have been sent
// before its sender knew, and false for one that has not begun, which no honest peer names.
func (i *Instances) Has(instance uint32) (current, ok bool) {
	return instance == i.newest && i.live, instance <= i.newest
}

// Given is [Instances.Has] for a message with ids. ok is false if this end has not asked for them.
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
