package fragment

import (
	"github.com/quivernet/quiver/internal/testkit"

	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

const protocol = 0x55667788 // of the article's example code

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// content returns a block that differs from others of its size.
func content(size, n int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i + i>>8 + n*31)
	}
	return b
}

// packets returns the packets of a block.
func packets(t testing.TB, sequence uint16, block []byte) [][]byte {
	parts, err := Split(sequence, block)
	require.NoError(t, err)
	var all [][]byte
	for i := range parts.Len() {
		all = append(all, Append(nil, protocol, parts.At(i)))
	}
	return all
}

func newReassembler(t testing.TB, cfg Config) *Reassembler {
	cfg.ProtocolID = protocol
	r, err := NewReassembler(cfg)
	require.NoError(t, err)
	return r
}

// feed gives packets that complete nothing.
func feed(t testing.TB, r *Reassembler, now time.Time, packets ...[]byte) {
	for _, p := range packets {
		_, ok, err := r.Receive(now, p)
		require.NoError(t, err)
		require.False(t, ok)
	}
	check(t, r)
}

// complete gives packets of which only the last completes a block.
func complete(t testing.TB, r *Reassembler, now time.Time, packets ...[]byte) Block {
	feed(t, r, now, packets[:len(packets)-1]...)
	b, ok, err := r.Receive(now, packets[len(packets)-1])
	require.NoError(t, err)
	require.True(t, ok)
	check(t, r)
	return b
}

// refuse gives a packet that must be refused with an error.
func refuse(t testing.TB, r *Reassembler, now time.Time, packet []byte, why error) {
	_, ok, err := r.Receive(now, packet)
	require.ErrorIs(t, err, why)
	require.False(t, ok)
	check(t, r)
}

// check looks at what must always hold.
func check(t testing.TB, r *Reassembler) {
	used, unfinished := 0, 0
	for i := range r.entries {
		e := &r.entries[i]
		cells := 0
		for c := e.head; c != none; c = r.cells.cells[c].next {
			cells++
		}
		used += cells
		behind := int(int16(r.newest - e.sequence))
		switch {
		case e.state != partial && cells > 0:
			t.Fatalf("entry %d holds %d cells in state %d", i, cells, e.state)
		case e.state == partial && (cells != int(e.got) || e.got >= e.count || behind < 0 || behind >= Window):
			t.Fatalf("block %d has %d cells for %d of %d fragments, and is %d behind", e.sequence, cells, e.got, e.count, behind)
		case e.state == partial:
			unfinished++
		}
	}
	linked, born := 0, time.Time{}
	for i := r.first; i != none; i = r.entries[i].next {
		linked++
		require.False(t, r.entries[i].begunAt.Before(born), "the order of unfinished blocks")
		born = r.entries[i].begunAt
	}
	require.Equal(t, unfinished, linked)
	require.Equal(t, used, r.cells.used)
	require.LessOrEqual(t, used*Size, r.cfg.MaxBytes)
	if at, ok := r.NextTimeout(); ok {
		require.True(t, at.After(r.now), "the timeout has passed")
	}
}
