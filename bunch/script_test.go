package bunch

import (
	"github.com/quivernet/quiver/internal/testkit"

	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script runs a sequence of operations, chosen by its bytes, on a connected pair, and remembers
// what each end has yet to receive.
type script struct {
	*pair
	bytes  []byte
	sides  [2]scriptSide
	serial uint32
	lends  bool // whether the last packet was lent to its end
}

// scriptSide is what one end knows of its channels, and the packets on their way to it.
type scriptSide struct {
	channels []uint64 // to send on; 0 first
	closed   map[uint64]bool
	want     map[uint64]*wanted
}

// wanted holds the messages that were sent on one channel and haven't arrived.
type wanted struct {
	ordered    []string
	any        map[string]int // ReliableUnordered
	unreliable map[string]int
	sequenced  []string
	opened     bool // the receiver has seen the open
	closes     bool // a close is on the way
	closeSeen  bool
}

func newScript(t testing.TB, data []byte) *script {
	s := &script{bytes: data}
	first := s.next()
	r := 8 << (first % 5)
	s.pair = newPair(t, Config{ReliableBuffer: r, Overflow: OverflowError, IdleTimeout: 100 * time.Hour,
		History: 64 << (s.next() % 7), MaxChannels: 20, Random: dice(uint64(len(data)))})
	for _, c := range s.ends {
		skipOften(c)
	}
	for i, c := range s.ends {
		if s.fates[i] = first >= 128; s.fates[i] {
			c.SetPath(s.now, Path{Epoch: 1, Fates: true, Loss: 0.1, Rate: 1e6, Window: 1e6})
		}
	}
	for i := range s.sides {
		s.sides[i] = scriptSide{channels: []uint64{0}, closed: map[uint64]bool{}, want: map[uint64]*wanted{}}
	}
	return s
}

// next reads a byte of the script, or 0 at its end.
func (s *script) next() byte {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return b
}

func (s *script) word() int { return int(s.next())<<8 | int(s.next()) }

// wanted returns the messages that end has yet to receive on a channel.
func (s *script) wanted(end int, channel uint64) *wanted {
	w := s.sides[end].want[channel]
	if w == nil {
		w = &wanted{any: map[string]int{}, unreliable: map[string]int{}}
		s.sides[end].want[channel] = w
	}
	return w
}

func (s *script) run() {
	for len(s.bytes) > 0 {
		op := s.next()
		s.do(int(op&1^op>>7), op>>1&0x1f)
		for _, c := range s.ends {
			checkConn(s.t, c)
		}
	}
	s.finish()
}

func (s *script) do(end int, op byte) {
	c := s.ends[end]
	switch {
	case op < 8:
		s.sendOne(end)
	case op < 10:
		s.openOne(end)
	case op == 10:
		s.closeOne(end)
	case op < 16:
		s.emit(end)
	case op < 22:
		s.arrive()
	case op < 24:
		s.fetch(end)
	case op == 24:
		if v := s.next(); v < 128 {
			c.Cork(v&1 == 0)
		} else {
			c.Overtaken(s.now, s.now.Add(-time.Duration(v-128)*time.Millisecond))
		}
	case op == 25:
		c.Flush()
	case op == 26:
		s.max = minDatagram + int(s.next())
	case op == 27:
		c.SetWindow(s.word() * 8)
	case op == 28:
		_ = c.SetPriority(s.pick(end), Priority(s.next()%4))
	case op == 29:
		c.Watch(s.pick(end), int(s.next()), time.Duration(s.next())*time.Millisecond)
	case op == 30:
		s.pair.run(time.Duration(s.next()) * time.Millisecond)
	default:
		s.pass(time.Duration(s.next()) * time.Millisecond)
	}
}

func (s *script) pick(end int) uint64 {
	channels := s.sides[end].channels
	return channels[int(s.next())%len(channels)]
}

// sizes are the message sizes that are most likely to break something. Others are chosen at
// random.
var scriptSizes = []int{0, 1, 63, 64, 1097, 1098, 1099, 1100, 1101, 2199, 2200, 2201, 32768, 65535, 65536, 65537}

func (s *script) sendOne(end int) {
	number := s.pick(end)
	if number == 0 {
		s.fetch(1 - end) // control has no flow control: who does not fetch it is closed
	}
	d := Delivery(s.next() & 3)
	size := int(s.next())
	switch n := s.next(); {
	case n < 64:
		size = scriptSizes[n%16]
	case n < 100:
		size *= 50
	}
	s.serial++
	payload := pattern(size, int(s.serial))
	if size >= 4 {
		binary.BigEndian.PutUint32(payload, s.serial)
	}
	err := s.ends[end].Send(number, d, payload)
	switch {
	case err == nil:
		require.LessOrEqual(s.t, size, MaxBunchBytes)
		require.False(s.t, s.sides[end].closed[number])
	case errors.Is(err, ErrBunchTooLarge):
		require.Greater(s.t, size, MaxBunchBytes)
		return
	case errors.Is(err, ErrReliableBufferFull):
		out, slots := s.ends[end].Reliable(number)
		require.GreaterOrEqual(s.t, out+Entries(size), slots)
		return
	case errors.Is(err, ErrClosed):
		require.True(s.t, s.isClosed(end, number))
		return
	default:
		require.True(s.t, number == 0 && d >= Unreliable, "%v", err)
		return
	}
	w := s.wanted(1-end, number)
	switch d {
	case Reliable:
		w.ordered = append(w.ordered, string(payload))
	case ReliableUnordered:
		w.any[string(payload)]++
	case Unreliable:
		w.unreliable[string(payload)]++
	case UnreliableSequenced:
		w.sequenced = append(w.sequenced, string(payload))
	}
}

func (s *script) openOne(end int) {
	if number, err := s.ends[end].Open(Priority(s.next() % 4)); err == nil {
		s.sides[end].channels = append(s.sides[end].channels, number)
	}
}

func (s *script) closeOne(end int) {
	number := s.pick(end)
	var payload []byte
	if n := s.next(); n > 128 {
		payload = pattern(int(n), int(n))
	}
	err := s.ends[end].Close(number, payload)
	switch {
	case number == 0:
		require.ErrorContains(s.t, err, "channel 0 cannot be closed")
		return
	case errors.Is(err, ErrClosed):
		require.True(s.t, s.isClosed(end, number))
		return
	}
	require.NoError(s.t, err)
	s.sides[end].closed[number] = true
	w := s.wanted(1-end, number)
	w.closes = true
	if payload != nil {
		w.ordered = append(w.ordered, string(payload))
	}
}

// isClosed reports whether end can no longer send on a channel, because it has closed the
// channel or answered the peer's close.
func (s *script) isClosed(end int, number uint64) bool {
	return s.sides[end].closed[number] || s.wanted(end, number).closes
}

// emit builds one packet and decides its fate.
func (s *script) emit(end int) {
	b, n, ok := s.ends[end].AppendPacket(s.now, nil, s.max)
	if !ok {
		return
	}
	require.LessOrEqual(s.t, len(b), s.max)
	fate := s.next()
	if s.fates[end] && (fate < 40 || fate >= 60) {
		s.verdicts = append(s.verdicts, verdict{s.now.Add(2 * s.delay), end, n, fate >= 40})
	}
	switch {
	case fate < 40: // lost
	case fate < 60:
		s.ends[end].Unsent(n)
	case fate < 80:
		s.put(end, b)
		s.put(end, append([]byte(nil), b...))
	default:
		s.put(end, b)
	}
}

// arrive delivers one of the packets that are on their way.
func (s *script) arrive() {
	if len(s.wire) == 0 {
		return
	}
	i := 0
	if n := s.next(); n > 128 {
		i = int(n) % len(s.wire)
	}
	f := s.wire[i]
	s.wire = append(s.wire[:i], s.wire[i+1:]...)
	if s.lends = !s.lends; !s.lends {
		require.NoError(s.t, s.ends[f.to].Receive(s.now, f.data))
		return
	}
	require.NoError(s.t, s.ends[f.to].ReceiveLent(s.now, f.data))
	for i := range f.data { // it is used again: nobody may have kept it
		f.data[i] ^= 0x55
	}
}

// pass advances the time without building packets.
func (s *script) pass(d time.Duration) {
	s.now = s.now.Add(d)
	s.tell()
	for _, c := range s.ends {
		require.NoError(s.t, c.Advance(s.now))
	}
}

func (s *script) fetch(end int) {
	var all []Message
	if s.serial&1 == 0 {
		all = s.take(end)
	} else {
		all = make([]Message, s.ends[end].Ready()/2+1)
		all = all[:s.ends[end].Take(all)]
	}
	for _, m := range all {
		s.check(end, m)
	}
}

func (s *script) check(end int, m Message) {
	w := s.wanted(end, m.Channel)
	require.False(s.t, w.closeSeen && m.Delivery <= ReliableUnordered, "a message after the close of channel %d", m.Channel)
	theirs := m.Channel != 0 && m.Channel&1 == uint64(end)
	if m.Delivery <= ReliableUnordered {
		require.Equal(s.t, theirs && !w.opened, m.Open, "open of channel %d at end %d: %v close %v %d bytes", m.Channel, end, m.Delivery, m.Close, len(m.Payload))
		w.opened = true
	}
	if m.Open {
		s.sides[end].channels = append(s.sides[end].channels, m.Channel)
	}
	if m.Close {
		w.closeSeen = true
		s.sides[end].closed[m.Channel] = true // the answer leaves by itself
		s.wanted(1-end, m.Channel).closes = true
		if m.Payload == nil {
			return
		}
	}
	s.checkPayload(w, m)
}

func (s *script) checkPayload(w *wanted, m Message) {
	got := string(m.Payload)
	switch m.Delivery {
	case Reliable:
		require.NotEmpty(s.t, w.ordered, "an extra message on channel %d", m.Channel)
		require.True(s.t, w.ordered[0] == got, "channel %d: %d bytes, not the %d bytes sent", m.Channel, len(got), len(w.ordered[0]))
		w.ordered = w.ordered[1:]
	case ReliableUnordered:
		require.Positive(s.t, w.any[got], "an extra message on channel %d", m.Channel)
		if w.any[got]--; w.any[got] == 0 {
			delete(w.any, got)
		}
	case Unreliable:
		require.Positive(s.t, w.unreliable[got], "an extra message on channel %d", m.Channel)
		w.unreliable[got]--
	case UnreliableSequenced:
		i := 0
		for i < len(w.sequenced) && w.sequenced[i] != got {
			i++
		}
		require.Less(s.t, i, len(w.sequenced), "a message that is late or never was on channel %d", m.Channel)
		w.sequenced = w.sequenced[i+1:]
	}
}

// finish delivers everything, and asserts that nothing is left.
func (s *script) finish() {
	for _, c := range s.ends {
		c.Cork(false)
		c.SetWindow(0)
	}
	for i := 0; !s.done(); i++ {
		require.Less(s.t, i, 600, "still busy: %v", s)
		s.pair.run(time.Second)
		for end := range s.ends {
			s.fetch(end)
		}
	}
	s.pair.run(2 * time.Minute)
	for end, c := range s.ends {
		for number, w := range s.sides[end].want {
			require.Empty(s.t, w.ordered, "end %d channel %d", end, number)
			require.Empty(s.t, w.any, "end %d channel %d", end, number)
			require.Equal(s.t, w.closes, w.closeSeen, "end %d channel %d", end, number)
			if w.closes {
				require.NotContains(s.t, c.channels.open, number)
			}
		}
		at, ok := c.NextTimeout()
		require.False(s.t, ok, "end %d waits for %v", end, at.Sub(s.now))
	}
	s.settled()
}

func (s *script) done() bool {
	for _, c := range s.ends {
		if !c.Drained() || c.Ready() > 0 || c.unreliables.messages > 0 {
			return false
		}
	}
	return len(s.wire) == 0
}

func (s *script) String() string {
	text := ""
	for i, c := range s.ends {
		text += fmt.Sprintf("end %d: %d entries, %d fly, flow %+v, loss %+v; ", i, c.flow.entries, c.sent.packetsInFlight, c.flow, c.loss)
	}
	return text
}

func TestScripts(t *testing.T) {
	seed := testkit.Seed(t)
	for i := range testkit.Brief(25, 200) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		data := make([]byte, 20+r.IntN(3000))
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) { newScript(t, data).run() })
	}
}

func FuzzScript(f *testing.F) {
	for i := range 8 {
		r := rand.New(rand.NewPCG(99, uint64(i)))
		data := make([]byte, 400)
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4000 {
			return
		}
		newScript(t, data).run()
	})
}
