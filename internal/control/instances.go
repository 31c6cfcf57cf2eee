package control

import "time"

const (
	// minRetryTime is the time that a client waits after a sealed carrier has closed before it
	// opens the next one. While no carrier works, the wait doubles each time, up to maxRetryTime.
	// On a path that takes no sealed packets at all, there's no point in trying often.
	minRetryTime = 10 * time.Second
	maxRetryTime = 10 * time.Minute

	// A client may open freeInstances instances at any time, and one more for each instanceTime
	// since the first one. An honest client waits for twice as long. The limit is more generous
	// because messages that were held up on an interrupted path arrive all at once.
	freeInstances = 8
	instanceTime  = minRetryTime / 2

	// minSpares is the number of spare IDs that an end wants to have.
	minSpares = 2
)

// Instances holds what one end has agreed on with its peer about sealed carriers. A connection
// uses one carrier after another. Each of them is an instance, and instances are numbered from 1.
// The zero Instances hasn't had any instance.
type Instances struct {
	firstAt   time.Time     // when the first instance began
	newest    uint32        // number of the newest instance; 0 before the first
	live      bool          // the newest instance is in use
	requested bool          // we have asked for more IDs for the newest instance
	endedAt   time.Time     // when the newest instance ended
	pause     time.Duration // the client's wait after endedAt before it opens the next instance
}

// Begin is called once, when the first instance begins.
func (i *Instances) Begin(now time.Time) {
	i.firstAt = now
	i.pause = minRetryTime
}

// Newest returns the number of the newest instance, or 0 if there was none.
func (i *Instances) Newest() uint32 { return i.newest }

// Live reports whether the newest instance is in use.
func (i *Instances) Live() bool { return i.live }

// Renew begins a new instance, which is in use until End.
func (i *Instances) Renew(instance uint32) {
	i.newest = instance
	i.live = true
	i.requested = false
}

// End is called when the newest instance is no longer in use.
func (i *Instances) End(now time.Time) {
	i.live = false
	i.endedAt = now
}

// Opened is called when packets of the newest instance arrive. Since the path takes sealed
// packets, the client needn't wait long for the next instance when this one ends.
func (i *Instances) Opened() { i.pause = minRetryTime }

// TryNext returns how long the client must wait before it opens the next instance. Once it
// returns 0, the client must open that instance, because TryNext has already doubled the wait for
// the following one.
func (i *Instances) TryNext(now time.Time) (wait time.Duration) {
	if left := i.pause - now.Sub(i.endedAt); left > 0 {
		return left
	}
	i.pause = min(2*i.pause, maxRetryTime)
	return 0
}

// RequestIDs decides whether to ask the peer for more IDs. spares is the number of spare IDs. If
// RequestIDs returns true, the caller must ask at once, because it won't return true again until
// the answer has been passed to AcceptIDs.
func (i *Instances) RequestIDs(spares int) bool {
	if i.requested || spares >= minSpares {
		return false
	}
	i.requested = true
	return true
}

// MayOpen reports whether the server allows a client to open an instance now.
func (i *Instances) MayOpen(instance uint32, now time.Time) bool {
	limit := freeInstances + uint64(max(0, now.Sub(i.firstAt)/instanceTime))
	return instance == i.newest+1 && !i.live && uint64(instance) <= limit
}

// Has looks up an instance that the peer has named. current is true if the instance is in use.
//
// ok is false if the instance hasn't begun, since no honest peer would name it yet. The peer
// may name an instance that has ended, because it may not have known about the end when it
// sent the message.
func (i *Instances) Has(instance uint32) (current, ok bool) {
	return instance == i.newest && i.live, instance <= i.newest
}

// AcceptIDs is like [Instances.Has], for a message with IDs, which answers our request. ok is also
// false if we haven't asked for any.
func (i *Instances) AcceptIDs(instance uint32) (current, ok bool) {
	if instance == i.newest && !i.requested {
		return false, false
	}
	current, ok = i.Has(instance)
	if current {
		i.requested = false
	}
	return current, ok
}
