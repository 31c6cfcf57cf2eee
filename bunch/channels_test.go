package bunch

import (
	"github.com/quivernet/quiver/internal/testkit"

	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// packetOf returns a packet with the given bunches.
func packetOf(number uint32, bunches ...[]byte) []byte {
	b := appendPacketHeader(nil, &packetHeader{number: number})
	for _, bunch := range bunches {
		b = append(b, bunch...)
	}
	return b
}

// wholeOf returns a whole reliable bunch with one message.
func wholeOf(flags byte, channel uint64, sequence uint16, payload string) []byte {
	body := append(appendVarint(nil, uint64(len(payload))), payload...)
	return appendBunch(nil, header{flags: flags | flagWhole, channel: channel, sequence: sequence}, body)
}

// receiver is a server whose packets are written by the test.
type receiver struct {
	*testing.T
	*Conn
	now    time.Time
	number uint32
}

func newReceiver(t *testing.T, config Config) *receiver {
	c, err := NewConn(epoch, config)
	require.NoError(t, err)
	return &receiver{T: t, Conn: c, now: epoch}
}

func (r *receiver) receive(bunches ...[]byte) error {
	r.number++
	return r.Conn.Receive(r.now, packetOf(r.number-1, bunches...))
}

func (r *receiver) must(bunches ...[]byte) {
	require.NoError(r, r.receive(bunches...))
	checkConn(r, r.Conn)
}

// got takes all messages that are ready and returns them as text.
func (r *receiver) got() (all []string) {
	for m, ok := r.Next(); ok; m, ok = r.Next() {
		text := string(m.Payload)
		if len(text) > 20 {
			text = fmt.Sprintf("%s… %d bytes", text[:10], len(text))
		}
		if m.Open {
			text = "open " + text
		}
		if m.Close {
			text += " close"
		}
		all = append(all, fmt.Sprintf("%d %s", m.Channel, text))
	}
	return all
}

func mustCreate(t *testing.T, c *channels) *channel {
	ch, err := c.create(Normal)
	require.NoError(t, err)
	return ch
}

func TestChannelNumbers(t *testing.T) {
	for _, client := range []bool{true, false} {
		c := newChannels(client, 3)
		first := uint64(2)
		if client {
			first = 1
		}
		for i := range uint64(3) {
			require.Equal(t, first+2*i, mustCreate(t, &c).number)
		}
		_, err := c.create(Normal)
		require.ErrorContains(t, err, "the limit is 3 (MaxChannels)")
		ch := c.open[first]
		ch.inClosed, ch.outClosed = true, true
		c.retire(ch)
		require.NotContains(t, c.open, first)
		require.Equal(t, first+6, mustCreate(t, &c).number, "numbers are never used again")
	}
}

// TestAllNumbersUsed: once all numbers are used, no more channels can be opened on the
// connection.
func TestAllNumbersUsed(t *testing.T) {
	for _, client := range []bool{true, false} {
		c, err := NewConn(epoch, Config{Client: client})
		require.NoError(t, err)
		c.channels.ourNext = maxChannelNumber + 1 - c.channels.ourNext
		_, err = c.Open(Normal)
		require.NoError(t, err)
		require.True(t, c.NumbersExhausted())
		_, err = c.Open(Normal)
		require.Error(t, err)
	}
}

// begun accepts a number of the peer's like an entry on that channel would, and reports whether
// it was new.
func (c *channels) begun(t testing.TB, number uint64) bool {
	known, err := c.wasClosed(number)
	require.NoError(t, err)
	if known || c.open[number] != nil {
		return false
	}
	_, err = c.accept(number)
	require.NoError(t, err)
	return true
}

func TestPeersNumbersAreUnseenOpenOrClosed(t *testing.T) {
	c := newChannels(false, 10)
	require.True(t, c.begun(t, 1))
	require.True(t, c.begun(t, 11))
	require.Equal(t, []uint32{3, 5, 7, 9}, c.unseen)
	require.False(t, c.begun(t, 11))
	require.True(t, c.begun(t, 5))
	require.Equal(t, []uint32{3, 7, 9}, c.unseen)
	require.True(t, c.begun(t, 9))
	require.True(t, c.begun(t, 3))
	require.Equal(t, []uint32{7}, c.unseen)
	require.False(t, c.begun(t, 5))
	require.True(t, c.begun(t, 7))
	require.Empty(t, c.unseen)
	require.Equal(t, uint64(13), c.peerNext)
	require.Equal(t, 6, c.theirs)
}

func TestUnseenAgainstAModel(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	c := newChannels(true, maxChannels)
	seen := map[uint64]bool{}
	for range 5000 {
		n := 2 + 2*random.Uint64N(2000)
		require.Equal(t, !seen[n], c.begun(t, n))
		seen[n] = true
	}
	require.True(t, slices.IsSorted(c.unseen))
	for _, n := range c.unseen {
		require.False(t, seen[uint64(n)])
	}
	require.Equal(t, int(c.peerNext-2)/2, c.theirs+len(c.unseen))
}

func TestChannelLimits(t *testing.T) {
	r := newReceiver(t, Config{MaxChannels: 2})
	_, err := r.Open(Normal)
	require.NoError(t, err)
	_, err = r.Open(Normal)
	require.NoError(t, err)
	_, err = r.Open(Normal)
	require.ErrorContains(t, err, "MaxChannels")
	t.Log("# the peer's count for themselves")
	r.must(wholeOf(flagOpen, 1, 0, "a"), wholeOf(flagOpen, 3, 0, "b"))
	t.Log("# a close that was taken makes room at once, for the peer counts so too")
	r.must(wholeOf(flagClose, 3, 1, "c"))
	r.must(wholeOf(flagOpen, 5, 0, "d"))
	requireCode(t, BunchBadChannelIndex, r.receive(wholeOf(flagOpen, 7, 0, "e")))

	t.Log("# closed ones whose answers are not acknowledged count for themselves")
	r = newReceiver(t, Config{MaxChannels: 2})
	for _, ch := range []uint64{1, 3} {
		r.must(wholeOf(flagOpen, ch, 0, "a"))
		r.must(wholeOf(flagClose, ch, 1, "b"))
	}
	err = r.receive(wholeOf(flagOpen, 5, 0, "c"))
	requireCode(t, BunchBadChannelIndex, err)
	require.ErrorContains(t, err, "2 closes are unacknowledged")
}

// TestUnreliableBunchesBeginNoChannel: we remember nothing of a number until a reliable bunch
// has it, so a later reliable bunch can still open the channel.
func TestUnreliableBunchesBeginNoChannel(t *testing.T) {
	r := newReceiver(t, Config{})
	for n := uint64(1); n < 64_000; n += 2 {
		require.NoError(t, r.receive(appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: n}, nil)))
	}
	require.Len(t, r.channels.open, 1)
	require.Empty(t, r.channels.unseen)
	require.Equal(t, uint64(32_000), r.Stats().DroppedBeforeOpen)
	r.must(wholeOf(flagOpen, 1, 0, "a"))
	require.Equal(t, []string{"1 open a"}, r.got())
}

