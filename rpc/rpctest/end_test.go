package rpctest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatArrivedComesBeforeTheEnd: an end gives what arrived before it ended, as much as a socket holds, and takes memory for no more.
func TestWhatArrivedComesBeforeTheEnd(t *testing.T) {
	e := newEnd(newHub())
	require.Zero(t, cap(e.arrived))
	for i := range maxArrived + 1 {
		e.deliver([]byte{byte(i)})
	}
	e.end(errClosed)
	for i := range maxArrived {
		p, err := e.ReceiveDatagram(t.Context())
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, p)
	}
	_, err := e.ReceiveDatagram(t.Context())
	require.ErrorIs(t, err, errClosed, "one was lost")
}
