package dos

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Detector watches the clients of one world. It belongs to one goroutine, with its peers.
type Detector struct {
	profile Profile
	epoch   time.Time // from which seconds count; zero before the first frame

	now    time.Time // of this frame
	second int64     // of it
	frame  uint64
	spent  time.Duration // by handlers in this frame
	rested bool          // the world had nothing to do until this frame

	suspended bool      // quotas of a frame count nothing
	until     time.Time // when the last suspension ends
	hitchFrom time.Time // when the next may begin

	identities map[string]*Peer
	left       []departure // of those without connections, in the order of their leaving
}

// departure is a peer without a connection, and since when.
type departure struct {
	peer *Peer
	at   time.Time
}

// New returns a detector, or what of the profile makes no sense.
func New(profile *Profile) (*Detector, error) {
	if err := profile.validate(); err != nil {
		return nil, err
	}
	d := &Detector{profile: *profile, identities: make(map[string]*Peer)}
	d.profile.States = slices.Clone(profile.States)
	return d, nil
}

// Frame begins a frame. A time before the last one counts as that.
func (d *Detector) Frame(now time.Time) {
	if d.epoch.IsZero() {
		d.epoch, d.now = now, now
	}
	d.look(now)
	d.rested = false
	d.frame++
}

// Idle says that the world waits for something to happen from now until the next Frame, which is no hitch.
func (d *Detector) Idle(now time.Time) {
	if !d.epoch.IsZero() {
		d.look(now)
		d.rested = true
	}
}

// look notes the time, and whether the server hitched until now.
func (d *Detector) look(now time.Time) {
	if now.Before(d.now) {
		now = d.now
	}
	gap := now.Sub(d.now) - d.spent
	d.now, d.spent = now, 0
	d.second = int64(now.Sub(d.epoch) / time.Second)
	if d.profile.HitchTime > 0 && gap >= d.profile.HitchTime && !d.rested && !now.Before(d.hitchFrom) {
		d.until = now.Add(d.profile.HitchSuspend)
		d.hitchFrom = d.until.Add(d.profile.HitchSuspend)
	}
	d.suspended = now.Before(d.until)
}

// Join returns the peer of a new connection: the same for all that have one identity, unless that is empty.
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
	if p.state == 0 && p.conns == 1 && p.second-p.tolerated >= seconds(d.profile.Remember) {
		p.tolerated = p.second + seconds(d.profile.JoinTolerance)
	}
	return p
}

// Leave takes back what Join returned: one connection has ended.
func (d *Detector) Leave(p *Peer) {
	if p.conns--; p.conns > 0 || p.identity == "" {
		return
	}
	p.shorten()
	d.left = append(d.left, departure{p, d.now})
	d.forget()
}

// forget drops the peers that left too long ago, and the oldest of those that are too many.
func (d *Detector) forget() {
	n := 0
	for n < len(d.left) && (d.now.Sub(d.left[n].at) >= d.profile.Remember || len(d.left)-n > d.profile.Identities) {
		delete(d.identities, d.left[n].peer.identity)
		n++
	}
	d.left = slices.Delete(d.left, 0, n)
}

// names reports whether a list of methods and classes has a method.
func names(list []string, method string) bool {
	class := method
	if dot := strings.LastIndexByte(method, '.'); dot >= 0 {
		class = method[:dot]
	}
	return slices.Contains(list, method) || slices.Contains(list, class)
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
