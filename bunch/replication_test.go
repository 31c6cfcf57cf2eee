package bunch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// replication is two ends that send each other state, along with calls and bulk, over a path
// that loses, duplicates and reorders packets.
type replication struct {
	*pair
	sides  [2]replicationSide
	serial uint64
	loss   float64
	spread int  // milliseconds that a packet may take more
	large  bool // messages are so large that they do not fit when nobody fetches
}

// replicationSide is what an end has sent, and what became of it at either end.
type replicationSide struct {
	channels []uint64
	sent     map[uint64]uint64 // channels by record
	told     map[uint64]bool   // fates by record
	handed   map[uint64]bool   // at the peer
	early    map[uint64]bool   // by record: it left before the peer had the open, and may be dropped there
	closed   map[uint64]bool
	missed   bool // the peer says so
}

func newReplication(t testing.TB, seed uint64) *replication {
	r := &replication{}
	r.pair = newPair(t, Config{Overflow: OverflowError, IdleTimeout: 100 * time.Hour, History: 64 << (seed % 4), Random: dice(seed)})
	r.rand = rand.New(rand.NewPCG(seed, 1))
	r.loss, r.spread = []float64{0, 0.02, 0.2, 0.5}[r.rand.IntN(4)], 1+r.rand.IntN(60)
	r.large = r.rand.IntN(4) == 0
	r.drop = r.path
	for end := range r.sides {
		r.sides[end] = replicationSide{sent: map[uint64]uint64{}, told: map[uint64]bool{}, early: map[uint64]bool{}, handed: map[uint64]bool{}, closed: map[uint64]bool{}}
		skipOften(r.ends[end])
		if r.rand.IntN(4) == 0 {
			r.fates[end] = true
			r.ends[end].SetPath(r.now, Path{Fates: true})
		}
	}
	return r
}

// path decides what happens to a packet.
func (r *replication) path(from int, b []byte) (lost bool) {
	r.delay = time.Duration(5+r.rand.IntN(r.spread)) * ms
	if r.rand.IntN(10) == 0 {
		r.order++
		r.wire = append(r.wire, flight{r.now.Add(2 * r.delay), r.order, 1 - from, append([]byte(nil), b...)})
	}
	return r.rand.Float64() < r.loss
}

// tick is a tick of an end's owner, which fetches the fates of what it sent, and sends new
// state.
func (r *replication) tick(end int) {
	c := r.ends[end]
	r.hear(end)
	c.Cork(true)
	if r.rand.IntN(4) > 0 {
		c.TakeBack()
	}
	for range r.rand.IntN(30) {
		r.sendOne(end)
	}
	switch r.rand.IntN(30) {
	case 0:
		r.closeOne(end)
	case 1:
		c.Hold(true, r.rand.IntN(2) == 0)
	case 2, 3:
		c.Hold(false, false)
	case 4:
		_ = c.SetPriority(r.pick(end), Priority(r.rand.IntN(4)))
	}
	c.Cork(r.rand.IntN(10) == 0)
	for range r.rand.IntN(3) {
		if _, number, ok := c.AppendPacket(r.now, nil, r.max); ok {
			r.max = minDatagram + r.rand.IntN(300)
			c.Unsent(number)
			checkConn(r.t, c)
		}
	}
}

func (r *replication) pick(end int) uint64 {
	s := &r.sides[end]
	if len(s.channels) < 6 {
		s.channels = append(s.channels, r.open(end, Priority(r.rand.IntN(4))))
		r.call(end, s.channels[len(s.channels)-1])
	}
	return s.channels[r.rand.IntN(len(s.channels))]
}

// sendOne sends state if that is allowed, and sometimes something else.
func (r *replication) sendOne(end int) {
	number, s := r.pick(end), &r.sides[end]
	if r.rand.IntN(5) == 0 {
		r.call(end, number)
	}
	size := 8 + r.rand.IntN(60)
	if r.large || r.rand.IntN(20) == 0 {
		size = 8 + r.rand.IntN(EntryBytes-7)
	}
	r.serial++
	payload := pattern(size, int(r.serial))
	binary.BigEndian.PutUint64(payload, r.serial)
	opened := r.ends[end].Opened(number)
	may := opened || r.ends[end].Opening(number)
	err := r.ends[end].SendTracked(number, r.serial, payload)
	require.Equal(r.t, may, err == nil, "%v", err)
	if may {
		s.sent[r.serial], s.early[r.serial] = number, !opened
	}
}

