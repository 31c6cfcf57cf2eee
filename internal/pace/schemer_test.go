package pace_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

// A scheme is how a hostile receiver acks. It acks nothing that has not
// arrived, because that might be a number that was skipped.
type scheme struct {
	speed float64       // of its clock
	hold  time.Duration // packets are acked when they are that old: round trips show no queue
	each  time.Duration // acks leave at multiples of it; 0 = at once
	delay time.Duration // for which it says that it has held acks back

	// What looks like jitter: none of it for a packet in sixteen, and more and
	// more for those that follow.
	calm   bool          // it tells times at which no queue stands
	jitter time.Duration // the most that it adds to the times that it tells
	shake  time.Duration // the longest for which it holds an ack back

	// What it does not ack, so that it counts as lost.
	cycle, told int           // of so many numbers the first ones are acked; 0 = all
	least       int           // stretches of fewer packets that came are not acked
	late        time.Duration // what was not told is acked after all when it is that old; 0 = never
}

// A schemer is a sender like that of package sealed, with a receiver that follows a scheme.
type schemer struct {
	scheme
	control *pace.Controller
	now     time.Time

	// The sender.
	begin     time.Time
	sent      []schemed
	oldest    int
	loss      recovery.Losses
	rtt       time.Duration // of the packet that was acked last
	inFlight  int
	probeAt   time.Time
	backoff   int
	probes    bool
	bytes     int
	reports   map[uint64][]told
	reportsNo uint64

	// The receiver.
	waiting  []told
	stretch  []told
	received int
}

// A schemed is a packet that was sent.
type schemed struct {
	at, until time.Time // when it left, and until when a late ack of it counts
	sample    pace.Sample
	acked     bool
	lost      bool
}

// A told is an ack of a packet.
type told struct {
	due    time.Time
	number uint64
	at     time.Time // by the receiver's clock
}

func (s *schemer) done() bool                      { return false }
func (s *schemer) since(t time.Time) time.Duration { return t.Sub(netsim.Epoch) }

func (s *schemer) arrive(now time.Time, packet []byte) {
	s.now = now
	s.received += charged
	zero := remote(netsim.Epoch)
	n := number(packet)
	at, part := now, time.Duration(n%16)
	if s.calm {
		at = s.sent[n].at.Add(time.Second)
	}
	at = at.Add(s.jitter * part / 16)
	due := s.dueAt(n, s.hold).Add(s.shake * part / 16)
	x := told{due, n, zero.Add(time.Duration(float64(remote(at).Sub(zero)) * s.speed))}
	switch {
	case s.cycle > 0 && int(n)%s.cycle >= s.told:
		s.withhold(x)
	case s.least > 1:
		s.extend(x)
	default:
		s.waiting = append(s.waiting, x)
	}
}

// dueAt returns when a packet is that old, but not before now.
func (s *schemer) dueAt(n uint64, age time.Duration) time.Time {
	return s.now.Add(max(s.sent[n].at.Add(age).Sub(s.now), 0))
}

// withhold acks packets late, or never.
func (s *schemer) withhold(list ...told) {
	for _, x := range list {
		if x.due = s.dueAt(x.number, s.late); s.late > 0 {
			s.waiting = append(s.waiting, x)
		}
	}
}

// extend adds to the stretch of packets that arrived without a gap. Once it is
// long enough, all of it is acked.
func (s *schemer) extend(x told) {
	if n := len(s.stretch); n > 0 && x.number != s.stretch[n-1].number+1 {
		if n < s.least {
			s.withhold(s.stretch...)
		}
		s.stretch = s.stretch[:0]
	}
	s.stretch = append(s.stretch, x)
	switch n := len(s.stretch); {
	case n == s.least:
		s.waiting = append(s.waiting, s.stretch...)
	case n > s.least:
		s.waiting = append(s.waiting, x)
	}
}

// replyAt returns when acks are sent; zero = there are none.
func (s *schemer) replyAt() time.Time {
	if len(s.waiting) == 0 {
		return time.Time{}
	}
	first := slices.MinFunc(s.waiting, func(a, b told) int { return a.due.Compare(b.due) }).due
	if s.each > 0 {
		first = netsim.Epoch.Add((s.since(first) + s.each - 1) / s.each * s.each)
	}
	return first
}

