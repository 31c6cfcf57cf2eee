package sealed

import (
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"crypto/aes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// tube is one direction with both its ends.
type tube struct {
	t testing.TB
	*sealer
	*opener
}

func newTube(t testing.TB) *tube { return newTubeOf(t, aes128) }

func newTubeOf(t testing.TB, suite *suite) *tube {
	s, err := newSealer(suite, export("tls"), 1, toServer)
	require.NoError(t, err)
	o, err := newOpener(suite, export("tls"), 1, toServer)
	require.NoError(t, err)
	return &tube{t, s, o}
}

func (tb *tube) packet(number uint64, frames string) []byte {
	b := append(appendHeader(make([]byte, 0, FullPacket+1), ID{1, 2, 3, 4, 5, 6, 7, 8}, number), frames...)
	p, err := tb.seal(b, number)
	require.NoError(tb.t, err)
	return p
}

func (tb *tube) take(p []byte) string {
	o := tb.open(bytes.Clone(p))
	if why := tb.accept(o); why != dropNone {
		return [...]string{"", "size", "version", "old", "replay", "key", "forged"}[why]
	}
	return string(o.frames)
}

func TestHeader(t *testing.T) {
	header := appendHeader(nil, ID{1, 2, 3, 4, 5, 6, 7, 8}, 0x1_0203_0405)
	require.Equal(t, "04010203040506070802030405", fmt.Sprintf("%x", header))
	require.EqualValues(t, 0x02030405, headerNumber(header))
	tb := newTube(t)
	p := tb.packet(0x1_0203_0405, "hi")
	require.Equal(t, header[:numberAt], p[:numberAt])
	require.Len(t, p, len("hi")+Overhead)
	require.Equal(t, 29, Overhead)
	require.Equal(t, dropNone, checkHeader(p))
	tb.opener.mask.apply(p, p[headerBytes:])
	require.Equal(t, header, p[:headerBytes])
}

// TestVector is the example of WIRE.md.
func TestVector(t *testing.T) {
	secret := make([]byte, secretBytes)
	for i := range secret {
		secret[i] = byte(i)
	}
	for _, c := range []struct {
		suite  *suite
		number uint64
		packet string
	}{
		{aes128, 7, "040102030405060708df4f3a2acbdea5a03b096e916b180f5d405218a933"},
		{aes128, 1<<32 + 1<<22, "0401020304050607083fd65ca39492bc904856a49f3b801ac7f81dac60b3"},
		{aes256, 7, "04010203040506070828cccfc3c3b42cc5e8ee5eee976241669b0c83d8ec"},
		{chacha, 7, "040102030405060708070fec74cc30bb9a0f6048a2dc260660ace415fce9"},
	} {
		s, err := newSealer(c.suite, func(string, []byte, int) ([]byte, error) { return secret, nil }, 1, toServer)
		require.NoError(t, err)
		p, err := s.seal(append(appendHeader(nil, ID{1, 2, 3, 4, 5, 6, 7, 8}, c.number), framePing), c.number)
		require.NoError(t, err)
		require.Equal(t, c.packet, fmt.Sprintf("%x", p))
	}
}

// TestNumbersAreMasked: the order of packets does not show. An observer of two addresses,
// or two ids, cannot conclude from consecutive numbers that both are of one connection.
func TestNumbersAreMasked(t *testing.T) {
	const count, near = 20_000, 1 << 12
	tb := newTube(t)
	var bits [32]int
	alike, last := 0, uint32(0)
	for number := range uint64(count) {
		p := tb.packet(number, "the same in each packet")
		shown := headerNumber(p)
		if d := shown - last; d < near || -d < near {
			alike++
		}
		last = shown
		for i := range bits {
			bits[i] += int(shown >> i & 1)
		}
		require.Equal(t, "the same in each packet", tb.take(p))
	}
	require.Less(t, alike, 3, "one in half a million is near its neighbour by chance")
	for i, ones := range bits {
		require.InDelta(t, count/2, ones, 500, "bit %d", i) // 7 standard deviations
	}
}

func TestSealAndOpen(t *testing.T) {
	tb := newTube(t)
	require.Equal(t, "a", tb.take(tb.packet(0, "a")))
	late := tb.packet(1, "late")
	require.Equal(t, "b", tb.take(tb.packet(2, "b")))
	require.Equal(t, "replay", tb.take(tb.packet(2, "b")))
	require.Equal(t, "far", tb.take(tb.packet(recovery.WindowSize, "far")))
	require.Equal(t, "late", tb.take(late), "the last number of the window")
	require.Equal(t, "replay", tb.take(late))
	require.Equal(t, "farther", tb.take(tb.packet(1+recovery.WindowSize, "farther")))
	require.Equal(t, "old", tb.take(late))
	require.Equal(t, "size", tb.take(late[:Overhead]), "no frames")
	require.Equal(t, "size", tb.take(make([]byte, JumboPacket+1)))
	require.Equal(t, "size", tb.take(nil))
	require.Zero(t, tb.forged)
}

// TestCopiesOpenedAtOnce: packets are opened without the lock, before earlier
// ones are marked. Of two copies one counts.
func TestCopiesOpenedAtOnce(t *testing.T) {
	tb := newTube(t)
	p := tb.packet(3, "once")
	first, second := tb.open(bytes.Clone(p)), tb.open(bytes.Clone(p))
	require.Equal(t, first, second)
	late, far := tb.open(tb.packet(4, "late")), tb.open(tb.packet(5+recovery.WindowSize, "far"))
	require.Equal(t, dropNone, tb.accept(first))
	require.Equal(t, dropReplay, tb.accept(second))
	require.Equal(t, dropNone, tb.accept(far))
	require.Equal(t, dropOld, tb.accept(late))
}

func TestForged(t *testing.T) {
	tb := newTube(t)
	require.Equal(t, "first", tb.take(tb.packet(0, "first")))
	p := tb.packet(1, "genuine")
	for i := range p {
		q := bytes.Clone(p)
		q[i] ^= 1
		why := tb.take(q)
		switch {
		case i == 0:
			require.Equal(t, "version", why)
		case i == headerBytes-1:
			require.Equal(t, "replay", why, "number 1 becomes 0")
		case i > idBytes && i < headerBytes-3:
			require.Contains(t, []string{"key", "forged"}, why, "byte %d", i)
		case i >= headerBytes && i < headerBytes+aes.BlockSize:
			require.Contains(t, []string{"key", "forged"}, why, "byte %d: the number is any", i)
		default:
			require.Equal(t, "forged", why, "byte %d", i)
		}
	}
	require.Equal(t, "genuine", tb.take(p), "nothing that was dropped changed anything")
}

func TestKeysDiffer(t *testing.T) {
	p := newTube(t).packet(0, "secret")
	for name, make := range map[string]func() (*opener, error){
		"direction":  func() (*opener, error) { return newOpener(aes128, export("tls"), 1, toClient) },
		"instance":   func() (*opener, error) { return newOpener(aes128, export("tls"), 2, toServer) },
		"connection": func() (*opener, error) { return newOpener(aes128, export("other"), 1, toServer) },
	} {
		o, err := make()
		require.NoError(t, err)
		why := o.open(bytes.Clone(p)).drop
		require.Contains(t, []drop{dropForged, dropKey}, why, "%s: not even the number is the same", name)
		o.mask = newTube(t).opener.mask
		why = o.open(bytes.Clone(p)).drop
		require.Equal(t, dropForged, why, name)
	}
	failing := func(string, []byte, int) ([]byte, error) { return nil, fmt.Errorf("no keys") }
	_, err := newOpener(aes128, failing, 1, toServer)
	require.ErrorContains(t, err, "no keys")
}

func TestGenerations(t *testing.T) {
	const edge = 1 << generationBits
	tb := newTube(t)
	require.Equal(t, "early", tb.take(tb.packet(edge/2-1, "early")))
	require.Nil(t, tb.next)
	require.Equal(t, "half", tb.take(tb.packet(edge/2, "half")))
	require.NotNil(t, tb.next)
	tb.window.Next = edge - 10
	late := tb.packet(edge-2, "late")
	require.Equal(t, "last", tb.take(tb.packet(edge-1, "last")))
	first := tb.packet(edge, "first")
	require.EqualValues(t, 1, tb.sealer.keys.index)
	require.Equal(t, "first", tb.take(first))
	require.Equal(t, "late", tb.take(late), "the old key is still held")
	require.Equal(t, "on", tb.take(tb.packet(edge+recovery.WindowSize, "on")))
	require.EqualValues(t, 1, tb.current.index, "and no more")
	require.Equal(t, "old", tb.take(first))
	far := append(appendHeader(nil, ID{}, 3*edge), make([]byte, 40)...)
	tb.opener.mask.apply(far, far[headerBytes:])
	require.Equal(t, "key", tb.take(far), "of the one after the next")

	again := newTube(t)
	again.window.Next = edge
	again.rotateKeys()
	require.Equal(t, "first", again.take(first), "and the next one before the current is left")
}

func TestNumbersEnd(t *testing.T) {
	s := newStep(t, 1, nil).open()
	s.a.records = records{Ring: recovery.Ring[record]{Oldest: maxNumber, Next: maxNumber}, searchFrom: maxNumber}
	_, _, ok := s.a.Build(s.now, make([]byte, 0, FullPacket), FullPacket, false)
	require.False(t, ok)
	var ended *Error
	require.ErrorAs(t, s.a.Err(), &ended)
	require.False(t, ended.Violation)
	require.ErrorContains(t, ended, "packet number has reached")
}

// A packet that does not open allocates nothing and changes nothing.
func TestDropsDoNotAllocate(t *testing.T) {
	tb := newTube(t)
	good := tb.packet(0, "good")
	require.Equal(t, "good", tb.take(good))
	forged := bytes.Clone(tb.packet(1, "forged"))
	forged[20] ^= 1
	before := tb.window
	for _, p := range [][]byte{good, forged, forged[:10], nil} {
		require.Zero(t, testkit.Allocs(100, func() { tb.accept(tb.open(p)) }))
	}
	require.Equal(t, before, tb.window)
}

func FuzzOpen(f *testing.F) {
	tb := newTube(f)
	f.Add(tb.packet(0, "seed"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		tb := newTube(t)
		require.Equal(t, "first", tb.take(tb.packet(1, "first")))
		before := tb.window
		if tb.take(p); tb.window != before {
			require.Equal(t, "seed", tb.take(tb.packet(7, "seed")), "only a genuine packet can have changed the window")
		}
		require.Equal(t, "still", tb.take(tb.packet(9, "still")))
	})
}