// call sends a message that isn't state.
func (r *replication) call(end int, number uint64) {
	d := Delivery(r.rand.IntN(4))
	size := r.rand.IntN(100)
	if r.rand.IntN(30) == 0 {
		size = r.rand.IntN(20_000)
	}
	if err := r.ends[end].Send(number, d, pattern(size, 0)); err != nil {
		require.True(r.t, errors.Is(err, ErrReliableBufferFull) || errors.Is(err, ErrClosed), "%v", err)
	}
}

// closeOne closes a channel that this end or the peer has opened.
func (r *replication) closeOne(end int) {
	owner := end
	if r.rand.IntN(3) == 0 {
		owner = 1 - end
	}
	s := &r.sides[owner]
	if len(s.channels) == 0 {
		return
	}
	i := r.rand.IntN(len(s.channels))
	number := s.channels[i]
	if end != owner && !r.ends[owner].Opened(number) {
		return // the peer does not know it
	}
	require.NoError(r.t, r.ends[end].Close(number, nil))
	s.closed[number] = true
	s.channels = append(s.channels[:i:i], s.channels[i+1:]...)
}

// hear fetches the fates of what an end has sent.
func (r *replication) hear(end int) {
	s := &r.sides[end]
	into := make([]Fate, 1+r.rand.IntN(200))
	for _, f := range into[:r.ends[end].Fates(into)] {
		_, sent := s.sent[f.Record]
		_, told := s.told[f.Record]
		require.True(r.t, sent && !told, "record %d: sent %t, told %t", f.Record, sent, told)
		s.told[f.Record] = f.Kept
	}
}

// fetch takes the messages that arrived at an end.
func (r *replication) fetch(end int) {
	s := &r.sides[1-end]
	for _, m := range r.take(end) {
		if m.Delivery != Tracked {
			require.Zero(r.t, m.Number)
			continue
		}
		record := binary.BigEndian.Uint64(m.Payload)
		require.Equal(r.t, s.sent[record], m.Channel, "record %d", record)
		require.False(r.t, s.handed[record], "handed out once")
		want := pattern(len(m.Payload), int(record))
		require.Equal(r.t, want[8:], m.Payload[8:])
		require.Less(r.t, m.Number, r.ends[end].received.Next)
		s.handed[record] = true
	}
	s.missed = r.ends[end].Missed() || s.missed
}

// finish runs until nothing is on its way, and compares what was sent with what arrived.
func (r *replication) finish() {
	r.loss = 0
	for _, c := range r.ends {
		c.Hold(false, false)
		c.Cork(false)
	}
	for range 60 {
		r.run(time.Second)
		for end := range r.ends {
			r.fetch(end)
		}
	}
	kept := 0
	for end, c := range r.ends {
		c.TakeBack()
		s := &r.sides[end]
		for range len(s.sent) + 1 {
			r.hear(end)
		}
		require.Len(r.t, s.told, len(s.sent), "each record has a fate")
		for record, channel := range s.sent {
			if s.told[record] {
				kept++
				require.True(r.t, s.handed[record] || s.early[record] || s.missed || s.closed[channel], "record %d of channel %d is not there", record, channel)
			}
		}
		require.Zero(r.t, c.TrackedQueued())
		require.Zero(r.t, c.tracked.fates.len())
	}
	r.settled()
	r.t.Logf("%d records, %d kept, missed %t %t; lost %d and %d packets, %d spurious", r.serial, kept, r.sides[0].missed, r.sides[1].missed,
		r.ends[0].Lost(), r.ends[1].Lost(), r.ends[0].Stats().SpuriousLosses)
}

// TestReplicationAtRandom: each record gets one fate, and a message that is reported as kept
// was delivered, or the owner knows that it missed something.
func TestReplicationAtRandom(t *testing.T) {
	runs := 40
	if testing.Short() {
		runs = 5
	}
	seed := testkit.Seed(t)
	for i := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := newReplication(t, seed+uint64(i))
			fetches := [2]bool{true, true}
			for range 200 {
				end := r.rand.IntN(2)
				if r.rand.IntN(50) == 0 {
					fetches[end] = !fetches[end]
				}
				if fetches[end] {
					r.fetch(end)
				}
				r.tick(end)
				loss := r.loss
				if r.rand.IntN(100) == 0 {
					r.loss = 1
					r.run(time.Duration(r.rand.IntN(3000)) * ms)
				}
				r.loss = loss
				r.run(time.Duration(r.rand.IntN(50)) * ms)
			}
			r.finish()
		})
	}
}
