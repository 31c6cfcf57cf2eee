package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// runScript plays a program of bytes against a connected pair: packets are
// held, dropped, repeated, reordered, damaged and mixed with noise. Whatever
// happens, no session ends, and in the end everything arrives.
func runScript(t *testing.T, program []byte) {
	const total = 60
	s := newStep(t, total, nil)
	s.down.total, s.down.acked, s.up.want = total, make([]bool, total), total
	s.a.Start(s.now, ID{1})
	s.b.Start(s.now, ID{2})
	var held [2][][]byte
	for _, op := range program {
		side := int(op >> 7)
		to := []*Session{s.b, s.a}[side]
		held[0] = append(held[0], s.build(s.a)...)
		held[1] = append(held[1], s.build(s.b)...)
		queue := &held[side]
		if len(*queue) == 0 {
			s.now = s.now.Add(time.Duration(op&31) * ms)
			continue
		}
		i := int(op>>3&3) % len(*queue)
		p := (*queue)[i]
		switch op & 7 {
		case 0, 1, 2: // arrive
			s.deliver(to, p)
			*queue = append((*queue)[:i], (*queue)[i+1:]...)
		case 3: // be lost
			*queue = append((*queue)[:i], (*queue)[i+1:]...)
		case 4: // arrive, and again later
			s.deliver(to, p)
		case 5: // arrive damaged
			q := append([]byte(nil), p...)
			q[int(op)*31%len(q)] ^= op | 1
			s.deliver(to, q)
		case 6:
			s.deliver(to, program)
		case 7:
			s.now = s.now.Add(time.Duration(op&31) * ms)
		}
	}
	for i := 0; i < 3000 && !(s.up.delivered() && s.down.delivered()); i++ {
		s.exchange(20 * ms)
	}
	require.Empty(t, s.errors)
	require.True(t, s.up.delivered(), "%v: %+v", s.a.State(), s.a.Stats())
	require.True(t, s.down.delivered(), "%v: %+v", s.b.State(), s.b.Stats())
	require.Empty(t, append(s.up.faults, s.down.faults...))
	require.Zero(t, s.up.bad+s.down.bad)
}

func FuzzScript(f *testing.F) {
	f.Add([]byte{0, 128, 0, 128, 3, 131, 4, 5, 132, 133, 6, 7})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) <= 200 { // shorter in time than it takes a session to give up
			runScript(t, program)
		}
	})
}

// FuzzFrames gives a session frames that an authenticated peer could send: at
// worst it is closed with a reason.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{framePing, frameTrain, 3, frameData, 0, 1, 9, framePadding})
	f.Fuzz(func(t *testing.T, frames []byte) {
		if len(frames) == 0 || len(frames) > FullPacket-Overhead {
			return
		}
		s := newStep(t, 0, nil)
		s.a.source = sinkOnly{}
		s.a.Start(netsim.Epoch, ID{1})
		s.build(s.a)
		p, err := s.b.sealer.seal(append(appendHeader(nil, ID{1}, 0), frames...), 0)
		require.NoError(t, err)
		if err := s.a.Receive(s.now, p); err != nil {
			require.Equal(t, Closed, s.a.State())
			return
		}
		s.build(s.a)
		require.Less(t, s.a.records.Len(), 100)
	})
}

// sinkOnly is a source without payloads that takes everything.
type sinkOnly struct{}

func (sinkOnly) AppendPayload(_ time.Time, b []byte, _ Room) ([]byte, uint64, Content, bool) {
	return b, 0, Content{}, false
}
func (sinkOnly) Acked(time.Time, uint64)        {}
func (sinkOnly) Lost(time.Time, uint64)         {}
func (sinkOnly) Receive(time.Time, []byte)      {}
func (sinkOnly) Waiting() int                   { return 0 }
func (sinkOnly) Advance(time.Time)              {}
func (sinkOnly) Moved(time.Time)                {}
func (sinkOnly) NextTimeout() (time.Time, bool) { return time.Time{}, false }
