package bunch

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReusedMemory lies under one later message of about the same size, and under none that the owner still has.
func TestReusedMemory(t *testing.T) {
	s := newSteady(t, Normal)
	s.lends = true
	receive := func(fill byte, size int) Message {
		s.send(0, s.channel, Reliable, bytes.Repeat([]byte{fill}, size))
		s.exchange()
		m, ok := s.ends[1].Next()
		require.True(t, ok)
		s.tick()
		s.exchange()
		return m
	}
	lies := func(m Message, memory *byte) bool { return &m.Payload[0] == memory }

	first, second := receive(1, 20_000), receive(2, 20_000)
	memory := &first.Payload[0]
	s.ends[1].Reuse(&first)
	require.Zero(t, first)
	small := receive(3, 9_000)
	require.False(t, lies(small, memory), "it would hold twice what is charged for it")
	third := receive(4, 19_000)
	require.True(t, lies(third, memory))
	fourth := receive(5, 20_000)
	require.False(t, lies(fourth, memory), "the third has it")
	for _, m := range []struct {
		fill byte
		Message
	}{{2, second}, {3, small}, {4, third}, {5, fourth}} {
		require.True(t, bytes.Equal(bytes.Repeat([]byte{m.fill}, len(m.Payload)), m.Payload), "message %d", m.fill)
	}
	s.ends[1].Reuse(&third)
	s.now = s.now.Add(time.Minute)
	require.NoError(t, s.ends[1].Advance(s.now))
	require.False(t, lies(receive(6, 20_000), memory), "no message came for long")
}

// TestReuseOfSharedMemory does nothing: a short message lies in a datagram, beside others.
func TestReuseOfSharedMemory(t *testing.T) {
	s := newSteady(t, Normal)
	s.send(0, s.channel, Reliable, make([]byte, 1000))
	s.exchange()
	m, ok := s.ends[1].Next()
	require.True(t, ok)
	s.ends[1].Reuse(&m)
	require.Nil(t, s.ends[1].payloads.spent)
}
