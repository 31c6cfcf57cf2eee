package rpctest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatArrivedComesBeforeTheEnd: an end returns the datagrams that arrived
// before it ended, at most as many as a socket holds, and uses no memory for more.
func TestWhatArrivedComesBeforeTheEnd(t *testing.T) {
	e := newEnd(newHub())
	require.Zero(t, cap(e.arrived))
	for i := range maxArrived + 1 {
		e.deliver([]byte{byte(i)})
	}
	e.cancel(errClosed)
	for i := range maxArrived {
		p, err := e.ReceiveDatagram(t.Context())
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, p)
	}
	_, err := e.ReceiveDatagram(t.Context())
	require.ErrorIs(t, err, errClosed, "one was lost")
}
