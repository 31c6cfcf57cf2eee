package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// closesUnanswered opens and closes n channels. The peer acknowledges everything, but doesn't
// answer the closes.
func (h *hostile) closesUnanswered(count int) (last uint64) {
	for range count {
		number, err := h.c.Open(Normal)
		require.NoError(h.t, err)
		require.NoError(h.t, h.c.Send(number, Reliable, nil))
		require.NoError(h.t, h.c.Close(number, nil))
		h.drain(true)
		last = number
	}
	require.NoError(h.t, h.err)
	return last
}

// TestClosesUnanswered: a peer may leave as many closes unanswered as a correct peer with a
// stopped world might, for any length of time, and more only for IdleTimeout.
func TestClosesUnanswered(t *testing.T) {
	h := newHostile(t, Config{}, 0)
	h.closesUnanswered(maxUnanswered)
	checkConn(t, h.c)
	h.now = h.now.Add(time.Hour)
	require.NoError(t, h.c.Advance(h.now))

	t.Log("# one too many")
	last := h.closesUnanswered(1)
	h.now = h.now.Add(h.c.config.IdleTimeout - ms)
	require.NoError(t, h.c.Advance(h.now))
	t.Log("# is answered in time")
	h.sends(0, appendBunch(nil, header{flags: answerFlags, channel: last}, nil))
	h.now = h.now.Add(time.Hour)
	require.NoError(t, h.c.Advance(h.now))
	checkConn(t, h.c)

	t.Log("# and the next one is not")
	h.closesUnanswered(1)
	var err error
	for end := h.now.Add(h.c.config.IdleTimeout); err == nil; h.drain(false) {
		at, ok := h.c.NextTimeout()
		require.True(t, ok)
		require.False(t, at.After(end))
		h.now, err = at, h.c.Advance(at)
	}
	requireCode(t, ConnectionTimeout, err)
	require.ErrorContains(t, err, "8193 channel closes unanswered for 30s (IdleTimeout); the limit is 8192")
}

// TestClosesDuringALongTick: a correct peer whose world is stuck in a tick leaves fewer than
// maxUnanswered closes unanswered, because a receive limit of 4 MiB doesn't let more arrive,
// however many wait. In the end it answers all of them.
func TestClosesDuringALongTick(t *testing.T) {
	p := newPair(t, Config{ReceiveLimit: 4 << 20})
	p.large = true
	server, client := p.ends[1], p.ends[0]
	var numbers []uint64
	for range 12_000 {
		number := p.open(1, Normal)
		p.send(1, number, Reliable, nil)
		numbers = append(numbers, number)
	}
	for range 100 {
		p.run(100 * ms)
		p.take(0)
	}
	require.Len(t, client.channels.open, 1+len(numbers))
	client.Cork(true)
	for _, number := range numbers {
		require.NoError(t, server.Close(number, []byte{0}))
	}
	p.run(3 * time.Minute)
	t.Logf("%d answers are owed", server.unanswered.count)
	require.Greater(t, server.unanswered.count, maxUnanswered/2)
	require.Less(t, server.unanswered.count, maxUnanswered)
	client.Cork(false)
	for range 100 {
		p.run(100 * ms)
		p.take(0)
	}
	require.Zero(t, server.unanswered.count)
	require.Len(t, server.channels.open, 1)
}
