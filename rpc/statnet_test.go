package rpc

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/extend"
)

// TestStatNetOfAConnection is how the numbers read.
func TestStatNetOfAConnection(t *testing.T) {
	s := Stats{
		RTT: 52_100 * time.Microsecond, SmoothedRTT: 51800 * time.Microsecond, MinRTT: 50 * time.Millisecond, Jitter: 1200 * time.Microsecond,
		RateIn: 12_345, RateOut: 45_678, PacketRateIn: 30, PacketRateOut: 31.5, BunchRateIn: 40, BunchRateOut: 90.25,
		LossIn: 0.002, LossOut: 0.0123, OutSaturation: 0.1,
		BytesIn: 1_234_567, BytesOut: 9_876_543, PayloadOut: 8_888_888, PacketsIn: 3000, PacketsOut: 3150, BunchesIn: 4000, BunchesOut: 9025,
		PacketsMissing: 6, PacketsLost: 38, PacketsOutOfOrder: 12, BunchesResent: 17, RepairsOut: 4, EntriesRestored: 2, SpuriousLosses: 4, AcksAlone: 345,
		InFlight: 4321, Window: 45_000, Queued: 999, DeliveryRate: 1_250_000, MaxDatagram: 1372,
		Sealed:       SealedStats{State: "open", Carries: true, Carriers: 1, Rate: 1_300_000, MaxPacket: 8952, PacketsLost: 38, PacketsOut: 3500},
		ChannelsOpen: 14, ActorsOpen: 11, SliceRateIn: 1200, SliceRateOut: 2_500_000, SliceBytesIn: 40_000, SliceBytesOut: 8_000_000,
		Channels: []ChannelStats{
			{Channel: 0, Out: 1, Slots: 256},
			{Channel: 4, Class: "Fighter", Out: 12, Slots: 256, QueueTime: 3 * time.Millisecond, Gate: "window"},
			{Channel: 6, Class: "Match", Out: 2, Slots: 256},
		},
		Drops: Drops{Late: 3, Duplicate: 1234},
	}
	require.Equal(t, `
Ping              52.1 ms, 51.8 ms smoothed, 50.0 ms minimum, 1.2 ms jitter
Carrier           sealed, 1.3 MB/s, packets of up to 8,952 B, 38 of 3,500 lost
                           in          out
Rate                12.3 kB/s    45.7 kB/s
Packets               30.0 /s      31.5 /s
Bunches               40.0 /s      90.2 /s
Slices               1.2 kB/s     2.5 MB/s
Loss                    0.2 %        1.2 %
Saturation                          10.0 %
Overhead                            10.0 %
Total                  1.2 MB       9.9 MB
  packets               3,000        3,150
  bunches               4,000        9,025
  slices              40.0 kB       8.0 MB
  lost                      6           38
  spurious                               4
  out of order             12
  resent                                17
  repair bunches                         4
  restored                  2
  acks alone                           345
Path              4.3 kB in flight of a window of 45.0 kB, 999 B queued, 1.2 MB/s delivered,
                  datagrams of 1372 B
Channels          14 open, 11 of actors, 3 with reliable data in flight
                  4 Fighter: 12 of 256 entries, 3.0 ms queued, held by window
                  6 Match: 2 of 256 entries, 0.0 ms queued
                  0 control: 1 of 256 entries, 0.0 ms queued
Drops             Duplicate 1,234, Late 3
`, "\n"+s.String())
}

func TestDropsRead(t *testing.T) {
	require.Equal(t, "none", Drops{}.String())
	require.Equal(t, "NotOwner 2, Duplicate 1,234", fmt.Sprint(Drops{Duplicate: 1234, NotOwner: 2}))
}

