package peer

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLineCarriesAllThree(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	l := NewLine(near, far)
	heard := make(chan []byte, 1)
	l.Hear(func(m []byte) { heard <- bytes.Clone(m) })
	require.NoError(t, l.Say([]byte("hello")))
	require.Equal(t, []byte("hello"), <-heard)
	require.NoError(t, l.Call(t.Context(), []byte("ask")))
	require.NoError(t, l.Move(t.Context(), bytes.Repeat([]byte("blob"), 10_000)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Move(ctx, make([]byte, 1<<20)), context.Canceled)
}

func TestSinkRefusesWhatDiffers(t *testing.T) {
	s := NewSink([]byte("abcdef"))
	_, err := s.Write([]byte("abc"))
	require.NoError(t, err)
	_, err = s.Write([]byte("dex"))
	require.Error(t, err)
	require.Error(t, NewSink([]byte("ab")).Drain(bytes.NewReader([]byte("a"))), "too short")
	_, err = NewSink([]byte("ab")).Write([]byte("abc"))
	require.Error(t, err, "too long")
}

func TestFramesRefuseGiants(t *testing.T) {
	_, err := ReadFrame(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff}), nil)
	require.ErrorContains(t, err, "limit")
}
