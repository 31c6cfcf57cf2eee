package rpc

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestAllChannelNumbersUsed: a connection that has used all numbers, after days, ends
// so that the client reconnects. Before, it stayed, and no actor could open any more.
func TestAllChannelNumbersUsed(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		n.spawn(0)
		n.tick(3)
		next := reflect.ValueOf(n.conns[0].machine).Elem().FieldByName("channels").FieldByName("ourNext")
		*(*uint64)(unsafe.Pointer(next.UnsafeAddr())) = 1 << 30 // one above the last: to use them up takes a test too long
		n.named(-1, "one more", AlwaysRelevant())
		n.tick(3)
		<-n.ends[0].Done()
		closed := n.ends[0].closeError()
		require.Equal(t, ServerFull, closed.Code)
		require.True(t, closed.Temporary())
		require.Contains(t, closed.Reason, "channel numbers")
	})
}