// TestRefuse: a peer that may not open channels can't do so with any kind of bunch, and the
// connection ends with the owner's code.
func TestRefuse(t *testing.T) {
	for name, bunch := range map[string][]byte{
		"open":       wholeOf(flagOpen, 1, 0, "a"),
		"entry":      wholeOf(0, 3, 255, ""),
		"unreliable": appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 5}, nil),
		"tracked":    trackedBunch(7, ""),
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, Config{})
			r.Refuse(99)
			r.must(wholeOf(0, 0, 0, "control"))
			requireCode(t, 99, r.receive(bunch))
			require.Len(t, r.channels.open, 1)
		})
	}
	r := newReceiver(t, Config{})
	r.Refuse(99)
	_, err := r.Open(Normal)
	require.NoError(t, err)
	r.must(wholeOf(0, 2, 0, "on one of ours"))
	r.Refuse(NoError)
	r.must(wholeOf(flagOpen, 1, 0, "a"))
	require.Equal(t, []string{"2 on one of ours", "1 open a"}, r.got())
}

func TestChannelsThatLinger(t *testing.T) {
	r := newReceiver(t, Config{MaxChannels: 4})
	var err error
	n := uint64(1)
	for ; err == nil; n += 2 {
		require.Less(t, n, uint64(100))
		err = r.receive(wholeOf(flagOpen|flagClose, n, 0, "x")) // never acknowledges our closes
	}
	requireCode(t, BunchBadChannelIndex, err)
	require.LessOrEqual(t, len(r.channels.open), 6)
}

