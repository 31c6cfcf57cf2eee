package stream

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// checked is an element whose check takes time, and records how many are checked at once.
type checked struct{ N int }

var (
	checks        = NewArray[checked]("checks")
	checking      atomic.Int32
	mostChecking  atomic.Int32
	alreadyStored = 1000
)

func (c checked) Validate() error {
	if c.N < alreadyStored {
		mostChecking.Store(max(mostChecking.Load(), checking.Add(1)))
		time.Sleep(time.Millisecond / 2) // so that a transfer's thousand take less than a turn may
		checking.Add(-1)
	}
	return nil
}

// Answers of a few bytes once made a sender read and hash all of its content, for
// as many transfers at once as peers accept: if a peer is said to have everything
// except the end, that is not sent, and nothing else paced the readers.
func TestSkippedContentIsReadInTurns(t *testing.T) {
	mute := &slowStore{memoryStore: newMemoryStore(), looks: 10 * time.Minute} // so that the client gives no answer of its own
	inNetwork(t, setup{client: Config{Store: mute}}, func(n *network) {
		checks.Handle(n.client.streams, func(*IncomingArray[checked]) {})
		elements := make([]checked, alreadyStored+1)
		for i := range elements {
			elements[i].N = i
		}
		var bytes int64
		for i := range alreadyStored {
			b, err := checks.append(nil, &elements[i])
			require.NoError(n, err)
			bytes += int64(len(b))
		}
		mostChecking.Store(0)
		var transfers []*Transfer
		for range 4 {
			transfer, err := checks.Start(n.server.peer, elements, Key("k"))
			require.NoError(n, err)
			transfers = append(transfers, transfer)
		}
		time.Sleep(time.Second)
		n.do(n.server.world, func() {
			for _, transfer := range transfers {
				n.server.peer.sender.onAccept(accept{id: transfer.header.id, offset: bytes, index: int64(alreadyStored), limit: bytes + maxElementBytes})
			}
		})
		time.Sleep(100 * time.Millisecond)
		transfers[0].Cancel(errTest)
		<-transfers[0].Done()
		time.Sleep(time.Minute)
		require.EqualValues(n, min(4, max(1, runtime.GOMAXPROCS(0)/2)), mostChecking.Load(), "as many at once as half of the processors")
		for _, transfer := range transfers[1:] {
			require.NoError(n, transfer.Err())
			require.EqualValues(n, len(elements), transfer.Progress().Sent, "the rest was sent")
			transfer.Cancel(errTest)
			<-transfer.Done()
		}
		time.Sleep(mute.looks)
	})
}