func (s *schemer) reply(now time.Time) []byte {
	if at := s.replyAt(); at.IsZero() || at.After(now) {
		return nil
	}
	var due, rest []told
	for _, x := range s.waiting {
		if x.due.After(now) {
			rest = append(rest, x)
		} else {
			due = append(due, x)
		}
	}
	slices.SortFunc(due, func(a, b told) int { return cmp.Compare(a.number, b.number) })
	s.waiting = rest
	s.reportsNo++
	s.reports[s.reportsNo] = due
	return frame(0, s.reportsNo, 60)
}

func (s *schemer) answer(now time.Time, packet []byte) {
	n := number(packet)
	s.control.AckDelay(s.delay)
	for _, x := range s.reports[n] {
		s.ack(now, x)
	}
	delete(s.reports, n)
	s.backoff = 0
	s.arm(now)
	s.detect(now)
}

func (s *schemer) ack(now time.Time, x told) {
	p := &s.sent[x.number]
	took := now.Sub(p.at)
	switch {
	case p.acked || p.lost && now.After(p.until):
		return
	case p.lost:
		s.loss.Spurious(s.since(now), took)
		s.control.Spurious(p.sample)
	default:
		s.inFlight -= charged
		s.rtt = took
	}
	p.acked = true
	s.control.Acked(now, p.sample, charged, x.at)
	s.loss.Largest = max(s.loss.Largest, x.number+1)
}

func (s *schemer) detect(now time.Time) {
	latest, smoothed, _ := s.control.RTT()
	s.loss.Begin(s.since(now), max(latest, smoothed, s.rtt))
	for n := s.oldest; n < int(s.loss.Largest); n++ {
		if p := &s.sent[n]; !p.acked && !p.lost && s.loss.Check(s.since(now), uint64(n), s.since(p.at)) {
			p.lost = true
			s.inFlight -= charged
			s.control.Lost(now, p.sample, charged)
		}
	}
	for s.oldest < len(s.sent) && (s.sent[s.oldest].acked || s.sent[s.oldest].lost) {
		s.oldest++
	}
	s.control.Feedback(now, s.inFlight)
}

func (s *schemer) arm(now time.Time) { s.probeAt = now.Add(s.control.PTO() << min(s.backoff, 6)) }

func (s *schemer) run(now time.Time) {
	s.now = now
	if s.loss.Next > 0 && s.loss.Next <= s.since(now) {
		s.detect(now)
	}
	if s.inFlight > 0 && !now.Before(s.probeAt) {
		s.backoff++
		s.probes = true
		s.arm(now)
	}
}

func (s *schemer) poll(now time.Time) []byte {
	at, ok := s.control.Next(now, charged, s.inFlight)
	if !s.probes && (!ok || at.After(now)) || now.Before(s.begin) {
		return nil
	}
	s.probes = false
	if s.inFlight == 0 {
		s.arm(now)
	}
	s.sent = append(s.sent, schemed{at: now, sample: s.control.Sent(now, charged, s.inFlight), until: now.Add(3 * s.control.PTO())})
	s.inFlight += charged
	s.bytes += charged
	return frame(0, uint64(len(s.sent)-1), sealed)
}

func (s *schemer) wait() (next time.Time) {
	earlier := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if s.now.Before(s.begin) {
		return s.begin
	}
	earlier(s.replyAt())
	if s.loss.Next > 0 {
		earlier(netsim.Epoch.Add(s.loss.Next))
	}
	if s.inFlight > 0 {
		earlier(s.probeAt)
	}
	if at, ok := s.control.Next(s.now, charged, s.inFlight); ok {
		earlier(at)
	}
	return next
}

// A target is the path that a scheme tries to fill.
type target struct {
	link
	queue float64 // in products
	// Bytes of a policer, which passes 20 times the rate while they last; 0 = a
	// bottleneck with that queue.
	bucket int
}

// world returns a world that drives a scheme over a target, to which the train
// has promised what the receiver's clock makes of it.
func (p target) world(k scheme, seed uint64) (*world, *schemer) {
	c := netsim.Config{Rate: p.rate, Delay: p.rtt / 2, Seed: seed, Queue: max(int(p.queue*float64(p.rate)/8*p.rtt.Seconds()), 3000)}
	if p.bucket > 0 {
		c.Police, c.Bucket, c.Rate = p.rate, p.bucket, 20*p.rate
	}
	const most = 1.75e9 // bit/s that a train may promise: its packets take at least 100 µs
	control := p.joined(min(1/max(k.speed, 1e-6), most/float64(p.rate)))
	control.Guess(max(p.rtt, k.hold))
	s := &schemer{scheme: k, control: control, reports: make(map[uint64][]told)}
	w := newWorld(newSimulated(c), newSimulated(netsim.Config{Delay: p.rtt / 2, Seed: seed + 1}))
	w.flows = []flow{s}
	return w, s
}

