package bunch

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const time10 = 10 * time.Second

// unreliablePart returns a bunch with one part of a message.
func unreliablePart(channel uint64, d Delivery, message uint16, part uint8, ends bool, size int) []byte {
	h := header{flags: byte(d), channel: channel, sequence: message, part: part}
	if part == 0 {
		h.flags |= flagBegin
	}
	if ends {
		h.flags |= flagEnd
	}
	return appendBunch(nil, h, pattern(size, int(part)))
}

// newOpened returns a receiver with some open channels.
func newOpened(t *testing.T, channels ...uint64) *receiver {
	r := newReceiver(t, Config{})
	for _, ch := range channels {
		r.must(wholeOf(flagOpen, ch, 0, "a"))
	}
	r.got()
	return r
}

func TestUnreliableBeforeOpenIsDropped(t *testing.T) {
	r := newReceiver(t, Config{})
	r.must(appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 1}, []byte("x")))
	require.Empty(t, r.got())
	require.Equal(t, uint64(1), r.Stats().DroppedBeforeOpen)

	r.must(wholeOf(0, 1, 1, "it overtook the open"))
	r.must(appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 1}, []byte("y")))
	require.Empty(t, r.got())
	require.Equal(t, uint64(2), r.Stats().DroppedBeforeOpen)
}

// sequencedBunch returns a bunch with a whole UnreliableSequenced message on channel 1.
func sequencedBunch(payload string) []byte {
	return appendBunch(nil, header{flags: flagWhole | byte(UnreliableSequenced), channel: 1}, []byte(payload))
}

// TestSequencedDropsLateOnes: the packet number decides which of two messages is newer and,
// within a packet, their order does.
func TestSequencedDropsLateOnes(t *testing.T) {
	r := newOpened(t, 1)
	for _, n := range []uint32{5, 4, 6, 9, 7, 8, 32_776, 32_775, 65_600, 65_599} {
		r.number = n
		r.must(sequencedBunch(fmt.Sprint(n)), sequencedBunch(fmt.Sprint(n, " b")))
	}
	require.Equal(t, []string{"1 5", "1 5 b", "1 6", "1 6 b", "1 9", "1 9 b", "1 32776", "1 32776 b", "1 65600", "1 65600 b"}, r.got())
	require.Equal(t, uint64(10), r.Stats().DroppedLate)
}

// TestSequencedInPartsIsAsNewAsItsLastPart: a message that was sent before the last part is
// late, and one that was sent after it isn't.
func TestSequencedInPartsIsAsNewAsItsLastPart(t *testing.T) {
	r := newOpened(t, 1)
	in := func(number uint32, bunch []byte) {
		r.number = number
		r.must(bunch)
	}
	in(10, unreliablePart(1, UnreliableSequenced, 0, 0, false, EntryBytes))
	in(12, unreliablePart(1, UnreliableSequenced, 0, 2, true, 1))
	in(11, unreliablePart(1, UnreliableSequenced, 0, 1, false, EntryBytes))
	require.Len(t, r.got(), 1)
	in(9, sequencedBunch("before"))
	in(13, sequencedBunch("after"))
	require.Equal(t, []string{"1 after"}, r.got())

	t.Log("# a message in parts that a newer one overtook never becomes whole")
	in(14, unreliablePart(1, UnreliableSequenced, 1, 0, false, EntryBytes))
	in(16, sequencedBunch("newer"))
	in(15, unreliablePart(1, UnreliableSequenced, 1, 1, true, 1))
	require.Equal(t, []string{"1 newer"}, r.got())
	require.Equal(t, uint64(2), r.Stats().DroppedLate)
}

// TestSequencedIsNeverDeaf: however many messages are lost in a row, in packets full of them,
// the next one is delivered.
func TestSequencedIsNeverDeaf(t *testing.T) {
	s := newStale(t)
	for range 4 {
		s.message(UnreliableSequenced, 4, every)
		for range 32_768 + s.random.IntN(32_768) {
			s.serial++
			require.NoError(t, s.ends[0].Send(s.main, UnreliableSequenced, serialMessage(s.serial, 4)))
			if s.random.IntN(10_000) == 0 {
				s.vanish(1404)
			}
		}
		s.vanish(1404)
		s.catchUp()
	}
	require.Equal(t, 4, s.got)

	t.Log("# nor after as many messages in parts of the other delivery")
	s.lose(40_000, func() Delivery { return Unreliable })
	s.catchUp()
	s.message(UnreliableSequenced, 4, every)
	s.message(UnreliableSequenced, 3000, every)
	require.Equal(t, 6, s.got)
}