// TestStatNetSaysWhyQUICCarries names the reason.
func TestStatNetSaysWhyQUICCarries(t *testing.T) {
	carrier := func(s SealedStats) string { return strings.Join(s.cells(), ", ") }
	require.Contains(t, carrier(SealedStats{State: "off"}), "Config.Sealed")
	require.Contains(t, Stats{Sealed: SealedStats{State: "off"}}.String(), " or the carrier is not QUIC\n", "no part of the reason is cut")
	require.Equal(t, "QUIC, sealed is opening", carrier(SealedStats{State: "opening"}))
	require.Equal(t, "QUIC, sealed is closed, rpc: closed", carrier(SealedStats{State: "closed", Err: ErrClosed}))
}

// TestStatNetOfAWorld counts two clients, and their actors.
func TestStatNetOfAWorld(t *testing.T) {
	inNet(t, 0, Config{}, func(n *network) {
		extend.Seed(n.server.World, 1)
		for i := range 2 {
			w := newTestWorld(t, Config{})
			extend.Seed(w.World, uint64(i)) // which numbers it leaves out
			_, err := n.connect(w)
			require.NoError(t, err)
			n.tick(3)
			n.conns = append(n.conns, n.server.joined[i])
		}
		a := n.spawn(0)
		_, err := n.server.Spawn(hero, nil)
		require.NoError(t, err)
		for range 90 {
			require.NoError(t, bulk.Call(a, make(Raw, 1000)))
			n.tick(1)
		}
		text := n.server.StatNet()
		// The second that is sampled has 29 to 31 calls: the last may still be on its way out.
		digits := regexp.MustCompile(`\d`)
		assert.Equal(t, digits.ReplaceAllString(statNetOfAWorld, "0"), "\n"+digits.ReplaceAllString(text, "0"), "%s", text)
		assert.Contains(t, text, "2 connected, 0 saturated")
		assert.Contains(t, text, "2 here, 1 considered at each Flush, 1 relevant to a client, 0 dormant")
		for _, line := range strings.Split(text, "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 100)
		}
		require.Contains(t, n.clients[0].StatNet(), "client, 1 connected")
		require.NotContains(t, newTestWorld(t, Config{}).StatNet(), "Per connection")
	})
}

const statNetOfAWorld = `
World             server, 2 connected, 0 saturated, 0 closed by a full reliable buffer
Actors            2 here, 1 considered at each Flush, 1 relevant to a client, 0 dormant
Per connection            min          avg          max
  In rate               0 B/s      102 B/s      203 B/s
  Out rate              0 B/s    15.2 kB/s    30.5 kB/s
  In packets           0.0 /s       7.3 /s      14.5 /s
  Out packets          0.0 /s      15.0 /s      30.0 /s
  In bunches           0.0 /s       0.0 /s       0.0 /s
  Out bunches          0.0 /s      15.0 /s      30.0 /s
  In slices             0 B/s        0 B/s        0 B/s
  Out slices            0 B/s        0 B/s        0 B/s
  In loss               0.0 %        0.0 %        0.0 %
  Out loss              0.0 %        0.0 %        0.0 %
  Saturation            0.0 %        0.0 %        0.0 %
  Ping                10.0 ms      10.0 ms      10.0 ms
  Channels                  1            2            2
Connection                       ping          in         out  loss in/out   satur.  fullest      by
conn 1                        10.0 ms     203 B/s   30.5 kB/s    0.0/0.0 %    0.0 %      0/0    QUIC
conn 2                        10.0 ms       0 B/s       0 B/s    0.0/0.0 %    0.0 %      0/0    QUIC
`

// TestRatesAreOfTheLastSecond, though nobody asks for them all the time.
func TestRatesAreOfTheLastSecond(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		for range 60 {
			require.NoError(t, bulk.Call(a, make(Raw, 5000)))
			n.tick(1)
		}
		require.InDelta(t, 156e3, n.conns[0].Stats().RateOut, 8e3, "with headers")
		require.Greater(t, n.conns[0].Stats().BunchRateOut, 140.0, "entries, and pieces of them")
		n.tick(60)
		s := n.conns[0].Stats()
		require.Less(t, s.RateOut, 100.0)
		require.Less(t, s.PacketRateOut, 3.0)
		require.Zero(t, s.OutSaturation)
		require.InDelta(t, 60*5000, s.PayloadOut, 2000)
		require.Less(t, s.PayloadOut, s.BytesOut)
	})
}

