package dos

import (
	"math"
	"slices"
	"strings"
	"time"
)

// A Detector watches the clients of one world. Only one goroutine may use it and its peers.
// It reads no clock: the time is an argument of Frame.
type Detector struct {
	profile Profile

	// The lowest state with an AutoEscalate and a Period: see State.AutoEscalate. If there is
	// none, it is 0, a state without quotas.
	sustained int

	share Load // a second's part of the quotas of state sustained

	epoch time.Time // beginning of second 0; zero = there was no frame yet

	now    time.Time     // beginning of this frame
	second int64         // the second in which this frame began
	frame  uint64        // number of the frame
	spent  time.Duration // time of handlers in this frame
	rested bool          // the world had nothing to do until this frame

	suspended bool      // calls do not count towards the quotas of a frame
	until     time.Time // end of the last suspension
	hitchFrom time.Time // earliest beginning of the next suspension

	identities map[string]*Peer
	left       []departure // peers without a connection, in the order of their departure
}

// departure is a peer without a connection, and the time when its last connection ended.
type departure struct {
	peer *Peer
	at   time.Time
}

// New returns a detector, or an error if the profile is not valid.
func New(profile *Profile) (*Detector, error) {
	if err := profile.validate(); err != nil {
		return nil, err
	}
	d := &Detector{profile: *profile, identities: make(map[string]*Peer)}
	d.profile.States = slices.Clone(profile.States)
	d.sustained = max(0, slices.IndexFunc(d.profile.States, func(s State) bool {
		return s.AutoEscalate > 0 && s.Period != Load{}
	}))
	d.share = *d.profile.States[d.sustained].share()
	return d, nil
}

// Frame begins a frame. A time before the last frame counts as the time of the last frame.
func (d *Detector) Frame(now time.Time) {
	if d.epoch.IsZero() {
		d.epoch = now
		d.now = now
	}
	d.advance(now)
	d.rested = false
	d.frame++
}

// Idle is called when the world begins to wait for events. The wait until the
// next Frame then does not count as a hitch.
func (d *Detector) Idle(now time.Time) {
	if !d.epoch.IsZero() {
		d.advance(now)
		d.rested = true
	}
}

// advance updates the time. If the server has hitched until now,
// advance suspends the quotas of frames.
func (d *Detector) advance(now time.Time) {
	if now.Before(d.now) {
		now = d.now
	}
	gap := now.Sub(d.now) - d.spent
	d.now = now
	d.spent = 0
	d.second = int64(now.Sub(d.epoch) / time.Second)
	if d.profile.HitchTime > 0 && gap >= d.profile.HitchTime && !d.rested && !now.Before(d.hitchFrom) {
		d.until = now.Add(d.profile.HitchSuspend)
		d.hitchFrom = d.until.Add(d.profile.HitchSuspend)
	}
	d.suspended = now.Before(d.until)
}

// Join returns the peer of a new connection. All connections of an identity share a peer. A
// connection whose identity is empty has its own.
func (d *Detector) Join(identity string) *Peer {
	d.forget()
	p := d.identities[identity]
	if p == nil {
		p = newPeer(d, identity)
	}
	if identity != "" {
		d.identities[identity] = p
		d.left = slices.DeleteFunc(d.left, func(l departure) bool { return l.peer == p })
	}
	p.conns++
	p.catchUp()
	if p.state == 0 && p.conns == 1 && p.second-p.toleratedUntil >= seconds(d.profile.Remember) {
		p.toleratedUntil = p.second + seconds(d.profile.JoinTolerance)
	}
	return p
}

// Leave is called when a connection for which Join returned p ends.
func (d *Detector) Leave(p *Peer) {
	p.conns--
	if p.conns > 0 || p.identity == "" {
		return
	}
	p.shorten()
	d.left = append(d.left, departure{p, d.now})
	d.forget()
}

// forget removes the peers that left too long ago. If there are still
// too many, it removes those that left first.
func (d *Detector) forget() {
	n := 0
	for n < len(d.left) {
		tooOld := d.now.Sub(d.left[n].at) >= d.profile.Remember
		tooMany := len(d.left)-n > d.profile.Identities
		if !tooOld && !tooMany {
			break
		}
		delete(d.identities, d.left[n].peer.identity)
		n++
	}
	d.left = slices.Delete(d.left, 0, n)
}

// names reports whether a list of methods and classes contains a method or its class.
func names(list []string, method string) bool {
	class := method
	if dot := strings.LastIndexByte(method, '.'); dot >= 0 {
		class = method[:dot]
	}
	return slices.Contains(list, method) || slices.Contains(list, class)
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
