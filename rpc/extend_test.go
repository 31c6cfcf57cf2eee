package rpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/internal/recovery"
)

// parrot is a machine that says what it is told to, and notes what it hears.
type parrot struct {
	first   byte
	say     []string
	heard   []string
	windows []int
	changed bool
	wake    bool
	held    bool
}

func (p *parrot) Receive(_ time.Time, datagram []byte) error {
	p.heard, p.wake = append(p.heard, string(datagram[1:])), true
	return nil
}

func (p *parrot) AppendPacket(_ time.Time, buf []byte, _ int) ([]byte, uint64, bool) {
	if len(p.say) == 0 || p.held {
		return buf, 0, false
	}
	packet := append(append(buf, p.first), p.say[0]...)
	p.say = p.say[1:]
	return packet, 0, true
}

func (p *parrot) Content() recovery.Content          { return recovery.Content{Bulk: true} }
func (p *parrot) OtherFirstByte() byte               { return p.first }
func (p *parrot) Queued() int                        { return 0 }
func (p *parrot) SetPath(time.Time, recovery.Path)   {}
func (p *parrot) Fate(_ time.Time, _ uint64, _ bool) {}
func (p *parrot) Unsent(uint64)                      {}
func (p *parrot) Advance(time.Time) error            { return nil }
func (p *parrot) NextTimeout() (time.Time, bool)     { return time.Time{}, false }
func (p *parrot) SetWindow(bytes int)                { p.windows = append(p.windows, bytes) }
func (p *parrot) Wake() (wake bool)                  { wake, p.wake = p.wake, false; return wake }
func (p *parrot) Drained() bool                      { return true }
func (p *parrot) FirstByte() byte                    { return p.first }
func (p *parrot) InFlight() int                      { return 0 }
func (p *parrot) Lost() uint64                       { return 0 }
func (p *parrot) Waiting() (u, b bool)               { return false, len(p.say) > 0 }
func (p *parrot) Hold(_, bulk bool)                  { p.held = bulk }
func (p *parrot) Arrived() time.Time                 { return time.Time{} }
func (p *parrot) Changed() (changed bool)            { changed, p.changed = p.changed, false; return changed }

// parrots gives every connection of w one that begins with first.
func parrots(w *testWorld, first byte) {
	extend.Add(w.World, func(func(int) int) extend.Machine { return &parrot{first: first} })
}

func TestAddedMachineTalksBesideTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, server: newTestWorld(t, Config{})}
		parrots(n.server, 7)
		parrots(n.server, 8)
		client := newTestWorld(t, Config{})
		parrots(client, 7)
		_, err := n.connect(client)
		require.NoError(t, err)
		n.tick(3)
		n.conns = n.server.joined

		from, to := n.conns[0], n.ends[0]
		extend.Drive(from, func() {
			seven, eight := extend.Of(from, 7).(*parrot), extend.Of(from, 8).(*parrot)
			seven.say, seven.changed = []string{"one", "two"}, true
			eight.say, eight.changed = []string{"nobody hears"}, true
			require.NotEmpty(t, seven.windows)
		})
		synctest.Wait()
		time.Sleep(2 * testDelay)
		extend.Drive(to, func() { require.Equal(t, []string{"one", "two"}, extend.Of(to, 7).(*parrot).heard) })
		require.EqualValues(t, 1, to.Stats().Drops.UnknownMachine)
		require.Nil(t, extend.Of(to, 8))
		require.Nil(t, extend.Of(to, 1), "bunches are rpc's own")
		require.Panics(t, func() { parrots(client, 9) })
		n.close()
	})
}

// TestAddedMachineHearsNothingBeforeTheJoin sends to it in the place of a handshake.
func TestAddedMachineHearsNothingBeforeTheJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTestWorld(t, Config{})
		parrots(server, 7)
		near, far := linktest.Pipe()
		c, err := server.Attach(plug{far})
		require.NoError(t, err)
		require.NoError(t, near.SendDatagram([]byte("\x07early")))
		synctest.Wait()
		extend.Drive(c, func() { require.Empty(t, extend.Of(c, 7).(*parrot).heard) })
		require.EqualValues(t, 1, c.Stats().Drops.BeforeJoin)
		require.NoError(t, server.Close(context.Background(), 0, "end of test"))
		require.NoError(t, near.CloseWithError(0, ""))
	})
}

func TestMachinesHaveFirstBytesOfTheirOwn(t *testing.T) {
	for _, first := range []byte{1, 7} {
		w := newTestWorld(t, Config{})
		parrots(w, 7)
		parrots(w, first)
		near, far := linktest.Pipe()
		require.Panics(t, func() { _, _ = w.Attach(plug{far}) })
		require.NoError(t, near.CloseWithError(0, ""))
	}
}