// fill returns how many times the link's rate was sent in 3 s and, for the 10 s
// after that, what part of what the link carries was sent in vain.
func (p target) fill(k scheme, seed uint64) (first, vain float64) {
	w, s := p.world(k, seed)
	return p.sentBy(w, s, 13*time.Second)
}

// sentBy returns the same for a schemer, until that end.
func (p target) sentBy(w *world, s *schemer, end time.Duration) (first, vain float64) {
	tooMany := func() bool { return len(s.sent) > 200_000 }
	w.until(3*time.Second, tooMany)
	first = float64(s.bytes*8) / float64(p.rate) / 3
	bytes, received := s.bytes, s.received
	w.until(end, tooMany)
	return first, max(float64(s.bytes-bytes-(s.received-received))*8/float64(p.rate)/(end.Seconds()-3), 0)
}

// TestSchemes: a peer that acks a part of what has arrived, or later, or in turns, and
// reports any times, has a path filled for a moment only. Each of the first rows did
// so permanently, or with hundreds of times the rate: withheld packets that were acked
// late removed the losses of others; a hint was restored as if it had been measured;
// one long run in each round counted as one event; a silence forgave all losses.
func TestSchemes(t *testing.T) {
	seed := testkit.Seed(t)
	try := func(p target, k scheme, seed uint64) {
		first, vain := p.fill(k, seed)
		t.Logf("%v, queue %v, bucket %d, %+v: %.2f times the rate in 3 s, then %.2f of it in vain", p.link, p.queue, p.bucket, k, first, vain)
		require.Less(t, first, 20.0, "seed %d", seed)
		require.Less(t, vain, 1.5, "seed %d", seed)
	}
	try(target{link{10e6, 50 * ms, 0}, 4, 0}, scheme{each: 200 * ms, delay: 30 * ms, cycle: 20, told: 14, late: 200 * ms}, 100320)
	try(target{link{10e6, 100 * ms, 0}, 1, 0}, scheme{hold: 100 * ms, each: 10 * ms, delay: 30 * ms, cycle: 20, told: 10, late: 150 * ms}, 100266)
	try(target{link{10e6, 100 * ms, 0}, 4, 0}, scheme{speed: 0.001, hold: time.Second, each: 200 * ms, delay: 30 * ms, cycle: 300, told: 150, least: 8, late: 150 * ms}, 101315)
	try(target{link{1e6, 50 * ms, 0}, 4, 0}, scheme{speed: 0.001, each: 200 * ms, least: 8, late: 300 * ms}, 100560)
	try(target{link{10e6, 10 * ms, 0}, 4, 0}, scheme{speed: 0.001, hold: 50 * ms, each: 10 * ms, delay: 100 * ms, least: 2}, 100686)
	try(target{link{1e6, 100 * ms, 0}, 0.1, 0}, scheme{each: 200 * ms, delay: 30 * ms, least: 8, late: 3 * time.Second}, 100272)
	try(target{link{10e6, 100 * ms, 0}, 4, 0}, scheme{
		speed: 1, hold: 100 * ms, each: 10 * ms, cycle: 1000, told: 300, least: 9, late: 3 * time.Second, calm: true, jitter: 80 * ms, shake: 150 * ms,
	}, 10490)
	for i := range uint64(12) {
		r := rand.New(rand.NewPCG(seed+i, 0))
		p, k := drawnScheme(r)
		try(p, k, seed+i)
	}
}

// TestFalseJitter: delays that some packets of each round have, and others have not,
// count as jitter, and not as a queue. If a peer makes some up, its transfer continues
// where another one yields, and that one keeps a part of the link all the same.
func TestFalseJitter(t *testing.T) {
	seed := testkit.Seed(t)
	for _, queue := range []float64{1, 4} {
		for _, k := range []scheme{{calm: true}, {jitter: 20 * ms}, {jitter: 80 * ms, shake: 80 * ms}} {
			var parts []float64
			for i := range uint64(4) {
				k.speed = 1
				parts = append(parts, target{link{10e6, 50 * ms, 0}, queue, 0}.leaves(k, seed+i))
			}
			slices.Sort(parts)
			t.Logf("queue %v, %+v: the other's part %.2f", queue, k, parts)
			require.Greater(t, parts[1], 0.01, "seed %d", seed)
		}
	}
}

