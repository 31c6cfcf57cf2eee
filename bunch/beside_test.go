package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPacketsBesideOthers is about play whose next packet is sent much later, while another
// protocol's bulk shows what becomes of packets on the path.
func TestPacketsBesideOthers(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.sendPackets(1)
	l.wait(1 * ms)
	l.Overtaken(l.at, l.at.Add(-50*ms))
	t.Log("# a packet that did not ask for an ack at once waits for one")
	l.wait(59 * ms)
	l.Overtaken(l.at, l.at.Add(-50*ms))
	require.Equal(t, inFlight, l.fate(1))

	t.Log("# one that did is lost 9/8 of the round trip after it left, as soon as what left later arrived")
	l.sendPackets(1)
	require.True(t, l.sent.At(2).ackNow)
	l.wait(1 * ms)
	l.sendPackets(1)
	l.wait(51 * ms)
	l.Overtaken(l.at, l.at.Add(-51*ms))
	require.Equal(t, inFlight, l.fate(2))
	l.wait(4250*time.Microsecond - 1)
	require.Equal(t, inFlight, l.fate(2))
	l.wait(1)
	require.Equal(t, lost, l.fate(2))
	l.wait(5 * ms)
	require.Equal(t, inFlight, l.fate(3), "nothing that left later arrived")

	t.Log("# a second without others and packets ask no more")
	l.wait(othersTime)
	l.packets()
	l.mustAck(0, uint32(l.sent.Next-1))
	l.sendPackets(1)
	require.False(t, l.sent.At(l.sent.Next-1).ackNow)
}

func TestPacketThatNeverLeftIsNotOvertaken(t *testing.T) {
	l := newLossTest(t, Config{})
	l.sendPackets(2)
	l.wait(1)
	l.Overtaken(l.at, l.at)
	require.Equal(t, uint64(2), l.loss.overtaken)
	l.Unsent(1)
	l.wait(time.Second)
	require.Equal(t, skipped, l.sent.At(1).fate)
	checkConn(t, l.Conn)
}