func TestGapsInTheNumbersAreBounded(t *testing.T) {
	r := newReceiver(t, Config{MaxChannels: 4, ReliableBuffer: 16384})
	var err error
	for n := uint64(1); err == nil; n += 4 {
		require.Less(t, n, uint64(100))
		ch := header{flags: flagWhole | flagOpen | flagClose, channel: n}
		if err = r.receive(appendBunch(nil, ch, nil)); err == nil {
			r.drainAcks()
		}
	}
	requireCode(t, BunchBadChannelIndex, err)
	require.Len(t, r.channels.unseen, 3, "the peer would hold four open, and open one more")
}

// drainAcks builds all packets that can be sent and acknowledges them.
func (r *receiver) drainAcks() {
	for {
		_, n, ok := r.AppendPacket(r.now, nil, 1404)
		if !ok {
			return
		}
		h := packetHeader{flags: flagAcks, number: r.number, largest: uint32(n), nruns: 1, runs: [maxAckRuns]uint64{1}}
		r.number++
		require.NoError(r, r.Conn.Receive(r.now, appendPacketHeader(nil, &h)))
	}
}

func TestBunchesForOddChannels(t *testing.T) {
	for _, c := range []struct {
		name  string
		bunch []byte
		code  Code
	}{
		{"ours that is not open", wholeOf(0, 2, 0, "x"), BunchBadChannelIndex},
		{"no open", wholeOf(0, 1, 0, "x"), ReliableBeforeOpen},
		{"open of the control channel", wholeOf(flagOpen, 0, 0, "x"), AlreadyOpen},
		{"close of the control channel", wholeOf(flagClose, 0, 0, "x"), BunchBadChannelIndex},
		{"unreliable control", appendBunch(nil, header{flags: flagWhole | byte(Unreliable)}, []byte("x")), BunchBadChannelIndex},
	} {
		t.Run(c.name, func(t *testing.T) { requireCode(t, c.code, newReceiver(t, Config{}).receive(c.bunch)) })
	}
	t.Run("open of ours", func(t *testing.T) {
		r := newReceiver(t, Config{})
		_, err := r.Open(Normal)
		require.NoError(t, err)
		requireCode(t, AlreadyOpen, r.receive(wholeOf(flagOpen, 2, 0, "x")))
	})
	t.Run("second open", func(t *testing.T) {
		r := newReceiver(t, Config{})
		r.must(wholeOf(flagOpen, 1, 0, "x"))
		requireCode(t, AlreadyOpen, r.receive(wholeOf(flagOpen, 1, 1, "x")))
	})
	t.Run("answer to a close that was never sent", func(t *testing.T) {
		r := newReceiver(t, Config{})
		r.must(wholeOf(flagOpen, 1, 0, "x"))
		requireCode(t, BunchDataOverflow, r.receive(appendBunch(nil, header{flags: answerFlags, channel: 1, sequence: 1}, nil)))
	})
}

func TestClosedNumbersAreDroppedAndAcknowledged(t *testing.T) {
	r := newReceiver(t, Config{})
	r.must(wholeOf(flagOpen, 1, 0, "a"), wholeOf(flagClose, 1, 1, "b"))
	require.Equal(t, []string{"1 open a", "1 b close"}, r.got())
	r.drainAcks()
	require.NotContains(t, r.channels.open, uint64(1), "closed by both")
	before := r.Stats()
	r.must(wholeOf(flagClose, 1, 1, "b"), appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 1}, []byte("x")))
	require.Empty(t, r.got())
	require.Equal(t, before.DroppedClosedChannel+1, r.Stats().DroppedClosedChannel, "the unreliable one never ran")
	require.Equal(t, before.DroppedDuplicate+1, r.Stats().DroppedDuplicate, "the reliable one did, before the close")
	require.Equal(t, 1, r.received.unacked)
}

