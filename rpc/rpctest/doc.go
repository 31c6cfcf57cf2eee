// Package rpctest plays a game over a bad network, as part of the game's own tests. A server and
// its clients, each with a world of its own, run in the virtual time of testing/synctest. That way,
// minutes of play take moments, and the same seed loses and delays the same packets each time.
//
//	func TestDuelOnABadNetwork(t *testing.T) {
//		rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
//			server := net.Server(newServerWorld())
//			alice, bob := net.Client(newClientWorld()), net.Client(newClientWorld())
//			net.Advance(5 * time.Second)
//			…
//		})
//	}
//
// # Time
//
// A [Network] drives all worlds in ticks, on the test's own goroutine, and must be the only one
// to drive them. There are 30 ticks a second unless SetTickRate sets another rate. Since handlers
// run on the same goroutine, the test may look at the game's state whenever no call to the
// Network is running.
//
// Only Client, Join, Advance, Until and UntilDone tick. A test that waits in any other way for
// something that takes a tick, such as for a channel that is closed at the end of a transfer, would
// wait forever. Use Until or [Network.UntilDone] instead, or wait on another goroutine while the
// test advances. After an hour of virtual time without a tick, the test panics with a message that
// says so.
//
// Calls that the test makes between two Advances are sent at once. Each reliable call
// then takes an entry of the reliable buffer, and the 256th call on an actor overflows
// it. In a game's tick, by contrast, calls wait for the Flush, and small ones share an entry. To
// test that, make the calls in [Network.OnTick].
//
// Clients have separate paths, so their copies of an actor differ in age. After an Advance, one
// client may have received something that another hasn't, because its packet was lost. Use
// [Network.Until] for each client, rather than a fixed time that was enough for one of them.
//
// # Repeating a failure
//
// The seed also determines the random numbers of connections, and during Run the program runs on
// one processor. That's why QUIVER_SEED can repeat a failure.
//
// For this to work, the game must draw its own random numbers from [Network.Seed]. It must also not
// make calls, start anything or spawn actors while ranging over a map, because the order would be
// random. The order of the game's own goroutines may still vary. Under the race detector, which
// shuffles goroutines on purpose, any order may vary. On a machine that is busy with other work,
// this also happens in one of several hundred runs.
//
// # The paths
//
// Each client has its own path to the server and back. The [emulation.Settings] that [Run] is given
// apply to it in each direction. [Network.Emulate] changes them for all paths and
// [Network.EmulateOne] for one, at any time, and [Network.Dark] interrupts a path.
//
// With [Off], which is emulation.Settings{}, a path is perfect. Packets arrive at once, none is
// lost or duplicated, they stay in order, and there is no limit on the rate and thus no queue. What
// a game sees then is due to its ticks alone. Each of these is changed by settings of its own:
//
//   - The delay is PktLag with PktLagVariance, or PktLagMin to PktLagMax, plus PktIncomingLagMin to
//     PktIncomingLagMax. The round trip has each of them twice.
//   - The losses are PktLoss, in runs of LossBurst, and PktIncomingLoss.
//   - The rate is Rate and IncomingRate. Packets that exceed it wait in a queue of Queue bytes. By
//     default, Queue is the number of bytes that pass in a round trip of the delays, but at least
//     64 KiB. What does not fit is dropped.
//   - The order only changes with PktOrder or PktJitter. A delay that varies keeps it.
//   - PktDup duplicates packets, unless PktOrder or PktLag is set.
//
// Datagrams have at most 1,163 bytes, as on a path that QUIC has not probed yet.
//
// [emulation.Settings].Rate is the server's uplink, which its clients share, and each client's own
// uplink. [emulation.Settings].IncomingRate is the downlink of each client, and with
// [Network.EmulateOne] just one client can have a slow one. Packets reach it after the server's
// uplink. The server's own downlink has no bottleneck.
//
// Each of n clients has 1/n of the server's uplink, even while the other clients receive nothing. A
// transfer to one of them may therefore take n times as long as over a real uplink. If Rate limits
// a path, the carrier behaves like a congestion control that knows the rate.
//
// Clients keep their addresses. In a real network addresses may change, but QUIC and sealed packets
// handle that, so the game only sees a moment without packets, as after [Network.Dark].
//
// # Restarts and crashes
//
// To restart a server, the test closes its world with w.Close(t.Context(),
// rpc.HostClosedConnection, "restart"), and calls [Network.Server] to put another world in its
// place.
//
// [Network.Crash] ends a client or a server without a close. The client comes back as a new world
// with the same Token, by [Network.Client]. The server keeps the client's old connection until it
// has waited too long for an answer, or until Config.MaxConnsPerIdentity ends it.
//
// # What is missing
//
// The network has no TLS, no QUIC and no sealed packets. To see how a path affects these, use
// rpc.Config.Emulation, in real time. QUIC's keep-alives and idle timeout are missing too, so when
// a path is dark, the connection ends only if something is waiting for an answer.
//
// A game may use its normal config. The fields Sealed, NoJumbo, Emulation and KeepAlive of
// rpc.Config have no effect here, nor does [rpc.World.SetEmulation]. The emulation is set by [Run],
// [Network.Emulate] and [Network.EmulateOne]. IdleTimeout is how long a connection waits for an
// answer.
package rpctest
