package control

import "time"

const (
	// leastRetryTime is the time after a sealed carrier has closed at which the client opens
	// the next one. The wait doubles, up to mostRetryTime, while none opens. A path that
	// takes no sealed packets at all must not be tried again and again.
	leastRetryTime = 10 * time.Second
	mostRetryTime  = 10 * time.Minute
	// A server lets a client open freeInstances at any time, and one more for each
	// instanceTime since the first. instanceTime is half of leastRetryTime, because messages
	// that an interrupted path held up arrive together.
	freeInstances = 8
	instanceTime  = leastRetryTime / 2
	// fewSpares is the number of spare IDs below which an end asks for more.
	fewSpares = 2
)

// Instances is one end's record of the sealed carriers agreed on with the peer, which are
// called instances. They are used one after another and are numbered from 1. The zero
// Instances has had none.
type Instances struct {
	began  time.Time     // when the first instance began
	newest uint32        // 0 before the first instance
	live   bool          // the newest instance is in use
	asked  bool          // this end has asked for more IDs of the newest instance
	ended  time.Time     // when the newest instance ended
	pause  time.Duration // time after ended until the client may open the next instance
}

// Begin records the time at which the first instance begins.
func (i *Instances) Begin(now time.Time) {
	i.began = now
	i.pause = leastRetryTime
}

// Newest returns the number of the newest instance, or 0 if there was none.
func (i *Instances) Newest() uint32 { return i.newest }

// Live reports whether the newest instance is in use.
func (i *Instances) Live() bool { return i.live }

// Renew records a new instance, which is in use from now on.
func (i *Instances) Renew(instance uint32) {
	i.newest = instance
	i.live = true
	i.asked = false
}

// End records that the newest instance is no longer in use.
func (i *Instances) End(now time.Time) {
	i.live = false
	i.ended = now
}

// Opened is called when packets of the newest instance arrive. The wait after the instance's
// end is then leastRetryTime again.
func (i *Instances) Opened() { i.pause = leastRetryTime }

// Next returns the time the client must wait before it opens the next instance. If that is 0,
// the client opens it now, and Next has doubled the next wait.
func (i *Instances) Next(now time.Time) (wait time.Duration) {
	if left := i.pause - now.Sub(i.ended); left > 0 {
		return left
	}
	i.pause = min(2*i.pause, mostRetryTime)
	return 0
}

// Want reports whether the caller must now ask the peer for more IDs. spares is the number of
// spare ones. After Want has returned true, it returns false until Given.
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

// Has checks the instance named by a message. current is true if it is the newest and in use.
//
// ok is also true for an instance that has ended, because the sender may not have known of
// the end. It is false for one that has not begun, which no honest peer names.
func (i *Instances) Has(instance uint32) (current, ok bool) {
	return instance == i.newest && i.live, instance <= i.newest
}

// Given is [Instances.Has] for a message with IDs. ok is false if this end has not asked for
// IDs.
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
