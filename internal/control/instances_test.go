package control

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestInstancesComeOneAfterAnother: the next one may be opened when the one
// before has ended, in order and not too often.
func TestInstancesComeOneAfterAnother(t *testing.T) {
	var i Instances
	now := time.Unix(1000, 0)
	i.Begin(now)
	i.Renew(1)
	require.True(t, i.Live())
	require.False(t, i.MayOpen(2, now), "the first one is in use")
	i.End(now)
	require.False(t, i.MayOpen(3, now), "one is left out")
	for n := uint32(2); n <= freeInstances; n++ {
		require.True(t, i.MayOpen(n, now))
		i.Renew(n)
		i.End(now)
	}
	require.False(t, i.MayOpen(freeInstances+1, now), "too often")
	now = now.Add(instanceTime)
	require.True(t, i.MayOpen(freeInstances+1, now))
	require.EqualValues(t, freeInstances, i.Newest())
}

// TestPausesDouble: while none opens.
func TestPausesDouble(t *testing.T) {
	var i Instances
	now := time.Unix(1000, 0)
	i.Begin(now)
	var waits []time.Duration
	for n := uint32(1); n < 10; n++ {
		i.Renew(n)
		i.End(now)
		wait := i.TryNext(now)
		waits = append(waits, wait)
		now = now.Add(wait)
		require.Zero(t, i.TryNext(now))
	}
	require.Equal(t, []time.Duration{10, 20, 40, 80, 160, 320, 600, 600, 600}, seconds(waits))
	i.Opened()
	i.End(now)
	require.Equal(t, minRetryTime, i.TryNext(now))
}

func seconds(times []time.Duration) (s []time.Duration) {
	for _, d := range times {
		s = append(s, d/time.Second)
	}
	return s
}

// TestMessagesOfInstances: one of an instance that has ended is no error; one
// of an instance to come, and ids that were not asked for, are.
func TestMessagesOfInstances(t *testing.T) {
	var i Instances
	i.Begin(time.Unix(1000, 0))
	i.Renew(1)
	i.End(time.Unix(1001, 0))
	i.Renew(2)
	for instance, want := range [][2]bool{{false, true}, {false, true}, {true, true}, {false, false}} {
		current, ok := i.Has(uint32(instance))
		require.Equal(t, want, [2]bool{current, ok}, "%d", instance)
	}
	ended := i
	ended.End(time.Unix(1002, 0))
	current, ok := ended.Has(2)
	require.True(t, ok && !current, "no carrier is there for a message that crossed its end")
	_, ok = i.AcceptIDs(2)
	require.False(t, ok)
	require.False(t, i.RequestIDs(minSpares))
	require.True(t, i.RequestIDs(minSpares-1))
	require.False(t, i.RequestIDs(0), "they are asked for")
	current, ok = i.AcceptIDs(2)
	require.True(t, current && ok)
	require.True(t, i.RequestIDs(0))
	current, ok = i.AcceptIDs(1)
	require.True(t, ok && !current)
}

// TestTwoEndsAgree: whatever ends a carrier at either end, and however long
// messages are in flight, no honest end sends what the other takes for a
// violation, and when all have arrived both have the same instance.
func TestTwoEndsAgree(t *testing.T) {
	random := testkit.Rand(t)
	for range 200 {
		testTwoEndsAgree(t, random)
	}
}

func testTwoEndsAgree(t *testing.T, random *rand.Rand) {
	now := time.Unix(1000, 0)
	client, server := &instancesEnd{t: t}, &instancesEnd{t: t, server: true}
	client.other, server.other = server, client
	for _, e := range []*instancesEnd{client, server} {
		e.Begin(now.Add(time.Duration(random.IntN(1000)) * time.Millisecond))
		e.Renew(1)
	}
	for range 1000 {
		now = now.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
		switch e := []*instancesEnd{client, server}[random.IntN(2)]; random.IntN(6) {
		case 0:
			e.shut(now)
		case 1:
			client.seek(now)
		case 2:
			if e.Live() && e.RequestIDs(random.IntN(3)) {
				e.send(IDSealedAsk)
			}
		case 3:
			e.Opened()
		default:
			e.hear(now, random.IntN(10) > 0)
		}
	}
	for len(client.mail)+len(server.mail) > 0 {
		client.hear(now, true)
		server.hear(now, true)
	}
	require.Equal(t, client.Newest(), server.Newest())
	require.Equal(t, client.Live(), server.Live())
}

// instancesEnd is an end of a connection as far as it has sealed carriers.
type instancesEnd struct {
	Instances
	t      *testing.T
	server bool
	other  *instancesEnd
	mail   []sealedMessage
}

type sealedMessage struct {
	id       byte
	instance uint32
}

func (e *instancesEnd) send(id byte) {
	e.other.mail = append(e.other.mail, sealedMessage{id, e.Newest()})
}

// shut ends the carrier in use, if there is one.
func (e *instancesEnd) shut(now time.Time) {
	if e.Live() {
		e.send(IDSealedShut)
		e.End(now)
	}
}

// seek opens the client's next carrier in due time.
func (e *instancesEnd) seek(now time.Time) {
	if !e.Live() && e.TryNext(now) == 0 {
		e.Renew(e.Newest() + 1)
		e.send(IDSealedOpen)
	}
}

// hear takes the next message. A server that cannot make a carrier says so.
func (e *instancesEnd) hear(now time.Time, can bool) {
	if len(e.mail) == 0 {
		return
	}
	m := e.mail[0]
	e.mail = e.mail[1:]
	current, ok := e.Has(m.instance)
	switch m.id {
	case IDSealedOpen:
		if ok = e.server && e.MayOpen(m.instance, now); ok && can {
			e.Renew(m.instance)
		} else if ok {
			e.Renew(m.instance)
			e.End(now)
			e.send(IDSealedShut)
		}
	case IDSealedShut:
		if current {
			e.End(now)
		}
	case IDSealedAsk:
		if current {
			e.send(IDSealedIDs)
		}
	case IDSealedIDs:
		_, ok = e.AcceptIDs(m.instance)
	}
	require.True(e.t, ok, "%s of instance %d at instance %d", Name(m.id), m.instance, e.Newest())
}
