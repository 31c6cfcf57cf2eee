package control

import "time"

const (
	// minRetryTime is how long a client waits after a sealed carrier closes before it opens the
	// next one. While no carrier works, the wait doubles each time, up to maxRetryTime, because on
	// a path that drops all sealed packets, there's no point in trying often.
	minRetryTime = 10 * time.Second
	maxRetryTime = 10 * time.Minute

	// A client may open freeInstances instances at any time, and one more for each instanceTime
	// since the first one. An honest client waits for twice as long. The limit is more generous
	// because messages that were delayed by an interrupted path arrive all at once.
	freeInstances = 8
	instanceTime  = minRetryTime / 2

	// minSpares is the number of spare IDs below which a side asks for more: one for the next
	// change of address, and one for another change before the answer arrives.
	minSpares = 2
)

// Instances tracks the sealed carriers of a connection, which uses one after another. Each of them
// is an instance, and instances are numbered from 1. The zero Instances hasn't had any.
type Instances struct {
	firstAt   time.Time     // when the first instance began
	newest    uint32        // number of the newest instance; 0 before the first
	live      bool          // the newest instance is in use
	requested bool          // we asked for more IDs for the newest instance, and have no answer yet
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

// Opened is called when packets of the newest instance arrive. Because the path carries sealed
// packets, the client needn't wait long before the next instance when this one ends.
func (i *Instances) Opened() { i.pause = minRetryTime }

// TryNext returns how long the client must wait before it opens the next instance. If it returns 0,
// the client must open that instance, because TryNext has then doubled the wait for the following
// one.
func (i *Instances) TryNext(now time.Time) (wait time.Duration) {
	if left := i.pause - now.Sub(i.endedAt); left > 0 {
		return left
	}
	i.pause = min(2*i.pause, maxRetryTime)
	return 0
}

// RequestIDs decides whether to ask the peer for more IDs. spares is the number of spare IDs. If it
// returns true, the caller must ask at once, because RequestIDs doesn't return true again until the
// answer is passed to AcceptIDs.
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

// Has looks up an instance that the peer named in a message. current is true if the instance is in
// use.
//
// ok is false if the instance hasn't begun, because no honest peer would name it yet. The peer may
// name an instance that has ended, because it may not have known that when it sent the message.
func (i *Instances) Has(instance uint32) (current, ok bool) {
	return instance == i.newest && i.live, instance <= i.newest
}

// AcceptIDs is like [Instances.Has], but for a message with IDs, which answers our request. ok is
// also false if we didn't ask for any.
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