// leaves returns what part of the link another transfer has beside a scheme
// that begins between a second and two later.
func (p target) leaves(k scheme, seed uint64) float64 {
	w, s := p.world(k, seed)
	other := newBulk(1, endless, p.joined(1), netsim.Epoch)
	s.begin = netsim.Epoch.Add(time.Second + time.Duration(rand.New(rand.NewPCG(seed, 0)).IntN(1000))*ms)
	w.flows = []flow{s, other}
	w.until(5*time.Second, w.done)
	began := other.received
	w.until(35*time.Second, w.done)
	return float64(other.received-began) * 8 / 30 / float64(p.rate)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func drawnScheme(r *rand.Rand) (target, scheme) {
	p := target{link{pick[int64](r, 1e6, 10e6), pick[time.Duration](r, 50, 100) * ms, 0}, pick(r, 0.1, 0.5, 1, 4), pick(r, 0, 0, 30_000)}
	k := scheme{
		speed: pick(r, 0, 0, 0.001, 0.5, 0.9, 1), hold: pick[time.Duration](r, 0, 0, 50, 100, 300, 1000) * ms,
		each: pick[time.Duration](r, 0, 0, 10, 50, 200) * ms, delay: pick[time.Duration](r, 0, 30, 100) * ms,
	}
	if r.IntN(2) == 0 {
		k.cycle = pick(r, 10, 20, 50, 100, 300, 1000)
		k.told = max(1, k.cycle*pick(r, 1, 3, 5, 7, 9)/10)
	}
	if r.IntN(2) == 0 {
		k.least = pick(r, 2, 4, 8, 9, 12)
	}
	if r.IntN(2) == 0 {
		k.speed, k.calm = pick(r, 0.9, 1, 1), r.IntN(2) == 0
		k.jitter, k.shake = pick[time.Duration](r, 0, 5, 20, 80, 300)*ms, pick[time.Duration](r, 0, 10, 40, 150)*ms
	}
	if k.cycle+k.least > 0 {
		k.late = pick[time.Duration](r, 0, 0, 60, 100, 150, 200, 300, 1000, 3000) * ms
	}
	return p, k
}

// reopen closes the schemer's carrier and opens it again at that time: what was
// in flight does not count, and the train promises what a lie makes of it.
func (s *schemer) reopen(w *world, at, rtt time.Duration) {
	w.plan = append(w.plan, event{at, func() {
		s.control.Reset(w.now)
		for n := s.oldest; n < len(s.sent); n++ {
			s.sent[n].lost, s.sent[n].until = !s.sent[n].acked, w.now
		}
		s.oldest, s.inFlight = len(s.sent), 0
		s.control.Guess(rtt)
		s.control.TrainMeasured(pace.Train{Bytes: 15 * charged, Span: 110 * time.Microsecond, Whole: true, Trip: rtt, Even: true})
	}})
}

// TestCarriersThatOpenAgain: a peer that closes a carrier and opens the next makes each
// begin with a train, and only the peer knows when that arrived. A client may do so eight
// times at once, and then every 5 s. Each time half a megabyte was sent at the rate that
// the train promised, and more before the losses had shown the lie: eleven times the rate
// of 1 Mbit/s for 3 s, and then in vain up to twice what it carries, permanently.
func TestCarriersThatOpenAgain(t *testing.T) {
	for _, rate := range []int64{1e6, 10e6} {
		for _, queue := range []float64{1, 4} {
			for _, pause := range []time.Duration{100 * ms, 300 * ms, 1050 * ms} {
				p := target{link{rate, 50 * ms, 0}, queue, 0}
				w, s := p.world(scheme{}, 1)
				for i := range time.Duration(7) {
					s.reopen(w, (i+1)*pause, p.rtt)
				}
				for i := range time.Duration(6) {
					s.reopen(w, max(5*time.Second*(i+1), 8*pause), p.rtt)
				}
				first, vain := p.sentBy(w, s, 33*time.Second)
				t.Logf("%v, queue %v, every %v: %.2f times the rate in 3 s, then %.2f of it in vain", p.link, queue, pause, first, vain)
				require.Less(t, first, 4.0)
				require.Less(t, vain, 0.4)
			}
		}
	}
}