// TestDuplicatesOfAHalfClosedChannelAreDuplicates: this is also true while the peer has closed
// the channel but hasn't acknowledged our answer.
func TestDuplicatesOfAHalfClosedChannelAreDuplicates(t *testing.T) {
	r := newReceiver(t, Config{})
	r.must(wholeOf(flagOpen, 1, 0, "a"), wholeOf(flagClose, 1, 1, "b"))
	require.Contains(t, r.channels.open, uint64(1))
	r.must(wholeOf(flagOpen, 1, 0, "a"), wholeOf(flagClose, 1, 1, "b"))
	require.Zero(t, r.Stats().DroppedClosedChannel)
	require.Equal(t, uint64(2), r.Stats().DroppedDuplicate)
}

func TestCloseHandshake(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, []byte("hello"))
	p.run(100 * ms)
	p.send(1, ch, Reliable, []byte("answer"))
	require.NoError(t, p.ends[0].Close(ch, []byte("bye")))
	require.ErrorIs(t, p.ends[0].Send(ch, Reliable, nil), ErrClosed)
	require.ErrorIs(t, p.ends[0].Send(ch, Unreliable, nil), ErrClosed)
	require.ErrorIs(t, p.ends[0].Close(ch, nil), ErrClosed)
	p.run(time.Second)
	require.Equal(t, []Message{{Channel: ch, Open: true, Payload: []byte("hello")}, {Channel: ch, Close: true, Payload: []byte("bye")}}, strip(p.take(1)))
	require.Equal(t, []Message{{Channel: ch, Payload: []byte("answer")}, {Channel: ch, Close: true}}, strip(p.take(0)))
	for _, c := range p.ends {
		require.NotContains(t, c.channels.open, ch)
		require.ErrorIs(t, c.Send(ch, Reliable, nil), ErrClosed)
		require.Equal(t, 0, c.channels.ours+c.channels.theirs)
	}
	p.settled()
}

// strip clears the receipts of messages, so that tests can compare the rest.
func strip(messages []Message) []Message {
	for i := range messages {
		messages[i].receipt = receipt{}
	}
	return messages
}

func TestBothClose(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(1, Normal)
	p.send(1, ch, Reliable, nil)
	p.run(100 * ms)
	require.NoError(t, p.ends[0].Close(ch, []byte{1}))
	require.NoError(t, p.ends[1].Close(ch, []byte{}))
	p.run(time.Second)
	require.Equal(t, []Message{{Channel: ch, Close: true, Payload: []byte{1}}}, strip(p.take(1)))
	require.Equal(t, []Message{{Channel: ch, Open: true, Payload: []byte{}}, {Channel: ch, Close: true, Payload: []byte{}}}, strip(p.take(0)))
	require.Len(t, p.ends[0].channels.open, 1)
	require.Len(t, p.ends[1].channels.open, 1)
	p.settled()
}

// TestCloseDropsAssemblies: the parts of incomplete unreliable messages are dropped along with
// their channel.
func TestCloseDropsAssemblies(t *testing.T) {
	r := newReceiver(t, Config{})
	part := header{flags: flagBegin | byte(Unreliable), channel: 1, sequence: 1}
	r.must(wholeOf(flagOpen, 1, 0, "a"), appendBunch(nil, part, make([]byte, EntryBytes)))
	require.Equal(t, assemblyCost+EntryBytes, r.assemblies.cost)
	r.must(wholeOf(flagClose, 1, 1, "b"))
	require.Zero(t, r.assemblies.cost)
	require.Equal(t, uint64(1), r.Stats().DroppedAssembly)
}

// TestManyChannelsGiveUpTheirMap: the map has to be replaced, because a map never frees memory.
func TestManyChannelsGiveUpTheirMap(t *testing.T) {
	c := newChannels(true, 100)
	many := reflect.ValueOf(c.open).Pointer()
	for range 100 {
		mustCreate(t, &c)
	}
	for number := uint64(1); number < 200; number += 2 {
		ch := c.find(number)
		ch.inClosed, ch.outClosed = true, true
		require.True(t, c.retire(ch))
	}
	require.NotEqual(t, many, reflect.ValueOf(c.open).Pointer())
	require.Len(t, c.open, 1)
}