// TestGateOfAChannel brings about each of its words.
func TestGateOfAChannel(t *testing.T) {
	require.Empty(t, Channel{}.Gate())
	t.Run("nothing", func(t *testing.T) {
		inNet(t, 1, Config{}, func(n *network) {
			a := n.spawn(0)
			require.NoError(t, bulk.Call(a, make(Raw, 5000)))
			assert.Empty(t, a.Channel(n.conns[0]).Gate(), "it waits for Flush alone")
		})
	})
	t.Run("reliable buffer", func(t *testing.T) {
		inNet(t, 1, Config{Bunch: bunch.Config{Overflow: bunch.OverflowError}}, func(n *network) {
			a := n.spawn(0)
			for bulk.Call(a, make(Raw, 1000)) == nil {
			}
			assert.Equal(t, "reliable buffer", a.Channel(n.conns[0]).Gate())
			assert.Contains(t, n.conns[0].Stats().String(), "held by reliable buffer")
		})
	})
	t.Run("earlier channel", func(t *testing.T) {
		inNet(t, 1, Config{}, func(n *network) {
			a := n.spawn(0)
			n.tick(5)
			a.CloseTo(n.conns[0])
			require.NoError(t, bulk.Call(a, make(Raw, 5000)))
			assert.Equal(t, "earlier channel", a.Channel(n.conns[0]).Gate())
			n.tick(5)
			assert.Empty(t, a.Channel(n.conns[0]).Gate())
		})
	})
	t.Run("flow control", func(t *testing.T) {
		inNet(t, 1, Config{ReceiveLimit: minReceiveLimit}, func(n *network) {
			a := n.spawn(0)
			for range 60 { // its client does not tick
				if out, _ := a.Channel(n.conns[0]).Reliable(); out < 100 {
					require.NoError(t, bulk.Call(a, make(Raw, 60_000)))
				}
				time.Sleep(time.Second / 30)
				n.server.Tick(time.Now())
			}
			assert.Equal(t, "flow control", a.Channel(n.conns[0]).Gate())
		})
	})
	t.Run("window", func(t *testing.T) {
		inNet(t, 1, Config{}, func(n *network) {
			a := n.spawn(0)
			n.pipes[0][1].SetDrop(func([]byte) bool { return true })
			for range 60 {
				require.NoError(t, bulk.Call(a, make(Raw, 100)))
				n.tick(1)
			}
			assert.Equal(t, "window", a.Channel(n.conns[0]).Gate(), "an outage")
			assert.Positive(t, n.conns[0].Stats().OutSaturation)
			assert.Contains(t, n.server.StatNet(), "1 saturated")
		})
	})
	t.Run("a burst", func(t *testing.T) {
		inNet(t, 1, Config{Rate: 20_000, QueueUnreliable: true}, func(n *network) {
			a := n.spawn(0)
			for i := range 90 {
				if i == 40 || i == 70 {
					for range 20 {
						require.NoError(t, wave.Call(a, make(Raw, 500)))
					}
				}
				n.tick(1)
			}
			share := n.conns[0].Stats().OutSaturation
			assert.Positive(t, share)
			assert.Less(t, share, 0.5)
			assert.Contains(t, n.server.StatNet(), "1 connected, 0 saturated")
		})
	})
	t.Run("rate", func(t *testing.T) {
		inNet(t, 1, Config{Rate: 2000, QueueUnreliable: true}, func(n *network) {
			a := n.spawn(0)
			for range 30 {
				require.NoError(t, wave.Call(a, make(Raw, 500)))
				n.tick(1)
			}
			assert.Equal(t, "rate", a.Channel(n.conns[0]).Gate())
			assert.Positive(t, n.conns[0].Stats().OutSaturation)
		})
	})
}
