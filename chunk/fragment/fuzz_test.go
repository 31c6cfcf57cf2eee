package fragment

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/bits"
)

// FuzzParse reads packets whose checksum is made right, and writes the same again.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3})
	f.Add(raw(4660, 0, 1, 2, []byte("late")))
	f.Add(raw(65535, 0, 0, 255, content(Size, 1)))
	f.Add(raw(1, 0, 254, 0, content(Size, 1)))
	f.Add(raw(1, 3, 9, 2, content(5, 1)))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) >= bits.ChecksumSize {
			packet = reseal(bytes.Clone(packet))
		}
		got, err := Parse(packet, protocol)
		if err != nil {
			return
		}
		require.NoError(t, got.check())
		require.True(t, bytes.Equal(packet, Append(nil, protocol, got)))
	})
}

// FuzzReassembler plays a script: each five bytes are a packet of an honest
// sender, of one that lies, or time.
func FuzzReassembler(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 0, 1, 1, 2, 0})
	f.Add([]byte{0, 1, 0, 3, 9, 1, 1, 2, 4, 9, 2, 0, 0, 0, 200, 3, 1, 1, 2, 2, 4, 255, 255, 0, 0})
	f.Add(bytes.Repeat([]byte{0, 3, 7, 250, 1, 0, 4, 8, 250, 1, 1, 9, 0, 1, 255}, 20))
	f.Fuzz(func(t *testing.T, script []byte) {
		cfg := Config{MaxFragments: 8, MaxBytes: 24 * Size, Lifetime: 200 * time.Millisecond, Regular: true}
		r, now, base := newReassembler(t, cfg), epoch, uint16(65500)
		seen := make(map[uint16]int)
		for ; len(script) >= 5; script = script[5:] {
			sequence := base + uint16(script[1])%64
			size := 1 + int(script[3])*40
			switch script[0] % 6 {
			default:
				parts, err := Split(sequence, content(size, int(sequence)))
				require.NoError(t, err)
				b, ok, _ := r.Receive(now, Append(nil, protocol, parts.At(int(script[2])%parts.Len())))
				if ok {
					seen[b.Sequence]++
				}
			case 2:
				r.Receive(now, raw(sequence, script[4]&3, script[2], script[3], content(int(script[4])*5, 1)))
			case 3:
				now = now.Add(time.Duration(script[4]) * time.Millisecond)
				r.Advance(now)
			case 4:
				base += uint16(script[1])<<8 | uint16(script[2])
			case 5:
				r.Receive(now, script)
			}
			check(t, r)
		}
		require.Equal(t, int(r.Stats().Packets), accounted(r.Stats()), "every packet meets one fate: %+v", r.Stats())
	})
}

func accounted(s Stats) int { return int(s.Fragments + s.Duplicates + s.Stale + s.Ahead + s.Refused) }
