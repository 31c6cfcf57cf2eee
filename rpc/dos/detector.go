package dos

import (
	"math"
	"slices"
	"strings"
	"time"
)

// A Detector detects the clients of a world that call too much. It makes a Peer for each client
// and provides the time for all peers. It doesn't read a clock, but gets the time from Frame.
//
// If the server itself hitches, calls pile up through no fault of the clients. The detector
// notices a hitch when a frame begins late, and then suspends the quotas of frames for a while.
//
// Only one goroutine may use a Detector and its peers.
type Detector struct {
	profile Profile

	// The lowest state with an AutoEscalate and a Period: see State.AutoEscalate. If there is no
	// such state, this is 0, a state without quotas.
	sustained int
	share     Load // one second's share of that state's Period

	// The time.
	epoch       time.Time     // beginning of second 0; zero before the first frame
	now         time.Time     // beginning of this frame
	second      int64         // the second in which this frame began
	frame       uint64        // number of the frame
	handlerTime time.Duration // total time of handlers in this frame
	idle        bool          // the world had nothing to do until this frame

	// Hitches of the server.
	suspended      bool      // calls don't count towards the quotas of a frame
	suspendedUntil time.Time // end of the last suspension
	nextSuspension time.Time // earliest beginning of the next suspension

	identities map[string]*Peer
	departed   []departure // peers without a connection that we still remember, in order
}

// A departure is a peer without a connection, and the time when its last connection ended.
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

// Frame begins a frame. If now is before the last frame, the detector's time stands still.
func (d *Detector) Frame(now time.Time) {
	if d.epoch.IsZero() {
		d.epoch = now
		d.now = now
	}
	d.advance(now)
	d.idle = false
	d.frame++
}

// Idle is called when the world begins to wait for events, so that the wait until the next Frame
// doesn't count as a hitch.
func (d *Detector) Idle(now time.Time) {
	if !d.epoch.IsZero() {
		d.advance(now)
		d.idle = true
	}
}

// advance moves the time forward, and suspends the quotas of frames if the server has hitched in
// between.
func (d *Detector) advance(now time.Time) {
	if now.Before(d.now) {
		now = d.now
	}
	// Handler time doesn't count towards a hitch: see Profile.HitchTime.
	gap := now.Sub(d.now) - d.handlerTime
	d.now = now
	d.handlerTime = 0
	d.second = int64(now.Sub(d.epoch) / time.Second)

	hitched := d.profile.HitchTime > 0 && gap >= d.profile.HitchTime && !d.idle
	if hitched && !now.Before(d.nextSuspension) {
		d.suspendedUntil = now.Add(d.profile.HitchSuspend)
		d.nextSuspension = d.suspendedUntil.Add(d.profile.HitchSuspend)
	}
	d.suspended = now.Before(d.suspendedUntil)
}

// Join returns the peer for a new connection. All connections of an identity share a peer. A
// connection without an identity has one of its own.
func (d *Detector) Join(identity string) *Peer {
	d.removeOld()
	p := d.identities[identity]
	if p == nil {
		p = newPeer(d, identity)
	}
	if identity != "" {
		d.identities[identity] = p
		d.departed = slices.DeleteFunc(d.departed, func(l departure) bool { return l.peer == p })
	}
	p.conns++
	p.catchUp()

	// Grant the JoinTolerance, but not each time a client reconnects.
	graceDue := p.second-p.toleratedUntil >= seconds(d.profile.Remember)
	if p.state == 0 && p.conns == 1 && graceDue {
		p.toleratedUntil = p.second + seconds(d.profile.JoinTolerance)
	}
	return p
}

// Leave is called when a connection of p, a peer returned by Join, ends.
func (d *Detector) Leave(p *Peer) {
	p.conns--
	if p.conns > 0 || p.identity == "" {
		return
	}
	p.keepOnlyBlamed()
	d.departed = append(d.departed, departure{p, d.now})
	d.removeOld()
}

// removeOld forgets the peers that departed too long ago. If there are still too many, it also
// forgets the peers that departed first.
func (d *Detector) removeOld() {
	n := 0
	for n < len(d.departed) {
		tooOld := d.now.Sub(d.departed[n].at) >= d.profile.Remember
		tooMany := len(d.departed)-n > d.profile.Identities
		if !tooOld && !tooMany {
			break
		}
		delete(d.identities, d.departed[n].peer.identity)
		n++
	}
	d.departed = slices.Delete(d.departed, 0, n)
}

// includes reports whether a list of methods and classes includes a method or its class.
func includes(list []string, method string) bool {
	class := method
	if dot := strings.LastIndexByte(method, '.'); dot >= 0 {
		class = method[:dot]
	}
	return slices.Contains(list, method) || slices.Contains(list, class)
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