func TestPartsInAnyOrder(t *testing.T) {
	for _, d := range []Delivery{Unreliable, UnreliableSequenced} {
		r := newOpened(t, 1)
		r.must(unreliablePart(1, d, 7, 2, true, 10))
		r.must(unreliablePart(1, d, 7, 0, false, EntryBytes))
		r.must(unreliablePart(1, d, 7, 0, false, EntryBytes))
		require.Empty(t, r.got())
		r.must(unreliablePart(1, d, 7, 1, false, EntryBytes))
		m, ok := r.Next()
		require.True(t, ok)
		want := append(append(pattern(EntryBytes, 0), pattern(EntryBytes, 1)...), pattern(10, 2)...)
		require.Equal(t, want, m.Payload)
		require.Equal(t, d, m.Delivery)
		require.Zero(t, r.assemblies.cost)
	}
}

func TestFourAssembliesAChannel(t *testing.T) {
	r := newOpened(t, 1)
	for n := range uint16(5) {
		r.must(unreliablePart(1, Unreliable, n, 0, false, EntryBytes))
	}
	require.Equal(t, uint64(1), r.Stats().DroppedAssembly, "the oldest goes")
	for n := uint16(1); n < 5; n++ {
		r.must(unreliablePart(1, Unreliable, n, 1, true, 1))
	}
	require.Len(t, r.got(), 4)
	r.must(unreliablePart(1, Unreliable, 0, 1, true, 1))
	require.Empty(t, r.got())
}

// TestAssembliesShareTheBudget: old assemblies of other channels are evicted to make room.
func TestAssembliesShareTheBudget(t *testing.T) {
	channels := []uint64{1, 3, 5, 7, 9}
	r := newOpened(t, channels...)
	for _, ch := range channels[:4] {
		for part := range uint8(59) {
			r.must(unreliablePart(ch, Unreliable, 1, part, false, EntryBytes))
			require.LessOrEqual(t, r.assemblies.cost, maxParked)
		}
	}
	require.Equal(t, uint64(1), r.Stats().DroppedAssembly, "4 x 64 KiB and what each costs are more than 256 KiB")
	for part := range uint8(60) {
		r.must(unreliablePart(9, Unreliable, 1, part, part == 59, map[bool]int{true: 636, false: EntryBytes}[part == 59]))
	}
	require.Len(t, r.got(), 1, "the newest message wins")
	require.LessOrEqual(t, r.assemblies.cost, maxParked)
}

func TestTinyPartsCostMoreThanTheirBytes(t *testing.T) {
	var channels []uint64
	for ch := uint64(1); ch < 500; ch += 2 {
		channels = append(channels, ch)
	}
	r := newOpened(t, channels...)
	for _, ch := range channels {
		for n := range uint16(4) {
			r.must(unreliablePart(ch, Unreliable, n, 5, true, 1))
		}
	}
	require.LessOrEqual(t, r.assemblies.cost, maxParked)
}

// TestPartsOfOneChannelAlone: a part mustn't make us search or move the assemblies of all
// channels. With 128 assemblies of 1.4 KB, a packet of tiny parts on many channels would take
// half a millisecond.
func TestPartsOfOneChannelAlone(t *testing.T) {
	r := newOpened(t, 1, 3)
	r.must(unreliablePart(3, Unreliable, 7, 1, true, 5))
	other := r.channels.find(3).assemblies[0]
	other.channel, other.message = r.channels.find(1), 9 // a search that finds it mistakes it for one of channel 1's
	for n := range uint16(20) {
		require.NoError(t, r.receive(unreliablePart(1, Unreliable, n, 0, false, EntryBytes), unreliablePart(1, Unreliable, n, 1, true, 5)))
	}
	require.Len(t, r.got(), 20)
	other.channel = r.channels.find(3)
	require.Same(t, other, other.channel.assemblies[0], "it has not moved")
	require.Zero(t, r.Stats().DroppedAssembly)
}

// TestSpareAssemblyIsGivenUp: the spare assembly is freed along with other unused memory.
func TestSpareAssemblyIsGivenUp(t *testing.T) {
	r := newOpened(t, 1)
	r.must(unreliablePart(1, Unreliable, 1, 0, false, EntryBytes))
	r.must(unreliablePart(1, Unreliable, 1, 1, true, 5))
	require.Len(t, r.got(), 1)
	require.NotNil(t, r.assemblies.spare)
	for range 2 {
		r.now = r.now.Add(trimAfter)
		require.NoError(t, r.Advance(r.now))
	}
	require.Nil(t, r.assemblies.spare)
}

func TestPartsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		part []byte
	}{
		{"part 60", unreliablePart(1, Unreliable, 1, 60, true, 1)},
		{"short part before the last", unreliablePart(1, Unreliable, 1, 0, false, 1099)},
	} {
		t.Run(c.name, func(t *testing.T) { requireCode(t, PartialTooLarge, newOpened(t, 1).receive(c.part)) })
	}
	t.Run("65,537 bytes", func(t *testing.T) {
		r := newOpened(t, 1)
		for part := range uint8(59) {
			r.must(unreliablePart(1, Unreliable, 1, part, false, EntryBytes))
		}
		requireCode(t, PartialTooLarge, r.receive(unreliablePart(1, Unreliable, 1, 59, true, 637)))
	})
	t.Run("a whole one beyond the agreed maximum", func(t *testing.T) {
		r := newOpened(t, 1)
		require.NoError(t, r.Agree(Params{ReliableBuffer: 256, MaxBunch: 100, History: 4096, MaxChannels: 100, AckDelay: 40 * ms}))
		bunch := func(size int) []byte {
			return appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 1}, make([]byte, size))
		}
		r.must(bunch(100))
		requireCode(t, PartialTooLarge, r.receive(bunch(101)))
	})
	t.Run("a part beyond the agreed maximum, before the message is whole", func(t *testing.T) {
		r := newOpened(t, 1)
		require.NoError(t, r.Agree(Params{ReliableBuffer: 256, MaxBunch: 2 * EntryBytes, History: 4096, MaxChannels: 100, AckDelay: 40 * ms}))
		r.must(unreliablePart(1, Unreliable, 1, 0, false, EntryBytes))
		r.must(unreliablePart(1, Unreliable, 1, 2, false, EntryBytes))
		requireCode(t, PartialTooLarge, r.receive(unreliablePart(1, Unreliable, 1, 5, false, EntryBytes)))
	})
	t.Run("two ends and parts beyond are ignored", func(t *testing.T) {
		r := newOpened(t, 1)
		r.must(unreliablePart(1, Unreliable, 1, 1, true, 5))
		r.must(unreliablePart(1, Unreliable, 1, 2, true, 5))
		r.must(unreliablePart(1, Unreliable, 1, 3, false, EntryBytes))
		r.must(unreliablePart(1, Unreliable, 1, 0, false, EntryBytes))
		require.Len(t, r.got(), 1)
	})
	t.Run("an end before a part that has arrived is ignored", func(t *testing.T) {
		r := newOpened(t, 1)
		r.must(unreliablePart(1, Unreliable, 1, 2, false, EntryBytes))
		r.must(unreliablePart(1, Unreliable, 1, 1, true, 5))
		require.Empty(t, r.got(), "parts 0 and 1 are missing")
		require.EqualValues(t, 1, r.Stats().DroppedDuplicate)
		r.must(unreliablePart(1, Unreliable, 1, 0, false, EntryBytes))
		r.must(unreliablePart(1, Unreliable, 1, 1, false, EntryBytes))
		r.must(unreliablePart(1, Unreliable, 1, 3, true, 5))
		require.Len(t, r.got(), 1)
	})
}

// TestDuplicatePartsEvictNothing: while the memory for assemblies is full, a part that arrives
// again evicts nothing.
func TestDuplicatePartsEvictNothing(t *testing.T) {
	r := newOpened(t, 1, 3, 5, 7)
	for ch, parts := range map[uint64]int{1: 59, 3: 59, 5: 59, 7: 53} {
		for part := range parts {
			r.must(unreliablePart(ch, Unreliable, 1, byte(part), false, EntryBytes))
		}
	}
	require.False(t, r.assemblies.fits(EntryBytes))
	for range 4 {
		r.must(unreliablePart(7, Unreliable, 1, 0, false, EntryBytes))
	}
	require.EqualValues(t, 4, r.Stats().DroppedDuplicate)
	require.Zero(t, r.Stats().DroppedAssembly)
}

func TestUnreliableMessagesThatNobodyFetchesAreDropped(t *testing.T) {
	r := newOpened(t, 1)
	for n := 0; n < 400; n++ {
		r.must(appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 1}, make([]byte, 1000)))
	}
	require.Equal(t, uint64(400-maxParked/1189), r.Stats().DroppedUnreliable)
	require.Len(t, r.got(), maxParked/1189)
	require.Zero(t, r.assemblies.waiting)
	r.must(appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 1}, make([]byte, 1000)))
	require.Len(t, r.got(), 1)
}

func TestUnreliableIsNotSentAgain(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, nil)
	p.run(100 * ms)
	p.take(1)
	p.drop = func(int, []byte) bool { return true }
	p.send(0, ch, Unreliable, []byte("x"))
	p.flush()
	p.drop = nil
	p.run(time10)
	require.Empty(t, p.take(1))
	require.Zero(t, p.ends[0].Stats().BunchesResent)
	p.settled()
}

// TestMessagesInPartsAreNumbered: messages in parts are numbered consecutively, and whole ones
// have no number.
func TestMessagesInPartsAreNumbered(t *testing.T) {
	c, ch := newClient(t, Config{})
	for _, size := range []int{3 * EntryBytes, 10, 2 * EntryBytes, 3 * EntryBytes} {
		require.NoError(t, c.Send(ch, Unreliable, make([]byte, size)))
	}
	var numbers []string
	for b, _, ok := c.AppendPacket(epoch, nil, 1404); ok; b, _, ok = c.AppendPacket(epoch, nil, 1404) {
		numbers = append(numbers, bunchesOf(t, b)...)
	}
	require.Equal(t, []string{"1/0", "1/0", "1/0", "1/0", "1/1", "1/1", "1/2", "1/2", "1/2"}, numbers, "the fourth is whole")
}
